"""Several processes on one file: each job to one of them, woken by one another, and forks."""

import asyncio
import json
import os
import subprocess
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path

import pytest

from dibs.clock import Clock
from dibs.domain.errors import StoreUnavailable
from dibs.stores.sqlite import SqliteStore
from dibs.testing.conformance.builders import claim, enqueue, ids, new_job, one

HEAD = """
import asyncio, json, os, sys
from dibs.clock import Clock
from dibs.stores.sqlite import SqliteStore
from dibs.testing.conformance.builders import *

async def opened():
    store = SqliteStore(sys.argv[1], Clock())
    await store.open()
    return store
"""

WORKER = (
    HEAD
    + """
async def main():
    store = await opened()
    name, number = sys.argv[2], int(sys.argv[3])
    got = []
    for n in range(number):
        await enqueue(store, new_job(f"{name}-{n}"))
        for job in await claim(store, limit=3):
            got.append([job.id, job.fence])
            await settle(store, completed(job))
    while jobs := await claim(store):
        got += [[job.id, job.fence] for job in jobs]
        await settle(store, *[completed(job) for job in jobs])
    print(json.dumps(got))
    await store.close()
asyncio.run(main())
"""
)

WAITER = (
    HEAD
    + """
async def main():
    store = await opened()
    print("open", flush=True)
    while not (jobs := await claim(store)):
        await store.wait(one(), 60)
    print(jobs[0].id, flush=True)
    await store.close()
asyncio.run(main())
"""
)


async def start(path: Path, code: str, *args: str) -> Process:
    return await asyncio.create_subprocess_exec(sys.executable, "-c", code, str(path), *args, stdout=PIPE)


async def test_several_processes_share_one_file(path: Path) -> None:
    # None of them has made the file: they migrate it at once, too.
    workers = [await start(path, WORKER, f"w{number}", "40") for number in range(4)]
    outputs = await asyncio.gather(*[worker.communicate() for worker in workers])
    got = [entry for output, _ in outputs for entry in json.loads(output)]

    assert sorted(id for id, _ in got) == sorted(f"w{worker}-{n}" for worker in range(4) for n in range(40))
    assert {fence for _, fence in got} == {1}
    assert path.with_name("jobs.db-wal").exists() is False  # the last one to close has tidied up


async def test_wait_is_ended_by_another_process(path: Path) -> None:
    store = SqliteStore(path, Clock())
    await store.open()
    waiter = await start(path, WAITER)
    assert waiter.stdout is not None
    assert await waiter.stdout.readline() == b"open\n"
    await enqueue(store, new_job("later", delay=0.3))  # the waiter must hear of it, and look again when it is due

    assert await waiter.stdout.readline() == b"later\n"
    await waiter.wait()
    await store.close()


async def test_wait_is_ended_by_a_second_store_in_this_process(path: Path) -> None:
    first, second = SqliteStore(path, Clock()), SqliteStore(path, Clock())
    await first.open()
    await second.open()
    for round_ in range(3):  # the watcher sleeps in between, and misses nothing
        waiting = asyncio.ensure_future(first.wait(one(), 60))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        await enqueue(second, new_job(f"{round_}"))
        await waiting
        assert ids(await claim(first)) == [f"{round_}"]
    await first.close()
    await second.close()


CHILD = (
    HEAD
    + """
store = SqliteStore(sys.argv[1], Clock())
asyncio.run(store.open())
asyncio.run(enqueue(store, new_job("parent-1")))
child_ready, parent_closed = os.pipe(), os.pipe()
pid = os.fork()
if pid == 0:
    own = SqliteStore(sys.argv[1], Clock())
    asyncio.run(own.open())
    asyncio.run(enqueue(own, new_job("child-1")))
    os.write(child_ready[1], b"x")
    os.read(parent_closed[0], 1)
    asyncio.run(enqueue(own, new_job("child-2")))
    os._exit(0)  # without closing: what was acknowledged must be there all the same
os.read(child_ready[0], 1)
asyncio.run(enqueue(store, new_job("parent-2")))
asyncio.run(store.close())
os.write(parent_closed[1], b"x")
assert os.waitpid(pid, 0)[1] == 0
"""
)


async def test_a_child_loses_nothing(path: Path) -> None:
    run = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", CHILD, str(path)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    store = SqliteStore(path, Clock())
    await store.open()

    assert sorted(ids(await claim(store))) == ["child-1", "child-2", "parent-1", "parent-2"]
    await store.close()


async def test_a_store_that_was_opened_before_a_fork_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SqliteStore(path, Clock())
    await store.open()
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: -1)
        with pytest.raises(StoreUnavailable, match="forked") as raised:
            await store.claim([one()])
        assert "each process" in raised.value.hint
        await store.close()  # does nothing there

    assert ids(await enqueue(store, new_job("a"))) == ["a"]
    await store.close()
