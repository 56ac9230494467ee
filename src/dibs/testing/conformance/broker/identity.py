"""enqueue: one key, one job."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from dibs.domain.errors import IdempotencyMismatch
from dibs.testing.conformance.broker.base import Suite
from dibs.testing.conformance.broker.verbs import claim, claim_one, complete, enqueue, events, fail, ids, new, settle

if TYPE_CHECKING:
    from dibs.broker.protocol import Broker


class IdentitySuite(Suite):
    """Duplicates and mismatches."""

    @pytest.mark.parametrize(
        "key", [{"id": "the-one"}, {"idempotency_key": "k"}, {"unique_key": "u"}, {"unique": True}]
    )
    async def test_enqueue_twice_makes_one_job(self, broker: Broker, key: dict[str, Any]) -> None:
        first = await enqueue(broker, params={"a": 1, "b": 2}, **key)
        second = await enqueue(broker, params={"b": 2, "a": 1}, **key)

        assert (first.was_duplicate, second.was_duplicate) == (False, True)
        assert second.id == first.id
        assert ids(await claim(broker)) == [first.id]
        assert await events(broker, first.id) == ["enqueued", "claimed"]

    @pytest.mark.parametrize("key", [{"id": "the-one"}, {"idempotency_key": "k"}])
    @pytest.mark.parametrize("other", [{"params": 2}, {"task": "other"}, {"queue": "other"}])
    async def test_enqueue_something_else_under_a_key(
        self, broker: Broker, key: dict[str, Any], other: dict[str, Any]
    ) -> None:
        first = await enqueue(broker, **{"params": 1, **key})

        with pytest.raises(IdempotencyMismatch) as raised:
            await enqueue(broker, **{"params": 1, **key, **other})

        assert (raised.value.code, raised.value.index, [raised.value.field]) == ("idempotency_mismatch", None, [*key])
        assert ids(await claim(broker)) == [first.id]

    async def test_enqueue_a_duplicate_with_other_options(self, broker: Broker) -> None:
        first = await enqueue(broker, idempotency_key="k", priority=1, delay=5)
        again = await enqueue(broker, idempotency_key="k", priority=2, max_attempts=9)

        assert (again.id, again.priority, again.max_attempts, again.due_us) == (first.id, 1, 3, first.due_us)

    async def test_enqueue_a_mismatch_names_its_place_and_refuses_the_batch(self, broker: Broker) -> None:
        await enqueue(broker, params=1, idempotency_key="k")

        with pytest.raises(IdempotencyMismatch) as raised:
            await broker.enqueue(
                [new(params=5), new(params=1, idempotency_key="k"), new(params=2, idempotency_key="k")]
            )

        assert (raised.value.index, raised.value.field) == (2, "idempotency_key")
        assert "jobs[2]" in raised.value.message
        assert (await broker.counts()).pending == 1

    async def test_enqueue_a_key_twice_in_one_batch(self, broker: Broker) -> None:
        one, two, three = await broker.enqueue([new(params=1, idempotency_key="k")] * 2 + [new(params=1)])

        assert (one.id == two.id, one.id == three.id) == (True, False)
        assert [job.was_duplicate for job in (one, two, three)] == [False, True, False]

        with pytest.raises(IdempotencyMismatch) as raised:
            await broker.enqueue([new(params=1, id="same"), new(params=2, id="same")])
        assert (raised.value.index, raised.value.field) == (1, "id")
        assert await broker.get("same") is None

    async def test_enqueue_with_keys_of_different_jobs_is_a_mismatch(self, broker: Broker) -> None:
        await enqueue(broker, id="one")
        await enqueue(broker, id="two", idempotency_key="k", unique_key="u")
        await enqueue(broker, id="three", unique_key="v")

        for keys, field in (
            ({"id": "one", "idempotency_key": "k"}, "idempotency_key"),
            ({"id": "one", "unique_key": "u"}, "unique_key"),
            ({"idempotency_key": "k", "unique_key": "v"}, "unique_key"),
        ):
            with pytest.raises(IdempotencyMismatch) as raised:
                await enqueue(broker, **keys)
            assert raised.value.field == field
        assert (await broker.counts()).pending == 3

    @pytest.mark.parametrize("key", [{"id": "x"}, {"idempotency_key": "k"}])
    async def test_enqueue_under_the_key_of_a_finished_job(self, broker: Broker, key: dict[str, Any]) -> None:
        first = await enqueue(broker, **key)
        await settle(broker, complete(await claim_one(broker), "done"))
        again = await enqueue(broker, **key)

        assert (again.id, again.was_duplicate, again.status, again.result) == (first.id, True, "completed", "done")
        assert await claim(broker) == []

    async def test_enqueue_a_unique_job_again_once_it_has_ended(self, broker: Broker) -> None:
        first = await enqueue(broker, unique_key="u")
        claimed = await claim_one(broker)
        assert (await enqueue(broker, unique_key="u")).id == first.id  # while it is held, too
        await settle(broker, fail(claimed, retryable=False))
        second = await enqueue(broker, unique_key="u")

        assert (second.was_duplicate, second.id == first.id) == (False, False)

    async def test_enqueue_does_not_compare_params_under_a_unique_key(self, broker: Broker) -> None:
        first = await enqueue(broker, "a", 1, unique_key="u")
        second = await enqueue(broker, "b", 2, unique_key="u", queue="q")

        assert (second.id, second.params, second.was_duplicate) == (first.id, 1, True)

    async def test_enqueue_unique_means_same_task_queue_and_params(self, broker: Broker) -> None:
        first = await enqueue(broker, "t", {"a": [1, {"x": 1, "y": 2}], "b": None}, unique=True)
        same = await enqueue(broker, "t", {"b": None, "a": [1, {"y": 2, "x": 1}]}, unique=True)
        others = [
            await enqueue(broker, "t", {"a": [1]}, unique=True),
            await enqueue(broker, "u", {"a": [1]}, unique=True),
            await enqueue(broker, "t", {"a": [1]}, unique=True, queue="q"),
            await enqueue(broker, "t", {"a": [1]}),
        ]

        assert same.id == first.id
        assert len({first.id, *ids(others)}) == 5

    async def test_enqueue_compares_keys_by_bytes(self, broker: Broker) -> None:
        keys = ["key", "Key", "key ", "ke\u0301", "k\u00e9", "😀" * 255, "'; drop table", "{a}{b}"]
        jobs = [await enqueue(broker, idempotency_key=key) for key in keys]

        assert len(set(ids(jobs))) == len(keys)
        assert ids([await enqueue(broker, idempotency_key=key) for key in keys]) == ids(jobs)

    @pytest.mark.parametrize("key", [{"id": "one"}, {"idempotency_key": "k"}, {"unique_key": "u"}, {"unique": True}])
    async def test_enqueue_at_once_makes_one_job(self, broker: Broker, key: dict[str, Any]) -> None:
        jobs = await asyncio.gather(*(enqueue(broker, **key) for _ in range(32)))

        assert len(set(ids(jobs))) == 1
        assert sum(not job.was_duplicate for job in jobs) == 1
        assert len(await claim(broker)) == 1

    async def test_enqueue_at_once_keeps_errors_apart(self, broker: Broker) -> None:
        await enqueue(broker, params=0, idempotency_key="k")

        answers = await asyncio.gather(
            *(enqueue(broker, params=place % 2, idempotency_key="k" if place < 4 else None) for place in range(8)),
            return_exceptions=True,
        )

        assert [isinstance(answer, IdempotencyMismatch) for answer in answers] == [
            place in {1, 3} for place in range(8)
        ]
        assert (await broker.counts()).pending == 5
