"""JSON Schema (drafts 4 to 2020-12) as programs over JSON text.

schema → sets of values (``json/keywords.py``, ``json/values.py``) → nodes (``json/nodes/``)
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Literal

from ...errors import TooManyStates, UnsupportedConstraint
from .. import limits, validation
from ..automata.work import limited
from ..constraint import Constraint
from ..contradictions import named
from ..narrowing import Narrowing, OnNarrowed, check_choice, merged, report
from ..program import nodes
from .bundle import bundle
from .closed_objects import close_types
from .conflicts import conflict
from .document import Schema, read_schema
from .nodes import Reading, value_node
from .nodes.leaves import blanks
from .nodes.schema import MOST_DEPTH
from .numbers import Notation
from .python_types import is_type, typed
from .schema_places import schema_places
from .text import SPELLINGS, Writing, json_indent, json_separators, json_space, style_of


@named
def json_schema(
    schema: Any,
    *,
    whitespace: Literal["none", "space", "flexible"] = "space",
    max_whitespace: int | None = None,
    separators: tuple[str, str] | None = None,
    indent: int | str | None = None,
    escapes: Literal["any", "minimal", "ascii"] = "any",
    order: Literal["auto", "declared", "any"] = "auto",
    open_objects: bool | None = None,
    formats: Literal["auto", "assert", "annotate"] = "auto",
    numbers: Literal["any", "plain"] | None = None,
    max_digits: int | None = None,
    strict: bool = False,
    max_depth: int | None = None,
    max_length: int | None = None,
    documents: Mapping[str, Any] | None = None,
    on_narrowed: OnNarrowed = "warn",
) -> Constraint:
    """Return a constraint to JSON texts whose values a JSON Schema (draft 4 to 2020-12) allows.

    Its states are made when a text reaches them. Its masks have no bound on lengths, counts,
    depth or the order of members but those of the schema.

    Parameters
    ----------
    schema
        The schema: a dict, a boolean, JSON text, the path of a file, or a Python type (a Pydantic model, a dataclass, a
        ``TypedDict``, ``list[int]``, ``int | None``, …), which Pydantic describes. Its ``$schema`` names the draft. Without one,
        the keywords of all drafts are read.
    whitespace
        The white space between the tokens of JSON.

        - ``"space"``: as ``json.dumps`` writes it, ``", "`` and ``": "``.
        - ``"none"``: none, ``","`` and ``":"``.
        - ``"flexible"``: any, also before and after the value.
    max_whitespace
        The most characters of ``"flexible"`` white space in a row, up to 100. Default: no bound.
    separators
        The separators between members or items, and between a name and its value, as in ``json.dumps``: a comma and a colon with
        white space of your own around them, ``(" , ", " : ")``, in place of those of ``whitespace``.
    indent
        The indent of each level, as in ``json.dumps``: a number of spaces, or white space such as ``"\\t"``. Each member and item
        stands on a line of its own; empty objects and arrays are written ``{}`` and ``[]``. Default: all on one line.
    escapes
        How the characters of strings are written.

        - ``"any"``: in every way that JSON has, ``é`` or ``\\u00e9``, ``/`` or ``\\/``, ``<`` or ``\\u003C``. In names, listed
          strings and those with a ``pattern`` or ``format``, printable ASCII has no ``\\uXXXX`` but for ``"&'+<>\\`` and `````.
        - ``"minimal"``: in one way, as ``json.dumps(…, ensure_ascii=False)`` does.
        - ``"ascii"``: in one way, as ``json.dumps`` does, without a character beyond ASCII.
    order
        The order of the members of an object.

        - ``"auto"``: as ``"declared"`` for types, so that a field of reasoning that a class declares first is written first; as
          ``"any"`` for schemas.
        - ``"any"``: any order. A finite automaton (see Notes) has the declared one where the object is large.
        - ``"declared"``: the order in which ``properties`` lists them. Where ``required`` lists its names in another order, that
          order too, followed by the other members. Each alternative has its own order. Names that a schema lists elsewhere
          (``propertyNames`` with ``enum``) come in the order in which they are listed. Undeclared members stand anywhere.

        No declared member is written twice.
    open_objects
        Whether objects may have members that no schema declares. ``False`` closes every object of which some schema declares
        ``properties``, ``patternProperties`` or ``additionalProperties``, as ``unevaluatedProperties: false`` would. Members
        that ``allOf``, ``$ref`` and the branches of ``anyOf``, ``oneOf`` and ``if`` declare may stay. Objects that declare
        nothing stay open. Default: ``True``; ``False`` for types, where each class is closed by itself.
    formats
        The meaning of ``format``. Hostnames are those of RFC 1123: the Punycode of a label such as ``xn--X`` is not checked.

        - ``"assert"``: strings must have it.
        - ``"annotate"``: it means nothing.
        - ``"auto"``: ``"annotate"`` for schemas whose ``$schema`` is 2019-09 or 2020-12, ``"assert"`` for all others.
    numbers
        The way in which numbers are written.

        - ``"any"``: as JSON writes them. The integer 3 may be ``3``, ``3.0`` or ``3.00``; 0 may be ``-0``. Integers and numbers
          under a condition have no exponent (``narrowed`` says so); other numbers may have one.
        - ``"plain"``: integers as ``-?(0|[1-9][0-9]*)`` but not ``-0``; other numbers without zeros at the end.

        Default: ``"any"``; ``"plain"`` for types.
    max_digits
        The most digits of a number before the point, and after it. Default: no bound.
    strict
        Whether keywords and formats that no draft defines are refused. Default: they are ignored. A warning names the keyword
        that was meant by one that looks misspelt, such as ``propertys``.
    max_depth
        The depth to which a finite automaton follows a schema within itself, and arrays and objects in values without a schema.
        Giving it makes the constraint finite, and its masks too. Default: no bound for masks; for a finite automaton as much
        as fits, 3, up to 7 where it is small, down to 0 where it is large.
    max_length
        The length to which a finite automaton follows ``maxLength``; ``maxItems`` is followed to a tenth of it. Giving it
        makes the constraint finite, and its masks too. Default: no bound for masks; for a finite automaton as much as
        fits, 32,768, or 1,000, 250, 100 or 40 where it is large.
    documents
        Other schemas by URI, to which ``$ref`` may lead: a mapping, such as a ``referencing.Registry``. They are read in the
        draft of ``schema``. Nothing is fetched.
    on_narrowed
        The reaction where the constraint accepts less than the schema allows: ``"warn"`` logs one warning, ``"error"`` raises
        ``UnsupportedConstraint``, ``"ignore"`` does nothing. What ``max_depth`` and ``max_length`` cut logs no warning.

    Returns
    -------
    Constraint
        Its ``narrowed`` lists what the schema allows and its masks do not. Its ``finite`` accepts the same texts, or some
        of them, by a finite automaton; ``finite.narrowed`` lists what that one does not accept.

    Raises
    ------
    UnsupportedConstraint
        Something in the schema is not supported. The message has its path.
    FormatError
        The schema is not JSON, not a schema, or a type that Pydantic cannot describe.
    TooManyStates
        A part of the schema (a pattern, the multiples of a number) needs too large an automaton; with ``max_depth`` or
        ``max_length``, the whole does.

    Notes
    -----
    ``~`` of a constraint, one side of ``&``, counting, probabilities, random drawing and canonical tokenisation use ``finite``,
    which is made on first use. It has a depth, the declared order of many members, and one item of those that must differ and
    are not listed; ``finite.narrowed`` says so.

    Examples
    --------
    >>> import tractile as tt
    >>> tags = {"type": "array", "items": {"enum": ["new", "old"]}, "uniqueItems": True}
    >>> c = tt.constraints.json_schema(tags)
    >>> c.accepts('["old", "new"]'), c.accepts('["old", "old"]')
    (True, False)
    """
    validation.choice(escapes, "escapes", SPELLINGS)
    validation.choice(order, "order", ("auto", "declared", "any"))
    validation.choice(formats, "formats", ("auto", "assert", "annotate"))
    validation.choice(numbers, "numbers", (None, "any", "plain"))
    check_choice(on_narrowed)
    space = json_space(whitespace, max_whitespace)
    chosen = ["max_depth"] * (max_depth is not None) + ["maxLength", "maxItems"] * (max_length is not None)
    max_depth = None if max_depth is None else validation.count(max_depth, "max_depth", 0, limits.DEPTH)
    max_length = None if max_length is None else validation.count(max_length, "max_length")
    max_digits = None if max_digits is None else validation.count(max_digits, "max_digits", 1, limits.DEPTH)
    is_class = is_type(schema)
    root, differences = typed(schema) if is_class else (read_schema(schema), ())
    root = root if documents is None else bundle(root, documents)
    if is_class and not open_objects:
        root, open_objects = close_types(root), True
    open_objects = open_objects is None or open_objects
    plain = numbers == "plain" or (numbers is None and is_class)
    for path, value in (("separators", separators), ("indent", indent)):
        if value is not None and whitespace == "flexible":
            raise UnsupportedConstraint('white space is any with whitespace="flexible"', path=path)
    separators = None if separators is None else json_separators(separators)
    indent = None if indent is None else json_indent(indent)
    if order == "auto" and is_class:
        order = "declared"
    reading = Reading(order, open_objects, formats, Notation(plain=plain, digits=max_digits), strict)
    writing = (space, separators, escapes, indent)
    constraint = of_schema(root, reading, writing, differences)
    if chosen and indent is not None:
        constraint = of_few_levels(root, reading, writing, differences, max_depth, max_length)
    elif chosen:
        constraint = constraint.within(max_depth, max_length)
    report(constraint.narrowed, on_narrowed, chosen)
    return constraint


def of_schema(
    root: Schema,
    reading: Reading,
    writing: Writing,
    differences: tuple[Narrowing, ...] = (),
    most_levels: int = MOST_DEPTH,
) -> Constraint:
    """Return the constraint of a schema; what it lacks stands in ``narrowed`` and is not reported.

    ``differences``: where the type of the schema differs from it. ``most_levels``: with an indent, the most levels of nesting.
    """
    style = style_of(*writing)
    with limited():
        node, narrowed = value_node(root, style, reading, most_levels)
    around = blanks(style.blank)
    narrowed = merged(differences, narrowed) if differences else narrowed
    found = Constraint(nodes.seq(around, node, around), narrowed)
    found.why_empty = partial(conflict, root, reading, style)
    found.wanted_by = partial(schema_places, root, reading, style)
    return found


def of_few_levels(
    root: Schema,
    reading: Reading,
    writing: Writing,
    differences: tuple[Narrowing, ...],
    depth: int | None,
    length: int | None,
) -> Constraint:
    """Return the constraint of a schema with an indent as a finite automaton, which has each level of nesting on its own.
    Raises ``TooManyStates``."""
    most = 2 * (3 if depth is None else depth) + 1  # a list of objects has two
    for levels in range(most, 1, -2):
        with suppress(TooManyStates):
            return of_schema(root, reading, writing, differences, levels).within(depth, length)
    return of_schema(root, reading, writing, differences, 1).within(depth, length)
