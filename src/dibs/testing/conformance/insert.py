"""insert: what was acknowledged is there, whole and as it was sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dibs.domain.job import NEVER, Draft, Keep, Status, Terms
from dibs.domain.retry import SECOND, Backoff
from dibs.store import Refusal
from dibs.testing.conformance.base import Suite, ordered
from dibs.testing.conformance.builders import claim, enqueue, find, ids, new_job, new_jobs, read, refused

if TYPE_CHECKING:
    from dibs.clock import FakeClock
    from dibs.store import Store

CANONICAL_JSON = [
    b"null",
    b"{}",
    b'""',
    b'{"nul":"a\\u0000b"}',
    b'{"lone":"\\ud800"}',
    b'{"big":123456789012345678901234567890,"small":1e-300}',
    b'{"quotes":"\\" \\\\ \' ; -- %s ? :x {0}"}',
    '{"text":"naïve · 日本語 · 🦆 · \u202eright to left"}'.encode(),
    b'"' + b"x" * (1024 * 1024 - 2) + b'"',
]


class InsertSuite(Suite):
    """Enqueueing, but for the identity of jobs."""

    async def test_insert_makes_a_pending_job(self, store: Store, clock: FakeClock) -> None:
        draft = new_job(queue="mail", task="send", params=b'{"to":"a"}', priority=7, max_attempts=5)

        [job] = await enqueue(store, draft)

        assert job == draft.job(clock.now())
        assert (job.status, job.due_us, job.fence, job.attempts) == (Status.PENDING, clock.now(), 0, 0)
        assert (job.created_us, job.updated_us, job.completed_us) == (clock.now(), clock.now(), None)
        assert (job.worker_id, job.lease_token, job.settled_as, job.events) == (None, "", None, 1)
        assert not job.was_duplicate
        assert await read(store, draft.id) == job

    async def test_insert_keeps_every_field(self, store: Store, clock: FakeClock) -> None:
        terms = Terms(
            retry=Backoff(base=0.25, cap=7.5),
            timeout_us=11,
            lease_us=12,
            tags=("a", "ä b", "🦆"),
            trace={"traceparent": "00-1-2-03", "tracestate": ""},
            limit_key="per-customer",
            after=("x", "y"),
        )
        draft = Draft(
            "All_of.it:1-2",
            "queue/with/segments",
            "Task.name",
            b'{"a":1}',
            -32768,
            2**31 - 1,
            terms,
            Keep(1, 2, 3),
            delay_us=5,
            scheduled_us=clock.now() + 9,
            idempotency_key="key",
            unique_key="unique",
            batch_id="batch",
        )

        [job] = await enqueue(store, draft)

        assert job == draft.job(clock.now())
        assert await read(store, draft.id) == job

    @pytest.mark.parametrize("params", CANONICAL_JSON, ids=range(len(CANONICAL_JSON)))
    async def test_insert_keeps_params_byte_for_byte(self, store: Store, params: bytes) -> None:
        [job] = await enqueue(store, new_job(params=params))

        assert (await read(store, job.id)).params_json == params
        assert [claimed.params_json for claimed in await claim(store)] == [params]

    @ordered("queue")
    async def test_insert_keeps_the_highest_and_lowest_priority(self, store: Store) -> None:
        await enqueue(store, *(new_job(str(p), priority=p) for p in (-32768, 32767, 0)))

        assert ids(await claim(store)) == ["32767", "0", "-32768"]

    async def test_insert_of_nothing(self, store: Store) -> None:
        assert await store.insert([]) == []
        assert await store.insert([[], [new_job("a")], []]) == [[], [await read(store, "a")], []]

    async def test_insert_of_a_thousand_is_answered_in_order(self, store: Store) -> None:
        drafts = new_jobs(1000)

        jobs = await enqueue(store, *drafts)

        assert ids(jobs) == ids(drafts)
        assert (await store.counts()).pending == 1000

    async def test_insert_of_a_thousand_keeps_every_field(self, store: Store, clock: FakeClock) -> None:
        drafts = [
            new_job(
                f"job-{n}",
                task=f"t{n // 400}",
                params=b'"%d"' % n + b" " * (n % 7 * 500),
                delay=n % 3,
                tags=(f"tag-{n % 4}",),
                batch_id="all",
                idempotency_key=f"key-{n}",
                unique_key=f"unique-{n}",
            )
            for n in range(1000)
        ]

        jobs = await enqueue(store, *drafts)

        assert jobs == [draft.job(clock.now()) for draft in drafts]
        assert [await read(store, id) for id in ("job-0", "job-299", "job-300", "job-999")] == [
            jobs[n] for n in (0, 299, 300, 999)
        ]
        assert set(ids(await find(store, tag="tag-3", limit=1000))) == {f"job-{n}" for n in range(3, 1000, 4)}
        assert len(await find(store, batch_id="all", limit=1000)) == 1000
        assert {job.was_duplicate for job in await enqueue(store, *drafts)} == {True}

    async def test_insert_of_a_thousand_is_refused_whole(self, store: Store) -> None:
        await enqueue(store, new_job("known", params=b"1"))
        drafts = [*new_jobs(999, tags=("t",), batch_id="b"), new_job("known", params=b"2")]

        refusal = await refused(store, *drafts)

        assert (refusal.index, refusal.job.id) == (999, "known")
        assert (await store.counts()).pending == 1
        assert await store.get(ids(drafts[:3])) == [None] * 3
        assert await find(store, tag="t") == await find(store, batch_id="b") == []
        assert ids(await find(store)) == ["known"]

    async def test_insert_of_a_thousand_of_which_some_are_known(self, store: Store) -> None:
        drafts = [new_job(f"job-{n}", unique_key=f"u{n % 900}") for n in range(1000)]
        await enqueue(store, *drafts[:400:100])

        jobs = await enqueue(store, *drafts)

        known = {0, 100, 200, 300, *range(900, 1000)}
        assert [job.was_duplicate for job in jobs] == [n in known for n in range(1000)]
        assert ids(jobs) == [f"job-{n % 900}" for n in range(1000)]
        assert (await store.counts()).pending == 900

    async def test_insert_answers_each_group_for_itself(self, store: Store) -> None:
        first, second = new_jobs(2), new_jobs(3)

        one, two = await store.insert([first, second])

        assert not isinstance(one, Refusal)
        assert not isinstance(two, Refusal)
        assert ids(one) == ids(first)
        assert ids(two) == ids(second)

    async def test_insert_refuses_a_group_whole(self, store: Store) -> None:
        [there] = await enqueue(store, new_job("there", params=b"1"))

        refusal = await refused(
            store, new_job("new-1"), new_job("new-2"), new_job("there", params=b"2"), new_job("new-3")
        )

        assert refusal == Refusal(2, "id", there)
        assert ids(await find(store)) == ["there"]
        assert await store.log("new-1") == []

    async def test_insert_names_the_first_draft_that_does_not_fit(self, store: Store) -> None:
        await enqueue(store, new_job("a", params=b"1"), new_job("b", params=b"1", idempotency_key="key"))

        refusal = await refused(
            store,
            new_job("a", params=b"1"),
            new_job("c", params=b"2", idempotency_key="key"),
            new_job("a", params=b"2"),
        )

        assert (refusal.index, refusal.field, refusal.job.id) == (1, "idempotency_key", "b")

    async def test_insert_refuses_no_other_group(self, store: Store) -> None:
        await enqueue(store, new_job("there", params=b"1"))

        before, bad, after = await store.insert(
            [[new_job("before")], [new_job("bad"), new_job("there", params=b"2")], [new_job("after")]]
        )

        assert not isinstance(before, Refusal)
        assert isinstance(bad, Refusal)
        assert not isinstance(after, Refusal)
        assert ids(await find(store, oldest_first=True)) == ["there", "before", "after"]

    async def test_insert_leaves_no_key_of_a_refused_group_behind(self, store: Store) -> None:
        await enqueue(store, new_job("there", params=b"1"))
        bad = [new_job("gone", idempotency_key="key", unique_key="unique"), new_job("there", params=b"2")]

        refusal, taken = await store.insert([bad, [new_job("taken", idempotency_key="key", unique_key="unique")]])

        assert isinstance(refusal, Refusal)
        assert not isinstance(taken, Refusal)
        assert [(job.id, job.was_duplicate) for job in taken] == [("taken", False)]

    async def test_insert_with_a_delay(self, store: Store, clock: FakeClock) -> None:
        [job] = await enqueue(store, new_job(delay=2.5))

        assert job.due_us == clock.now() + 2_500_000

    async def test_insert_takes_the_later_of_delay_and_schedule(self, store: Store, clock: FakeClock) -> None:
        now = clock.now()
        later, sooner, past = await enqueue(
            store,
            new_job(delay=1, scheduled_us=now + 5 * SECOND),
            new_job(delay=9, scheduled_us=now + 5 * SECOND),
            new_job(scheduled_us=now - 5 * SECOND),
        )

        assert [later.due_us, sooner.due_us, past.due_us] == [now + 5 * SECOND, now + 9 * SECOND, now]

    async def test_insert_of_a_held_job(self, store: Store, clock: FakeClock) -> None:
        [job] = await enqueue(store, new_job(delay=None))
        clock.advance(1000 * 365 * 86_400)

        assert (job.status, job.due_us, job.scheduled_at) == (Status.PENDING, NEVER, None)
        assert await claim(store) == []
        assert await claim(store, id=job.id) == []
        assert await read(store, job.id) == job
