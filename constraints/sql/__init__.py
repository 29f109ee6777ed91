"""SQL queries on a given database."""
