"""The schema of a task's params: what msgspec takes for the arguments fits it, and what does not fit is told."""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import partial, wraps
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypedDict
from uuid import UUID

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dibs import App
from dibs.domain.signature import DIALECT, schema_of

if TYPE_CHECKING:
    from nowhere import Unknown  # type: ignore[import-not-found]


@dataclass
class Point:
    x: int
    y: float = 0.0


@dataclass
class Tree:
    name: str
    children: list[Tree] = field(default_factory=list)


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Mixed(enum.Enum):
    """msgspec has no words for it."""

    ONE = 1
    TWO = "two"


class Row(NamedTuple):
    id: int
    name: str = ""


class Wish(TypedDict, total=False):
    size: int


class Cat(msgspec.Struct, tag=True, forbid_unknown_fields=True):
    lives: int


class Dog(msgspec.Struct, tag=True):
    tags: set[str] = msgspec.field(default_factory=lambda: {"good", "dog", "very"})


class Opaque:
    """No one can describe it."""


class Model:
    """Describes itself as a model of pydantic does: names of its own, and itself among them."""

    @classmethod
    def model_json_schema(cls, *, ref_template: str) -> dict[str, Any]:
        inner = {"type": "object", "properties": {"street": {"type": "string", "default": ""}}, "required": ["street"]}
        itself = {
            "type": "object",
            "properties": {
                "home": {"$ref": ref_template.format(model="Point")},  # a name that another type has too
                "boss": {"anyOf": [{"$ref": ref_template.format(model="Model")}, {"type": "null"}]},
            },
            "required": ["home"],
        }
        return {"$defs": {"Point": inner, "Model": itself}, "$ref": ref_template.format(model="Model")}


class Broken:
    @classmethod
    def model_json_schema(cls, *, ref_template: str) -> dict[str, Any]:
        raise RuntimeError("it cannot say")


def described(function: Callable[..., Any]) -> dict[str, Any]:
    return schema_of(function, signature(function))


def fits(schema: dict[str, Any], params: Any) -> bool:
    return jsonschema_rs.Draft202012Validator(json.dumps(schema), offline=True).is_valid(params)


def test_arguments_are_properties_by_name() -> None:
    def send(to: str, /, subject: str, *, copies: int = 1) -> None: ...

    schema = described(send)

    assert schema == {
        "$schema": DIALECT,
        "type": "object",
        "properties": {"to": {"type": "string"}, "subject": {"type": "string"}, "copies": {"type": "integer"}},
        "required": ["to", "subject"],
        "additionalProperties": False,
    }
    jsonschema_rs.meta.validate(schema)


def test_a_task_tells_its_schema() -> None:
    app = App("memory://")

    @app.task
    async def send(to: str, copies: int = 1) -> None: ...

    assert send.schema == send.options(priority=3).schema == send.sync.schema
    assert send.schema["required"] == ["to"]


def untyped(a, b=None): ...
def nothing() -> None: ...
def defaults(a: int, b: str = "x", c: float = 1.5) -> None: ...
def optional(a: int | None, b: str | None = None) -> None: ...
def implicit(a: str = None) -> None: ...  # type: ignore[assignment]  # noqa: RUF013 - people write it
def literal(a: Literal["x", 1] | None) -> None: ...
def colours(a: Colour, b: dict[Colour, int] | None = None) -> None: ...
def limits(
    a: Annotated[int, msgspec.Meta(ge=1, le=9)], b: Annotated[str, msgspec.Meta(pattern="^a")] = "a"
) -> None: ...
def classes(a: Point, b: Tree | None = None, c: Sequence[Point] = ()) -> None: ...
def rows(a: Row, b: tuple[int, str], c: tuple[int, ...] = ()) -> None: ...
def pets(a: Cat | Dog) -> None: ...
def wishes(a: Wish, b: Mapping[str, list[int]]) -> None: ...
def encoded(*, a: datetime, b: UUID, c: bytes, d: Decimal, e: timedelta, f: date) -> None: ...
def sets(a: set[int], b: frozenset[str]) -> None: ...
def others(a: int, **more: int) -> None: ...
def anything_else(a: int, **more) -> None: ...
def unknown(*, a: Unknown, b: int, c: list[Opaque], d: Mixed, e: Opaque | int, f: Iterable[int], g: Path) -> None: ...
def models(a: Model, b: Point, c: list[Model] = []) -> None: ...  # noqa: B006
def broken(a: Broken, b: int) -> None: ...


