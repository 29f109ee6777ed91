"""Regular expressions as byte automata: the syntax of Python's ``re``, and what other dialects add."""
