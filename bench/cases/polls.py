"""A thousand long polls held by one server process: what they cost while nothing comes, and how many a job wakes."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from bench.cases.http import served
from bench.counted import count_of
from bench.load import HOST
from bench.run import Broken, Run
from bench.subjects import opened, prove_log, prove_once
from dibs.domain.settings import Config

CASE, SUBJECT = "http-polls", "dibs serve, sqlite"
POLLS = 1000
MOST_MIB, MOST_CPU, MOST_CLAIMS = 200.0, 5.0, 2.0
SETTLE_DOWN = 5.0
"""Seconds until all of them wait, and the server has done with taking them in."""
GAP = 0.05
"""Seconds between two jobs: so long that each is handed out before the next one comes, which is when it costs most."""
POLL_EVERY = Config.of().poll_every
PATIENCE = 60.0


class Poll:
    """One claim that waits, on a connection of its own."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer

    @classmethod
    async def begin(cls, port: int, number: int) -> Poll:
        reader, writer = await asyncio.open_connection(HOST, port)
        poll = cls(reader, writer)
        poll.send("/api/tasks/claim", {"worker_id": f"w{number}", "wait_seconds": 300})
        return poll

    def send(self, path: str, body: Any) -> None:
        text = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\nContent-Length: {len(text)}"
        self.writer.write(head.encode() + b"\r\n\r\n" + text)

    async def answer(self) -> dict[str, Any]:
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        found: dict[str, Any] = json.loads(await self._reader.readexactly(int(length.split(b":")[1])))
        return found


async def polls(run: Run) -> None:
    seconds, jobs = run.size(20, 5), run.size(200, 50)
    with run.fresh() as folder:
        counter = folder / "claims"
        command = (sys.executable, "-m", "bench.counted", str(counter))
        async with served(folder, *command) as (port, pid):
            waiting = [await Poll.begin(port, number) for number in range(POLLS)]
            with run.view.step(f"{POLLS} long polls", seconds + jobs) as step:
                await asyncio.sleep(SETTLE_DOWN)
                idle = count_of(counter)
                burnt = await _burnt(pid, seconds)
                step.advance(seconds)
                memory = _memory(pid)
                before, began = count_of(counter), time.monotonic()
                handed = await _hand_out(port, waiting, jobs)
                made, took = count_of(counter) - before, time.monotonic() - began
                step.advance(jobs)
            for poll in waiting:
                poll.writer.close()
        prove_once(run, handed, jobs)
        async with opened("sqlite", folder) as store:
            await prove_log(run, store, CASE, jobs)
    run.figure(CASE, SUBJECT, "claims while nothing comes, each second", "/s", [(before - idle) / seconds])
    looks = int(took / POLL_EVERY) + 1  # that are made whether jobs come or not: the floor under the hints
    about = f"{POLLS} long polls on one server process"
    run.bar(f"{CASE}-memory", f"{about}: memory", "MiB", [memory], at_most=MOST_MIB)
    run.bar(f"{CASE}-cpu", f"{about}: of a core, while nothing comes", "%", [100 * burnt], at_most=MOST_CPU)
    run.bar(
        f"{CASE}-claims", f"{about}: claims made for each new job", "", [(made - looks) / jobs], at_most=MOST_CLAIMS
    )


async def _hand_out(port: int, waiting: list[Poll], jobs: int) -> list[str]:
    """Enqueue one by one, and wait for all of them to reach someone; give the ids in the order in which they did."""
    producer = Poll(*await asyncio.open_connection(HOST, port))
    answers = [asyncio.create_task(poll.answer()) for poll in waiting]
    for number in range(jobs):
        producer.send("/api/tasks", {"task_type": "noop", "params": {"number": number}})
        if not (await producer.answer())["success"]:
            raise Broken("the server did not take a job")
        await asyncio.sleep(GAP)
    producer.writer.close()
    handed: list[str] = []
    try:
        async with asyncio.timeout(PATIENCE):
            for answer in asyncio.as_completed(answers):
                handed.append((await answer)["task"]["id"])
                if len(handed) == jobs:
                    break
    except TimeoutError:
        raise Broken(f"{jobs - len(handed)} jobs reached no one") from None
    finally:
        for each in answers:
            each.cancel()
        await asyncio.gather(*answers, return_exceptions=True)
    return handed


async def _burnt(pid: int, seconds: float) -> float:
    """The share of a core that a process takes, for so long."""
    before, began = _cpu(pid), time.monotonic()
    await asyncio.sleep(seconds)
    return (_cpu(pid) - before) / (time.monotonic() - began)


def _cpu(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def _memory(pid: int) -> float:
    """The most memory that a process ever had, in MiB."""
    return int(Path(f"/proc/{pid}/status").read_text().split("VmHWM:")[1].split()[0]) / 1024
