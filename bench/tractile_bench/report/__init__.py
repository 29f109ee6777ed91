"""The report of results: the papers' tables and figures, published beside measured."""
