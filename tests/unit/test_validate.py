"""Bad input is named by its field, all of it at once; good input becomes one canonical form."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dibs.domain import checks
from dibs.domain.errors import InvalidJob, InvalidRequest, TooLarge
from dibs.domain.job import Order, Ref
from dibs.domain.newjob import NewJob
from dibs.domain.retry import SECOND
from dibs.domain.settings import DEFAULTS, Config
from dibs.domain.validate import draft, encode, fingerprint
from dibs.testing.conformance.broker.limits import BAD_JOBS, BAD_PARAMS
from tests.unit.strategies import NOW, json_values, texts

CONFIG = Config.of()
MIB = 2**20


def canonical(value: Any) -> bytes:
    return encode("params", value, MIB, InvalidJob)


def problems(new: NewJob) -> list[str]:
    with pytest.raises(InvalidJob) as raised:
        draft(new, CONFIG, "id")
    return sorted(raised.value.fields)


def shuffled(value: Any) -> Any:
    """Turn round the order of every object's keys."""
    if isinstance(value, dict):
        return {key: shuffled(item) for key, item in reversed(value.items())}
    return [shuffled(item) for item in value] if isinstance(value, list) else value


@given(json_values)
def test_encode_and_decode_give_the_same_value(value: Any):
    assert msgspec.json.decode(canonical(value)) == value
    assert json.loads(canonical(value)) == value


@given(json_values)
def test_encode_is_canonical_and_idempotent(value: Any):
    once = canonical(value)

    assert canonical(msgspec.json.decode(once)) == once
    assert canonical(json.loads(once)) == once
    assert canonical(shuffled(value)) == once


@given(json_values, json_values)
def test_encode_tells_different_values_apart(one: Any, other: Any):
    assume(one != other)
    assert canonical(one) != canonical(other)


@given(json_values, st.sampled_from([float("nan"), float("inf"), -float("inf")]))
def test_encode_finds_what_is_not_a_number_wherever_it_is(value: Any, bad: float):
    for params in (bad, [value, bad], {"a": {"b": [value, {"c": bad}]}}, {"x": None, "y": bad}):
        with pytest.raises(InvalidJob) as raised:
            canonical(params)
        [field] = raised.value.fields
        assert field.startswith("params")
    with pytest.raises(InvalidJob) as raised:
        canonical({"a": {"b": [value, {"c": bad}]}})
    assert raised.value.fields == ("params.a.b[1].c",)


@pytest.mark.parametrize("number", [2**53, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), 1e308, 5e-324, -0.0])
def test_encode_keeps_numbers_as_they_are(number: float):
    assert msgspec.json.decode(canonical(number)) == number


@pytest.mark.parametrize("value", BAD_PARAMS, ids=lambda _: "bad")
def test_encode_refuses_what_is_not_json(value: Any):
    with pytest.raises(InvalidRequest) as raised:
        encode("result", value, MIB, InvalidRequest)
    assert all(field.startswith("result") for field in raised.value.fields)


def test_encode_refuses_what_is_nested_without_end():
    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]
    endless: list[Any] = []
    endless.append(endless)
    for value in (deep, endless, {"a": endless}, 10**5000):
        with pytest.raises(InvalidJob) as raised:
            canonical(value)
        assert raised.value.fields == ("params",)


@given(st.integers(1, 100))
def test_encode_measures_bytes(limit: int):
    assert len(encode("params", "x" * (limit - 2) if limit > 1 else 1, limit, InvalidJob)) == limit
    with pytest.raises(TooLarge) as raised:
        encode("params", "ü" * limit, limit, InvalidJob)
    assert (raised.value.size, raised.value.limit) == (2 * limit + 2, limit)


@pytest.mark.parametrize(("field", "value"), BAD_JOBS)
def test_every_bad_value_is_named_by_its_field(field: str, value: Any):
    parts: dict[str, Any] = {"task": "task", field: value}
    assert all(name.startswith(field) for name in problems(NewJob(**parts)))


