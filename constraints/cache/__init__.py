"""Automata kept on disk between processes."""
