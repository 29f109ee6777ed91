"""Every type that Pydantic describes: what a mask allows is read by the type, or the constraint says what is not."""

import enum
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Annotated, Literal

import pytest
from texts import masked_texts

import tractile as tt

pydantic = pytest.importorskip("pydantic")
from pydantic_models import Cat, Dog, Frozen, Paths, Pets  # noqa: E402
from pydantic_types import TYPES  # noqa: E402

BaseModel, Field, TypeAdapter = pydantic.BaseModel, pydantic.Field, pydantic.TypeAdapter
J = tt.constraints.json_schema


def keywords(constraint):
    return {each.keyword for each in constraint.narrowed}


@pytest.mark.parametrize("name", TYPES)
def test_no_text_drawn_from_the_masks_is_refused_by_its_type(name):
    reads = TypeAdapter(TYPES[name]).validate_json
    found = tt.constraints.json_schema(TYPES[name], on_narrowed="ignore")
    for text in masked_texts(found, 1, 12):
        reads(text)


@pytest.mark.parametrize("name", ["EmailStr", "NameEmail"])
def test_addresses_of_mail_are_those_that_the_type_reads(name):
    pytest.importorskip("email_validator")
    described = getattr(pydantic, name)
    found = J(described, on_narrowed="ignore")
    assert found.accepts('"ada.l@example.org"')
    assert not any(
        map(
            found.accepts,
            ['"a@b"', '"a@b.test"', '"a@b.LOCAL"', '"a@xn--a.com"', '"@b.co"', f'"{"a" * 65}@b.co"'],
        )
    )
    for text in masked_texts(found, 2, 12):
        TypeAdapter(described).validate_json(text)


BASE64, OCTETS = (of(encoder=pydantic.Base64Encoder) for of in (pydantic.EncodedStr, pydantic.EncodedBytes))
VALUES = [
    (pydantic.NaiveDatetime, ["2024-02-29T12:00:00", "2024-02-29T12:00:00.5"], ["2024-02-29T12:00:00Z", "2023-02-29T12:00:00"]),
    (pydantic.AwareDatetime, ["2024-02-29T12:00:00+01:00"], ["2024-02-29T12:00:00"]),
    (datetime, ["2024-02-29T12:00:00", "2024-02-29t12:00:00z"], ["2024-02-29", "0000-01-01T00:00:00"]),
    (TYPES["date bounds"], ["2019-12-30", "2020-01-01", "2024-02-29"], ["2019-12-29", "2024-03-01", "2020-02-30"]),
    (TYPES["time bounds"], ["09:30:00", "16:59:59"], ["17:00:00", "09:29:59", "12:00:00Z"]),
    (TYPES["datetime fractions"], ["2020-01-01T00:00:01"], ["2020-01-01T00:00:00", "2020-01-01T00:00:02"]),
    (TYPES["datetime aware bounds"], ["2020-01-01T12:00:00Z"], ["2020-01-01T12:00:00"]),
    (TYPES["datetime aware bounds"], ["2020-01-01T00:00:01Z", "2020-01-01T23:01:00Z"],
     ["2020-01-01T00:00:00Z", "2020-01-01T23:01:01Z"]),
    (TYPES["timedelta bounds"], ["PT1M", "PT71H", "P2D", "PT259199S"], ["PT59S", "P3D", "P1W", "-PT1M"]),
    (TYPES["timedelta negative"], ["-PT1H", "-P2D"], ["PT1H", "-PT3599S", "-P3D"]),
    (timedelta, ["-P1DT0.5S", "P1Y"], ["P", "PT", "P1S"]),
    (TYPES["IPv4Network"], ["10.0.0.0/8", "10.0.0.1", "0.0.0.0/0", "10.128.0.0/9"], ["10.0.0.1/8", "10.64.0.0/9", "10.0.0.0/33"]),
    (TYPES["IPv6Network"], ["2001:db8::/32", "::/0", "::1", "8000::/1"], ["2001:db8::1/32", "4000::/1", "::/129"]),
    (pydantic.IPvAnyAddress, ["1.2.3.4", "::1"], ["1.2.3.256", "x"]),
    (pydantic.UUID4, ["11111111-1111-4111-8111-111111111111"], ["11111111-1111-1111-8111-111111111111"]),
    (pydantic.HttpUrl, ["https://a.org/b?c=d#e", "http://u:p@[::1]:80/"], ["ftp://a.org", "https://", "http://a.1", "http://a:65536"]),
    (pydantic.AnyUrl, ["mailto:a@b.org", "urn:isbn:1", "file:///a", "x://y"], ["file://a:80/b", "a b"]),
    (pydantic.PostgresDsn, ["postgres://u:p@a:1,b:2/c"], ["postgres:///c", "mysql://a"]),
    (pydantic.Base64Bytes, ["YQ==", "YR==", "YWF=", ""], ["YQ", "Y"]), (pydantic.Base64Str, ["YQ==", "YX=="], ["/w=="]),
    (Annotated[str, Field(min_length=5, max_length=8), BASE64, Field(max_length=5)],  # of the text, and of what it encodes
     ["YWFhYQ==", "YWFhYWE="], ["YQ==", "YWFhYWFh", "YWFhYWFhYQ=="]),
    (Annotated[bytes, Field(max_length=5), OCTETS, Field(min_length=3)], ["YWFh"], ["YWE=", "YWFhYQ=="]),
    (Annotated[str, Field(pattern="^YW"), BASE64, Field(min_length=2)], ["YWE=", "YWFhYWE="], ["YQ==", "YmE="]),
    (TYPES["stripped"], ["abc", "a b"], ["", " ", " a", "abcd"]), (pydantic.FutureDate, ["2999-01-01"], ["1999-01-01"]),
    (pydantic.PastDate, ["1999-01-01"], ["2999-01-01"]), (TYPES["ZoneInfo"], ["UTC"], ["Nowhere"]),
]  # fmt: skip


