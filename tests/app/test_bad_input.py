"""Whatever is given, the answer is a clear error that names the field, and nothing is half done."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from typing import Any

import pytest

import dibs
from dibs import App, FakeClock, IdempotencyMismatch, Invalid, InvalidJob, InvalidRequest, NewJob, TooLarge

MIB = 1024 * 1024

TEXTS: dict[str, Any] = {
    "empty": "",
    "NUL": "a\0b",
    "lone surrogate": "a\ud800",
    "line break": "a\r\nb",
    "braces": "{a}{b}",
    "dots": "../",
    "a dot": ".",
    "an empty segment": "a//b",
    "10 kB": "x" * 10_000,
    "bytes": b"a",
    "number": 5,
    "list": ["a"],
    "bool": True,
}
NAMES = {**TEXTS, "space": "a b", "bidi": "a\u202eb", "letter": "é"}
DURATIONS: dict[str, Any] = {
    "negative": -1,
    "huge": 1e18,
    "NaN": float("nan"),
    "infinite": float("inf"),
    "text": "5",
    "bool": True,
    "negative timedelta": timedelta(seconds=-1),
    "integer without end": 10**400,
}
LENGTHS = {**DURATIONS, "zero": 0}
INTEGERS: dict[str, Any] = {"zero": 0, "negative": -1, "float": 1.5, "text": "1", "bool": True, "huge": 2**80}
LISTS: dict[str, Any] = {"text": "abc", "empty": [], "number": 5, "bad name": ["a", "../"], "of numbers": [5]}


def deep(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def endless() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["self"] = value
    return value


PARAMS: dict[str, Any] = {
    "NaN": {"a": [float("nan")]},
    "Infinity": float("inf"),
    "10**400": {"n": 10**400},
    "2**64": 2**64,
    "-2**64": [-(2**64)],
    "10,000 deep": deep(10_000),
    "contains itself": endless(),
    "object": object(),
    "lone surrogate": {"a": "\ud800"},
    "lone surrogate in a key": {"\ud800": 1},
    "function": print,
    "keys that are no texts": {(1, 2): 3},
}


def cases(table: dict[str, Any], *but: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "value", [pytest.param(value, id=name) for name, value in table.items() if name not in but]
    )


@pytest.fixture
async def quiet(app: App) -> AsyncIterator[App]:
    """An app with one job of each kind, which must be as it was in the end."""
    await app.enqueue("t", id="pending")
    await app.enqueue("t", id="claimed", priority=1)
    claim = await app.claim("w", lease=3600)
    assert claim is not None
    await app.enqueue("t", id="failed", priority=1)
    dead = await app.claim("w")
    assert dead is not None
    await dead.fail("x", retryable=False)
    before = [job async for job in app.find()]
    log = [await app.log(job.id) for job in before]
    yield app
    assert [job async for job in app.find()] == before
    assert [await app.log(job.id) for job in before] == log
    assert (await app.queues())[0].paused is False


async def refused(call: Awaitable[Any], field: str, kind: type[Invalid] = InvalidJob) -> None:
    with pytest.raises(kind) as caught:
        await call
    assert any(name.split("[")[0].split(".")[0] == field for name in caught.value.fields), caught.value.fields
    assert str(caught.value)


# Enqueue


@cases(NAMES)
@pytest.mark.parametrize("field", ["task", "queue"])
async def test_enqueue_names(quiet: App, field: str, value: Any) -> None:
    if field == "task":
        await refused(quiet.enqueue(value), "task")
    else:
        await refused(quiet.enqueue("t", queue=value), "queue")


@cases(NAMES)
async def test_enqueue_id(quiet: App, value: Any) -> None:
    await refused(quiet.enqueue("t", id=value), "id")


@cases(TEXTS, "braces", "dots", "a dot", "an empty segment")
@pytest.mark.parametrize("field", ["idempotency_key", "unique_key", "batch"])
async def test_enqueue_keys(quiet: App, field: str, value: Any) -> None:
    await refused(quiet.enqueue("t", **{field: value}), field)


@cases(
    {
        "text": "abc",
        "number": 5,
        "NUL": ["a\0"],
        "surrogate": ["\ud800"],
        "empty": [""],
        "long": ["x" * 200],
        "many": [str(number) for number in range(100)],
        "of numbers": [1],
    }
)
async def test_enqueue_tags(quiet: App, value: Any) -> None:
    await refused(quiet.enqueue("t", tags=value), "tags")


@cases(DURATIONS)
async def test_enqueue_delay(quiet: App, value: Any) -> None:
    await refused(quiet.enqueue("t", delay=value), "delay")


@cases(LENGTHS)
@pytest.mark.parametrize("field", ["lease", "timeout"])
async def test_enqueue_lengths(quiet: App, field: str, value: Any) -> None:
    await refused(quiet.enqueue("t", **{field: value}), field)


@cases({**DURATIONS, "fields": dibs.Retention(completed=-1)})
async def test_enqueue_retention(quiet: App, value: Any) -> None:
    await refused(quiet.enqueue("t", retention=value), "retention")


@cases({"text": "x", "number": 5, "base": dibs.Backoff(base=-1), "cap": dibs.Backoff(cap=float("nan"))})
async def test_enqueue_retry(quiet: App, value: Any) -> None:
    await refused(quiet.enqueue("t", retry=value), "retry")


@cases({**INTEGERS, "many": 10**9})
async def test_enqueue_max_attempts(quiet: App, value: Any) -> None:
    await refused(quiet.enqueue("t", max_attempts=value), "max_attempts")


@cases({"text": "urgent", "float": 1.5, "bool": True, "high": 32768, "low": -32769, "list": [1]})
async def test_enqueue_priority(quiet: App, value: Any) -> None:
    await refused(quiet.enqueue("t", priority=value), "priority")


@cases(
    {
        "naive": datetime(2030, 1, 1),  # noqa: DTZ001 - that is the point
        "text": "2030-01-01T00:00:00Z",
        "number": 1_900_000_000,
        "past the last year": datetime.max.replace(tzinfo=timezone(timedelta(hours=-12))),
    }
)
async def test_enqueue_scheduled_at(quiet: App, value: Any) -> None:
    await refused(quiet.enqueue("t", scheduled_at=value), "scheduled_at")


@pytest.mark.parametrize("year", [1, 1969, 9998])
async def test_enqueue_scheduled_at_the_edges_of_time_is_readable(app: App, year: int) -> None:
    job = await app.enqueue("t", scheduled_at=datetime(year, 12, 31, tzinfo=UTC))
    again = await app.get(job.id)
    assert again is not None
    assert again.scheduled_at is not None
    assert (await app.claim() is None) == (year == 9998)


@pytest.mark.parametrize(
    "options",
    [
        {"delay": 1, "scheduled_at": datetime(2030, 1, 1, tzinfo=UTC)},
        {"unique": True, "unique_key": "k"},
        {"colour": 1},
    ],
)
async def test_enqueue_options_that_do_not_go_together(quiet: App, options: dict[str, Any]) -> None:
    await refused(quiet.enqueue("t", **options), list(options)[-1])


@cases(PARAMS)
async def test_enqueue_params(quiet: App, value: Any) -> None:
    await refused(quiet.enqueue("t", value), "params")


async def test_enqueue_params_one_byte_too_large(quiet: App) -> None:
    with pytest.raises(TooLarge, match="params"):
        await quiet.enqueue("t", "x" * (MIB - 1))


@pytest.mark.parametrize("text", ["a\u202eb", "a\0b", "<b>&", "{a}{b}", "\r\n", "\U0001f600", "x" * (MIB - 2)])
async def test_enqueue_params_take_any_text(app: App, text: str) -> None:
    job = await app.enqueue("t", text)
    again = await app.get(job.id)
    assert again is not None
    assert again.params == text


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63), 2**64 - 1, 1e308, 0.1])
async def test_enqueue_params_take_any_number_of_64_bits(app: App, number: float) -> None:
    job = await app.enqueue("t", [number])
    again = await app.get(job.id)
    assert again is not None
    assert again.params == [number]


async def test_enqueue_tells_all_problems_at_once(quiet: App) -> None:
    with pytest.raises(InvalidJob) as caught:
        await quiet.enqueue("", queue="../", lease=-1, priority="urgent", tags=5)  # type: ignore[arg-type]
    assert set(caught.value.fields) == {"task", "queue", "lease", "priority", "tags"}


@pytest.mark.parametrize("key", ["id", "idempotency_key"])
async def test_enqueue_one_key_with_another_payload(app: App, key: str) -> None:
    options: Any = {key: "k"}
    first = await app.enqueue("t", {"a": 1}, **options)
    others: list[Any] = [("t", {"a": 2}, {}), ("u", {"a": 1}, {}), ("t", {"a": 1}, {"queue": "q"})]
    for task, params, more in others:
        with pytest.raises(IdempotencyMismatch, match=key):
            await app.enqueue(task, params, **options, **more)
    assert (await app.enqueue("t", {"a": 1}, **options)).id == first.id
    assert (await app.counts()).pending == 1


@pytest.mark.parametrize(
    ("jobs", "field"),
    [
        ([NewJob("t"), NewJob("../"), NewJob("t", float("nan"))], "jobs"),
        ([NewJob("t"), "t"], "jobs"),
        ("t", "jobs"),
        (5, "jobs"),
        ({"task": "t"}, "jobs"),
        ([NewJob("t")] * 1001, "jobs"),
        ([NewJob(5)], "task"),  # type: ignore[arg-type]
    ],
)
async def test_enqueue_many_refuses_all_of_them(quiet: App, jobs: Any, field: str) -> None:
    await refused(quiet.enqueue_many(jobs), field)


async def test_enqueue_many_too_much(quiet: App) -> None:
    with pytest.raises(TooLarge, match="jobs"):
        await quiet.enqueue_many([NewJob("t", "x" * (MIB - 2))] * 17)
    with pytest.raises(TooLarge, match=r"jobs\[1\]\.params"):
        await quiet.enqueue_many([NewJob("t"), NewJob("t", "x" * MIB)])


async def test_enqueue_many_names_the_bad_one_by_its_index(quiet: App) -> None:
    with pytest.raises(InvalidJob) as caught:
        await quiet.enqueue_many([NewJob("t"), NewJob("../"), NewJob("t", object())])
    assert caught.value.fields == ("jobs[1].task", "jobs[2].params")


# Claim


CLAIM: list[tuple[str, dict[str, Any]]] = [
    ("worker_id", {**TEXTS, "dot": "a.b", "slash": "a/b", "letter": "é"}),
    ("queues", LISTS),
    ("tasks", LISTS),
    ("min_attempts_left", INTEGERS),
    ("order", {"unknown": "best", "number": 5, "list": ["priority"]}),
    ("lease", LENGTHS),
    ("wait", DURATIONS),
    ("id", NAMES),
]


@pytest.mark.parametrize(
    ("field", "value"),
    [pytest.param(field, value, id=f"{field}-{name}") for field, t in CLAIM for name, value in t.items()],
)
async def test_claim(quiet: App, field: str, value: Any) -> None:
    await refused(quiet.claim(**{field: value}), field, InvalidRequest)
    if field != "id":
        await refused(quiet.claim_many(**{"limit": 1, field: value}), field, InvalidRequest)
    if field not in {"id", "wait"}:
        await refused(anext(aiter(quiet.claims(**{field: value}))), field, InvalidRequest)


@cases({**INTEGERS, "many": 10**9, "one too many": 1001})
async def test_claim_limit(quiet: App, value: Any) -> None:
    await refused(quiet.claim_many(limit=value), "limit", InvalidRequest)


@cases({"zero": 0, "negative": -1, "float": 1.0, "text": "1", "bool": True, "huge": 2**64})
async def test_claimed_fence(quiet: App, value: Any) -> None:
    with pytest.raises(InvalidRequest, match="fence"):
        quiet.claimed("claimed", fence=value, lease_token="x")


@cases({"number": 5, "bytes": b"x", "none": None, "surrogate": "\ud800", "long": "x" * 10_000})
async def test_claimed_lease_token(quiet: App, value: Any) -> None:
    with pytest.raises(InvalidRequest, match="lease_token"):
        quiet.claimed("claimed", fence=1, lease_token=value)


async def test_claimed_with_a_fence_or_token_of_another_job(quiet: App) -> None:
    for fence, token in ((1, "guess"), (1, ""), (1, "\0"), (2, "guess"), (2**63 - 1, "é")):
        claim = quiet.claimed("claimed", fence=fence, lease_token=token)
        calls: list[Callable[[], Awaitable[object]]] = [
            claim.complete,
            claim.release,
            claim.extend,
            claim.load,
            partial(claim.fail, "x"),
        ]
        for call in calls:
            with pytest.raises(dibs.LeaseLost):
                await call()


# Settle and extend


@pytest.fixture
async def held(app: App) -> AsyncIterator[dibs.Claim]:
    """A claim that must still be held in the end."""
    await app.enqueue("t")
    claim = await app.claim(lease=3600)
    assert claim is not None
    yield claim
    job = await app.get(claim.id)
    assert job is not None
    assert (job.status, job.progress, claim.settled, claim.lost) == (dibs.Status.CLAIMED, None, False, False)


@cases(PARAMS)
async def test_complete_result(held: dibs.Claim, value: Any) -> None:
    await refused(held.complete(value), "result", InvalidRequest)


async def test_complete_result_one_byte_too_large(held: dibs.Claim) -> None:
    with pytest.raises(TooLarge, match="result"):
        await held.complete("x" * (MIB - 1))


@cases({"none": None, "number": 5, "class": ValueError})
async def test_fail_error(held: dibs.Claim, value: Any) -> None:
    await refused(held.fail(value), "error", InvalidRequest)


@cases(DURATIONS)
async def test_fail_and_release_delay(held: dibs.Claim, value: Any) -> None:
    await refused(held.fail("x", delay=value), "delay", InvalidRequest)
    await refused(held.release(delay=value), "delay", InvalidRequest)


@cases({"negative": -0.1, "over": 1.1, "NaN": float("nan"), "text": "0.5"})
async def test_progress_fraction(held: dibs.Claim, value: Any) -> None:
    await refused(held.progress(value), "fraction", InvalidRequest)


@cases({"NUL": "\0", "surrogate": "\ud800", "long": "x" * 10_000, "number": 5})
async def test_progress_note(held: dibs.Claim, value: Any) -> None:
    await refused(held.progress(0.5, value), "note", InvalidRequest)


# Look and operate


@cases(NAMES)
async def test_ids(quiet: App, value: Any) -> None:
    for call in (quiet.get, quiet.log, quiet.explain, quiet.wait, quiet.cancel, quiet.redrive, quiet.purge):
        await refused(call(value), "id", InvalidRequest)
    await refused(anext(aiter(quiet.watch(value))), "id", InvalidRequest)
    await refused(quiet.cancel("pending", value), "ids", InvalidRequest)
    await refused(quiet.redrive("failed", value), "ids", InvalidRequest)
    await refused(quiet.purge("failed", value), "ids", InvalidRequest)


async def test_operator_calls_without_a_target(quiet: App) -> None:
    for call in (quiet.cancel, quiet.redrive, quiet.purge):
        with pytest.raises(InvalidRequest):
            await call()
    with pytest.raises(InvalidRequest):
        await quiet.redrive("failed", where=dibs.Filter())


FIND: list[tuple[str, dict[str, Any]]] = [
    ("status", {"unknown": "dead", "number": 5, "list": ["pending", "dead"], "of numbers": [5]}),
    ("queue", NAMES),
    ("task", NAMES),
    ("worker_id", TEXTS),
    ("batch_id", {"empty": "", "NUL": "\0", "number": 5, "surrogate": "\ud800"}),
    ("tag", {"empty": "", "NUL": "\0", "number": 5, "surrogate": "\ud800"}),
    ("q", {"empty": "", "NUL": "\0", "number": 5, "surrogate": "\ud800", "10 kB": "x" * 10_000}),
    ("limit", {**INTEGERS, "many": 10**9}),
    (
        "cursor",
        {"forged": "abc", "empty": "", "negative": "-1", "long": "9" * 30, "number": -5, "SQL": "1; DROP TABLE x"},
    ),
]


@pytest.mark.parametrize(
    ("field", "value"),
    [pytest.param(field, value, id=f"{field}-{name}") for field, t in FIND for name, value in t.items()],
)
async def test_find(quiet: App, field: str, value: Any) -> None:
    await refused(_find(quiet, field, value), field, InvalidRequest)
    if field not in {"limit", "cursor"}:
        where = dibs.Filter(**{field: value})
        await refused(quiet.redrive(where=where), field, InvalidRequest)
        await refused(quiet.purge(where=where, dry_run=True), field, InvalidRequest)


async def _find(app: App, field: str, value: Any) -> None:
    await app.find(**{field: value})


@cases(NAMES)
async def test_queues(quiet: App, value: Any) -> None:
    for call in (quiet.pause, quiet.resume, quiet.counts):
        await refused(call(value), "queue", InvalidRequest)


@cases(DURATIONS)
async def test_wait_timeout(quiet: App, value: Any) -> None:
    await refused(quiet.wait("pending", timeout=value), "timeout", InvalidRequest)


# Settings


@pytest.mark.parametrize(
    ("field", "table"),
    [
        ("url", {"number": 5, "NUL": "sqlite:///a\0b", "bytes": b"memory://"}),
        ("lease", LENGTHS),
        ("max_attempts", INTEGERS),
        ("queue", NAMES),
        ("queues", {"list": ["a"], "bad name": {"../": {}}, "bad option": {"a": {"colour": 1}}, "bad value": {"a": 5}}),
        ("max_params_bytes", INTEGERS),
        ("reap_every", LENGTHS),
    ],
)
def test_settings(field: str, table: dict[str, Any]) -> None:
    for name, value in table.items():
        if field == "max_params_bytes" and name == "huge":
            continue
        with pytest.raises(InvalidRequest) as caught:
            App(**{"url": "memory://", field: value})
        assert caught.value.fields[0].startswith(field), name


async def test_bad_input_does_not_harm_its_neighbours(app: App, clock: FakeClock) -> None:
    """Calls that meet in time are merged; a bad one among them is refused alone."""
    calls = [app.enqueue("t", float("nan") if number % 3 == 0 else number) for number in range(30)]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert sum(isinstance(answer, InvalidJob) for answer in answers) == 10
    assert (await app.counts()).pending == 20
