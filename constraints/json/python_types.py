"""Python types by Pydantic: the JSON Schema of a type, and the value that a JSON text stands for.

A type is a class (a Pydantic model, a dataclass, a ``TypedDict``, an ``Enum``, ``int``, …) or an annotation (``list[int]``,
``Literal["a", 1]``, ``int | None``, ``Annotated[int, Field(ge=0)]``, …). Pydantic is optional.
"""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import Any

from ...circuits.narrowing import Narrowing
from ...errors import FormatError
from .type_marks import narrowings
from .type_schemas import generator

ANNOTATIONS = (type, typing.NewType)


def is_type(value: Any) -> bool:
    """Return whether a value is a class or a type annotation."""
    is_alias = type(value).__name__ == "TypeAliasType"  # of typing or of typing_extensions
    return isinstance(value, ANNOTATIONS) or is_alias or typing.get_origin(value) is not None


def type_name(described: Any) -> str:
    """Return the name of a type or a function, for messages."""
    return str(getattr(described, "__name__", described))


def adapter(described: Any) -> Any:
    """Return the ``pydantic.TypeAdapter`` of a type or a function.
    Raises ``FormatError`` for what Pydantic cannot describe, and where it is not installed."""
    try:
        from pydantic import TypeAdapter
        from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError
    except ImportError:
        raise FormatError(
            f"{type_name(described)} is read by Pydantic, which is not installed: pip install pydantic"
        ) from None
    try:
        return TypeAdapter(described)
    except (PydanticUserError, PydanticUndefinedAnnotation, NameError, TypeError, ImportError) as error:
        raise undescribed(described, error) from None


def type_schema(described: Any, exact: bool = True) -> dict[str, Any]:
    """Return the JSON Schema of a type, or of the arguments of a function; with ``exact=False``, as Pydantic itself writes it.
    Raises ``FormatError``, and ``UnsupportedConstraint`` for types of which no value can be known."""
    return typed(described)[0] if exact else written(described)


def typed(described: Any) -> tuple[dict[str, Any], tuple[Narrowing, ...]]:
    """Return :func:`type_schema`, and where the type and the schema differ."""
    schema, differences = narrowings(written(described, schema_generator=generator()))
    return dict(schema), differences


def written(described: Any, **by: Any) -> dict[str, Any]:
    """Return the JSON Schema that Pydantic writes, with its arguments ``by``. Raises ``FormatError``."""
    of = adapter(described)
    try:
        return dict(of.json_schema(**by))
    except Exception as error:  # PydanticUserError, by a TypeAdapter that only exists where Pydantic does
        if not type(error).__module__.startswith("pydantic"):
            raise
        raise undescribed(described, error) from None


def reader(described: Any) -> Callable[[str], Any]:
    """Return a function from JSON text to a value of the type.
    It raises ``FormatError`` for text that the type refuses."""
    of = adapter(described)

    def read(text: str) -> Any:
        try:
            return of.validate_json(text)
        except ValueError as error:  # pydantic.ValidationError
            raise FormatError(f"{type_name(described)} refuses {text!r}: {error}") from None

    return read


def undescribed(described: Any, error: Exception) -> FormatError:
    """Return the error for a type without a JSON Schema."""
    reason = getattr(error, "message", str(error)).splitlines()[0]
    if type(error).__name__ == "PydanticSchemaGenerationError":
        unknown = reason.partition("schema for ")[2].partition(". Set")[0]
        reason = (
            f"Pydantic does not read {unknown}; write it as a dataclass, a TypedDict or a Pydantic model, "
            "or give a JSON Schema as a dict, as msgspec.json.schema(…) writes for a Struct"
        )
    return FormatError(f"{type_name(described)} has no JSON Schema: {reason}")
