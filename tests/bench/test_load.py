"""The load client, against a server of a few lines; and what the HTTP case makes of its answers."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import pytest

from bench import load
from bench.cases.http import Claims
from bench.run import Broken, Run
from bench.view import View

Answer = Callable[[bytes, bytes], tuple[int, object] | None]


@asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[int]:
    """Answer each request, in two pieces; hang up where there is no answer."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                answered = answer(head.split(b"\r\n")[0], await reader.readexactly(length))
                if answered is None:
                    break
                status, body = answered
                content = json.dumps(body).encode()
                writer.write(f"HTTP/1.1 {status} x\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content[:3])
                await writer.drain()
                writer.write(content[3:])
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(talk, load.HOST, 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def test_claims_are_counted_and_told_one_by_one() -> None:
    numbers = count()

    def claim(line: bytes, body: bytes) -> tuple[int, object]:
        assert line == b"POST /api/tasks/claim HTTP/1.1"
        assert json.loads(body)["worker_id"] == "bench"
        number = next(numbers)
        if number >= 40:
            return 404, {"error": "No pending tasks available"}
        return 200, {"success": True, "task": {"id": f"job-{number}", "fence": 1}}

    async with serving(claim) as port:
        answer = await load.claim(port, 50, 10)
    assert sorted(answer["claims"]) == sorted((f"job-{n}", 1) for n in range(40))
    assert answer["statuses"] == {"200": 40, "404": 10}
    assert len(answer["took"]) == 50


async def test_claims_of_many_are_told_one_by_one() -> None:
    numbers = count()

    def claim(line: bytes, body: bytes) -> tuple[int, object]:
        tasks = [{"id": f"job-{next(numbers)}", "fence": 1} for _ in range(json.loads(body)["limit"])]
        return 200, {"success": True, "task": tasks[0], "tasks": tasks}

    async with serving(claim) as port:
        answer = await load.claim_many(port, 3, 2)
    assert sorted(answer["claims"]) == sorted((f"job-{n}", 1) for n in range(300))
    assert len(answer["took"]) == 3


async def test_jobs_are_put_in_by_the_thousand() -> None:
    sizes: list[int] = []

    def enqueue(line: bytes, body: bytes) -> tuple[int, object]:
        tasks = json.loads(body)["tasks"]
        sizes.append(len(tasks))
        return 201, {"tasks": [{"id": f"{len(sizes)}-{n}"} for n in range(len(tasks))]}

    async with serving(enqueue) as port:
        answer = await load.fill(port, 2_500, 1)
    assert sizes == [1000, 1000, 500]
    assert len(set(answer["ids"])) == 2_500


async def test_a_server_that_hangs_up_is_noticed() -> None:
    left = iter(range(30))

    def sometimes(line: bytes, body: bytes) -> tuple[int, object] | None:
        return (200, {}) if next(left, None) is not None else None

    async with serving(sometimes) as port:
        with pytest.raises(ConnectionError):
            await load.health(port, 100, 10)


@pytest.mark.parametrize(
    ("handed", "noticed"),
    [
        ([("a", 1), ("a", 2)], "2 jobs, 2 claims, 1 different"),
        ([("a", 1)], "2 jobs, 1 claims"),
        ([("a", 1), ("c", 1)], "no one enqueued"),
        ([("a", 1), ("b", 2)], "had been handed out before"),
    ],
)
def test_a_job_that_is_handed_out_twice_breaks_the_run(
    tmp_path: Path, handed: list[tuple[str, int]], noticed: str
) -> None:
    run, claims = Run(tmp_path, View()), Claims()
    claims.enqueued, claims.handed = ["a", "b"], handed
    with pytest.raises(Broken, match=noticed):
        claims.prove(run)


def test_jobs_that_are_handed_out_once_are_counted(tmp_path: Path) -> None:
    run, claims = Run(tmp_path, View()), Claims()
    claims.enqueued, claims.handed = ["a", "b"], [("b", 1), ("a", 1)]
    claims.prove(run)
    assert run.jobs_checked == 2
