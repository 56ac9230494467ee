"""publish_schemas, schemas: what workers say of their tasks is kept once, and beside what others say."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from dibs.domain.errors import InvalidRequest
from dibs.domain.schema import HELD, KEPT, MOST_OFFERS, RENEWED, Offer, offer_of
from dibs.testing.conformance.broker.base import Suite

if TYPE_CHECKING:
    from dibs.broker.protocol import Broker
    from dibs.clock import FakeClock

SECOND = 1_000_000


def offer(task: str = "mail/send", *required: str) -> Offer:
    """Make a schema that wants these arguments."""
    return offer_of(task, {"type": "object", "required": list(required)})


async def wanted(broker: Broker) -> list[tuple[str, list[str]]]:
    """Read which tasks are known, and what each wants."""
    return [(info.task, info.schema["required"]) for info in await broker.schemas()]


class SchemaSuite(Suite):
    """Schemas."""

    async def test_publish_schemas_makes_known(self, broker: Broker, clock: FakeClock) -> None:
        assert await broker.schemas() == []
        offers = [offer("resize", "path"), offer("mail/send", "to")]
        assert await broker.publish_schemas(offers, by="w-1") == 2

        first, second = await broker.schemas()
        assert (first.task, second.task) == ("mail/send", "resize")
        assert (first.digest, first.schema_json) == (offers[1].digest, offers[1].schema_json)
        assert first.schema == {"type": "object", "required": ["to"]}
        assert (first.by or "").endswith("w-1")
        assert first.published_us == clock.now()
        assert first.published_at is not None

    async def test_publish_schemas_writes_what_is_not_known_and_no_more(self, broker: Broker, clock: FakeClock) -> None:
        assert await broker.publish_schemas([]) == 0
        assert await broker.publish_schemas([offer("a"), offer("b")]) == 2
        clock.advance(60)
        assert await broker.publish_schemas([offer("a"), offer("b", "x"), offer("c")]) == 2
        assert await wanted(broker) == [("a", []), ("b", ["x"]), ("b", []), ("c", [])]
        assert await broker.publish_schemas([offer("a"), offer("b", "x"), offer("c")]) == 0

    async def test_publish_schemas_keeps_two_versions_for_an_hour(self, broker: Broker, clock: FakeClock) -> None:
        await broker.publish_schemas([offer("a")])
        clock.advance(86_400)
        await broker.publish_schemas([offer("a", "new")])
        clock.advance(HELD / SECOND / 2)
        assert await wanted(broker) == [("a", ["new"]), ("a", [])]
        await broker.publish_schemas([offer("a", "new")])
        clock.advance(HELD / SECOND / 2 - 1)
        assert await wanted(broker) == [("a", ["new"]), ("a", [])]
        clock.advance(1)
        assert await wanted(broker) == [("a", ["new"])]

    async def test_publish_schemas_from_many_at_once_keeps_what_each_said(self, broker: Broker) -> None:
        versions = [offer("a"), offer("a", "new")]
        await asyncio.gather(*(broker.publish_schemas([versions[place % 2], offer("b")]) for place in range(8)))
        assert sorted(await wanted(broker)) == [("a", []), ("a", ["new"]), ("b", [])]

    async def test_schemas_that_no_worker_renews_are_forgotten(self, broker: Broker, clock: FakeClock) -> None:
        await broker.publish_schemas([offer("a"), offer("b")])
        clock.advance(RENEWED / SECOND)
        assert await broker.publish_schemas([offer("a")]) == 1
        clock.advance((KEPT - RENEWED) / SECOND)
        assert await wanted(broker) == [("a", [])]

    async def test_publish_schemas_refuses_what_cannot_be(self, broker: Broker) -> None:
        with pytest.raises(InvalidRequest) as refused:
            await broker.publish_schemas([offer("a"), offer("no name")])
        assert refused.value.fields == ("schemas[1].task",)
        with pytest.raises(InvalidRequest):
            await broker.publish_schemas([offer(f"t{number}") for number in range(MOST_OFFERS + 1)])
        assert await broker.schemas() == []
