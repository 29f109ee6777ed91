"""Grammars (Lark, GBNF, EBNF, ABNF) as programs: readers give rules (``tree.py``), which ``nodes.py`` writes as nodes."""