NOW, SOME = "2026-01-02T03:04:05Z", "00000000-0000-0000-0000-000000000000"
GOOD: list[tuple[Callable[..., Any], Any]] = [
    (untyped, {"a": [1], "b": {}}),
    (untyped, {"a": None}),
    (nothing, {}),
    (defaults, {"a": 1}),
    (defaults, {"a": 1, "b": "y", "c": 2}),
    (optional, {"a": None}),
    (optional, {"a": 1, "b": None}),
    (implicit, {}),
    (implicit, {"a": None}),
    (implicit, {"a": "x"}),
    (literal, {"a": "x"}),
    (literal, {"a": 1}),
    (literal, {"a": None}),
    (colours, {"a": "red", "b": {"blue": 1}}),
    (limits, {"a": 9, "b": "abc"}),
    (classes, {"a": {"x": 1}, "b": {"name": "r", "children": [{"name": "c"}]}, "c": [{"x": 1, "y": 2}]}),
    (rows, {"a": [1], "b": [1, "x"], "c": [1, 2, 3]}),
    (pets, {"a": {"type": "Cat", "lives": 9}}),
    (pets, {"a": {"type": "Dog", "tags": ["a", "a"]}}),
    (wishes, {"a": {}, "b": {"x": [1]}}),
    (encoded, {"a": NOW, "b": SOME, "c": "aGk=", "d": "1.5", "e": "PT1S", "f": "2026-01-02"}),
    (encoded, {"a": NOW, "b": SOME, "c": "aGk=", "d": 1.5, "e": "PT1S", "f": "2026-01-02"}),
    (sets, {"a": [1, 1], "b": ["x"]}),
    (others, {"a": 1, "b": 2}),
    (anything_else, {"a": 1, "b": "x"}),
    (unknown, {"a": 1, "b": 2, "c": [{}], "d": None, "e": [], "f": "x", "g": "/tmp"}),
    (models, {"a": {"home": {"street": "x"}, "boss": {"home": {"street": "y"}}}, "b": {"x": 1}}),
    (broken, {"a": [], "b": 1}),
]
BAD: list[tuple[Callable[..., Any], Any]] = [
    (untyped, {}),
    (untyped, {"a": 1, "c": 1}),
    (untyped, [1]),
    (nothing, {"a": 1}),
    (defaults, {}),
    (defaults, {"a": "1"}),
    (defaults, {"a": 1, "b": None}),
    (optional, {}),
    (optional, {"a": "x"}),
    (implicit, {"a": 1}),
    (literal, {"a": "y"}),
    (colours, {"a": "green"}),
    (limits, {"a": 10}),
    (limits, {"a": 1, "b": "b"}),
    (classes, {"a": {}}),
    (classes, {"a": {"x": 1}, "b": {"name": "r", "children": [{"name": 5}]}}),
    (classes, {"a": {"x": 1}, "c": [{"x": "1"}]}),
    (rows, {"a": [], "b": [1, "x"]}),
    (rows, {"a": [1], "b": [1, "x", 2]}),
    (pets, {"a": {"type": "Cow"}}),
    (pets, {"a": {"type": "Cat", "lives": 9, "name": "x"}}),
    (wishes, {"a": {"size": "x"}, "b": {}}),
    (encoded, {"a": 5, "b": SOME, "c": "aGk=", "d": "1.5", "e": "PT1S", "f": "2026-01-02"}),
    (sets, {"a": {}, "b": []}),
    (others, {"a": 1, "b": "x"}),
    (unknown, {"a": 1, "b": "x", "c": [{}], "d": None, "e": [], "f": "x", "g": "/tmp"}),
    (models, {"a": {"home": {"street": 5}}, "b": {"x": 1}}),
    (models, {"a": {"home": {"street": "x"}, "boss": {}}, "b": {"x": 1}}),
    (models, {"a": {"home": {"street": "x"}}, "b": {"x": 1}, "c": [{}]}),
    (broken, {"a": [], "b": "x"}),
]


@pytest.mark.parametrize(("function", "params"), GOOD, ids=lambda value: getattr(value, "__name__", None))
def test_what_fits(function: Callable[..., Any], params: Any) -> None:
    assert fits(described(function), params)


