"""SQLite to PostgreSQL to Redis to SQLite, killed on the way and begun again: the same jobs at the end."""

import asyncio
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from dibs.broker.connect import open_store
from dibs.cli.commands import run
from dibs.clock import Clock
from dibs.domain.job import Event, Job
from dibs.testing.conformance.builders import one
from tests.copying.lives import DOCUMENTS, contents, fill, furnish
from tests.servers.databases import empty_cluster, empty_mysql, empty_postgres, empty_redis

Contents = list[tuple[Job, list[Event]]]


def begin(url: str, number: int) -> Contents:
    """Make a store with so many jobs, and read them."""

    async def fill_it() -> Contents:
        store = open_store(url, Clock())
        await store.open()
        await fill(store, number)
        await furnish(store)
        found = await contents(store)
        await store.close()
        return found

    return asyncio.run(fill_it())


def look(url: str) -> tuple[Contents, dict[str, bytes]]:
    """Read a store's jobs and documents."""

    async def read() -> tuple[Contents, dict[str, bytes]]:
        store = open_store(url, Clock())
        await store.open()
        found = await contents(store), {each.name: each.value for each in await store.documents("")}
        await store.close()
        return found

    return asyncio.run(read())


def die(from_: str, to: str, call: str, number: int) -> None:
    """Begin a copy that is killed once that was done so often."""
    command = [sys.executable, "-m", "tests.copying.dying", from_, to, call, str(number)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=50)
    assert done.returncode == -signal.SIGKILL, done.stderr


def is_handed_out(url: str) -> bool:
    """Say whether a store hands out anything."""

    async def claim() -> bool:
        store = open_store(url, Clock())
        await store.open()
        [jobs] = await store.claim([one()])
        await store.close()
        return bool(jobs)

    return asyncio.run(claim())


def check(url: str, before: Contents) -> None:
    """See that a store has the same jobs in the same order, and that every promise was kept on them."""
    found, documents = look(url)
    assert found == before
    assert {name: documents.get(name) for name in DOCUMENTS} == DOCUMENTS
    assert run(["verify", "--store", url]) == 0


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_chain_of_copies_that_are_killed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    urls = [f"sqlite:///{tmp_path}/first.db", empty_postgres(), empty_redis(), f"sqlite:///{tmp_path}/last.db"]
    before = begin(urls[0], 2000)

    die(urls[0], urls[1], "restore", 3)  # put down, and not noted
    assert 1000 <= len(look(urls[1])[0]) < 2000
    assert not is_handed_out(urls[1])
    assert run(["copy", urls[0], urls[1]]) == 0
    check(urls[1], before)

    die(urls[1], urls[2], "restore", 2)
    die(urls[1], urls[2], "audit", 2)  # while both are compared
    assert not is_handed_out(urls[2])
    assert run(["copy", urls[1], urls[2]]) == 0
    check(urls[2], before)

    assert run(["copy", urls[2], urls[3]]) == 0
    check(urls[3], before)
    said = capsys.readouterr()
    assert said.out.count(f"copied 2,000 jobs, with {sum(len(events) for _, events in before):,} events") == 3
    assert "FROM hands out nothing any more, its 3 queues are paused; TO has taken over" in said.err
    assert [is_handed_out(url) for url in urls] == [False, False, False, True]


@pytest.mark.timeout(180)
@pytest.mark.parametrize("empty", [empty_mysql, empty_cluster])
def test_there_and_back(tmp_path: Path, empty: Callable[[], str]) -> None:
    first, middle, last = f"sqlite:///{tmp_path}/first.db", empty(), f"sqlite:///{tmp_path}/last.db"
    before = begin(first, 600)

    die(first, middle, "restore", 1)
    assert run(["copy", first, middle]) == 0
    assert run(["verify", "--store", middle]) == 0
    assert run(["copy", middle, last]) == 0

    found, documents = look(last)
    assert {job.id: (job, events) for job, events in found} == {job.id: (job, events) for job, events in before}
    assert {name: documents.get(name) for name in DOCUMENTS} == DOCUMENTS
    for queue in ("default", "mail", "a/b"):  # a cluster has an order for each queue
        assert [job.id for job, _ in found if job.queue == queue] == [job.id for job, _ in before if job.queue == queue]


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_a_hundred_thousand_jobs_and_kills_at_any_moment(tmp_path: Path) -> None:
    urls = [f"sqlite:///{tmp_path}/first.db", empty_postgres(), empty_redis(), f"sqlite:///{tmp_path}/last.db"]
    before = begin(urls[0], 100_000)
    chance = random.Random(7)
    for from_, to in pairwise(urls):
        kills = 0
        while True:
            process = subprocess.Popen([sys.executable, "-m", "dibs", "copy", from_, to], stdout=subprocess.DEVNULL)
            try:
                process.wait(chance.uniform(3, 12) if kills < 2 else None)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                kills += 1
                assert not is_handed_out(to)
            else:
                assert process.returncode == 0
                break
        assert kills == 2
        check(to, before)
