"""Tractile: tractable circuits you can draw from."""
