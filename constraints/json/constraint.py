"""JSON Schema (drafts 4 to 2020-12) as automata over JSON text.

schema → sets of values (``json/keywords.py``, ``json/values.py``) → automata (``json/compiler.py``)
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any, Literal

from ...errors import UnsupportedConstraint
from .. import given
from ..automata.epsilon import only, plain, useful
from ..automata.work import limited, spend
from ..constraint import Constraint, kept
from ..narrowing import OnNarrowed, check_choice, report
from .closing import close_types
from .compiler import Compiler
from .document import Document, Schema, read_schema
from .narrowed import narrowings
from .pieces import surrounded
from .text import STYLES

MAX_SCHEMA = 1_350_000  # units of work: the automaton is nearly minimal as it is made
MOST_DEPTH = 1_000
MOST_DIGITS = 1_000


def json_schema(
    schema: Any,
    *,
    whitespace: Literal["none", "space", "flexible"] = "space",
    order: Literal["auto", "declared", "any"] = "auto",
    open_objects: bool | None = None,
    formats: Literal["auto", "assert", "annotate"] = "auto",
    numbers: Literal["any", "plain"] | None = None,
    max_digits: int | None = None,
    strict: bool = False,
    max_depth: int | None = None,
    max_length: int | None = None,
    on_narrowed: OnNarrowed = "warn",
) -> Constraint:
    """The JSON texts whose values a JSON Schema (draft 4 to 2020-12) allows.

    Parameters
    ----------
    schema
        A dict or a boolean, JSON text, the path of a file, or a class: a Pydantic model, a dataclass, a ``TypedDict``. Its
        ``$schema`` names the draft; without one, the keywords of all drafts are read.
    whitespace
        ``"space"``: as ``json.dumps`` writes, ``", "`` and ``": "``. ``"none"``: ``","`` and ``":"``. ``"flexible"``: any JSON
        white space between tokens, and before and after the value.
    order
        Of the declared members of an object. ``"auto"``: any order in those objects where the automaton stays small, else as
        declared. ``"declared"``: as ``properties`` lists them, each alternative in its own order; where ``required`` lists its
        names in another order, also as it does, and then the others. ``"any"``: any order, in objects of at most 12 declared
        members. Undeclared members come after the declared ones, and where that costs few states also before and between
        them. No declared member is written twice.
    open_objects
        Whether objects may have members that no schema declares. ``False`` closes every object of which some schema declares
        ``properties``, ``patternProperties`` or ``additionalProperties``, as ``unevaluatedProperties: false`` would:
        members that ``allOf``, ``$ref`` and the branches of ``anyOf``, ``oneOf`` and ``if`` declare may stay, and objects
        that say nothing of their members stay open. Default: ``True``; ``False`` for classes, in which each class is closed
        by itself.
    formats
        ``"assert"``: strings must have their ``format``. ``"annotate"``: ``format`` means nothing. ``"auto"``: as the draft
        says, which is ``"annotate"`` for schemas whose ``$schema`` is 2019-09 or 2020-12 and ``"assert"`` for all others.
    numbers
        ``"any"``: as JSON writes numbers, so the integer 3 may be ``3``, ``3.0`` or ``3.00``, and 0 also ``-0``. Integers and
        numbers under a condition have no exponent (``1e22`` is refused: write 10000000000000000000000; ``narrowed`` says so),
        other numbers may.
        ``"plain"``: integers as ``-?(0|[1-9][0-9]*)`` but ``-0``, other numbers without zeros at the end. Default: ``"any"``;
        ``"plain"`` for classes.
    max_digits
        The most digits of a number before the point, and after it. Default: no bound.
    strict
        Whether to refuse keywords and formats that no draft defines. Default: they are ignored.
    max_depth
        How often, on the way down, a schema may lie within itself, and how deep arrays and objects nest in values without a
        schema: what no finite automaton can leave unbounded. Default: by the size of the automaton, 3; up to 16 and 7 where
        it is small, down to 0 where it is large.
    max_length
        A ``maxLength`` beyond it is read as that many characters, a ``maxItems`` beyond a tenth of it as that many items.
        Default: by the size of the automaton, no bound, or 1,000, 700, 250, 160, 60, 40.

    Notes
    -----
    Three languages are approximated from below, since no small automaton has them. ``uniqueItems`` over listed values: as many
    items in any order as the automaton has room for, after these only values that come later in the list. ``uniqueItems``
    over other strings: at most two. Undeclared members: several of them count as one for ``minProperties``, and one stands
    for all that must exist, since of two it cannot be said whether their names differ.

    Raises
    ------
    UnsupportedConstraint
        With the path of what is not supported.
    FormatError
        For what is not JSON, not a schema, or a class that Pydantic cannot describe.
    TooManyStates
        Where the automaton would grow beyond reason.
    """
    for name, value, allowed in (
        ("whitespace", whitespace, list(STYLES)),
        ("order", order, ["auto", "declared", "any"]),
        ("formats", formats, ["auto", "assert", "annotate"]),
        ("numbers", numbers, [None, "any", "plain"]),
    ):
        if value not in allowed:
            raise UnsupportedConstraint(f"{name} is one of {allowed}, not {value!r}", path=name)
    check_choice(on_narrowed)
    chosen = ["max_depth"] * (max_depth is not None) + ["maxLength", "maxItems"] * (max_length is not None)
    max_depth = None if max_depth is None else given.count(max_depth, "max_depth", 0, MOST_DEPTH)
    max_length = None if max_length is None else given.count(max_length, "max_length")
    max_digits = None if max_digits is None else given.count(max_digits, "max_digits", 1, MOST_DIGITS)
    root, is_class = read_schema(schema), isinstance(schema, type)
    if is_class and not open_objects:
        root, open_objects = close_types(root, empty=True), True
    open_objects = open_objects is None or open_objects
    plain = numbers == "plain" or (numbers is None and is_class)
    options = (whitespace, order, max_depth, max_length, open_objects, formats, plain, max_digits)
    source = json.dumps(root).encode(), repr((strict, options)).encode()
    constraint = kept(source, partial(build, root, strict, options))
    report(constraint.narrowed, on_narrowed, chosen)
    return constraint


def inner_texts(schema: Any, whitespace: str, max_depth: int) -> Constraint:
    """The constraint of a schema's values within a larger text: no white space stands around them, members as declared."""
    options = (whitespace, "declared", max_depth, None, True, "auto", False, None)
    return build(read_schema(schema), False, options, inner=True)


def build(root: Schema, strict: bool, options: tuple[Any, ...], inner: bool = False) -> Constraint:
    """The constraint of a schema, with the options of a :class:`Compiler`. ``inner``: of a value within a larger text, around
    which no white space stands."""
    try:
        compiler = Compiler(Document(root, strict), *options)
        with limited(MAX_SCHEMA):
            automaton = compiler.automaton(compiler.root)
            if compiler.style.blank and not inner:
                automaton = surrounded(automaton)
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
