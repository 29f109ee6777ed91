"""JSON Schemas of Python types that allow what the types accept, where those of Pydantic allow more or less.

    numbers, Decimal     type_decimals      what max_digits counts, and numbers that a float keeps
    dates, durations     type_times         bounds, zones, no year 0, no leap second
    URLs                 type_urls          schemes and hosts
    addresses, UUID, …   type_texts         by the format that Pydantic names
    dict[K, V], aliases  type_members       names that K reads; values at a path
    str, bytes           type_strings       patterns, lengths, encodings
    set, listed values   type_items         what can be hashed, what is read from JSON
    validators           type_validators    functions that refuse values

Where a type and its schema still differ, the schema has a mark that says so (``type_marks``).
"""

from __future__ import annotations

from enum import Flag
from functools import cache
from typing import Any

from . import type_times
from .type_decimals import FINITE, WHOLE, decimals, fractions
from .type_items import distinct, few, readable
from .type_marks import MARK, Schema, differing, refused, validated, with_marks
from .type_members import NUMBER, alias_path, names_of, with_paths
from .type_strings import octets, string
from .type_texts import matching
from .type_urls import urls
from .type_validators import followed

COMPLEX = rf"{NUMBER}(?:[+-]{WHOLE}(?:\.[0-9]+)?j)?"
IGNORED: set[Any] = {"skipped-choice", "non-serializable-default", "skipped-discriminator"}
"""The warnings of Pydantic that are about nothing that JSON could have."""
MOST_ITEMS = 8
"""The most items of the part of a tuple that may be repeated, where others follow."""


