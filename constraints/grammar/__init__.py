"""Grammars (Lark, GBNF, EBNF) as programs: readers give rules (``tree.py``), which ``nodes.py`` writes as nodes."""
