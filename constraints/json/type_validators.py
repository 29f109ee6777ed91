"""The Python functions that validate the values of a type: which of them the schema says already.

Pydantic's own functions of addresses, secrets, encoded bytes, … are said by the texts of their type. Bounds that it checks by a
function become keywords. What any other function refuses is not known: the schema is marked.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from .type_marks import MARK, Schema, differing, refused, validated
from .type_texts import any_case, matching
from .vocabulary import KEYWORDS as ASSERTING

VALIDATORS = "pydantic._internal._validators"
SAID = {
    "pydantic._internal._generate_schema": {"GenerateSchema._path_schema.<locals>.path_validator"},
    "ipaddress": {f"IPv{version}{what}" for version in (4, 6) for what in ("Address", "Network", "Interface")},
    "pydantic.types": {
        "SecretStr", "SecretBytes", "Secret.__get_pydantic_core_schema__.<locals>.<lambda>",
        "Secret.__get_pydantic_core_schema__.<locals>.validate_secret_value",
    },
    "pydantic.networks": {
        *(f"_Base{kind}.__get_pydantic_core_schema__.<locals>.wrap_val" for kind in ("Url", "MultiHostUrl")),
        *(f"IPvAny{kind}._validate" for kind in ("Address", "Interface", "Network")), "EmailStr._validate", "NameEmail._validate",
    },
    VALIDATORS: {
        "validate_str_is_valid_iana_tz", "pattern_either_validator", "pattern_str_validator", "pattern_bytes_validator",
        "defaultdict_validator", "sequence_validator",
        *(f"ip_v{version}_{what}_validator" for version in (4, 6) for what in ("address", "network", "interface")),
    },
    "operator": {"attrgetter"},  # the value of a member, by use_enum_values
    "pydantic_extra_types.color": {"Color._validate"}, "pydantic.color": {"Color._validate"},
}  # fmt: skip
"""By module: the functions that the texts of a type say."""
UNKNOWN = {
    **{
        ("pydantic.types", f"PathType.validate_{kind}"): f"{name}: which {what} exist is not known; take Path, or Literal"
        for kind, name, what in [
            ("file", "FilePath", "files"), ("directory", "DirectoryPath", "directories"), ("new", "NewPath", "paths"),
            ("socket", "SocketPath", "sockets"),
        ]
    },
    (VALIDATORS, "import_string"): "ImportString: what can be imported is not known; take a Literal of the names",
}  # fmt: skip
"""By module and name of a function: why its type is refused."""
CARD = "^(?:4[0-9]{15}|5[1-5][0-9]{14}|3[47][0-9]{13})$"
"""Numbers of payment cards, by the brands of which Pydantic checks the length."""
ENCODED = {"EncodedBytes.decode", "EncodedStr.decode_str"}
KEYWORDS = {
    "number": {"gt": "exclusiveMinimum", "ge": "minimum", "lt": "exclusiveMaximum", "le": "maximum", "multiple_of": "multipleOf"},
    "string": {"min_length": "minLength", "max_length": "maxLength"},
    "array": {"min_length": "minItems", "max_length": "maxItems"},
    "object": {"min_length": "minProperties", "max_length": "maxProperties"},
}  # fmt: skip
KEYWORDS["integer"] = KEYWORDS["number"]
"""By type of JSON: the keywords of bounds, by Pydantic's names for them."""
PLAIN = {"type", "title", "description", "default", "examples", "writeOnly", "enum", "const", "format"}
PLAIN |= {"items", "prefixItems", "additionalProperties", "propertyNames"}
PLAIN |= {key for each in KEYWORDS.values() for key in each.values()}
ONLY_ASCII = r"^[\x00-\x7f]*$"
OF_BYTES = ("bytes within bounds", "those of ASCII", "other characters are several bytes")
"""What bounds on the number of bytes leave out, and why."""
INNER = {
    "lax-or-strict": "lax_schema", "json-or-python": "json_schema", "nullable": "schema", "default": "schema",
    **{f"function-{when}": "schema" for when in ("before", "after", "wrap")},
}  # fmt: skip
"""By type of a core schema: the member with the core schema of the same value."""


def identity(function: Any) -> tuple[str, str]:
    """Return the module and the qualified name of a function."""
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return str(getattr(function, "__module__", "")), str(name)


def functions(core: Any) -> Iterator[Any]:
    """Yield the functions that validate the value of a core schema itself, not its parts."""
    if str(core["type"]).startswith("function-"):
        yield core["function"]["function"]
    if core["type"] in INNER and INNER[core["type"]] in core:
        yield from functions(core[INNER[core["type"]]])
    for choice in core.get("choices", ()) if core["type"] == "union" else ():
        yield from functions(choice[0] if isinstance(choice, tuple) else choice)


