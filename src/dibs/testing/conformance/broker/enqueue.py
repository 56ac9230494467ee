"""enqueue: what a job is made of, and what a call may leave out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from dibs.domain.errors import InvalidJob
from dibs.domain.job import Retention, Status
from dibs.domain.retry import SECOND, Backoff
from dibs.testing.conformance.broker.base import APP_TIMEOUT, TUNED, Suite
from dibs.testing.conformance.broker.verbs import claim, claim_one, enqueue, enqueue_some, events, ids, new, read

if TYPE_CHECKING:
    from dibs.broker.protocol import Broker
    from dibs.clock import FakeClock


class EnqueueSuite(Suite):
    """Enqueueing, but for keys and limits."""

    async def test_enqueue_makes_a_pending_job(self, broker: Broker, clock: FakeClock) -> None:
        job = await enqueue(broker, "mail/send", {"to": "a@b.c"})

        assert (job.task, job.queue, job.params, job.status) == (
            "mail/send",
            "default",
            {"to": "a@b.c"},
            Status.PENDING,
        )
        assert (job.priority, job.attempts, job.max_attempts, job.fence) == (0, 0, 3, 0)
        assert (job.created_us, job.updated_us, job.due_us) == (clock.now(), clock.now(), clock.now())
        assert (job.worker_id, job.claimed_us, job.lease_expires_us, job.completed_us) == (None, None, None, None)
        assert (job.result, job.error, job.progress, job.was_duplicate) == (None, None, None, False)
        assert await events(broker, job.id) == ["enqueued"]
        assert (await read(broker, job.id)).params == job.params

    async def test_enqueue_makes_ids_that_differ_and_follow_time(self, broker: Broker, clock: FakeClock) -> None:
        made = []
        for _ in range(20):
            made.append((await enqueue(broker)).id)
            clock.advance(0.002)

        assert made == sorted(set(made))

    async def test_enqueue_under_a_given_id(self, broker: Broker) -> None:
        assert (await enqueue(broker, id="a.b:c_d-1")).id == "a.b:c_d-1"

    @pytest.mark.parametrize(
        "params",
        [None, True, 0, -1.5, 2**63, "", "\0 \u202e ☃ 😀 <b>", [], {}, [None, [{}]], {"": {"b": [1, 2.0, None]}}],
        ids=repr,
    )
    async def test_enqueue_keeps_params(self, broker: Broker, params: Any) -> None:
        job = await enqueue(broker, params=params)

        assert (await claim_one(broker)).params == params
        assert (await read(broker, job.id)).params == params

    async def test_enqueue_a_batch_in_order(self, broker: Broker) -> None:
        jobs = await broker.enqueue([new("a", 1), new("b", 2, queue="q"), new("a", 1)])

        assert [(job.task, job.params, job.queue) for job in jobs] == [
            ("a", 1, "default"),
            ("b", 2, "q"),
            ("a", 1, "default"),
        ]
        assert len(set(ids(jobs))) == 3
        assert ids(await claim(broker, queues=["default"])) == [jobs[0].id, jobs[2].id]

    async def test_enqueue_nothing(self, broker: Broker) -> None:
        assert await broker.enqueue([]) == []

    @pytest.mark.parametrize(
        ("name", "number"), [("low", -10), ("normal", 0), ("high", 10), (-32768, -32768), (32767, 32767)]
    )
    async def test_enqueue_with_a_priority(self, broker: Broker, name: int | str, number: int) -> None:
        assert (await enqueue(broker, priority=name)).priority == number

    async def test_enqueue_with_what_the_app_settled(self, broker: Broker) -> None:
        job = await enqueue(broker)

        assert (job.priority, job.max_attempts, job.terms.timeout_us) == (0, 3, APP_TIMEOUT * SECOND)
        assert (job.terms.lease_us, job.terms.retry) == (300 * SECOND, Backoff(1, 3600))

    async def test_enqueue_with_what_the_queue_settled(self, broker: Broker) -> None:
        job = await enqueue(broker, queue=TUNED)

        assert (job.priority, job.max_attempts, job.terms.timeout_us) == (10, 5, 60 * SECOND)
        assert (job.terms.lease_us, job.terms.retry) == (7 * SECOND, Backoff(2, 8))

    async def test_enqueue_with_what_the_call_says(self, broker: Broker) -> None:
        job = await enqueue(
            broker,
            queue=TUNED,
            priority="low",
            max_attempts=2,
            timeout=timedelta(minutes=2),
            lease=20,
            retry=Backoff(base=3, cap=9),
        )

        assert (job.priority, job.max_attempts, job.terms.timeout_us) == (-10, 2, 120 * SECOND)
        assert (job.terms.lease_us, job.terms.retry) == (20 * SECOND, Backoff(3, 9))

    async def test_enqueue_takes_durations_as_timedelta(self, broker: Broker, clock: FakeClock) -> None:
        half_a_minute = timedelta(seconds=30)
        retry = Backoff(base=half_a_minute, cap=timedelta(minutes=2))
        job = await enqueue(broker, delay=half_a_minute, lease=half_a_minute, retry=retry)
        await enqueue(broker, retention=Retention(completed=half_a_minute))

        assert job.due_us == clock.now() + 30 * SECOND
        assert (job.terms.lease_us, job.terms.retry) == (30 * SECOND, Backoff(30, 120))

    async def test_enqueue_for_later(self, broker: Broker, clock: FakeClock) -> None:
        now = datetime.fromtimestamp(clock.now() / SECOND, UTC)
        delayed = await enqueue(broker, delay=60)
        scheduled = await enqueue(broker, scheduled_at=now + timedelta(seconds=90))
        offset = await enqueue(
            broker, scheduled_at=(now + timedelta(seconds=95)).astimezone(timezone(timedelta(hours=5)))
        )
        past = await enqueue(broker, scheduled_at=now - timedelta(days=1))
        zero = await enqueue(broker, delay=0)

        assert [(job.due_us - clock.now()) // SECOND for job in (delayed, scheduled, offset, past, zero)] == [
            60,
            90,
            95,
            0,
            0,
        ]
        assert (await read(broker, scheduled.id)).scheduled_at == now + timedelta(seconds=90)
        assert ids(await claim(broker)) == [past.id, zero.id]
        clock.advance(60)
        assert ids(await claim(broker)) == [delayed.id]

    @pytest.mark.parametrize("year", [1, 9999])
    async def test_enqueue_for_the_ends_of_time(self, broker: Broker, year: int) -> None:
        last = datetime(year, 12, 31, 23, 59, 59, 999999, UTC)
        job = await enqueue(broker, scheduled_at=last)

        assert ids(await claim(broker)) == ([job.id] if year == 1 else [])
        read_back = (await read(broker, job.id)).scheduled_at
        assert read_back is not None
        assert year == 1 or read_back == last

    async def test_enqueue_with_tags_and_batch(self, broker: Broker) -> None:
        job = await enqueue(broker, tags=["red", "blue", "red"], batch="b-1")

        assert (job.tags, job.batch_id) == (("red", "blue"), "b-1")

    async def test_enqueue_refuses_a_batch_whole_and_says_all_that_is_wrong(self, broker: Broker) -> None:
        jobs = [
            new("fine"),
            new("not fine", queue="../q"),
            new("fine"),
            new("t", float("nan"), priority=10**9, delay=-1),
        ]

        with pytest.raises(InvalidJob) as raised:
            await broker.enqueue(jobs)

        assert sorted(raised.value.fields) == [
            "jobs[1].queue", "jobs[1].task", "jobs[3].delay", "jobs[3].params", "jobs[3].priority",
        ]  # fmt: skip
        assert raised.value.code == "invalid"
        assert await claim(broker) == []
        assert (await broker.counts()).unfinished == 0

    async def test_enqueue_alone_names_the_field_without_an_index(self, broker: Broker) -> None:
        with pytest.raises(InvalidJob) as raised:
            await enqueue(broker, "", queue="", max_attempts=0)

        assert sorted(raised.value.fields) == ["max_attempts", "queue", "task"]

    async def test_enqueue_is_first_in_first_out(self, broker: Broker) -> None:
        first = [await enqueue(broker) for _ in range(3)]
        rest = await enqueue_some(broker, 3)

        assert ids([await claim_one(broker) for _ in range(6)]) == ids([*first, *rest])
