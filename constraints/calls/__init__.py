"""Calls of functions and tools, as JSON and as Python literals."""