def followed(schema: Schema, core: Any, folds: bool = False) -> Schema:
    """Return a schema with what the functions of its core schema say; ``folds``: whether the configuration changes letters."""
    own = core.get("metadata", {})
    is_written = own.get("pydantic_js_functions") or own.get("pydantic_js_annotation_functions")
    if is_written:  # by a function, which need not have asked for the schemas of the parts
        checks = list(functions(core))
    else:
        checks = [core["function"]["function"]] if str(core["type"]).startswith("function-") else []
    for function in checks:
        schema = checked(schema, function, core, folds)
    extra = own.get("pydantic_js_extra")
    writes = [*own.get("pydantic_js_functions", ()), *own.get("pydantic_js_annotation_functions", ())]
    is_given = any(map(is_users, writes)) or (isinstance(extra, dict) and extra.keys() & ASSERTING.keys())
    if is_given and MARK not in schema:
        return validated(schema, f"the type beside its JSON Schema ({core['type']})")
    return schema


def is_users(function: Any) -> bool:
    """Return whether a function that writes a JSON Schema is the user's, or writes what the user gave."""
    module, name = identity(function)
    is_read = module.split(".")[0] == "pydantic" or module == "pydantic_extra_types.color"
    return not is_read or name.startswith("WithJsonSchema.")


def checked(schema: Schema, function: Any, core: Any, folds: bool) -> Schema:
    """Return a schema narrowed by one validator of Pydantic's core schema: ``function``, known by its module and name."""
    module, name = identity(function)
    if (module, name) in UNKNOWN:
        return refused(UNKNOWN[module, name])
    if module == "pydantic.networks" and name == "EmailStr._validate":
        return {**schema, "format": "pydantic-email"}
    if module == "pydantic.types" and name == "ByteSize._validate":
        units = "|".join(map(any_case, function.__self__.byte_sizes))
        text = matching(rf"[0-9]{{1,15}}(?:\.[0-9]{{1,15}})?(?: ?(?:{units}))?")
        return {"anyOf": [text, {"type": "integer", "minimum": 0}]}
    if module == "pydantic.types" and name in ENCODED:
        encoder = function.__self__.encoder
        if encoder.__module__ != "pydantic.types":
            return validated(schema, encoder.__qualname__)
        if core.get("function", {}).get("function") == function:  # what follows is of the bytes
            schema = of_encoded(schema, innermost(core), folds)
        of_text = " of text" if name == "EncodedStr.decode_str" else ""
        return {**schema, "format": encoder.get_json_format() + of_text}
    if name == "PaymentCardNumber.validate" and module in ("pydantic.types", "pydantic_extra_types.payment"):
        return validated({"type": "string", "pattern": CARD}, "the check digit of a payment card")
    if name in SAID.get(module, ()):
        return schema
    if module == VALIDATORS and isinstance(function, functools.partial):
        for keyword, value in function.keywords.items():
            bound = bounded(schema, keyword, value, core)
            if bound is None:
                return validated(schema, f"{name.removesuffix('_validator')} {value}")
            schema = bound
        return schema
    return validated(schema, f"{module}.{name}" if module.startswith("pydantic") else name)


def innermost(core: Any) -> Any:
    """Return the core schema of a value without the functions and defaults around it."""
    return innermost(core[INNER[core["type"]]]) if core["type"] in INNER else core


def of_encoded(schema: Schema, core: Any, folds: bool) -> Schema:
    """Return the schema of a text in base 64 with its conditions so far under ``allOf``: later ones are of what it encodes."""
    if core["type"] == "bytes":
        if schema.get("pattern") not in (None, ONLY_ASCII):
            return refused("val_json_bytes: bytes in base 64 would be encoded twice; take bytes itself")
        schema = {key: value for key, value in schema.items() if key not in ("pattern", MARK)}
    elif folds or core.get("to_lower") or core.get("to_upper"):
        schema = validated(schema, "the decoder of a text whose letters were changed")
    own = {key: schema[key] for key in ("minLength", "maxLength", "pattern", "allOf") if key in schema}
    return {key: value for key, value in schema.items() if key not in own} | ({"allOf": [own]} if own else {})


def bounded(schema: Schema, name: str, value: Any, core: Any) -> Schema | None:
    """Return a schema with a bound by Pydantic's name for it, ``None`` where the keywords of JSON Schema cannot say it."""
    if not isinstance(value, int | float):
        return None
    if "anyOf" in schema and schema.keys() - {"anyOf", name} <= PLAIN:
        ways = [bounded(each, name, value, core) for each in schema["anyOf"]]
        kept = [each for each in ways if each is not None]
        if len(kept) < len(ways) and kept:
            why = f"a value of the others has no {name}"
            return differing({**schema, "anyOf": kept}, "anyOf", f"{len(ways)} types", f"{len(kept)}", why)
        return {**schema, "anyOf": kept} if kept else None
    keyword = KEYWORDS.get(str(schema.get("type")), {}).get(name)
    format_ = schema.get("format")
    is_encoded = str(format_).startswith("base64")
    if keyword is None or not schema.keys() - {"pattern", name, *["allOf"] * is_encoded} <= PLAIN:
        return None
    if format_ not in (None, "password") and not is_encoded:
        return None
    if innermost(core)["type"] == "bytes" and format_ == "password":
        schema = differing({**schema, "pattern": ONLY_ASCII}, "pattern", *OF_BYTES)
    return {**schema, keyword: value}
