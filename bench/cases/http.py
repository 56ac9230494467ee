"""Claims over HTTP: a server process on SQLite and ten connections from another, in turns with its empty endpoint."""

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

from bench.children import started
from bench.load import HOST
from bench.run import Broken, Run, in_turns, percentile, ratios
from bench.subjects import opened, prove_log, prove_once, url_of

SUBJECT = "dibs serve, sqlite"
EMPTY, CLAIM = "GET /health", "claim of one"
AT_MOST_MS = 10.0
SHARE = 0.2
"""The part of the empty endpoint's rate that is left when a claim has been read, made, committed and written."""
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
    requests, turns = run.size(20_000, 2_000), run.size(5, 3)
    claims = Claims()
    with run.fresh() as folder:
        async with served(folder) as (port, _):
            found = await in_turns(
                run.view,
                "HTTP, ten connections",
                turns,
                {EMPTY: partial(_empty, port, requests), CLAIM: partial(_claim, port, requests, claims)},
            )
            await _nothing_more(port)
        claims.prove(run)
        async with opened("sqlite", folder) as store:
            await prove_log(run, store, "http", turns * requests)
    for what, answers in found.items():
        run.figure("http", SUBJECT, f"{what}, ten connections", "/s", _rates(answers))
        for share in (50, 95, 99):
            run.figure("http", SUBJECT, f"{what}, p{share}", "ms", _millis(answers, share))
    run.bar(
        "http-claim-p95",
        "a claim over HTTP on SQLite, ten connections, p95",
        "ms",
        _millis(found[CLAIM], 95),
        at_most=AT_MOST_MS,
    )
    run.bar(
        "http-claim-rate",
        "claims over HTTP on SQLite, over requests to the server's empty endpoint",
        "×",
        ratios(_rates(found[CLAIM]), _rates(found[EMPTY])),
        at_least=SHARE,
    )


def _rates(answers: list[dict[str, Any]]) -> list[float]:
    return [len(answer["took"]) / answer["seconds"] for answer in answers]


def _millis(answers: list[dict[str, Any]], share: int) -> list[float]:
    return [1e3 * percentile(answer["took"], share) for answer in answers]


async def _empty(port: int, requests: int) -> dict[str, Any]:
    return await _load(port, "health", requests, "200")


async def _claim(port: int, requests: int, claims: Claims) -> dict[str, Any]:
    claims.enqueued += (await _load(port, "fill", requests, "201"))["ids"]
    answer = await _load(port, "claim", requests, "200")
    claims.handed += [(id, fence) for id, fence in answer["claims"]]
    return answer


async def _nothing_more(port: int) -> None:
    await _load(port, "claim", 1, "404")


async def _load(port: int, mode: str, requests: int, expected: str) -> dict[str, Any]:
    command = (sys.executable, "-m", "bench.load", str(port), mode, str(requests))
    async with started(f"the load client ({mode})", *command) as client:
        answer = await client.line()
    if set(answer["statuses"]) != {expected}:
        raise Broken(f"the server answered a {mode} with {answer['statuses']}, not with {expected} alone")
    return answer


@asynccontextmanager
async def served(folder: Path, *command: str) -> AsyncIterator[tuple[int, int]]:
    """A server process on a port of its own, until it is told to stop: its port, and its number."""
    port, log = _free_port(), folder / "serve.log"
    dibs = command or (str(Path(sys.executable).with_name("dibs")),)
    options = ("--store", url_of("sqlite", folder), "--host", HOST, "--port", str(port), "--no-auth")
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


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
    return port


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"
