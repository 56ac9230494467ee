"""Claims over HTTP: a server process on each store and connections from another, in turns with its empty endpoint."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
import time
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from bench import postgres as postgres_server
from bench import redis as redis_server
from bench.children import started
from bench.load import CLAIMED, HOST
from bench.places import Files, Place
from bench.run import Broken, Run, in_turns, percentile, ratios
from bench.subjects import opened_at, prove_log, prove_once, url_of

EMPTY, CLAIM, CLAIM_MANY = "GET /health", "claim of one", f"claim of {CLAIMED}"
NUMBERS = (10, 64)
"""Of connections."""
AT_MOST_MS = 10.0
"""For 95 of 100 claims, at the fewer connections."""
SHARE = 0.25
"""The part of the empty endpoint's rate that is left when a claim has been read, made, committed and written."""
MANY_PER_SECOND = 10_000.0
"""Jobs, by batch claims on SQLite."""
PATIENCE = 30.0


class Claims:
    """What the server took in and handed out over all turns."""

    def __init__(self) -> None:
        self.enqueued: list[str] = []
        self.handed: list[tuple[str, int]] = []

    def prove(self, run: Run) -> None:
        """Every job was handed out once, under its first fence, and nothing else was."""
        ids = [id for id, _ in self.handed]
        prove_once(run, ids, len(self.enqueued))
        if set(ids) != set(self.enqueued):
            raise Broken("the server handed out jobs that no one enqueued")
        if again := [id for id, fence in self.handed if fence != 1]:
            raise Broken(f"{len(again)} jobs had been handed out before, by their fence: {again[0]}")


async def http(run: Run) -> None:
    """On SQLite."""
    await _measure(run, Files(run, "sqlite"), "http", "SQLite")


async def http_postgres(run: Run) -> None:
    """On PostgreSQL."""
    async with postgres_server.serving(run) as server:
        await _measure(run, server, "http-postgres", "PostgreSQL")


async def http_redis(run: Run) -> None:
    """On Redis."""
    async with redis_server.serving(run) as server:
        await _measure(run, server, "http-redis", "Redis")


async def _measure(run: Run, place: Place, case: str, name: str) -> None:
    async with place.database(migrated=True) as url:
        with run.fresh() as folder:
            async with served(folder, url=url) as (port, _):
                server = _Measured(run, place.store, case, name, port)
                for number in NUMBERS:
                    await server.one_by_one(number)
                await server.batches()
                await _load(port, "claim", 1, 1, "404")  # nothing more
        server.claims.prove(run)
        async with opened_at(url) as store:
            await prove_log(run, store, case, len(server.claims.handed))


class _Measured:
    """A server on one store."""

    def __init__(self, run: Run, store: str, case: str, name: str, port: int) -> None:
        self._run, self._store, self._case, self._name, self._port = run, store, case, name, port
        self._subject, self._turns = f"dibs serve, {store}", run.size(5, 3)
        self.claims = Claims()

    async def one_by_one(self, number: int) -> None:
        requests = self._run.size(20_000, 2_000)
        found = await in_turns(
            self._run.view,
            f"HTTP on {self._name}, {number} connections",
            self._turns,
            {
                EMPTY: partial(_load, self._port, "health", requests, number),
                CLAIM: partial(self._claim, "claim", requests, requests, number),
            },
        )
        for what, answers in found.items():
            self._figure(f"{what}, {number} connections", "/s", _rates(answers))
            for share in (50, 95, 99):
                self._figure(f"{what}, {number} connections, p{share}", "ms", _millis(answers, share))
        if number == NUMBERS[0]:
            what = f"a claim over HTTP on {self._name}, {number} connections, p95"
            self._run.bar(f"{self._case}-claim-p95", what, "ms", _millis(found[CLAIM], 95), at_most=AT_MOST_MS)
        what = f"claims over HTTP on {self._name}, {number} connections, over requests to the server's empty endpoint"
        rates = ratios(_rates(found[CLAIM]), _rates(found[EMPTY]))
        self._run.bar(f"{self._case}-claim-rate-{number}", what, "×", rates, at_least=SHARE)

    async def batches(self) -> None:
        requests, number = self._run.size(200, 20), NUMBERS[0]
        claim = partial(self._claim, "claim-many", requests, requests * CLAIMED, number)
        found = await in_turns(self._run.view, f"HTTP on {self._name}, batches", self._turns, {CLAIM_MANY: claim})
        rates = [CLAIMED * rate for rate in _rates(found[CLAIM_MANY])]
        self._figure(f"{CLAIM_MANY}, {number} connections", "jobs/s", rates)
        if self._store == "sqlite":
            what = f"jobs by claims of {CLAIMED} over HTTP on SQLite, {number} connections"
            self._run.bar(f"{self._case}-batch-rate", what, "/s", rates, at_least=MANY_PER_SECOND)

    def _figure(self, what: str, unit: str, values: list[float]) -> None:
        self._run.figure(self._case, self._subject, what, unit, values)

    async def _claim(self, mode: str, requests: int, jobs: int, number: int) -> dict[str, Any]:
        self.claims.enqueued += (await _load(self._port, "fill", jobs, 1, "201"))["ids"]
        answer = await _load(self._port, mode, requests, number)
        self.claims.handed += [(id, fence) for id, fence in answer["claims"]]
        return answer


def _rates(answers: list[dict[str, Any]]) -> list[float]:
    return [len(answer["took"]) / answer["seconds"] for answer in answers]


def _millis(answers: list[dict[str, Any]], share: int) -> list[float]:
    return [1e3 * percentile(answer["took"], share) for answer in answers]


async def _load(port: int, mode: str, requests: int, connections: int, expected: str = "200") -> dict[str, Any]:
    command = (sys.executable, "-m", "bench.load", str(port), mode, str(requests), str(connections))
    async with started(f"the load client ({mode})", *command) as client:
        answer = await client.line()
    if set(answer["statuses"]) != {expected}:
        raise Broken(f"the server answered a {mode} with {answer['statuses']}, not with {expected} alone")
    return answer


@asynccontextmanager
async def served(
    folder: Path, *command: str, url: str | None = None, port: int | None = None
) -> AsyncIterator[tuple[int, int]]:
    """A server process on a port of its own, until it is told to stop: its port, and its number. Else on SQLite."""
    port, log = port or free_port(), folder / "serve.log"
    dibs = command or (str(Path(sys.executable).with_name("dibs")),)
    options = ("--store", url or url_of("sqlite", folder), "--host", HOST, "--port", str(port), "--no-auth")
    with log.open("wb") as said:
        server = await asyncio.create_subprocess_exec(*dibs, "serve", *options, stdout=DEVNULL, stderr=said)
    try:
        await _listening(server, port, log)
        yield port, server.pid
        server.send_signal(signal.SIGTERM)
        if await server.wait() not in {0, -signal.SIGTERM}:
            raise Broken(f"the server did not stop well: {_last_line(log)}")
    finally:
        if server.returncode is None:
            server.kill()
            await server.wait()


async def _listening(server: asyncio.subprocess.Process, port: int, log: Path) -> None:
    began = time.monotonic()
    while time.monotonic() - began < PATIENCE:
        if server.returncode is not None:
            break
        try:
            _, writer = await asyncio.open_connection(HOST, port)
        except OSError:
            await asyncio.sleep(0.05)
        else:
            writer.close()
            await writer.wait_closed()
            return
    raise Broken(f"dibs serve did not come up: {_last_line(log)}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
    return port


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"
