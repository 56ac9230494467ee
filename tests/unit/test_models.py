"""Arguments that are pydantic's: real models, and what can be made of them."""

import datetime as dt
import enum
import inspect
import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, TypeVar

import jsonschema_rs
import msgspec
import pydantic
import pytest
from pydantic import AnyUrl, BaseModel, ConfigDict, Field, RootModel, SecretStr, field_serializer
from pydantic.dataclasses import dataclass as checked_dataclass

from dibs.domain.arguments import Arguments
from dibs.domain.errors import InvalidJob, InvalidRequest
from dibs.domain.signature import schema_of
from dibs.domain.validate import encode

T = TypeVar("T")


class Colour(enum.Enum):
    RED = "red"


class Address(BaseModel):
    street: str
    code: int = Field(gt=0, alias="postcode")


class Order(BaseModel):
    model_config = ConfigDict(extra="forbid")

    number: int
    due: dt.datetime
    price: Decimal = Decimal("9.99")
    to: Address
    others: list[Address] = []
    colour: Colour = Colour.RED
    tags: set[str] = set()


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    name: str


class Page(BaseModel, Generic[T]):
    items: list[T]


class Ids(RootModel[list[int]]): ...


class Tree(BaseModel):
    name: str
    children: "list[Tree]" = []


class Strict(BaseModel):
    """Takes no text for a time, but for one in JSON, which has nothing else."""

    model_config = ConfigDict(strict=True)

    at: dt.datetime
    id: uuid.UUID


class Even(BaseModel):
    n: int

    @pydantic.field_validator("n")
    @classmethod
    def is_even(cls, value: int) -> int:
        if value % 2:
            raise ValueError("must be even")
        return value

    @pydantic.model_validator(mode="after")
    def is_small(self) -> "Even":
        if self.n > 100:
            raise ValueError("Is too much")
        return self


@checked_dataclass
class Positive:
    n: Annotated[int, Field(gt=0)]


@dataclass
class Parcel:
    """Not pydantic's, but one of its models is inside."""

    order: Even


class Crate(msgspec.Struct):
    """Unknown to pydantic."""

    pet: Cat


def taking(kind: Any, default: Any = inspect.Parameter.empty) -> tuple[Callable[..., None], inspect.Signature]:
    def function(**_: Any) -> None: ...

    it = inspect.Parameter("it", inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)
    return function, inspect.Signature([it])


def of(kind: Any, default: Any = inspect.Parameter.empty) -> Arguments:
    return Arguments(*taking(kind, default))


def fits(kind: Any, sent: Any) -> bool:
    schema = json.dumps(schema_of(*taking(kind)))
    return jsonschema_rs.Draft202012Validator(schema, offline=True).is_valid({"it": sent})


HOME = Address(street="s", postcode=3)
HOME_SENT = {"street": "s", "postcode": 3}
ORDER = Order(number=1, due=dt.datetime(2026, 5, 1, tzinfo=dt.UTC), to=HOME, others=[HOME], tags={"x"})
ORDER_SENT = {
    "number": 1,
    "due": "2026-05-01T00:00:00Z",
    "price": "9.99",
    "to": HOME_SENT,
    "others": [HOME_SENT],
    "colour": "red",
    "tags": ["x"],
}
KINDS: list[tuple[Any, Any, Any]] = [
    (Address, HOME, HOME_SENT),
    (Order, ORDER, ORDER_SENT),
    (list[Order], [ORDER], [ORDER_SENT]),
    (dict[str, Order], {"a": ORDER}, {"a": ORDER_SENT}),
    (tuple[int, Address], (5, HOME), (5, HOME_SENT)),
    (Order | None, None, None),
    (Order | None, ORDER, ORDER_SENT),
    (Cat | Dog, Dog(name="d"), {"kind": "dog", "name": "d"}),
    (Cat | str, "tom", "tom"),
    (Annotated[Cat | Dog, Field(discriminator="kind")], Cat(lives=9), {"kind": "cat", "lives": 9}),
    (Page[Cat], Page[Cat](items=[Cat(lives=1)]), {"items": [{"kind": "cat", "lives": 1}]}),
    (Ids, Ids([1, 2]), [1, 2]),
    (Tree, Tree(name="a", children=[Tree(name="b")]), {"name": "a", "children": [{"name": "b", "children": []}]}),
    (
        Strict,
        Strict(at=dt.datetime(2026, 5, 1, tzinfo=dt.UTC), id=uuid.UUID(int=3)),
        {"at": "2026-05-01T00:00:00Z", "id": "00000000-0000-0000-0000-000000000003"},
    ),
    (Annotated[int, Field(gt=0)], 5, 5),
    (Positive, Positive(3), {"n": 3}),
    (Parcel, Parcel(Even(n=2)), {"order": {"n": 2}}),
    (Crate, Crate(Cat(lives=1)), {"pet": {"kind": "cat", "lives": 1}}),
    (list[Crate], [Crate(Cat(lives=1))], [{"pet": {"kind": "cat", "lives": 1}}]),
]


@pytest.mark.parametrize(("kind", "value", "sent"), KINDS, ids=[str(kind) for kind, _, _ in KINDS])
def test_there_and_back(kind: Any, value: Any, sent: Any) -> None:
    its = of(kind)
    assert its.as_sent({"it": value}) == {"it": sent}
    made = its.made_from(json.loads(json.dumps({"it": sent})))
    assert made == {"it": value}
    assert type(made["it"]) is type(value)
    assert fits(kind, json.loads(json.dumps(sent)))


