"""Load over HTTP: some connections, each of which asks again as soon as it has its answer.

``python -m bench.load PORT MODE REQUESTS CONNECTIONS`` says what it saw as a line of JSON. It is to cost little beside
the server, so it reads no more of an answer than where it ends; what the answers say is looked at when the time is
taken.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

BATCH = 1000
CLAIMED = 100
"""Jobs of a batch claim."""
HOST = "127.0.0.1"
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
HOUR = 3600
"""Seconds that a claim is held: none may run out while others are still being made."""


class Load:
    """Requests that are yet to be sent, and the answers that came."""

    def __init__(self, requests: Iterator[bytes]) -> None:
        self._requests = requests
        self.took: list[float] = []
        self.answers: list[bytes] = []
        self.open = 0
        self.over = asyncio.get_running_loop().create_future()

    def next(self) -> bytes | None:
        return next(self._requests, None)

    def closed(self, problem: BaseException | None) -> None:
        self.open -= 1
        if self.over.done():
            return
        if problem is not None:
            self.over.set_exception(problem)
        elif not self.open:
            self.over.set_result(None)


class Connection(asyncio.Protocol):
    """One request at a time, on a connection that is kept."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._transport: asyncio.Transport | None = None
        self._waiting = False
        self._began = 0.0
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._load.open += 1

    def ask(self) -> None:
        assert self._transport is not None
        request = self._load.next()
        self._waiting = request is not None
        if request is None:
            self._transport.close()
            return
        self._began = time.perf_counter()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head = self._received.find(b"\r\n\r\n")
        if head < 0:
            return
        length = LENGTH.search(self._received, 0, head)
        if length is None or len(self._received) < head + 4 + int(length[1]):
            return
        self._load.took.append(time.perf_counter() - self._began)
        self._load.answers.append(self._received)
        self._received = b""
        self.ask()

    def connection_lost(self, exc: Exception | None) -> None:
        lost = ConnectionError("the server hung up on a request") if self._waiting else None
        self._load.closed(exc or lost)


async def send(port: int, requests: Iterator[bytes], connections: int) -> tuple[Load, float]:
    """Send them all; say what came back, and how many seconds it took once all connections were open."""
    load = Load(requests)
    loop = asyncio.get_running_loop()
    opened = [(await loop.create_connection(lambda: Connection(load), HOST, port))[1] for _ in range(connections)]
    began = time.perf_counter()
    for connection in opened:
        connection.ask()
    await load.over
    return load, time.perf_counter() - began


def request(method: str, path: str, body: object = None) -> bytes:
    content = b"" if body is None else json.dumps(body).encode()
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\nContent-Length: {len(content)}"
    )
    return head.encode() + b"\r\n\r\n" + content


async def health(port: int, number: int, connections: int) -> dict[str, Any]:
    """The server's empty endpoint."""
    asked = request("GET", "/health")
    load, seconds = await send(port, (asked for _ in range(number)), connections)
    return {"seconds": seconds, "took": load.took, "statuses": _statuses(load)}


async def claim(port: int, number: int, connections: int) -> dict[str, Any]:
    """One job a request."""
    return await _claim(port, number, connections, {})


async def claim_many(port: int, number: int, connections: int) -> dict[str, Any]:
    """A hundred jobs a request."""
    return await _claim(port, number, connections, {"limit": CLAIMED})


async def _claim(port: int, number: int, connections: int, options: dict[str, Any]) -> dict[str, Any]:
    asked = request("POST", "/api/tasks/claim", {"worker_id": "bench", "lease_seconds": HOUR, **options})
    load, seconds = await send(port, (asked for _ in range(number)), connections)
    tasks = [task for answer in _bodies(load) for task in answer.get("tasks") or filter(None, [answer.get("task")])]
    claims = [(task["id"], task["fence"]) for task in tasks]
    return {"seconds": seconds, "took": load.took, "statuses": _statuses(load), "claims": claims}


async def fill(port: int, number: int, _: int) -> dict[str, Any]:
    """So many jobs, a thousand a request."""
    params = {"to": "someone@example.com", "subject": "a job of usual size", "number": 1}
    sizes = [min(BATCH, number - start) for start in range(0, number, BATCH)]
    asked = (request("POST", "/api/tasks", {"tasks": [{"task_type": "noop", "params": params}] * n}) for n in sizes)
    load, seconds = await send(port, asked, connections=1)
    ids = [task["id"] for answer in _bodies(load) for task in answer.get("tasks", ())]
    return {"seconds": seconds, "took": load.took, "statuses": _statuses(load), "ids": ids}


def _statuses(load: Load) -> dict[str, int]:
    return dict(Counter(answer[9:12].decode() for answer in load.answers))


def _bodies(load: Load) -> Iterator[dict[str, Any]]:
    for answer in load.answers:
        yield json.loads(answer[answer.index(b"\r\n\r\n") + 4 :])


MODES = {"health": health, "claim": claim, "claim-many": claim_many, "fill": fill}


if __name__ == "__main__":
    port, mode, number, connections = sys.argv[1:]
    print(json.dumps(asyncio.run(MODES[mode](int(port), int(number), int(connections)))), flush=True)
