"""What people write (patterns, schemas, words) → byte-level automata → token-level :class:`~tractile.Automaton`.

Each function here returns a :class:`Constraint`; constraints compose with ``& | ~ +`` and ``.repeat(low, high)``.
"""

from .constraint import Constraint, any_of, literal
from .functions import function_calls
from .grammar import grammar
from .json_schema import json_schema
from .keywords import forbidden_words, keywords
from .lengths import ends_as_sentence, text_length
from .narrowing import Narrowing
from .regex import regex
from .sql import sql
from .tokenizers import Vocabulary

__all__ = [
    "Constraint",
    "Narrowing",
    "Vocabulary",
    "any_of",
    "ends_as_sentence",
    "forbidden_words",
    "function_calls",
    "grammar",
    "json_schema",
    "keywords",
    "literal",
    "regex",
    "sql",
    "text_length",
]
