"""Arguments as annotations want them: what is made of params, and what is refused, with the field named."""

import datetime as dt
import enum
import inspect
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dibs.domain.arguments import Arguments
from dibs.domain.errors import InvalidJob


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: float = 0.0


class Line(msgspec.Struct):
    points: list[Point]
    inner: "Line | None" = None


class Unknown:
    """What neither msgspec nor pydantic knows."""


def arguments(function: Callable[..., Any]) -> Arguments:
    return Arguments(function, inspect.signature(function))


def of(kind: Any, default: Any = inspect.Parameter.empty) -> Arguments:
    """Those of a function with one argument, named it."""
    it = inspect.Parameter("it", inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)
    return Arguments(lambda: None, inspect.Signature([it]))


KINDS = [
    (int, 1, 1),
    (float, 1.5, 1.5),
    (str, "a", "a"),
    (bytes, b"ab", "YWI="),
    (dt.datetime, dt.datetime(2026, 1, 2, 3, 4, tzinfo=dt.UTC), "2026-01-02T03:04:00Z"),
    (dt.date, dt.date(2026, 1, 2), "2026-01-02"),
    (dt.timedelta, dt.timedelta(seconds=90), "PT90S"),
    (uuid.UUID, uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    (Decimal, Decimal("1.50"), "1.50"),
    (Colour, Colour.RED, "red"),
    (Literal["a", 2], 2, 2),
    (Point, Point(1, 2.5), {"x": 1, "y": 2.5}),
    (Line, Line([Point(1)], Line([])), {"points": [{"x": 1, "y": 0.0}], "inner": {"points": [], "inner": None}}),
    (list[Point], [Point(1)], [{"x": 1, "y": 0.0}]),
    (dict[int, set[str]], {1: {"a"}}, {"1": ["a"]}),
    (tuple[int, str], (1, "a"), (1, "a")),
    (int | None, None, None),
    (Point | str, Point(1), {"x": 1, "y": 0.0}),
    (Annotated[int, msgspec.Meta(ge=0)], 3, 3),
    (Any, {"a": [1]}, {"a": [1]}),
    ("no such name", 1, 1),
]


@pytest.mark.parametrize(("kind", "value", "sent"), KINDS, ids=[str(kind) for kind, _, _ in KINDS])
def test_there_and_back(kind: Any, value: Any, sent: Any) -> None:
    its = of(kind)
    assert its.as_sent({"it": value}) == {"it": sent}
    made = its.made_from({"it": sent})
    assert made == {"it": value}
    assert type(made["it"]) is type(value)


@pytest.mark.parametrize(
    ("kind", "bad", "field", "message"),
    [
        (int, "1", "params.it", "expected `int`, got `str`"),
        (int, True, "params.it", "expected `int`, got `bool`"),
        (int, 1.5, "params.it", "expected `int`, got `float`"),
        (str, 1, "params.it", "expected `str`, got `int`"),
        (str, None, "params.it", "expected `str`, got `null`"),
        (Point, {"y": 1.0}, "params.it", "object missing required field `x`"),
        (list[Point], [{"x": 1}, {"x": "a"}], "params.it[1].x", "expected `int`, got `str`"),
        (Colour, "blue", "params.it", "invalid enum value 'blue'"),
        (dt.date, "soon", "params.it", "invalid RFC3339 encoded date"),
        (Annotated[int, msgspec.Meta(ge=0)], -1, "params.it", "expected `int` >= 0"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(kind: Any, bad: Any, field: str, message: str) -> None:
    for refuses in (of(kind).made_from, of(kind).as_sent):
        with pytest.raises(InvalidJob) as refused:
            refuses({"it": bad})
        assert refused.value.problems == ((field, message),)


@pytest.mark.parametrize("kind", [Unknown, list[Unknown], Unknown | int, Callable[[], None], "Unknown"])
def test_a_type_that_no_one_knows_is_passed_on_as_it_came(kind: Any) -> None:
    value = {"as": ["it", "came"]}
    assert of(kind).made_from({"it": value}) == {"it": value}


def test_a_default_of_none_means_that_it_may_be() -> None:
    assert of(str, None).made_from({"it": None}) == {"it": None}
    with pytest.raises(InvalidJob):
        of(str, "a").made_from({"it": None})


def test_what_is_left_out_stays_out_and_others_come_as_they_are() -> None:
    def function(a: int, b: dt.date = dt.date(2026, 1, 1), **rest: int) -> None: ...

    assert arguments(function).made_from({"a": 1, "c": "x"}) == {"a": 1, "c": "x"}
    assert arguments(function).as_sent({"a": 1, "c": dt.date(2026, 1, 2)}) == {"a": 1, "c": "2026-01-02"}


def test_what_is_no_json_is_left_to_whoever_encodes_it() -> None:
    circle: list[Any] = []
    circle.append(circle)
    for value in (object(), circle, {"a": {1, object()}}):
        assert of(Any).as_sent({"it": value})["it"] is value


def test_what_is_passed_on_is_not_the_caller_s_own() -> None:
    """A handler that changes its arguments does not change the job."""
    params = {"it": 1}
    made = of(Any).made_from(params)
    made["it"] = 2
    assert params == {"it": 1}


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(value=_json, kind=st.sampled_from([int, str, float, bool, list[int], Point, dict[str, int], int | None, Any]))
def test_anything_is_taken_as_it_should_be_or_refused(value: Any, kind: Any) -> None:
    its = of(kind)
    try:
        made = its.made_from({"it": value})
    except InvalidJob as error:
        fields = [field for field, _ in error.problems]
    else:
        fields = []
        assert its.made_from(its.as_sent(made)) == made
    assert all(field.startswith("params.it") for field in fields)