@pytest.mark.parametrize(("described", "right", "wrong"), VALUES, ids=lambda part: str(part)[:50])
def test_strings_of_a_type(described, right, wrong):
    found = J(described, on_narrowed="ignore")
    assert [text for text in right if not found.accepts(f'"{text}"')] == []
    assert [text for text in wrong if found.accepts(f'"{text}"')] == []
    for text in right:
        TypeAdapter(described).validate_json(f'"{text}"')


REFUSED = {
    "FilePath": pydantic.FilePath, "DirectoryPath": pydantic.DirectoryPath, "NewPath": pydantic.NewPath,
    "Json": pydantic.Json[list[int]], "ImportString": pydantic.ImportString, "type": type[int],
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_types_whose_values_cannot_be_known_are_refused_by_name(name):
    class Holder(BaseModel):
        part: list[REFUSED[name]]

    with pytest.raises(tt.errors.UnsupportedConstraint, match=rf"^{name}.*; take .*/properties/part/items"):
        J(Holder)


def test_bounds_of_a_configuration_are_of_the_text_before_it_is_decoded():
    bounded = pydantic.create_model("Bounded", __config__={"str_max_length": 4}, a=pydantic.Base64Str)
    assert J(bounded, on_narrowed="ignore").accepts('{"a": "YWFh"}')
    assert not J(bounded, on_narrowed="ignore").accepts('{"a": "YWFhYQ=="}')
    twice = pydantic.create_model("Twice", __config__={"val_json_bytes": "hex"}, a=pydantic.Base64Bytes)
    with pytest.raises(tt.errors.UnsupportedConstraint, match=r"val_json_bytes: .* encoded twice"):
        J(twice)
    folded = pydantic.create_model("Folded", __config__={"str_to_lower": True}, a=pydantic.Base64UrlStr)
    assert "validator" in keywords(J(folded, on_narrowed="ignore"))


def test_an_alternative_that_is_refused_is_left_out_and_said():
    found = J(pydantic.FilePath | int, on_narrowed="ignore")
    assert found.accepts("3")
    assert not found.accepts('"x"')
    assert "FilePath" in found.narrowed[0].why


# ---------------------------------------------------------------- validators


def even(value):
    if value % 2:
        raise ValueError("odd")
    return value


class Checked(BaseModel):
    a: Annotated[int, pydantic.AfterValidator(even)]
    b: int = 0

    @pydantic.field_validator("b")
    @classmethod
    def small(cls, value):
        return value

    @pydantic.model_validator(mode="after")
    def ordered(self):
        return self


class Hooked(BaseModel):
    def model_post_init(self, context):
        pass


@dataclass
class Posted:
    a: int

    def __post_init__(self):
        pass


class Own:
    @classmethod
    def __get_pydantic_core_schema__(cls, source, handler):
        return handler.generate_schema(Annotated[str, pydantic.AfterValidator(cls.made)])

    @classmethod
    def __get_pydantic_json_schema__(cls, core, handler):
        return {"type": "string"}

    @classmethod
    def made(cls, value):
        return value


TAG = {name: pydantic.Tag(name) for name in "cd"}
VALIDATED = [
    (Annotated[int, pydantic.AfterValidator(even)], {"": "even"}),
    (Annotated[int, pydantic.BeforeValidator(even)], {"": "even"}),
    (Annotated[int, pydantic.PlainValidator(even)], {"": "even"}),
    (Annotated[int, pydantic.WrapValidator(lambda v, h: h(v))], {"": "lambda"}),
    (Checked, {"": "ordered", "/properties/a": "even", "/properties/b": "small"}),
    (Hooked, {"": "model_post_init"}), (Posted, {"": "__post_init__"}),
    (list[Own], {"/items": "made"}), (Annotated[set[float], Field(min_length=2)], {"": "written differently"}),
    (Annotated[Annotated[Cat, TAG["c"]] | Annotated[Dog, TAG["d"]], pydantic.Discriminator(even)], {"": "even"}),
]  # fmt: skip


@pytest.mark.parametrize(("described", "said"), VALIDATED, ids=lambda part: str(part)[:50])
def test_what_a_function_refuses_is_said(described, said, caplog):
    found = J(described)
    marks = {each.path: each.asked for each in found.narrowed if each.keyword == "validator"}
    assert marks.keys() == said.keys()
    assert all(name in marks[path] for path, name in said.items())
    assert not any(each.loses_values for each in found.narrowed if each.keyword == "validator")
    assert not caplog.records
    with pytest.raises(tt.errors.UnsupportedConstraint, match="the type refuses"):
        J(described, on_narrowed="error")
    assert keywords(found.within(depth=1)) >= {"validator"}


def test_functions_that_a_schema_says_are_no_validators():
    plain = ["IPv4Address", "SecretStr", "HttpUrl", "Base64Bytes", "Path", "defaultdict", "short SecretStr"]
    assert all("validator" not in keywords(J(TYPES[name], on_narrowed="ignore")) for name in plain)


# ---------------------------------------------------------------- tags


class Listed(BaseModel):
    items: list[Pets] = Field(min_length=3, max_length=3)


def test_a_tag_with_a_default_is_required():
    found = J(Listed)
    assert not found.accepts('{"items": [{"lives": 1}, {"lives": 2}, {"good": true}]}')
    assert found.accepts(
        '{"items": [{"kind": "cat", "lives": 1}, {"kind": "cat", "lives": 2}, {"kind": "puppy"}]}'
    )


# ---------------------------------------------------------------- aliases, sets, listed values


def test_fields_at_a_path_are_written_there():
    text = '{"names": ["2020-01-01", null, 3], "a": {"b": [true], "c": 4}}'
    assert J(Paths).accepts(text)
    assert TypeAdapter(Paths).validate_json(text).choice == 4
    assert not J(Paths).accepts('{"first": "2020-01-01", "last": 3, "deep": true, "choice": 4}')
    assert not J(Paths).accepts('{"names": ["2020-01-01", null], "a": {"b": [true], "c": 4}}')


def test_keys_within_bounds():
    found = J(TYPES["int keys from"])
    assert found.accepts('{"5": 1, "1000": 2}')
    assert not any(map(found.accepts, ['{"4": 1}', '{"-5": 1}', '{"05": 1}']))
    assert keywords(J(TYPES["float keys"], on_narrowed="ignore")) == {"escapes", "propertyNames"}
    with pytest.raises(tt.errors.UnsupportedConstraint, match="FilePath"):
        J(dict[pydantic.FilePath, int])


def test_items_of_a_set_can_be_hashed():
    assert not J(set[BaseModel]).accepts("[{}]")
    assert J(set[Frozen]).accepts('[{"a": 1}, {"a": 2}]')
    assert not J(set).accepts("[[]]")


def test_listed_values_that_json_lacks_are_left_out():
    assert not J(list[Literal[b"a", "b"]], on_narrowed="ignore").accepts('["a"]')
    with pytest.raises(tt.errors.UnsupportedConstraint, match="read from JSON"):
        J(list[Literal[b"a"]])
    odd = enum.Enum("odd", {"A": object(), "B": 1})
    with pytest.raises(tt.errors.FormatError, match="no text, number or boolean"):
        tt.constraints.output_type(odd)


def test_bounds_that_a_function_checks_are_bounds_of_the_constraint():
    found = J(Annotated[int | float, Field(gt=3)])
    assert found.accepts("4")
    assert not found.accepts("3")
    assert "validator" not in keywords(found)


def test_differences_stand_in_what_is_derived_from_a_constraint():
    found = J(TYPES["date from"], max_length=3, on_narrowed="ignore")
    assert not found.accepts('"2020-02-28"')
    assert {n.keyword for n in J(pydantic.HttpUrl, max_depth=1, on_narrowed="ignore").narrowed} >= {"format"}
    assert date.fromisoformat(found.shortest().strip('"')) > date(2020, 2, 28)


def test_a_schema_that_the_user_gives_beside_a_type_is_in_narrowed():
    text = {"type": "string"}

    class Own:
        @classmethod
        def __get_pydantic_core_schema__(cls, source, handler):
            return handler(int)

        @classmethod
        def __get_pydantic_json_schema__(cls, core, handler):
            return text

    for beside in (pydantic.WithJsonSchema(text), pydantic.Field(json_schema_extra=text)):
        assert keywords(J(Annotated[int, beside])) >= {"validator"}
    for package in (__name__, "pydantic_of_others"):
        Own.__get_pydantic_json_schema__.__func__.__module__ = package
        assert keywords(J(Own)) >= {"validator"}
    plain = Annotated[int, pydantic.Field(json_schema_extra={"example": 3}, examples=[3])]
    assert "validator" not in keywords(J(plain))


def test_classes_that_pydantic_does_not_read_have_a_remedy():
    class Unknown:
        pass

    for described in (Unknown, list[Unknown]):
        with pytest.raises(
            tt.errors.FormatError, match=r"does not read .*Unknown'>; write it as a dataclass"
        ):
            J(described)
