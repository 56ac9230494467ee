"""Hearing from the kernel that another process has written; and going on where it does not tell."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from dibs.clock import Clock, FakeClock
from dibs.stores.sqlite import SqliteStore
from dibs.stores.sqlite.notice import Notice
from dibs.stores.sqlite.wake import _Watcher
from dibs.testing.conformance.builders import claim_one, one

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")

PRODUCER = """
import asyncio, sys
from dibs.clock import Clock
from dibs.stores.sqlite import SqliteStore
from dibs.testing.conformance.builders import enqueue, new_job

async def main():
    store = SqliteStore(sys.argv[1], Clock())
    await store.open()
    for line in sys.stdin:
        await enqueue(store, new_job(line.strip()))
        print("done", flush=True)
    await store.close()

asyncio.run(main())
"""


class Looks:
    """Counts how often the watchers look."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.number = 0
        poll = _Watcher._poll

        def counted(watcher: _Watcher, notice: Notice | None) -> bool:
            self.number += 1
            return poll(watcher, notice)

        monkeypatch.setattr(_Watcher, "_poll", counted)


async def pick_up(path: Path, jobs: int) -> float:
    """Let another process enqueue while this one waits; give the longest time that a job took."""
    store = SqliteStore(path, Clock())
    await store.open()
    process = subprocess.Popen(  # noqa: ASYNC220 - it takes no time here
        [sys.executable, "-c", PRODUCER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    loop, longest = asyncio.get_running_loop(), 0.0
    for number in range(jobs):
        waiting = asyncio.ensure_future(store.wait(one(), 20))
        await asyncio.sleep(0.1)  # it sleeps by now, as one does who has nothing to do
        process.stdin.write(f"job-{number}\n")
        process.stdin.flush()
        await asyncio.to_thread(process.stdout.readline)
        acknowledged = loop.time()
        await waiting
        longest = max(longest, loop.time() - acknowledged)
        assert (await claim_one(store)).id == f"job-{number}"
    process.stdin.close()
    process.wait(20)
    process.stdout.close()
    await store.close()
    return longest


@linux
async def test_whoever_waits_for_nothing_hardly_looks(
    path: Path, monkeypatch: pytest.MonkeyPatch, store: SqliteStore, clock: FakeClock
) -> None:
    looks = Looks(monkeypatch)
    waiting = asyncio.ensure_future(store.wait(one(), 3600))
    await asyncio.sleep(1.5)
    waiting.cancel()

    assert 1 <= looks.number < 60  # every few milliseconds it would have been hundreds


@linux
async def test_a_job_of_another_process_is_told_of(path: Path) -> None:
    assert await pick_up(path, 10) < 2


async def test_without_the_kernel_it_looks_by_itself(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Notice, "make", classmethod(lambda cls: None))

    assert await pick_up(path, 5) < 2


@linux
async def test_a_kernel_that_does_not_tell_is_no_longer_asked(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a file system that is written to from elsewhere: nothing is missed, and after a few it looks by itself."""
    monkeypatch.setattr(Notice, "watch", lambda self, path: True)
    looks = Looks(monkeypatch)

    assert await pick_up(path, 6) < 2
    assert looks.number > 60  # the last three were found by looking


@linux
def test_a_file_that_is_written_to_is_told_of(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"")
    notice = Notice()
    try:
        assert notice.watch(str(file))
        assert notice.watch(str(file))
        assert not notice.wait(0)
        file.write_bytes(b"x")
        assert notice.wait(5)
        assert not notice.wait(0)
        assert not notice.watch(str(tmp_path / "none"))
        notice.wake()
        assert not notice.wait(60)
    finally:
        notice.close()
