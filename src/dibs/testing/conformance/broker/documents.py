"""read and put: a registry of named documents, with compare-and-set."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from dibs.domain.retry import SECOND
from dibs.testing.conformance.broker.base import Suite

if TYPE_CHECKING:
    from dibs.broker.protocol import Broker
    from dibs.clock import FakeClock


class DocumentSuite(Suite):
    """Documents."""

    async def test_put_and_read(self, broker: Broker, clock: FakeClock) -> None:
        assert await broker.read("a/b") is None
        put = await broker.put("a/b", b"one")

        assert put is not None
        assert (put.name, put.version, put.value, put.updated_us) == ("a/b", 1, b"one", clock.now())
        assert await broker.read("a/b") == put
        assert await broker.read("a") is None
        assert await broker.read("a/bc") is None

    async def test_put_if_it_is_as_expected(self, broker: Broker) -> None:
        assert await broker.put("d", b"one", expect=1) is None
        assert await broker.put("d", b"one", expect=0) is not None
        assert await broker.put("d", b"other", expect=0) is None
        second = await broker.put("d", b"two", expect=1)
        assert second is not None
        assert second.version == 2
        third = await broker.put("d", b"three")
        assert third is not None
        assert third.version == 3
        assert await broker.read("d") == third

    async def test_put_nothing_removes(self, broker: Broker) -> None:
        await broker.put("d", b"one")
        assert await broker.put("d", None, expect=5) is None
        removed = await broker.put("d", None, expect=1)

        assert removed is not None
        assert removed.version == 0
        assert await broker.read("d") is None

    async def test_put_for_a_while(self, broker: Broker, clock: FakeClock) -> None:
        await broker.put("d", b"one", keep_us=10 * SECOND)
        clock.advance(9)
        assert await broker.read("d") is not None
        clock.advance(1)
        assert await broker.read("d") is None
        assert await broker.put("d", b"again", expect=0) is not None

    async def test_documents_of_a_prefix(self, broker: Broker, clock: FakeClock) -> None:
        assert await broker.documents("a/") == []
        for name in ("a/2", "a/1", "a", "ab/3", "b/1"):
            await broker.put(name, name.encode())
        await broker.put("a/0", b"short", keep_us=SECOND)
        clock.advance(2)

        assert [(found.name, found.value) for found in await broker.documents("a/")] == [
            ("a/1", b"a/1"),
            ("a/2", b"a/2"),
        ]

    async def test_put_at_once_lets_one_win(self, broker: Broker) -> None:
        answers = await asyncio.gather(*(broker.put("d", b"%d" % n, expect=0) for n in range(10)))

        [winner] = [answer for answer in answers if answer is not None]
        assert await broker.read("d") == winner
