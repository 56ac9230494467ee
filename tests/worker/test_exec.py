"""``dibs exec``: how a command is told of its job, and how its end becomes the job's."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dibs import App, Backoff, NewJob, Status
from dibs.domain.failure import MAX_ERROR
from dibs.worker.command import result
from tests.server.process import Serving
from tests.servers.databases import empty_mysql, empty_postgres, empty_redis
from tests.worker.execs import MAIN, Execs, execs_on, most_memory

MIB = 1024 * 1024


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    kind = getattr(request, "param", "sqlite")
    if kind == "served":
        with Serving(tmp_path, "--no-auth") as serving:
            yield serving.url
    else:
        servers = {"postgresql": empty_postgres, "mysql": empty_mysql, "redis": empty_redis}
        yield servers[kind]() if kind in servers else f"sqlite:///{tmp_path / 'jobs.db'}"


everywhere = pytest.mark.parametrize("url", ["sqlite", "served", "postgresql", "mysql", "redis"], indirect=True)


@everywhere
async def test_params_in_result_out(execs: Execs, app: App) -> None:
    params: list[Any] = [{"path": "ä.png", "n": [1, None]}, "a 'quoted' word", 7, [1, 2], None]
    jobs = await app.enqueue_many([NewJob("t", each) for each in params])
    other = await app.enqueue("other")
    await execs.run("cat")
    assert [(await app.wait(job.id, 5)).result for job in jobs] == params
    left = await app.get(other.id)
    assert left is not None
    assert (left.status, left.fence) == (Status.PENDING, 0)
    assert (await app.verify()).ok


@everywhere
async def test_exit_statuses(execs: Execs, app: App) -> None:
    """0 completes, 100 is not tried again, anything else is; what it said is kept."""
    retry = Backoff(0, 0)
    wanted = {"0": "completed", "100": "failed", "3": "failed"}
    jobs = {code: await app.enqueue("t", code, max_attempts=2, retry=retry) for code in wanted}
    said = await execs.run(
        "sh", "-c", 'read -r c; echo first >&2; echo "the last word" >&2; eval "exit $(echo $c | tr -d \\")"'
    )
    ended = {code: await app.wait(job.id, 5) for code, job in jobs.items()}
    assert {code: job.status for code, job in ended.items()} == wanted
    assert {code: job.attempts for code, job in ended.items()} == {"0": 1, "100": 1, "3": 2}
    for code in ("100", "3"):
        error = ended[code].error
        assert error is not None
        assert (error.message, error.kind, error.code) == (f"exit status {code}: the last word", "exit", code)
        assert error.traceback == "first\nthe last word"
    assert said.count("first\nthe last word\n") == 4  # it is shown as well
    assert "Traceback" not in said


async def test_the_environment_says_which_claim_it_is(execs: Execs, app: App) -> None:
    names = ("DIBS_ID", "DIBS_TASK", "DIBS_QUEUE", "DIBS_FENCE", "DIBS_ATTEMPT", "DIBS_MAX_ATTEMPTS", "DIBS_WORKER_ID")
    shown = " ".join(f"${name}" for name in names)
    job = await app.enqueue("t", queue="mail/new", max_attempts=5, retry=Backoff(0, 0))
    for _ in range(2):  # claimed twice before, once given back and once failed
        claim = await app.claim("by-hand", id=job.id)
        assert claim is not None
        await (claim.release() if claim.fence == 1 else claim.fail("no"))
    await execs.run("sh", "-c", f"echo {shown}; env | grep -ci token || true", options=("--worker-id", "exec-1"))
    ended = await app.wait(job.id, 5)
    assert ended.result == f"{job.id} t mail/new 3 2 5 exec-1\n0"  # and no lease token anywhere


async def test_only_the_queues_that_are_named(execs: Execs, app: App) -> None:
    wanted = await app.enqueue("t", queue="mail")
    other = await app.enqueue("t")
    await execs.run("cat", options=("--queue", "mail"))
    assert (await app.wait(wanted.id, 5)).status is Status.COMPLETED
    left = await app.get(other.id)
    assert left is not None
    assert left.fence == 0


async def test_more_than_one_task(execs: Execs, app: App) -> None:
    jobs = [await app.enqueue(task) for task in ("t", "u")]
    await execs.run("sh", "-c", "echo $DIBS_TASK", options=("--task", "u"))
    assert [(await app.wait(job.id, 5)).result for job in jobs] == ["t", "u"]


@pytest.mark.parametrize(
    ("printed", "kept"),
    [
        (b"", None),
        (b" \n\n", None),
        (b'{"a": 1}\n', {"a": 1}),
        (b"7", 7),
        (b"null\n", None),
        (b"done\n", "done"),
        (b"two\nlines\n", "two\nlines"),
        (b"  indented\r\n", "  indented"),
        (b"[1, 2", "[1, 2"),
        (b"NaN", "NaN"),
        (b"007", "007"),
        (b"1e999", "1e999"),
        (b"123456789012345678901234567890", "123456789012345678901234567890"),  # not every reader can read it back
        (b'{"a": 1}\n{"a": 2}\n', '{"a": 1}\n{"a": 2}'),
        (b"caf\xe9", "caf\\xe9"),
        (b'"\\ud800"', '"\\ud800"'),
        (b"[" * 100_000, "[" * 100_000),
    ],
)
def test_what_is_json_is_kept_as_such(printed: bytes, kept: Any) -> None:
    assert result(printed) == kept


async def test_megabytes(execs: Execs, app: App) -> None:
    """What fits is kept, what does not fails for good; neither stops the command, nor fills the worker."""
    fits = await app.enqueue("t", ["x", MIB - 2, 1, 0])
    far = await app.enqueue("t", ["x", 60 * MIB, 1, 0], delay=2)  # when it is known how much the worker needs anyway
    loud = await app.enqueue("t", ["y", 20 * MIB, 2, 1], max_attempts=1, delay=2)
    printer = """
