"""Circuits on disk, in pictures and tables, and from and to other libraries."""
