"""The types that Pydantic 2 describes, by name: the whole list of its documentation, with conditions, models and unions."""

import collections
import dataclasses
import enum
import ipaddress
import pathlib
import re
import typing
import uuid
import zoneinfo
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, Generic, Literal, NamedTuple, Optional, TypeVar, Union

import annotated_types
import pydantic
from pydantic import AliasChoices, AliasPath, BaseModel, ConfigDict, Discriminator, Field, Tag
from pydantic.alias_generators import to_camel
from typing_extensions import NotRequired, Required, TypedDict

UTC = timezone.utc
T = TypeVar("T")


class Plain(enum.Enum):
    ONE, TWO = "one", 2


class Whole(enum.IntEnum):
    ONE, TWO = 1, 2


class Word(enum.StrEnum):
    ONE, TWO = "one", "two"


class Bits(enum.IntFlag):
    READ, WRITE = 1, 2


class Flags(enum.Flag):
    READ, WRITE = 1, 2


class Odd(enum.Enum):
    PAIR, NOTHING = (1, 2), None


class Point(NamedTuple):
    x: int
    y: int = 0


class Total(TypedDict):
    a: int
    b: NotRequired[str]


class Partial(TypedDict, total=False):
    a: Required[int]
    b: date


class ClosedDict(TypedDict):
    __pydantic_config__ = ConfigDict(extra="forbid")
    a: int


@dataclasses.dataclass
class Data:
    a: int
    b: date = date(2020, 1, 1)
    c: list[str] = dataclasses.field(default_factory=list)


@pydantic.dataclasses.dataclass
class Later:
    a: int
    b: int = pydantic.Field(default=1, init=False)
    c: dataclasses.InitVar[int] = 3


@pydantic.dataclasses.dataclass(config=ConfigDict(extra="forbid", alias_generator=to_camel))
class Camel:
    some_name: int


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int


class Dog(BaseModel):
    kind: Literal["dog", "puppy"] = "dog"
    good: bool = True


class Bird(BaseModel):
    kind: Literal["cat"] = Field("cat", alias="type")


class Fish(BaseModel):
    kind: Literal["fish"] = Field("fish", alias="type")


Pets = Annotated[Cat | Dog, Field(discriminator="kind")]


class Owner(BaseModel):
    pets: list[Pets] = Field(min_length=2, max_length=3)


class Shelter(BaseModel):
    pet: Annotated[Pets | Annotated[Fish, Tag("fish")], Field()] = Cat(lives=9)


def tag_of(value):
    return "cat" if "lives" in (value if isinstance(value, dict) else vars(value)) else "dog"


class Tree(BaseModel):
    value: Annotated[int, Field(ge=0)]
    children: list["Tree"] = []


class Box(BaseModel, Generic[T]):
    content: T
    more: list[T] = []


class Aliases(BaseModel):
    a: int = Field(alias="A")
    b: int = Field(validation_alias="B")
    c: date = Field(validation_alias=AliasChoices("C", "c2"))
    d: date = Field(validation_alias=AliasChoices(AliasPath("deep", 1), "D"))


class Paths(BaseModel):
    first: date = Field(validation_alias=AliasPath("names", 0))
    last: int = Field(validation_alias=AliasPath("names", 2))
    deep: bool = Field(validation_alias=AliasPath("a", "b", 0))
    choice: int = Field(validation_alias=AliasChoices(AliasPath("a", "c"), AliasPath("x", 0)))
    late: int = Field(5, validation_alias=AliasPath("z", "y"))


class Generated(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="forbid")
    some_name: int
    other_name: date = date(2020, 1, 1)


class ByName(BaseModel):
    model_config = ConfigDict(validate_by_name=True, validate_by_alias=False)
    a: int = Field(alias="b")


class StrictOne(BaseModel):
    model_config = ConfigDict(strict=True)
    a: int
    b: float
    c: date
    d: set[int]
    e: tuple[int, str]
    f: uuid.UUID
    g: Decimal
    h: timedelta
    i: Plain
    j: bytes


class Stripped(BaseModel):
    model_config = ConfigDict(str_strip_whitespace=True, str_min_length=1, str_max_length=5)
    a: str
    b: Annotated[str, Field(pattern="^[a-z ]+$")]


class Extra(BaseModel):
    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, int]
    a: int


class Hexed(BaseModel):
    model_config = ConfigDict(val_json_bytes="hex")
    a: bytes


class Based(BaseModel):
    model_config = ConfigDict(val_json_bytes="base64")
    a: bytes


class Root(pydantic.RootModel[dict[str, date]]):
    pass


class Python(BaseModel):
    model_config = ConfigDict(regex_engine="python-re")
    a: Annotated[str, Field(pattern=r"^(?:\w+|\d+)$")]


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)
    a: int