@pytest.mark.parametrize(("function", "params"), BAD, ids=lambda value: getattr(value, "__name__", None))
def test_what_does_not_fit(function: Callable[..., Any], params: Any) -> None:
    assert not fits(described(function), params)


def test_every_schema_is_one() -> None:
    for function in {function for function, _ in GOOD}:
        jsonschema_rs.meta.validate(described(function))


def test_what_no_one_can_describe_is_anything() -> None:
    described_as = described(unknown)["properties"]
    assert [name for name, schema in described_as.items() if schema == {}] == ["a", "d", "e", "f", "g"]
    assert described_as["c"] == {"type": "array", "items": {}}
    assert described_as["b"] == {"type": "integer"}


def test_defaults_are_left_out_and_fields_of_that_name_are_not() -> None:
    class Odd(TypedDict):
        default: int
        uniqueItems: str

    def odd(a: Dog) -> None: ...

    def named(a: int) -> None: ...

    named.__annotations__["a"] = Odd
    assert "very" not in json.dumps(described(odd))
    assert not fits(described(named), {"a": {"default": "x", "uniqueItems": "y"}})
    assert fits(described(named), {"a": {"default": 1, "uniqueItems": "y"}})


def test_callables_of_other_kinds() -> None:
    class Handler:
        def __call__(self, point: Point) -> None: ...

    @wraps(classes)
    def wrapped(*args: Any, **kwargs: Any) -> None: ...

    cases: list[tuple[Callable[..., Any], dict[str, Any]]] = [
        (Handler(), {"point": {"x": 1}}),
        (wrapped, {"a": {"x": 1}}),
        (partial(defaults), {"a": 1}),
    ]
    for function, params in cases:
        assert fits(described(function), params)
        assert not fits(described(function), {next(iter(params)): "x"})


KINDS: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (int, st.integers(-(2**63), 2**63 - 1)),
    (str, st.text(st.characters(exclude_categories=["Cs"]))),
    (float, st.floats(allow_nan=False, allow_infinity=False)),
    (bool, st.booleans()),
    (Colour, st.sampled_from(["red", "blue", "green"])),
    (Decimal, st.decimals(allow_nan=False, allow_infinity=False).map(str)),
    (Literal["a", 2], st.sampled_from(["a", 2, None])),
    (list[int], st.lists(st.integers(0, 9))),
    (set[int], st.lists(st.integers(0, 3))),
    (dict[str, float], st.dictionaries(st.sampled_from("abc"), st.floats(0, 1))),
    (tuple[int, str], st.tuples(st.integers(0, 9), st.sampled_from("abc")).map(list)),
    (Row, st.just([1, "x"])),
    (Point, st.fixed_dictionaries({"x": st.integers(0, 9)}, optional={"y": st.floats(0, 1), "z": st.none()})),
    (Cat | Dog, st.fixed_dictionaries({"type": st.sampled_from(["Cat", "Dog"])}, optional={"lives": st.just(9)})),
    (Annotated[int, msgspec.Meta(gt=3, multiple_of=2)], st.integers(0, 9)),
    (datetime, st.datetimes().map(datetime.isoformat)),
]
OWN = {id(kind): strategy for kind, strategy in KINDS}
VALUES = st.one_of(*(strategy for _, strategy in KINDS), st.none())


@given(st.lists(st.tuples(st.sampled_from([kind for kind, _ in KINDS]), st.booleans()), max_size=4), st.data())
def test_what_msgspec_accepts_fits(chosen: list[tuple[Any, bool]], data: st.DataObject) -> None:
    kinds: dict[str, Any] = {f"p{place}": kind | None if maybe else kind for place, (kind, maybe) in enumerate(chosen)}
    params = {
        name: data.draw(st.one_of(OWN[id(chosen[place][0])], VALUES), label=name) for place, name in enumerate(kinds)
    }
    source = ", ".join(f"{name}: kinds[{name!r}]" for name in kinds)
    scope: dict[str, Any] = {"kinds": kinds}
    exec(f"def function({source}): ...", scope)
    taken = msgspec.defstruct("Taken", list(kinds.items()))
    try:
        msgspec.json.decode(json.dumps(params).encode(), type=taken)
    except msgspec.ValidationError:
        return
    assert fits(described(scope["function"]), params)