import json, os, sys
letter, size, file, status = json.load(sys.stdin)
with open(file, "w") as out:
    out.write(letter * size + ("\\nend" if status else ""))
sys.exit(status)
"""
    process = execs.start(sys.executable, "-c", printer)
    kept = await app.wait(fits.id, 30)
    before = most_memory(process.pid)
    dropped, told = [await app.wait(job.id, 30) for job in (far, loud)]
    assert kept.result == "x" * (MIB - 2)
    assert (dropped.status, dropped.attempts) == (Status.FAILED, 1)
    assert dropped.error is not None
    assert (dropped.error.code, str(MIB) in dropped.error.message) == ("too_large", True)
    assert told.error is not None
    assert told.error.traceback is not None
    assert told.error.traceback.endswith("yyy\nend")
    assert MAX_ERROR // 2 < len(told.error.traceback) <= MAX_ERROR
    assert most_memory(process.pid) - before < 30_000


async def test_a_command_that_does_not_read(execs: Execs, app: App) -> None:
    job = await app.enqueue("t", "x" * (MIB - 2))
    await execs.run("true")
    ended = await app.wait(job.id, 5)
    assert (ended.status, ended.result) == (Status.COMPLETED, None)


async def test_as_many_at_once_as_it_may(execs: Execs, app: App) -> None:
    """Each waits for the others: with a place too few they would wait for ever."""
    jobs = await app.enqueue_many([NewJob("t", timeout=20) for _ in range(4)])
    meet = "echo > $HERE/here-$DIBS_ID; while [ $(ls $HERE/here-* | wc -l) -lt 3 ]; do sleep 0.02; done; echo $DIBS_ID"
    execs.start("sh", "-c", meet, options=("--concurrency", "3"))
    ended = [await app.wait(job.id, 20) for job in jobs]
    assert [job.result for job in ended] == [job.id for job in jobs]


async def test_the_lease_is_kept_while_it_runs(execs: Execs, app: App) -> None:
    job = await app.enqueue("t")
    await execs.run("sh", "-c", "sleep 2.5; echo $DIBS_FENCE", options=("--lease", "1"))
    ended = await app.wait(job.id, 5)
    assert (ended.result, ended.fence, ended.attempts) == (1, 1, 1)


async def test_a_command_that_is_there_no_more(execs: Execs, app: App) -> None:
    """It is looked for as the worker starts, and fails its jobs if it is gone later."""
    program = execs.folder / "program"
    program.write_text("#!/bin/sh\nrm $0\n")
    program.chmod(0o700)
    jobs = [await app.enqueue("t", max_attempts=1) for _ in range(2)]
    await execs.run("./program")
    first, second = [await app.wait(job.id, 5) for job in jobs]
    assert first.status is Status.COMPLETED
    assert second.error is not None
    assert (second.error.code, "not found" in second.error.message) == ("127", True)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--task", "t", "--", "no-such-program"], "'no-such-program' cannot be run"),
        (["--task", "t", "--", "/etc/passwd"], "'/etc/passwd' cannot be run"),
        (["--task", "t"], "command: is missing"),
        (["--", "true"], "--task"),
        (["--task", "not a name", "--", "true"], "task"),
        (["--task", "t", "--lease", "0", "--", "true"], "lease"),
        (["--task", "t", "--concurrency", "0", "--", "true"], "concurrency"),
        (["--task", "t", "--store", "nonsense://x", "--", "true"], "nonsense"),
    ],
)
def test_mistakes_are_told_in_a_sentence(tmp_path: Path, arguments: list[str], told: str) -> None:
    words = [sys.executable, "-c", MAIN, "exec", *arguments]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 2, done.stderr
    assert told in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


def test_a_server_that_wants_a_key(tmp_path: Path) -> None:
    """The worker says what is wrong, again and again, and stops when it is told to."""
    with Serving(tmp_path) as serving, execs_on(serving.url, tmp_path) as execs:

        async def look() -> str:
            process = execs.start("true")
            said = tmp_path / "said-0"
            async with asyncio.timeout(20):
                while "key" not in said.read_text():  # noqa: ASYNC110 - another process writes it
                    await asyncio.sleep(0.01)
            process.terminate()
            return await execs.ended(process)

        assert "Traceback" not in asyncio.run(look())
