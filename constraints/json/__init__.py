"""How ``json_schema`` works: schemas as sets of values, and sets of values as automata over JSON text."""
