"""insert: one id, one key, one job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dibs.domain import transitions
from dibs.domain.job import Outcome, Status
from dibs.store import Refusal
from dibs.testing.conformance.base import Suite
from dibs.testing.conformance.builders import (
    claim,
    claim_one,
    completed,
    enqueue,
    enqueue_and_claim,
    failed,
    find,
    ids,
    named,
    new_job,
    read,
    refused,
    settle,
)

if TYPE_CHECKING:
    from dibs.clock import FakeClock
    from dibs.store import Store

ALIKE = [
    ("\u00e9", "e\u0301"),  # é, composed and decomposed
    ("Key", "key"),
    ("key", "key "),
    ("key", " key"),
    ("ss", "ß"),
    ("K", "\u212a"),  # the Kelvin sign
    ("a", "a\u200b"),  # a zero-width space
    ("1", "\u0661"),  # an Arabic digit
    ("\U0001f986", "\U0001f985"),
    ("x" * 255, "x" * 254),
]
"""Pairs that some collation takes for the same."""


class IdentitySuite(Suite):
    """id, idempotency_key and unique_key."""

    @pytest.mark.parametrize("field", ["id", "idempotency_key"])
    async def test_insert_again_answers_the_first_job(self, store: Store, clock: FakeClock, field: str) -> None:
        [first] = await enqueue(store, named(field, "same", params=b"1"))
        log = await store.log(first.id)
        clock.advance(5)

        [again] = await enqueue(store, named(field, "same", params=b"1", priority=9, max_attempts=1, delay=60))

        assert again.was_duplicate
        assert again.id == first.id
        assert (again.priority, again.max_attempts, again.due_us) == (first.priority, first.max_attempts, first.due_us)
        assert await read(store, first.id) == first
        assert await store.log(first.id) == log
        assert len(await find(store)) == 1

    @pytest.mark.parametrize("other", [{"params": b"2"}, {"task": "other"}, {"queue": "other"}], ids=str)
    @pytest.mark.parametrize("field", ["id", "idempotency_key"])
    async def test_insert_of_something_else_is_a_mismatch(
        self, store: Store, field: str, other: dict[str, Any]
    ) -> None:
        [first] = await enqueue(store, named(field, "same", params=b"1"))

        refusal = await refused(store, named(field, "same", **{"params": b"1"} | other))

        assert refusal == Refusal(0, field, first)
        assert ids(await find(store)) == [first.id]

    @pytest.mark.parametrize("field", ["id", "idempotency_key"])
    async def test_insert_knows_a_finished_job_while_it_is_kept(
        self, store: Store, clock: FakeClock, field: str
    ) -> None:
        job = await enqueue_and_claim(store, named(field, "same", keep=100))
        await settle(store, completed(job, b'"done"'))
        clock.advance(99)
        await store.prune(100)

        [again] = await enqueue(store, named(field, "same"))

        assert again.was_duplicate
        assert (again.id, again.status, again.result_json) == (job.id, Status.COMPLETED, b'"done"')

    @pytest.mark.parametrize("field", ["id", "idempotency_key"])
    async def test_insert_forgets_a_job_that_was_pruned(self, store: Store, clock: FakeClock, field: str) -> None:
        job = await enqueue_and_claim(store, named(field, "same", keep=100))
        await settle(store, completed(job))
        clock.advance(100)
        assert await store.prune(100) == 1

        [again] = await enqueue(store, named(field, "same", params=b"2"))

        assert not again.was_duplicate
        assert again.status is Status.PENDING

    async def test_insert_of_an_id_again_after_prune_starts_a_new_life(self, store: Store) -> None:
        job = await enqueue_and_claim(store, new_job("again", keep=0))
        assert await settle(store, completed(job)) == [Outcome.APPLIED]

        [new] = await enqueue(store, new_job("again"))
        second = await claim_one(store, under=job.lease_token)

        assert (new.fence, second.fence, second.attempts, second.events) == (0, 1, 0, 2)

    async def test_insert_with_a_unique_key_answers_the_holder(self, store: Store) -> None:
        [first] = await enqueue(store, new_job(unique_key="same", params=b"1"))

        [again] = await enqueue(store, new_job(unique_key="same", params=b"2"))

        assert again.was_duplicate
        assert (again.id, again.params_json) == (first.id, b"1")
        assert len(await find(store)) == 1

    async def test_insert_with_a_unique_key_answers_a_claimed_holder_without_its_token(self, store: Store) -> None:
        job = await enqueue_and_claim(store, new_job(unique_key="same"))

        [again] = await enqueue(store, new_job(unique_key="same"))

        assert (again.id, again.status, again.lease_token) == (job.id, Status.CLAIMED, "")

    @pytest.mark.parametrize("end", ["complete", "fail", "cancel", "cancel while claimed"])
    async def test_insert_with_a_unique_key_is_new_once_the_holder_ended(self, store: Store, end: str) -> None:
        [first] = await enqueue(store, new_job(unique_key="same"))
        if end == "cancel":
            await settle(store, transitions.cancel(first.id))
        else:
            job = await claim_one(store)
            write = {"complete": completed(job), "fail": failed(job, retryable=False)}
            await settle(store, write.get(end, transitions.cancel(job.id)))

        [second] = await enqueue(store, new_job(unique_key="same"))
        [third] = await enqueue(store, new_job(unique_key="same"))

        assert (second.was_duplicate, third.was_duplicate) == (False, True)
        assert third.id == second.id != first.id

    async def test_insert_beside_a_duplicate_may_have_the_unique_key_of_a_job_that_ended(self, store: Store) -> None:
        """Where anything stands in the way, names are looked up one by one; those of the dead are no one's then too."""
        first = await enqueue_and_claim(store, new_job(unique_key="same"))
        await settle(store, completed(first))
        await enqueue(store, new_job("there"))

        there, second = await enqueue(store, new_job("there"), new_job(unique_key="same"))

        assert (there.was_duplicate, second.was_duplicate) == (True, False)
        assert second.id != first.id

    async def test_insert_with_a_unique_key_is_a_duplicate_while_the_holder_is_retried(self, store: Store) -> None:
        job = await enqueue_and_claim(store, new_job(unique_key="same"))
        await settle(store, failed(job, delay=60))

        [again] = await enqueue(store, new_job(unique_key="same"))

        assert (again.id, again.was_duplicate) == (job.id, True)

    async def test_insert_with_names_of_different_jobs_is_a_mismatch(self, store: Store) -> None:
        a, b, c = await enqueue(
            store, new_job("a"), new_job("b", idempotency_key="b-key"), new_job("c", unique_key="c-unique")
        )

        by_key = await refused(store, new_job("a", idempotency_key="b-key"))
        by_unique = await refused(store, new_job("a", unique_key="c-unique"))
        of_keys = await refused(store, new_job("d", idempotency_key="b-key", unique_key="c-unique"))

        assert by_key == Refusal(0, "idempotency_key", a)
        assert by_unique == Refusal(0, "unique_key", a)
        assert of_keys == Refusal(0, "unique_key", b)
        assert await store.get(["a", "b", "c", "d"]) == [a, b, c, None]

    async def test_insert_checks_the_id_first_and_then_the_keys(self, store: Store) -> None:
        await enqueue(store, new_job("a", params=b"1"), new_job("b", params=b"2", idempotency_key="key"))

        by_id = await refused(store, new_job("a", params=b"3", idempotency_key="key"))
        by_key = await refused(store, new_job("a", params=b"1", idempotency_key="key"))

        assert (by_id.field, by_id.job.id) == ("id", "a")
        assert (by_key.field, by_key.job.id) == ("idempotency_key", "b")

    async def test_insert_with_all_names_of_one_job_is_a_duplicate(self, store: Store) -> None:
        draft = new_job("a", idempotency_key="key", unique_key="unique")
        await enqueue(store, draft)

        [again] = await enqueue(store, draft)

        assert again.was_duplicate

    async def test_insert_with_a_new_name_beside_a_known_one_adds_no_name(self, store: Store) -> None:
        await enqueue(store, new_job("a"))
        await enqueue(store, new_job("a", idempotency_key="late", unique_key="late"))

        [other] = await enqueue(store, new_job("b", idempotency_key="late", unique_key="late"))

        assert (other.id, other.was_duplicate) == ("b", False)

    async def test_insert_sees_the_earlier_drafts_of_its_group(self, store: Store) -> None:
        jobs = await enqueue(
            store,
            new_job("a", idempotency_key="key"),
            new_job("b", unique_key="unique"),
            new_job("a"),
            new_job("c", idempotency_key="key"),
            new_job("d", unique_key="unique", params=b"2"),
        )

        assert [(job.id, job.was_duplicate) for job in jobs] == [
            ("a", False), ("b", False), ("a", True), ("a", True), ("b", True),
        ]  # fmt: skip
        assert sorted(ids(await find(store))) == ["a", "b"]

    async def test_insert_refuses_a_group_that_contradicts_itself(self, store: Store) -> None:
        refusal = await refused(store, new_job("x"), new_job("a", params=b"1"), new_job("a", params=b"2"))

        assert (refusal.index, refusal.field, refusal.job.id) == (2, "id", "a")
        assert await find(store) == []

    async def test_insert_sees_the_earlier_groups_of_the_call(self, store: Store) -> None:
        first, second, third = await store.insert(
            [
                [new_job("a", idempotency_key="key", unique_key="unique")],
                [new_job("b", idempotency_key="key"), new_job("c", unique_key="unique")],
                [new_job("d", idempotency_key="key", params=b"2")],
            ]
        )

        assert not isinstance(first, Refusal)
        assert not isinstance(second, Refusal)
        assert [(job.id, job.was_duplicate) for job in second] == [("a", True), ("a", True)]
        assert isinstance(third, Refusal)
        assert (third.index, third.field, third.job.id) == (0, "idempotency_key", "a")
        assert ids(await find(store)) == ["a"]

    @pytest.mark.parametrize("pair", ALIKE, ids=range(len(ALIKE)))
    @pytest.mark.parametrize("field", ["idempotency_key", "unique_key"])
    async def test_insert_compares_keys_by_bytes(self, store: Store, field: str, pair: tuple[str, str]) -> None:
        jobs = await enqueue(store, *(named(field, key) for key in pair + pair))

        assert [job.was_duplicate for job in jobs] == [False, False, True, True]
        assert [getattr(job, field) for job in jobs] == [*pair, *pair]

    async def test_insert_compares_ids_queues_and_tasks_by_bytes(self, store: Store) -> None:
        await enqueue(store, new_job("a", queue="q", task="t"), new_job("A", queue="Q", task="T"))

        assert ids(await claim(store, queues=("Q",))) == ["A"]
        assert await claim(store, tasks=("T",)) == []
        assert ids(await claim(store, tasks=("t",))) == ["a"]

    async def test_insert_keeps_keys_of_one_kind_apart_from_the_other(self, store: Store) -> None:
        jobs = await enqueue(store, new_job("x"), new_job("a", idempotency_key="x"), new_job("b", unique_key="x"))

        assert [job.was_duplicate for job in jobs] == [False, False, False]
