"""The implementation of ``json_schema``: schemas as sets of values, then as automata."""
