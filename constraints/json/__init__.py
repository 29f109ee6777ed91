"""The implementation of ``json_schema``: schemas as sets of values, and these as automata over JSON text."""
