"""Input and output of circuits: files, pictures, tables, and conversion from and to other libraries."""