def test_all_problems_are_told_at_once():
    new = NewJob(
        "",
        float("nan"),
        id="a/b",
        queue="..",
        priority="urgent",
        delay=-1,
        scheduled_at=datetime(2030, 1, 1),  # noqa: DTZ001 - that is what is wrong with it
        max_attempts=0,
        retry=5,  # type: ignore[arg-type]
        timeout=0,
        lease=0,
        retention=-1,
        idempotency_key="",
        unique=True,
        unique_key="k" * 256,
        batch="\0",
        tags=["", "ok"],
        trace={"a": 5},  # type: ignore[dict-item]
    )
    assert set(problems(new)) == {
        "task", "params", "id", "queue", "priority", "delay", "scheduled_at", "max_attempts", "retry", "timeout",
        "lease", "retention", "idempotency_key", "unique_key", "batch", "tags[0]", "trace['a']",
    }  # fmt: skip


def test_problems_come_before_what_is_too_large():
    assert problems(NewJob("", "x" * MIB)) == ["task"]
    with pytest.raises(TooLarge):
        draft(NewJob("t", "x" * MIB), CONFIG, "id")


def test_tags_that_can_be_read_only_once_are_refused():
    assert problems(NewJob("t", tags=iter(["a"]))) == ["tags"]  # type: ignore[arg-type]
    assert draft(NewJob("t", tags=("b", "a", "b")), CONFIG, "id").terms.tags == ("b", "a")


@given(st.text(st.characters(codec="utf-8"), max_size=140))
def test_names_and_ids_are_those_of_the_contract(text: str):
    allowed = set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:-")
    fits = 1 <= len(text) <= 128 and set(text) <= allowed and text not in {".", ".."}
    assert (checks.check_id("id", text) == []) == fits
    segments = text.split("/")
    named = len(text) <= 128 and all(s and set(s) <= allowed and s not in {".", ".."} for s in segments)
    assert (checks.check_name("queue", text) == []) == named


@given(st.from_regex(r"[A-Za-z0-9_.:-]{1,128}", fullmatch=True).filter(lambda id: id not in {".", ".."}))
def test_every_legal_id_is_taken(id: str):
    assert draft(NewJob(id, id=id, queue=id), CONFIG, "other").id == id


@given(st.datetimes(timezones=st.timezones() | st.just(timezone(timedelta(hours=14)))))
def test_any_time_with_an_offset_is_read_exactly_or_refused(moment: datetime):
    try:
        utc = moment.astimezone(UTC)
    except OverflowError:
        assert checks.check_time("scheduled_at", moment)
        return
    made = draft(NewJob("t", scheduled_at=moment), CONFIG, "id")
    job = made.job(-(10**18))  # long before: nothing but the time itself decides

    assert job.scheduled_at == utc


@given(st.integers() | st.floats() | st.sampled_from([10**400, -(10**400), True, None, "5"]))
def test_durations_are_checked_and_then_always_fit(value: Any):
    if checks.check_duration("delay", value, least=0):
        with pytest.raises(InvalidRequest):
            checks.seconds("delay", value)
        return
    made = draft(NewJob("t", delay=value), CONFIG, "id")
    assert 0 <= made.due(NOW) - NOW <= checks.MAX_DURATION * SECOND


@given(st.integers() | st.floats() | texts | st.none())
def test_priorities_are_numbers_in_range_or_names(value: Any):
    fits = (isinstance(value, int) and -32768 <= value <= 32767) or value in {"low", "normal", "high"}
    assert (checks.check_priority(value) == []) == fits


@given(st.one_of(st.integers(), st.floats(), texts, st.none(), st.lists(texts), st.binary()))
def test_checks_are_total(value: Any):
    for check in (checks.check_id, checks.check_name, checks.check_names, checks.check_time):
        assert isinstance(check("field", value), list)
    for check_one in (
        checks.check_order,
        checks.check_worker_id,
        checks.check_tags,
        checks.check_trace,
        checks.check_ref,
    ):
        assert isinstance(check_one(value), list)
    assert isinstance(checks.check_ref(Ref(value, value, value), "x."), list)
    assert isinstance(checks.check_defaults(dict.fromkeys(DEFAULTS, value)), list)


@pytest.mark.parametrize("order", Order)
def test_orders(order: Order):
    assert checks.check_order(order) == checks.check_order(order.value) == []


@given(json_values, json_values, texts, texts)
def test_unique_stands_for_task_queue_and_params(one: Any, other: Any, task: str, queue: str):
    same = fingerprint(task, queue, canonical(one)) == fingerprint(task, queue, canonical(other))

    assert same == (canonical(one) == canonical(other))
    assert len(fingerprint(task, queue, canonical(one))) <= checks.MAX_KEY
    assert fingerprint("a", "bc", b"1") != fingerprint("ab", "c", b"1")