TYPES: dict[str, Any] = {
    # the standard library
    "bool": bool, "int": int, "float": float, "str": list[str], "bytes": bytes, "None": type(None), "Any": Any, "object": object,
    "complex": complex, "Fraction": Fraction, "Decimal": Decimal, "date": date, "time": time, "datetime": datetime,
    "timedelta": timedelta, "UUID": uuid.UUID, "Path": pathlib.Path, "PurePath": pathlib.PurePath, "ZoneInfo": zoneinfo.ZoneInfo,
    "Pattern": re.Pattern, "Pattern[str]": re.Pattern[str],
    "IPv4Address": ipaddress.IPv4Address, "IPv6Address": ipaddress.IPv6Address,
    "IPv4Network": ipaddress.IPv4Network, "IPv6Network": ipaddress.IPv6Network,
    "IPv4Interface": ipaddress.IPv4Interface, "IPv6Interface": ipaddress.IPv6Interface,
    "list": list, "list[int]": list[int], "tuple": tuple, "tuple[int, str]": tuple[int, str], "tuple[int, ...]": tuple[int, ...],
    "tuple[()]": tuple[()], "tuple with a star": tuple[int, *tuple[str, ...], bool],
    "set": set, "set[int]": set[int], "frozenset[str]": frozenset[str], "set[date]": set[date], "set[tuple]": set[tuple[int, str]],
    "set[Any]": set[Any], "set of two Decimals": Annotated[set[Decimal], Field(min_length=2)], "set[Frozen]": set[Frozen],
    "set of floats": Annotated[set[float], Field(min_length=3)],
    "deque": collections.deque[int], "short deque": Annotated[collections.deque[int], Field(max_length=2)],
    "dict": dict, "dict[int, date]": dict[int, date], "dict[UUID, int]": dict[uuid.UUID, int], "defaultdict": collections.defaultdict[str, list[int]],
    "OrderedDict": collections.OrderedDict[str, int], "Counter": collections.Counter[str], "Mapping": Mapping[str, int],
    "dict of two": Annotated[dict[float, int], Field(min_length=2)], "dict of IPs": dict[ipaddress.IPv4Address, int],
    "dict of datetimes": dict[datetime, int], "dict of NonEmpty": dict[Annotated[str, Field(min_length=1, pattern="^a")], int],
    "Sequence": Sequence[int], "Iterable": Iterable[int], "Optional": Optional[int], "Union": Union[int, date, list[str]],
    "left to right": Annotated[int | str, Field(union_mode="left_to_right")],
    "Literal": list[Literal["a", 1, None, True]], "Enum": list[Plain], "IntEnum": list[Whole], "StrEnum": list[Word], "IntFlag": list[Bits], "Flag": list[Flags],
    "odd Enum": list[Odd], "NamedTuple": Point, "TypedDict": Total, "partial TypedDict": Partial, "closed TypedDict": ClosedDict,
    "dataclass": Data, "dataclass with init": Later, "dataclass with aliases": Camel, "LiteralString": list[typing.LiteralString],
    # conditions
    "int bounds": Annotated[int, Field(gt=-3, le=12, multiple_of=3)], "float bounds": Annotated[float, Field(ge=-1.5, lt=2)],
    "finite": pydantic.FiniteFloat, "multiples": Annotated[float, Field(multiple_of=0.25)],
    "Decimal digits": Annotated[Decimal, Field(max_digits=6, decimal_places=3)],
    "Decimal bounds": Annotated[Decimal, Field(ge=Decimal("0.1"), lt=Decimal("10.01"), decimal_places=2)],
    "Decimal whole": Annotated[Decimal, Field(max_digits=5, decimal_places=0)],
    "Decimal inf": Annotated[Decimal, Field(allow_inf_nan=True)],
    "Decimal many": Annotated[Decimal, Field(max_digits=30)], "Decimal few": Annotated[Decimal, Field(decimal_places=20)],
    "Decimal gt": Annotated[Decimal, Field(gt=0, max_digits=4, decimal_places=2)],
    "Fraction bounds": Annotated[Fraction, Field(gt=0, le=2)],
    "str conditions": Annotated[str, Field(min_length=2, max_length=4)], "str pattern": Annotated[str, Field(pattern=r"^\d{3}-\w+$")],
    "str search": Annotated[str, Field(pattern=r"\S\s\D")], "str boundary": Annotated[str, Field(pattern=r"\bcat\b")],
    "compiled pattern": Annotated[str, Field(pattern=re.compile("^a+$", re.I))],
    "stripped": Annotated[str, pydantic.StringConstraints(strip_whitespace=True, min_length=1, max_length=3)],
    "stripped pattern": Annotated[str, pydantic.StringConstraints(strip_whitespace=True, pattern="^a.*b$")],
    "lower": Annotated[str, pydantic.StringConstraints(to_lower=True, pattern="^[A-Z]+$")],
    "bytes conditions": Annotated[bytes, Field(min_length=2, max_length=4)],
    "list bounds": Annotated[list[int], Field(min_length=1, max_length=3)], "conset": pydantic.conset(int, min_length=2, max_length=3),
    "confrozenset": pydantic.confrozenset(Literal["a", "b"], max_length=1),
    "date bounds": Annotated[date, Field(ge=date(2019, 12, 30), lt=date(2024, 3, 1))], "date from": Annotated[date, Field(gt=date(2020, 2, 28))],
    "date until": Annotated[date, Field(le=date(1000, 1, 1))],
    "time bounds": Annotated[time, Field(ge=time(9, 30), lt=time(17))], "time aware": Annotated[time, Field(gt=time(9, 30, tzinfo=UTC))],
    "datetime bounds": Annotated[datetime, Field(ge=datetime(2019, 12, 31, 23, 59, 58), lt=datetime(2020, 1, 2))],
    "datetime aware bounds": Annotated[datetime, Field(gt=datetime(2020, 1, 1, tzinfo=UTC), le=datetime(2020, 1, 1, 0, 1, tzinfo=timezone(timedelta(hours=1))) + timedelta(days=1))],
    "datetime fractions": Annotated[datetime, Field(ge=datetime(2020, 1, 1, 0, 0, 0, 500000), le=datetime(2020, 1, 1, 0, 0, 1, 500000))],
    "timedelta bounds": Annotated[timedelta, Field(ge=timedelta(minutes=1), lt=timedelta(days=3))],
    "timedelta positive": Annotated[timedelta, Field(gt=timedelta(0))], "timedelta most": Annotated[timedelta, Field(le=timedelta(seconds=90.5))],
    "timedelta negative": Annotated[timedelta, Field(ge=timedelta(days=-2), le=timedelta(hours=-1))],
    "annotated types": Annotated[int, annotated_types.Interval(ge=1, lt=5), annotated_types.MultipleOf(2)],
    "Len": Annotated[list[int], annotated_types.Len(1, 2)],
    # Pydantic's
    "PositiveInt": pydantic.PositiveInt, "NegativeFloat": pydantic.NegativeFloat, "StrictInt": pydantic.StrictInt, "StrictStr": list[pydantic.StrictStr],
    "StrictFloat": pydantic.StrictFloat, "StrictBool": pydantic.StrictBool, "StrictBytes": pydantic.StrictBytes, "ByteSize": pydantic.ByteSize,
    "PastDate": pydantic.PastDate, "FutureDate": pydantic.FutureDate, "PastDatetime": pydantic.PastDatetime, "FutureDatetime": pydantic.FutureDatetime,
    "AwareDatetime": pydantic.AwareDatetime, "NaiveDatetime": pydantic.NaiveDatetime,
    "UUID1": pydantic.UUID1, "UUID3": pydantic.UUID3, "UUID4": pydantic.UUID4, "UUID5": pydantic.UUID5, "UUID6": pydantic.UUID6, "UUID7": pydantic.UUID7, "UUID8": pydantic.UUID8,
    "Json": pydantic.Json, "Json[list[int]]": pydantic.Json[list[int]], "Json[dict]": pydantic.Json[dict[str, date]], "Json[Model]": pydantic.Json[Cat],
    "Secret": pydantic.Secret[date], "SecretStr": pydantic.SecretStr, "short SecretStr": Annotated[pydantic.SecretStr, Field(min_length=1, max_length=3)], "SecretBytes": pydantic.SecretBytes,
    "Base64Bytes": pydantic.Base64Bytes, "Base64Str": pydantic.Base64Str, "Base64UrlBytes": pydantic.Base64UrlBytes, "Base64UrlStr": pydantic.Base64UrlStr,
    "JsonValue": pydantic.JsonValue, "OnErrorOmit": list[pydantic.OnErrorOmit[int]],
    "AnyUrl": pydantic.AnyUrl, "AnyHttpUrl": pydantic.AnyHttpUrl, "HttpUrl": pydantic.HttpUrl, "FileUrl": pydantic.FileUrl, "FtpUrl": pydantic.FtpUrl,
    "WebsocketUrl": pydantic.WebsocketUrl, "AnyWebsocketUrl": pydantic.AnyWebsocketUrl, "PostgresDsn": pydantic.PostgresDsn, "CockroachDsn": pydantic.CockroachDsn,
    "AmqpDsn": pydantic.AmqpDsn, "RedisDsn": pydantic.RedisDsn, "MongoDsn": pydantic.MongoDsn, "KafkaDsn": pydantic.KafkaDsn, "NatsDsn": pydantic.NatsDsn,
    "MySQLDsn": pydantic.MySQLDsn, "MariaDBDsn": pydantic.MariaDBDsn, "ClickHouseDsn": pydantic.ClickHouseDsn, "SnowflakeDsn": pydantic.SnowflakeDsn,
    "own url": Annotated[pydantic.AnyUrl, pydantic.UrlConstraints(max_length=20, allowed_schemes=["git+ssh", "http"], host_required=True)],
    "IPvAnyAddress": pydantic.IPvAnyAddress, "IPvAnyInterface": pydantic.IPvAnyInterface, "IPvAnyNetwork": pydantic.IPvAnyNetwork,
    # models
    "tagged": Pets, "tagged in a list": Owner, "tagged by an alias": Annotated[Bird | Fish, Field(discriminator="kind")], "recursive": Tree, "generic": Box[date],
    "aliases": Aliases, "paths": Paths, "generated aliases": Generated, "by name": ByName, "strict": StrictOne, "stripping": Stripped, "extra": Extra,
    "hex": Hexed, "base64": Based, "root": Root, "python-re": Python,
}  # fmt: skip
