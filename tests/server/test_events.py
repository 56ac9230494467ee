"""GET /api/events: over a real socket, since what matters is when something comes, and that it ends."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest

import dibs
from dibs import App
from dibs.server import asgi, streaming
from dibs.server.routes import events
from tests.server.client import BASE, Client
from tests.server.conftest import Make
from tests.server.process import Serving


class Stream:
    """A client that reads events one by one."""

    def __init__(self, serving: Serving, query: str = "", last: str | None = None) -> None:
        self.socket = serving.connect()
        header = "" if last is None else f"Last-Event-ID: {last}\r\n"
        self.socket.sendall(f"GET /api/events{query} HTTP/1.1\r\nHost: localhost\r\n{header}\r\n".encode())
        self._data = b""
        self.head = self._until(b"\r\n\r\n").decode().lower()
        self._body = b""

    def _until(self, end: bytes) -> bytes:
        while end not in self._data:
            piece = self.socket.recv(65536)
            if not piece:
                raise EOFError
            self._data += piece
        found, _, self._data = self._data.partition(end)
        return found

    def _piece(self) -> bytes:
        size = int(self._until(b"\r\n"), 16)
        if not size:
            raise EOFError
        while len(self._data) < size + 2:
            self._data += self.socket.recv(65536)
        piece, self._data = self._data[:size], self._data[size + 2 :]
        return piece

    def next(self) -> dict[str, Any]:
        """Read the next event; comments and the like are passed over."""
        while True:
            while b"\n\n" not in self._body:
                self._body += self._piece()
            block, _, self._body = self._body.partition(b"\n\n")
            fields = dict(line.split(": ", 1) for line in block.decode().splitlines() if not line.startswith(":"))
            if "data" in fields:
                return {**fields, "data": json.loads(fields["data"])}

    def close(self) -> None:
        self.socket.close()


def test_a_job_s_log_as_it_grows(serving: Serving) -> None:
    with dibs.App(serving.store).sync as queue:
        queue.enqueue("t", id="a")
        stream = Stream(serving, "?id=a")
        assert "content-type: text/event-stream" in stream.head
        first = stream.next()
        assert (first["id"], first["event"], first["data"]["to"]) == ("1", "enqueued", "pending")
        claim = queue.claim("w")
        assert claim is not None
        assert stream.next()["event"] == "claimed"
        stream.close()

        claim.complete()  # while no one listens
        again = Stream(serving, "?id=a", last="2")
        told = again.next()
        assert (told["id"], told["event"]) == ("3", "completed")
        queue.purge("a")
        assert again.next()["event"] == "pruned"
        with pytest.raises(EOFError):  # there is no more to come
            again.next()
        again.close()


def test_queues_as_they_change(serving: Serving) -> None:
    with dibs.App(serving.store).sync as queue:
        stream = Stream(serving)
        first = stream.next()
        assert (first["event"], first["data"]) == ("queues", {"whole": True, "queues": [], "gone": []})
        queue.enqueue("t", id="a", queue="mail")
        second = stream.next()
        [mail] = second["data"]["queues"]
        assert (second["data"]["whole"], mail["queue"], mail["counts"]["pending"]) == (False, "mail", 1)
        stream.close()

        queue.cancel("a")  # while no one listens
        again = Stream(serving, last=second["id"])
        told = again.next()
        assert [one["counts"]["cancelled"] for one in told["data"]["queues"]] == [1]
        queue.purge("a")
        assert again.next()["data"]["gone"] == ["mail"]
        again.close()


def test_what_is_known_is_not_told_again(serving: Serving) -> None:
    with dibs.App(serving.store).sync as queue:
        queue.enqueue("t", queue="mail")
        stream = Stream(serving)
        known = stream.next()["id"]
        stream.close()
        again = Stream(serving, last=known)
        queue.enqueue("t", queue="other")
        told = again.next()
        assert [one["queue"] for one in told["data"]["queues"]][-1:] == ["other"]
        again.close()


def test_a_stop_ends_the_streams(serving: Serving) -> None:
    streams = [Stream(serving) for _ in range(5)]
    for stream in streams:
        stream.next()
    began = time.monotonic()
    assert serving.end(signal.SIGTERM) == 0
    assert time.monotonic() - began < 5
    for stream in streams:
        with pytest.raises((EOFError, ConnectionError)):
            stream.next()
        stream.close()


def test_there_is_an_end_to_how_many(serving: Serving) -> None:
    streams = [Stream(serving) for _ in range(events.MOST)]
    for stream in streams:
        stream.next()
    assert answered(serving) == "http/1.1 429"
    streams[0].close()  # one goes, and makes room
    end = time.monotonic() + 10
    while answered(serving) != "http/1.1 200":
        assert time.monotonic() < end, "a stream that has gone is still counted"
    for stream in streams:
        stream.close()


def answered(serving: Serving) -> str:
    """Ask for a stream, and say with what that was answered."""
    stream = Stream(serving)
    stream.close()
    return stream.head[:12]


async def test_streams_refuse(client: Client, make_key: Make) -> None:
    await client.enqueue(id="a", queue="mail")
    other = await make_key("read", queues=["other"])

    assert (await client.get("/api/events?id=none")).status == 404
    assert (await client.get("/api/events?id=a", key=other)).status == 404
    assert (await client.get("/api/events?id=a%20b")).fields == ["id"]
    assert (await client.get("/api/events?colour=red")).fields == ["colour"]
    bad = await client.get("/api/events?id=a", headers={"Last-Event-ID": "x"})
    assert (bad.status, bad.fields) == (400, ["Last-Event-ID"])


async def test_head_has_an_end(client: Client) -> None:
    answer = await client.http.head("/api/events", headers={"X-API-Key": client.key or ""})
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream")


async def test_a_client_that_reads_nothing_is_left(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "SLOWEST", 0.05)
    api = asgi(app, auth=False)
    sent: list[str] = []
    never = asyncio.Event()

    async def send(message: Any) -> None:
        sent.append(message["type"])
        if message["type"] == "http.response.body":
            await never.wait()  # its window is full

    async def receive() -> Any:
        await never.wait()

    scope = {"type": "http", "method": "GET", "path": "/api/events", "headers": [], "query_string": b""}
    await asyncio.wait_for(api(scope, receive, send), 10)
    assert sent == ["http.response.start", "http.response.body"]
    assert (api.state.feed.streams, api.state.polls) == (0, set())


async def test_a_stream_ends_so_that_its_key_is_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "LONGEST", 0)
    async with dibs.App(f"sqlite:///{tmp_path}/jobs.db") as app:
        transport = httpx2.ASGITransport(asgi(app, auth=False))
        async with httpx2.AsyncClient(transport=transport, base_url=BASE) as http:
            answer = await http.get("/api/events")
    assert answer.text.startswith("retry: 2000\n\nid: ")
