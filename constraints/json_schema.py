"""JSON Schema (drafts 4 to 2020-12) as automata over JSON text.

schema → sets of values (``json/keywords.py``, ``json/values.py``) → automata (``json/compiler.py``)
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any, Literal

from ..errors import UnsupportedConstraint
from . import given
from .constraint import Constraint, kept
from .json.compiler import Compiler
from .json.document import Document, Schema, read_schema
from .json.narrowed import narrowings
from .json.text import STYLES
from .narrowing import OnNarrowed, check_choice, report
from .skips import only, plain, useful
from .work import limited, spend

MAX_SCHEMA = 1_350_000  # units of work: the automaton is nearly minimal as it is made
MOST_DEPTH = 1_000


def json_schema(
    schema: Any,
    *,
    whitespace: Literal["none", "space", "flexible"] = "space",
    order: Literal["declared", "auto", "any"] = "declared",
    open_objects: bool = True,
    formats: Literal["assert", "annotate"] = "assert",
    strict: bool = False,
    max_depth: int | None = None,
    max_length: int | None = None,
    on_narrowed: OnNarrowed = "warn",
) -> Constraint:
    """The JSON texts whose values the schema allows.

    ``schema`` is a dict (or a boolean), JSON text, the path of a file, or a Pydantic model class, of draft 4 to 2020-12 as
    its ``$schema`` says; without one, the keywords of all drafts are read. ``whitespace`` is "space" (exactly as
    ``json.dumps`` separates: ``", "`` and ``": "``), "none" (``","`` and ``":"``) or "flexible" (any JSON white space).
    ``order``: members stand in the order in which the schema declares them, each alternative its own, undeclared ones after
    them, and where that costs little also before or between them; "any": in any order, of at most 12 declared members;
    "auto": in any order in those objects where that keeps the automaton small. No declared member is ever written twice.
    ``open_objects=False`` reads objects that do not say ``additionalProperties`` as if they said ``false``. ``formats``:
    whether ``format`` asserts. ``strict`` refuses keywords and formats that no draft defines, which are ignored otherwise.
    ``max_depth`` bounds what no regular language can: how often, on the way down, a schema may lie within itself, and how
    deep arrays and objects nest in values without a schema. ``max_length`` bounds what an automaton has to count: a
    ``maxLength`` beyond it is read as that many characters, a ``maxItems`` beyond a tenth of it as that many items. By
    default all follow the size of the automaton: depths of 3, up to 16 and 7 where that is small, down to 0 where it is large; no
    bound on lengths, or 1,000, 700, 250, 160, 60, in the end 40 characters.

    Two more languages are cut since none is regular: an array of distinct strings that are not few has at most two, which a
    checksum tells apart; of several undeclared members that must exist, one does for all.

    ``narrowed`` of the constraint names each place where it accepts fewer values than the schema: by the path of the schema
    and the keyword (``max_depth`` for what nests). It is empty where the values are exactly those of the schema. With
    ``on_narrowed="warn"`` one warning is logged for the constraint, but for what ``max_depth`` and ``max_length`` cut where
    they are given; "error" raises ``UnsupportedConstraint`` at the first such place; "ignore" does nothing.

    Raises ``UnsupportedConstraint`` with the path of what is not supported, ``FormatError`` for what is not JSON,
    ``TooManyStates``.
    """
    for name, value, allowed in (
        ("whitespace", whitespace, list(STYLES)),
        ("order", order, ["declared", "auto", "any"]),
        ("formats", formats, ["assert", "annotate"]),
    ):
        if value not in allowed:
            raise UnsupportedConstraint(f"{name} is one of {allowed}, not {value!r}", path=name)
    check_choice(on_narrowed)
    chosen = ["max_depth"] * (max_depth is not None) + ["maxLength", "maxItems"] * (max_length is not None)
    max_depth = None if max_depth is None else given.count(max_depth, "max_depth", 0, MOST_DEPTH)
    max_length = None if max_length is None else given.count(max_length, "max_length")
    root = read_schema(schema)
    options = (whitespace, order, max_depth, max_length, open_objects, formats == "assert")
    source = json.dumps(root).encode(), repr((strict, options)).encode()
    constraint = kept(source, partial(build, root, strict, options))
    report(constraint.narrowed, on_narrowed, chosen)
    return constraint


def build(root: Schema, strict: bool, options: tuple[Any, ...]) -> Constraint:
    """The constraint of a schema, with the options of a :class:`Compiler`."""
    try:
        compiler = Compiler(Document(root, strict), *options)
        with limited(MAX_SCHEMA):
            automaton = compiler.automaton(compiler.root)
            spend(len(automaton.edges) / 8)  # for what follows
        narrowed = narrowings(compiler, compiler.root)
    except RecursionError:
        raise UnsupportedConstraint("the schema nests too deep", path="/") from None
    if not (some := useful(automaton)).all():
        automaton = plain(only(automaton, some))  # members that nothing can follow, say
    constraint = Constraint(automaton, narrowed)
    # Deterministic by construction, mostly, and nearly minimal: minimising would take most of the time.
    if automaton.is_deterministic:
        vars(constraint)["bytes_automaton"] = automaton
    return constraint
