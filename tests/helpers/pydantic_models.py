"""Models, enumerations, dataclasses and dictionaries of all kinds that Pydantic describes."""

import dataclasses
import enum
import uuid
from datetime import UTC, date, timedelta
from decimal import Decimal
from typing import (
    Annotated,
    Generic,
    Literal,
    NamedTuple,
    NotRequired,
    Required,
    TypeVar,
)

import pydantic
from pydantic import AliasChoices, AliasPath, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from typing_extensions import TypedDict

UTC = UTC
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