BAD: list[tuple[Any, Any, list[tuple[str, str]]]] = [
    (
        Order,
        {"number": "x", "to": {"street": 1, "postcode": 0}, "zzz": 1},
        [
            ("params.it.number", "input should be a valid integer, unable to parse string as an integer"),
            ("params.it.due", "field required"),
            ("params.it.to.street", "input should be a valid string"),
            ("params.it.to.postcode", "input should be greater than 0"),
            ("params.it.zzz", "extra inputs are not permitted"),
        ],
    ),
    (list[Order], [ORDER_SENT, {**ORDER_SENT, "others": [{}]}], [("params.it[1].others[0].street", "field required")]),
    (Even, {"n": 3}, [("params.it.n", "must be even")]),
    (Even, {"n": 102}, [("params.it", "is too much")]),
    (dict[str, Even], {"a": {"n": 1}}, [("params.it.a.n", "must be even")]),
    (Even | None, 5, [("params.it", "input should be an object")]),
    (Annotated[int, Field(gt=0)], -5, [("params.it", "input should be greater than 0")]),
    (Positive, {"n": -5}, [("params.it.n", "input should be greater than 0")]),
    (Parcel, {"order": {"n": 1}}, [("params.it.order.n", "must be even")]),
    (Crate, {"pet": {"lives": "?"}}, [("params.it.pet.lives", "input should be a valid integer")]),
]


@pytest.mark.parametrize(("kind", "bad", "problems"), BAD, ids=[str(kind) for kind, _, _ in BAD])
def test_what_does_not_fit_is_refused_by_field(kind: Any, bad: Any, problems: list[tuple[str, str]]) -> None:
    for refuses in (of(kind).made_from, of(kind).as_sent):
        with pytest.raises(InvalidJob) as refused:
            refuses({"it": bad})
        told = dict(refused.value.problems)
        for field, message in problems:
            assert told[field].startswith(message)


@pytest.mark.parametrize(
    ("kind", "bad"),
    [
        (Order, {"number": 1}),
        (Cat | Dog, {"kind": "cow"}),
        (list[Address], [{"street": "s", "code": 3}]),
        (Positive, {"n": 0}),
        (Crate, {"pet": {}}),
    ],
)
def test_the_schema_refuses_the_same(kind: Any, bad: Any) -> None:
    assert not fits(kind, bad)


def test_all_that_is_wrong_is_told_at_once() -> None:
    def function(a: Even, b: Even, c: int) -> None: ...

    its = Arguments(function, inspect.signature(function))
    with pytest.raises(InvalidJob) as refused:
        its.made_from({"a": {"n": 1}, "b": {"n": 1}, "c": 1})
    assert set(refused.value.fields) == {"params.a.n", "params.b.n"}
    assert its.made_from({"b": {"n": 2}}) == {"b": Even(n=2)}  # what is left out stays out


def test_models_of_one_name_are_told_apart() -> None:
    inner = pydantic.create_model("Address", floor=(int, ...))
    other = pydantic.create_model("Order", to=(inner, ...))

    def function(a: Any, b: Any) -> None: ...

    function.__annotations__.update(a=Order, b=other)
    schema = schema_of(function, inspect.signature(function))
    jsonschema_rs.meta.validate(schema)
    its = jsonschema_rs.Draft202012Validator(json.dumps(schema), offline=True)
    assert its.is_valid({"a": ORDER_SENT, "b": {"to": {"floor": 1}}})
    assert not its.is_valid({"a": ORDER_SENT, "b": {"to": HOME_SENT}})


def test_a_default_of_none_means_that_it_may_be() -> None:
    assert of(Order, None).made_from({"it": None}) == {"it": None}


def test_a_secret_is_not_sent_as_stars() -> None:
    class Login(BaseModel):
        password: SecretStr

    class Shown(Login):
        @field_serializer("password")
        def show(self, value: SecretStr) -> str:
            return value.get_secret_value()

    with pytest.raises(InvalidJob, match=r"params\.it\[0\]|params\.it: has a secret"):
        of(list[Login]).as_sent({"it": [Login(password=SecretStr("x"))]})
    shown = Shown(password=SecretStr("x"))
    assert of(Shown).made_from(of(Shown).as_sent({"it": shown})) == {"it": shown}
    assert of(str).as_sent({"it": "**********"}) == {"it": "**********"}


def test_a_model_that_cannot_be_described_is_made_all_the_same() -> None:
    class Odd(BaseModel):
        model_config = ConfigDict(arbitrary_types_allowed=True)

        n: int
        then: Callable[[], None] | None = Field(default=None, exclude=True)

    assert of(Odd).made_from(of(Odd).as_sent({"it": Odd(n=1)})) == {"it": Odd(n=1)}
    assert fits(Odd, {"anything": 1})


def test_what_a_handler_returns_may_be_a_model() -> None:
    told = {"order": ORDER, "all": [HOME]}
    assert json.loads(encode("result", told, 10_000, InvalidRequest)) == {"order": ORDER_SENT, "all": [HOME_SENT]}
    with pytest.raises(InvalidRequest, match="AnyUrl"):
        encode("result", AnyUrl("https://example.org"), 10_000, InvalidRequest)
    with pytest.raises(InvalidRequest, match="result: is not JSON"):
        encode("result", Order, 10_000, InvalidRequest)
