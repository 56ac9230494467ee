"""One SQLite in a process: a second one would undo the locks of the first, on the same file."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import dibs
from dibs.cli.doctor import examine
from tests.chaos.crew import ROOT
from tests.server.process import Serving

LOOK = """
    assert "apsw" in sys.modules, "nothing was opened"
    print("loaded:", [name for name in ("sqlite3", "_sqlite3", "pysqlite3") if name in sys.modules])
"""
WORK = f"""
import sys
import dibs, dibs.cli, dibs.testing
app = dibs.App(sys.argv[1])
@app.task
def double(n: int) -> int:
    return 2 * n
double.sync.enqueue(21)
dibs.Worker(app).main(until_idle=True)
if app.sync.verify().ok and app.sync.counts().completed == 1:
{LOOK}
"""
SERVE = f"""
import sys
from dibs.cli import main
try:
    main()
finally:
{LOOK}
"""
LOCK = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 510, 0x40000002)
    except OSError:
        print("held")
    else:
        print("free")
"""
"""Tries to lock the bytes that SQLite locks to say that it has the file open: then another takes itself for the only
one, and throws the write-ahead log away when it leaves."""


def work(folder: Path) -> str:
    """Do all that a worker does."""
    command = [sys.executable, "-c", WORK, f"sqlite:///{folder / 'jobs.db'}"]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=60, check=True).stdout


def serve(folder: Path) -> str:
    """Do what a server does."""
    with Serving(folder, "--no-auth", code=SERVE) as serving:
        app = dibs.App(serving.url)
        app.sync.enqueue("t")
        assert app.sync.claim("w") is not None
        app.sync.close()
        serving.end()
        return "".join(serving.said)


@pytest.mark.parametrize("run", [work, serve], ids=["sqlite", "served"])
def test_there_is_one_sqlite_in_a_process(run: Callable[[Path], str], tmp_path: Path) -> None:
    """After all that it has done, no one has loaded the standard library's."""
    assert run(tmp_path).splitlines()[-1] == "loaded: []"


async def test_sqlite_holds_its_locks_whatever_is_done(tmp_path: Path) -> None:
    """Whoever in this process opens the file and closes it again lets go of them, without SQLite knowing."""
    path = tmp_path / "jobs.db"

    async def locks() -> str:
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", LOCK, path, stdout=subprocess.PIPE)
        told, _ = await process.communicate()
        return told.decode().strip()

    async with dibs.App(f"sqlite:///{path}") as app:
        waiting = asyncio.create_task(app.claim("w", wait=30))
        await asyncio.sleep(0.1)
        job = await app.enqueue("t", {"a": 1}, tags=["t"])
        claim = await waiting
        assert claim is not None
        await claim.extend()
        await claim.complete()
        assert [each.id async for each in app.find(tag="t")] == [job.id]
        assert (await app.counts()).completed == 1
        assert (await app.verify()).ok
        assert {finding.level for finding in await asyncio.to_thread(lambda: asyncio.run(examine(app.url)))} == {"ok"}
        assert await locks() == "held"
    assert await locks() == "free"
