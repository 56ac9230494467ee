"""The proxy itself: a fault that does not happen would prove nothing."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Self

import pytest

from tests.servers.proxy import Proxy

SOON = 5.0  # seconds; only a test that fails waits for so long
NEVER = 0.3  # seconds in which nothing must come


class Parrot:
    """A server that says back what it is told, and remembers it."""

    def __init__(self) -> None:
        self.heard = b""
        self.news = asyncio.Condition()
        self.ended = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1000):
                writer.write(data)
                async with self.news:
                    self.heard += data
                    self.news.notify_all()
        except ConnectionError:
            pass
        finally:
            writer.close()
            async with self.news:
                self.ended += 1
                self.news.notify_all()

    async def hears(self, text: bytes) -> None:
        async with asyncio.timeout(SOON), self.news:
            await self.news.wait_for(lambda: text in self.heard)

    async def sees_the_end_of(self, number: int) -> None:
        async with asyncio.timeout(SOON), self.news:
            await self.news.wait_for(lambda: self.ended >= number)


@pytest.fixture
async def parrot() -> Parrot:
    return Parrot()


@pytest.fixture
async def server(parrot: Parrot) -> AsyncIterator[int]:
    async with await asyncio.start_server(parrot.serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


@pytest.fixture
def proxy(server: int) -> Iterator[Proxy]:
    with Proxy("127.0.0.1", server) as proxy:
        yield proxy


class Client:
    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy

    async def __aenter__(self) -> Self:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.proxy.port)
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.writer.transport.abort()
        await asyncio.sleep(0)

    async def ask(self, text: bytes, seconds: float = SOON) -> bytes:
        self.writer.write(text)
        async with asyncio.timeout(seconds):
            return await self.reader.readexactly(len(text))


async def test_it_passes_on_what_comes(proxy: Proxy, parrot: Parrot) -> None:
    async with Client(proxy) as one, Client(proxy) as other:
        assert await one.ask(b"hello") == b"hello"
        assert await other.ask(b"x" * 300_000) == b"x" * 300_000
        assert proxy.connections == 2
    await parrot.sees_the_end_of(2)


async def test_it_is_in_the_way_of_a_url(proxy: Proxy) -> None:
    assert proxy.through("postgresql://me:secret@db:5432/jobs?pool=2") == (
        f"postgresql://me:secret@127.0.0.1:{proxy.port}/jobs?pool=2"
    )
    assert Proxy.of("redis://cache:6379/0").target == ("cache", 6379)


async def test_it_delays(proxy: Proxy) -> None:
    async with Client(proxy) as client:
        proxy.delay(0.2)
        began = asyncio.get_running_loop().time()
        assert await client.ask(b"later") == b"later"
        assert asyncio.get_running_loop().time() - began >= 0.4, "there and back"
        proxy.pass_on()
        assert await client.ask(b"at once", seconds=0.2) == b"at once"


async def test_it_resets(proxy: Proxy, parrot: Parrot) -> None:
    async with Client(proxy) as client:
        await client.ask(b"hello")
        assert proxy.reset() == 1
        with pytest.raises(ConnectionResetError):
            await client.ask(b"hello?")
    await parrot.sees_the_end_of(1)
    async with Client(proxy) as client:
        assert await client.ask(b"hello") == b"hello"


async def test_silence_swallows_both_ways_and_keeps_the_connection(proxy: Proxy, parrot: Parrot) -> None:
    async with Client(proxy) as old:
        await old.ask(b"before")
        proxy.silence()
        async with Client(proxy) as new:
            for client in (old, new):
                with pytest.raises(TimeoutError):
                    await client.ask(b"during", seconds=NEVER)
                assert not client.reader.at_eof()
        proxy.pass_on()
        with pytest.raises(TimeoutError):
            await old.ask(b"after", seconds=NEVER)
        async with Client(proxy) as new:
            assert await new.ask(b"new") == b"new"
    assert parrot.heard == b"beforenew"
    assert parrot.ended <= 1, "the server does not learn that a silent client has left"


async def test_it_refuses(proxy: Proxy) -> None:
    async with Client(proxy) as client:
        await client.ask(b"hello")
        proxy.refuse()
        with pytest.raises(ConnectionRefusedError):
            await Client(proxy).__aenter__()
        assert await client.ask(b"still here") == b"still here"
        proxy.pass_on()
        async with Client(proxy) as other:
            assert await other.ask(b"hello") == b"hello"


async def test_a_server_that_is_not_there_ends_the_connection(server: int) -> None:
    ended = (ConnectionResetError, asyncio.IncompleteReadError)  # the first even while it connects
    with Proxy("127.0.0.1", 1) as proxy, pytest.raises(ended):
        async with Client(proxy) as client:
            await client.ask(b"hello")


async def test_the_server_hears_what_the_client_gets_no_answer_to(proxy: Proxy, parrot: Parrot) -> None:
    async with Client(proxy) as client, Client(proxy) as other:
        await client.ask(b"BEGIN")
        proxy.cut_after(b"COMMIT")
        assert await client.ask(b"INSERT") == b"INSERT"
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await client.ask(b"COMMIT")
        await parrot.hears(b"BEGININSERTCOMMIT")
        await parrot.sees_the_end_of(1)
        assert proxy.cuts == 1
        assert await other.ask(b"COMMIT") == b"COMMIT", "once only"


async def test_any_bytes_may_be_the_ones_to_cut_after(proxy: Proxy, parrot: Parrot) -> None:
    async with Client(proxy) as one, Client(proxy) as other:
        await one.ask(b"1")
        await other.ask(b"2")
        proxy.cut_after(times=2)
        for client in (one, other):
            with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
                await client.ask(b"3")
    assert parrot.heard == b"1233"
    assert proxy.cuts == 2
