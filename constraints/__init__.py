"""What people write (patterns, schemas, words) → byte-level automata → token-level :class:`~tractile.Automaton`.

Each function here returns a :class:`Constraint`; constraints compose with ``& | ~ +`` and ``.repeat(low, high)``.
"""

from . import core as core
from .automata.request_limits import Limits
from .calls.functions import function_calls
from .calls.python_tools import Call, tool_schemas
from .constraint import Constraint
from .difference import Difference, difference
from .explain import Explanation, explain
from .grammar.constraint import grammar
from .json.constraint import json_schema
from .narrowing import Narrowing
from .output_type import OutputType, output_type
from .regex.constraint import regex
from .sql.constraint import sql
from .tags.answers import Answer
from .tags.families import tool_calls
from .tags.structural import structural_tag
from .tags.tags import sections, separated, tag, triggered
from .vocabulary.vocabulary import Vocabulary
from .words.free_text import free
from .words.keywords import forbidden_words, keywords
from .words.lengths import ends_as_sentence, text_length
from .words.literals import any_of, literal

__all__ = [
    "Answer",
    "Call",
    "Constraint",
    "Limits",
    "Difference",
    "Narrowing",
    "OutputType",
    "Vocabulary",
    "any_of",
    "difference",
    "ends_as_sentence",
    "forbidden_words",
    "free",
    "function_calls",
    "grammar",
    "json_schema",
    "keywords",
    "literal",
    "explain",
    "Explanation",
    "output_type",
    "regex",
    "sections",
    "separated",
    "sql",
    "structural_tag",
    "tag",
    "text_length",
    "tool_calls",
    "tool_schemas",
    "triggered",
]
