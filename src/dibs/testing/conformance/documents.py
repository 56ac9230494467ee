"""documents, put: a small registry with compare-and-set."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from dibs.domain.retry import SECOND
from dibs.testing.conformance.base import Suite
from dibs.testing.conformance.builders import FOREVER, US

if TYPE_CHECKING:
    from dibs.clock import FakeClock
    from dibs.domain.job import Document
    from dibs.store import Store


async def named(store: Store, prefix: str) -> list[str]:
    """Name the documents of a prefix."""
    return [document.name for document in await store.documents(prefix)]


async def put(store: Store, name: str, value: bytes, *, expect: int | None = None, keep: int | None = None) -> Document:
    """Write a document that must be taken."""
    document = await store.put(name, value, expect=expect, keep_us=None if keep is None else keep * SECOND)
    assert document is not None
    return document


class DocumentSuite(Suite):
    """Whatever else must be kept."""

    async def test_read_finds_one_document_by_its_whole_name(self, store: Store, clock: FakeClock) -> None:
        await store.put("once/a", b"1")
        await store.put("once/ab", b"2")
        await store.put("brief", b"3", keep_us=10 * SECOND)

        assert [document and document.value for document in [await store.read("once/a")]] == [b"1"]
        assert await store.read("once/") is None
        assert await store.read("nowhere") is None
        assert await store.read("brief") is not None

        clock.advance(10)
        assert await store.read("brief") is None

    async def test_put_writes_a_document(self, store: Store, clock: FakeClock) -> None:
        document = await put(store, "a/b", b"value")

        assert (document.name, document.value) == ("a/b", b"value")
        assert (document.updated_us, document.expires_us) == (clock.now(), None)
        assert document.version > 0
        assert await store.documents("a/b") == [document]

    @pytest.mark.parametrize("value", [b"", b"\x00", bytes(range(256)), b"x" * 100_000], ids=range(4))
    async def test_put_keeps_the_value_byte_for_byte(self, store: Store, value: bytes) -> None:
        await put(store, "a", value)

        assert [document.value for document in await store.documents("a")] == [value]

    async def test_put_raises_the_version(self, store: Store, clock: FakeClock) -> None:
        first = await put(store, "a", b"1")
        clock.advance(1)
        second = await put(store, "a", b"1")

        assert second.version > first.version
        assert second.updated_us == first.updated_us + SECOND
        assert await store.documents("a") == [second]

    async def test_put_compares_the_version(self, store: Store) -> None:
        first = await put(store, "a", b"1", expect=0)

        assert await store.put("a", b"2", expect=0) is None
        assert await store.put("a", b"2", expect=first.version + 1) is None
        assert await store.put("b", b"2", expect=first.version) is None
        assert await store.documents("") == [first]

        second = await put(store, "a", b"2", expect=first.version)
        assert await store.put("a", b"3", expect=first.version) is None
        assert await store.documents("") == [second]

    async def test_put_removes(self, store: Store) -> None:
        first = await put(store, "a", b"1")

        assert await store.put("a", None, expect=first.version + 1) is None
        gone = await store.put("a", None, expect=first.version)

        assert gone is not None
        assert (gone.name, gone.version) == ("a", 0)
        assert await store.documents("") == []
        assert await store.put("a", b"2", expect=first.version) is None
        assert (await put(store, "a", b"2", expect=0)).version > 0

    async def test_put_removes_what_is_not_there(self, store: Store) -> None:
        gone = await store.put("a", None)

        assert gone is not None
        assert gone.version == 0
        assert await store.documents("") == []

    async def test_put_for_a_while(self, store: Store, clock: FakeClock) -> None:
        document = await put(store, "a", b"1", keep=10)
        assert document.expires_us == clock.now() + 10 * SECOND
        clock.advance(10 - US)
        assert await store.documents("a") == [document]
        assert await store.put("a", b"2", expect=0) is None

        clock.advance(US)
        assert await store.documents("a") == []
        assert await store.put("a", b"2", expect=document.version) is None
        new = await put(store, "a", b"2", expect=0)
        assert new.expires_us is None
        clock.advance(FOREVER)
        assert await store.documents("a") == [new]

    async def test_put_again_for_longer(self, store: Store, clock: FakeClock) -> None:
        await put(store, "a", b"1", keep=10)
        clock.advance(5)
        await put(store, "a", b"1", keep=10)
        clock.advance(6)
        await store.prune(10)

        assert await named(store, "a") == ["a"]

    async def test_documents_by_prefix_and_in_order(self, store: Store) -> None:
        names = ["key", "key/", "key/B", "key/a", "key/a/b", "key/ä", "keys", "k", "Key/a", "key_a", "kez"]
        for name in names:
            await put(store, name, name.encode())

        assert await named(store, "key/") == ["key/", "key/B", "key/a", "key/a/b", "key/ä"]
        assert await named(store, "key/a/b") == ["key/a/b"]
        assert await named(store, "key_") == ["key_a"]
        assert await named(store, "key%") == []
        assert await named(store, "") == sorted(names)
        assert [document.value.decode() for document in await store.documents("")] == sorted(names)

    async def test_put_lets_one_of_many_win(self, store: Store) -> None:
        answers = await asyncio.gather(*(store.put("a", str(n).encode(), expect=0) for n in range(32)))

        [winner] = [answer for answer in answers if answer is not None]
        assert await store.documents("a") == [winner]

    async def test_put_counts_to_a_hundred_with_compare_and_set(self, store: Store) -> None:
        async def add() -> None:
            while True:
                found = await store.documents("count")
                value = int(found[0].value) if found else 0
                if await store.put("count", b"%d" % (value + 1), expect=found[0].version if found else 0):
                    return

        await asyncio.gather(*(add() for _ in range(100)))

        assert [document.value for document in await store.documents("count")] == [b"100"]
