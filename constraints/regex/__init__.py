"""Regular expressions as byte automata: Python's ``re`` syntax, and additions of other dialects."""
