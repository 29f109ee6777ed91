"""Grammars (Lark, GBNF, EBNF) as automata: finite ones to a depth (``rules.py``), or stacks of machines (``lazy.py``)."""

from .lazy import grammar_abstraction as grammar_abstraction
from .lazy import lazy_grammar as lazy_grammar
