"""Grammars (Lark, GBNF, EBNF) as automata."""