@cache
def generator() -> Any:
    """Return the class that makes the schemas, for Pydantic's ``schema_generator``."""
    from pydantic.json_schema import GenerateJsonSchema

    class Exact(GenerateJsonSchema):
        """Pydantic's writer of schemas, with the texts that Pydantic reads where it writes others."""

        ignored_warning_kinds = IGNORED

        def generate_inner(self, schema: Any) -> Schema:
            found: Schema = super().generate_inner(schema)
            marked = followed(found, schema, self._config.str_to_lower or self._config.str_to_upper)
            if "ref" in schema and "$ref" in marked and MARK in marked:  # said of the definition
                definition = self.get_schema_from_definitions(marked["$ref"])
                if definition is not None:
                    definition.update(with_marks(definition, marked[MARK]))
                    return found
            return marked

        def option(self, name: str, schema: Any = {}) -> Any:  # noqa: B006
            return schema.get(name, self._config.config_dict.get(name))

        # ------------------------------------------------------------ texts

        def str_schema(self, schema: Any) -> Schema:
            strips = schema.get("strip_whitespace", self._config.str_strip_whitespace)
            return string(super().str_schema(schema), schema, bool(strips))

        def bytes_schema(self, schema: Any) -> Schema:
            return octets(schema, self.option("val_json_bytes"))

        def complex_schema(self, schema: Any) -> Schema:
            return matching(COMPLEX)

        def date_schema(self, schema: Any) -> Schema:
            return type_times.dates(schema)

        def time_schema(self, schema: Any) -> Schema:
            return type_times.times(schema)

        def datetime_schema(self, schema: Any) -> Schema:
            return type_times.datetimes(schema)

        def timedelta_schema(self, schema: Any) -> Schema:
            found = type_times.durations(schema)
            return validated(found, "multiple_of") if schema.get("multiple_of") is not None else found

        def url_schema(self, schema: Any) -> Schema:
            return urls(schema)

        def multi_host_url_schema(self, schema: Any) -> Schema:
            return urls(schema, several=True)

        def uuid_schema(self, schema: Any) -> Schema:
            version = schema.get("version")
            return {"type": "string", "format": f"uuid{version or ''}"}

        def json_schema(self, schema: Any) -> Schema:
            return refused("Json: JSON within a string is not written; take the type itself")

        # ------------------------------------------------------------ numbers, listed values

        def decimal_schema(self, schema: Any) -> Schema:
            return decimals(schema)

        def fraction_schema(self, schema: Any) -> Schema:
            return fractions(schema)

        def float_schema(self, schema: Any) -> Schema:
            found: Schema = super().float_schema(schema)
            finite = self.option("allow_inf_nan", schema) is False
            return {**found, "allOf": [FINITE]} if finite else found

        def enum_schema(self, schema: Any) -> Schema:
            found = readable(super().enum_schema(schema), schema)
            if not issubclass(schema["cls"], Flag) or MARK in found:
                return found
            why = "the schema lists the members"
            return differing(found, "enum", "combinations of flags", "single flags", why)

        def literal_schema(self, schema: Any) -> Schema:
            return readable(super().literal_schema(schema), schema)

        def is_subclass_schema(self, schema: Any) -> Schema:
            return refused("type[…]: JSON has no classes; take a Literal of their names")

        # ------------------------------------------------------------ arrays

        def set_schema(self, schema: Any) -> Schema:
            return distinct(super().set_schema(schema), schema)

        def frozenset_schema(self, schema: Any) -> Schema:
            return distinct(super().frozenset_schema(schema), schema)

        def tuple_schema(self, schema: Any) -> Schema:
            items, at = schema["items_schema"], schema.get("variadic_item_index")
            if at is None or at + 1 == len(items):
                return dict(super().tuple_schema(schema))
            kinds = [self.generate_inner(each) for each in items]
            ways = []
            for count in range(MOST_ITEMS + 1):
                row = [*kinds[:at], *[kinds[at]] * count, *kinds[at + 1 :]]
                ways.append({"type": "array", "prefixItems": row, "minItems": len(row), "maxItems": len(row)})
            found: Schema = {"anyOf": ways}
            asked, why = "any number of items where the tuple has a star", "items follow them"
            return differing(found, "maxItems", asked, f"up to {MOST_ITEMS}", why)

        # ------------------------------------------------------------ objects

        def dict_schema(self, schema: Any) -> Schema:
            return self.named(super().dict_schema(schema), schema)

        def frozendict_schema(self, schema: Any) -> Schema:
            return self.named(super().frozendict_schema(schema), schema)

        def ordered_dict_schema(self, schema: Any) -> Schema:
            return self.named(super().ordered_dict_schema(schema), schema)

        def counter_schema(self, schema: Any) -> Schema:
            return self.named(super().counter_schema(schema), schema)

        def resolved(self, found: Schema) -> Schema:
            """Return a schema, or what it refers to, with the alternatives that it refers to in place."""
            if "$ref" in found:
                found = self.get_schema_from_definitions(found["$ref"]) or found
            return {**found, "anyOf": [*map(self.resolved, found["anyOf"])]} if "anyOf" in found else found

        def named(self, found: Schema, schema: Any) -> Schema:
            """Return the schema of a ``dict`` with the names that its keys read."""
            if "keys_schema" not in schema:
                return found
            keys = self.resolved(self.generate_inner(schema["keys_schema"]))
            found = {key: found[key] for key in found if key not in ("patternProperties", "propertyNames")}
            if "values_schema" in schema:
                found["additionalProperties"] = self.generate_inner(schema["values_schema"])
            if (names := names_of(keys)) is not True:
                found["propertyNames"] = names
            return few(found, schema, "keys_schema", "Properties")

        def _named_required_fields_schema(self, named_required_fields: Any) -> Schema:
            found: Schema = super()._named_required_fields_schema(named_required_fields)
            by_alias = self._config.config_dict.get("validate_by_alias") is not False and self.by_alias
            paths = []
            for name, required, field in named_required_fields:
                path = alias_path(field.get("validation_alias")) if by_alias else None
                if path is not None and self._get_alias_name(field, name) in found["properties"]:
                    paths.append((self._get_alias_name(field, name), path, required))
            return with_paths(found, paths) if paths else found

        def model_schema(self, schema: Any) -> Schema:
            found: Schema = super().model_schema(schema)
            cls, hook = schema["cls"], schema.get("post_init")
            own = getattr(cls, str(hook), None) if hook else None
            if own is not None and not getattr(own, "__module__", "").startswith("pydantic"):
                found = validated(found, own.__qualname__)
            return validated(found, f"{cls.__qualname__}.__init__") if schema.get("custom_init") else found

        def dataclass_schema(self, schema: Any) -> Schema:
            found: Schema = super().dataclass_schema(schema)
            cls = schema["cls"]
            return validated(found, f"{cls.__qualname__}.__post_init__") if schema.get("post_init") else found

        # ------------------------------------------------------------ several schemas of one value

        def tagged_union_schema(self, schema: Any) -> Schema:
            found: Schema = super().tagged_union_schema(schema)
            if callable(schema["discriminator"]):
                name = getattr(schema["discriminator"], "__qualname__", "the discriminator")
                return validated({"anyOf": found["oneOf"]}, name)
            if "discriminator" not in found:
                return validated(found, f"the discriminator {schema['discriminator']}")
            mapping = found["discriminator"].get("mapping", {})
            if not all(isinstance(target, str) for target in mapping.values()):
                found["discriminator"] = {"propertyName": found["discriminator"]["propertyName"]}
            return found

        def chain_schema(self, schema: Any) -> Schema:
            found: Schema = super().chain_schema(schema)
            return validated(found, "the later steps of a chain") if len(schema["steps"]) > 1 else found

    return Exact
