"""Bad input: a clear error that names the field, and nothing half done."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from dibs.broker.protocol import Ask, Ending
from dibs.domain.errors import Invalid, InvalidJob, InvalidRequest, TooLarge
from dibs.domain.job import Error, Extension, Filter, Outcome, Ref
from dibs.domain.retry import Backoff
from dibs.domain.settings import MAX_BATCH, MAX_BATCH_BYTES, MIB
from dibs.domain.transitions import Failure
from dibs.testing.conformance.broker.base import Suite
from dibs.testing.conformance.broker.verbs import claim, complete, enqueue, fail, new, read, settle, settle_one, take

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.broker.protocol import Broker

LONE = "\ud800"
BAD_NAMES = [
    "",
    ".",
    "..",
    "a/../b",
    "/a",
    "a/",
    "a//b",
    "a b",
    "{a}{b}",
    "a\0",
    "a\r\n",
    "ü",
    LONE,
    "x" * 129,
    5,
    "<b>",
]
BAD_JOBS: list[tuple[str, Any]] = [
    *[("id", id) for id in ["", ".", "..", "a/b", "a b", "a\0", "x" * 129, LONE, 7]],
    *[(field, name) for field in ("task", "queue") for name in BAD_NAMES],
    *[("priority", value) for value in [32768, -32769, 1.5, "urgent", True, 10**400, []]],
    *[("max_attempts", value) for value in [0, -1, 2.0, "3", 10**400]],
    *[
        (f, v)
        for f in ("delay", "timeout", "lease", "retention")
        for v in [-1, float("nan"), float("inf"), 10**400, "5"]
    ],
    ("lease", 0),
    ("retry", 5),
    ("scheduled_at", datetime(2030, 1, 1)),  # noqa: DTZ001 - no offset is what is wrong with it
    ("scheduled_at", "2030-01-01T00:00:00Z"),
    ("scheduled_at", datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))),
    ("scheduled_at", datetime(9999, 12, 31, 23, tzinfo=timezone(-timedelta(hours=14)))),
    *[(field, key) for field in ("idempotency_key", "unique_key", "batch") for key in ["", "k" * 256, "a\0", LONE, 5]],
    ("tags", "red"),
    ("tags", ["t"] * 33),
    ("trace", ["traceparent"]),
]
BAD_PARAMS = [
    float("nan"),
    float("inf"),
    [1, {"a": -float("inf")}],
    LONE,
    {LONE: 1},
    {1: 2},
    object(),
    1j,
    2**64,
    [10**400],
    -(2**63) - 1,
]


def _deep(depth: int) -> Any:
    value: Any = None
    for _ in range(depth):
        value = [value]
    return value


def _looks(error: Invalid, field: str) -> bool:
    return bool(error.problems) and all(name.startswith(field) for name in error.fields) and error.code == "invalid"


class LimitSuite(Suite):
    """What is refused, by its field."""

    @pytest.mark.parametrize(("field", "value"), BAD_JOBS)
    async def test_enqueue_names_what_is_wrong(self, broker: Broker, field: str, value: Any) -> None:
        with pytest.raises(InvalidJob) as raised:
            await broker.enqueue([new(**{field: value})])

        assert _looks(raised.value, field), raised.value
        assert (await broker.counts()).pending == 0

    @pytest.mark.parametrize("params", [*BAD_PARAMS, _deep(10_000)], ids=lambda _: "params")
    async def test_enqueue_refuses_params_that_are_not_json(self, broker: Broker, params: Any) -> None:
        with pytest.raises(InvalidJob) as raised:
            await enqueue(broker, params=params)

        assert _looks(raised.value, "params"), raised.value

    async def test_enqueue_refuses_options_that_contradict_each_other(self, broker: Broker) -> None:
        with pytest.raises(InvalidJob) as raised:
            await enqueue(broker, delay=1, scheduled_at=datetime(2030, 1, 1, tzinfo=UTC), unique=True, unique_key="u")

        assert raised.value.fields == ("scheduled_at", "unique_key")

    async def test_enqueue_names_the_parts_of_an_option(self, broker: Broker) -> None:
        with pytest.raises(InvalidJob) as raised:
            await enqueue(broker, retry=Backoff(-1, 10**400), tags=["fine", "", "t" * 129])

        assert sorted(raised.value.fields) == ["retry.base", "retry.cap", "tags[1]", "tags[2]"]

    async def test_enqueue_up_to_a_mebibyte_of_params(self, broker: Broker) -> None:
        fits = "x" * (MIB - 2)  # and two quotes
        job = await enqueue(broker, params=fits)
        assert (await read(broker, job.id)).params == fits

        with pytest.raises(TooLarge) as raised:
            await enqueue(broker, params=fits + "x")
        assert (raised.value.field, raised.value.size, raised.value.limit) == ("params", MIB + 1, MIB)

        with pytest.raises(TooLarge) as raised:
            await broker.enqueue([new(), new(params="ü" * (MIB // 2))])
        assert raised.value.field == "jobs[1].params"
        assert (await broker.counts()).pending == 1

    async def test_enqueue_up_to_a_thousand_at_once(self, broker: Broker) -> None:
        assert len(await broker.enqueue([new()] * MAX_BATCH)) == MAX_BATCH

        with pytest.raises(InvalidJob) as raised:
            await broker.enqueue([new()] * (MAX_BATCH + 1))
        assert raised.value.fields == ("jobs",)
        assert (await broker.counts()).pending == MAX_BATCH

    async def test_enqueue_up_to_sixteen_mebibytes_at_once(self, broker: Broker) -> None:
        mebibyte = new(params="x" * (MIB - 2))
        with pytest.raises(TooLarge) as raised:
            await broker.enqueue([mebibyte] * 16 + [new(params=1)])
        assert (raised.value.field, raised.value.limit) == ("jobs", MAX_BATCH_BYTES)
        assert (await broker.counts()).pending == 0

        assert len(await broker.enqueue([mebibyte] * 16)) == 16

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            *[("worker_id", value) for value in ["", "a b", "a.b", "x" * 129, "a\n", "<b>", LONE, 5]],
            *[("limit", value) for value in [0, -1, 1001, 10**9, 1.0, "1", True]],
            *[("min_attempts_left", value) for value in [0, -1, "1"]],
            *[("order", value) for value in ["", "best", 5, ["priority"]]],
            *[("lease", value) for value in [0, -1, float("nan"), float("inf"), 10**400, 10**12, "30"]],
            *[("wait", value) for value in [-1, float("nan"), 10**400, "5"]],
            *[
                (f, v)
                for f in ("queues", "tasks")
                for v in ["default", [], [""], ["a", "../b"], [LONE], [5], ["q"] * 1001]
            ],
            *[("id", value) for value in ["", "..", "a/b", LONE, "x" * 129]],
        ],
    )
    async def test_claim_names_what_is_wrong(self, broker: Broker, field: str, value: Any) -> None:
        await enqueue(broker)

        with pytest.raises(InvalidRequest) as raised:
            await broker.claim(Ask(**{"worker_id": "worker", field: value}))

        assert _looks(raised.value, field), raised.value
        assert (await broker.counts()).claimed == 0

    async def test_claim_says_all_that_is_wrong(self, broker: Broker) -> None:
        with pytest.raises(InvalidRequest) as raised:
            await broker.claim(Ask(worker_id="", limit=0, lease=-1, wait=-1, queues=["a", ""], tasks="t", order="x"))

        assert sorted(raised.value.fields) == ["lease", "limit", "order", "queues[1]", "tasks", "wait", "worker_id"]

    @pytest.mark.parametrize(
        ("field", "change"),
        [
            *[("id", {"id": value}) for value in ["", "..", "a/b", LONE]],
            *[("fence", {"fence": value}) for value in [-1, 0, 1.0, "1", 2**63, 10**400, True]],
            *[("lease_token", {"token": value}) for value in [LONE, 5, "t" * 256]],
        ],
    )
    async def test_settle_and_extend_name_what_is_wrong(
        self, broker: Broker, field: str, change: dict[str, Any]
    ) -> None:
        job, other = await take(broker), await take(broker)
        parts: dict[str, Any] = {"id": job.id, "fence": job.fence, "token": job.lease_token, **change}
        ref = Ref(**parts)

        for ending in (complete(job, ref=ref), fail(job, ref=ref), fail(job, ref=ref, told=False)):
            with pytest.raises(InvalidRequest) as raised:
                await broker.settle([ending])
            assert raised.value.fields == (field,)
        with pytest.raises(InvalidRequest) as raised:
            await broker.extend([Extension(other.ref), Extension(ref)])
        assert raised.value.fields == (f"extensions[1].{field}",)
        with pytest.raises(InvalidRequest) as raised:
            await broker.settle([complete(other), complete(job, ref=ref)])
        assert raised.value.fields == (f"endings[1].{field}",)
        assert await settle(broker, complete(job), complete(other)) == [Outcome.APPLIED] * 2

    async def test_settle_names_what_is_wrong(self, broker: Broker) -> None:
        job = await take(broker)
        nonsense: Sequence[tuple[str, Ending]] = [
            ("verb", Ending(job.ref, "finish")),
            ("verb", Ending(job.ref, "fail")),
            ("result", complete(job, float("nan"))),
            ("result", complete(job, object())),
            ("delay", Ending(job.ref, "release", delay=-1)),
            ("delay", Ending(job.ref, "release", delay=float("nan"))),
            ("delay", Ending(job.ref, "fail", failure=Failure(Error("e"), delay_us=-1), job=job)),
            ("delay", Ending(job.ref, "fail", failure=Failure(Error("e"), delay_us=10**400), job=job)),
        ]
        for field, ending in nonsense:
            with pytest.raises(InvalidRequest) as raised:
                await broker.settle([ending])
            assert _looks(raised.value, field), raised.value
        with pytest.raises(TooLarge) as too_large:
            await broker.settle([complete(job, "x" * MIB)])
        assert too_large.value.field == "result"

        assert (await settle_one(broker, complete(job, "x" * (MIB - 2)))).outcome is Outcome.APPLIED

    async def test_settle_cuts_an_error_that_is_too_long(self, broker: Broker) -> None:
        job = await take(broker)
        error = Error("m" * 10_000 + LONE, "k" * 500, "c\0" * 500, "t" * 10_000 + "the end")
        await settle_one(broker, fail(job, error=error))

        kept = (await read(broker, job.id)).error
        assert kept is not None
        assert kept.message.startswith("mmmm")
        assert (kept.traceback or "").endswith("the end")
        texts = (kept.message, kept.kind, kept.code or "", kept.traceback or "")
        assert sum(len(text.encode()) for text in texts) <= 8 * 1024

    @pytest.mark.parametrize("progress", [-0.1, 1.1, float("nan"), "half", True])
    async def test_extend_names_what_is_wrong(self, broker: Broker, progress: Any) -> None:
        job = await take(broker)

        with pytest.raises(InvalidRequest) as raised:
            await broker.extend([Extension(job.ref, progress)])
        assert raised.value.fields == ("fraction",)
        with pytest.raises(InvalidRequest) as raised:
            await broker.extend([Extension(job.ref, 0.5, "n" * 256)])
        assert raised.value.fields == ("note",)

    async def test_operators_are_told_what_is_wrong(self, broker: Broker) -> None:
        calls = [
            ("id", broker.cancel(["a b"])),
            ("ids[1]", broker.cancel(["a", LONE])),
            ("ids", broker.cancel([])),
            ("by", broker.cancel(["a"], by=LONE)),
            ("where", broker.redrive([])),
            ("where", broker.purge(["a"], where=Filter())),
            ("status", broker.redrive([], where=Filter(status="done"))),
            ("status", broker.find(Filter(status=["failed", "done"]), limit=1, cursor=None)),
            ("queue", broker.find(Filter(queue="../q"), limit=1, cursor=None)),
            ("q", broker.find(Filter(q=LONE), limit=1, cursor=None)),
            ("limit", broker.find(Filter(), limit=0, cursor=None)),
            ("limit", broker.find(Filter(), limit=10**9, cursor=None)),
            ("cursor", broker.find(Filter(), limit=1, cursor="forged")),
            ("cursor", broker.find(Filter(), limit=1, cursor="9" * 30)),
            ("queue", broker.pause("")),
            ("queue", broker.resume("a b")),
            ("queue", broker.counts("..")),
            ("id", broker.get(LONE)),
            ("id", broker.log("a/b")),
            ("id", broker.explain("")),
        ]
        for field, call in calls:
            with pytest.raises(InvalidRequest) as raised:
                await call
            assert raised.value.fields == (field,)
        assert await claim(broker) == []
