"""A unique key in time: a job that gets it begins no earlier than the one that had it has ended, by their logs."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from dibs.clock import Clock
from dibs.domain import transitions
from dibs.domain.job import Draft, Outcome
from dibs.stores.mysql import MysqlStore, inserting, writing
from dibs.testing.conformance.builders import completed, enqueue, enqueue_and_claim, new_job, settle
from tests.servers.proxy import Proxy
from tests.stores.mysql.conftest import Own, connected

HELD = "LOCK TABLES dibs_job WRITE, dibs_job AS job WRITE, dibs_event WRITE, dibs_clock AS clock READ"
BLOCKED = """SELECT count(*) FROM information_schema.processlist
  WHERE db = database() AND state LIKE 'Waiting for table%'"""
FREE = "SELECT count(*) FROM (SELECT seq FROM dibs_job WHERE id = 'first' FOR UPDATE SKIP LOCKED) AS free"


@pytest.fixture
async def other(url: str) -> AsyncIterator[Own]:
    own = await connected(url)
    yield own
    await own.connection.ensure_closed()


@pytest.fixture
def proxy(url: str) -> Iterator[Proxy]:
    with Proxy.of(url) as proxy:
        yield proxy


async def sees(own: Own, sql: str, number: int) -> None:
    async with asyncio.timeout(10):
        while await own.value(sql) != number:
            await own.connection.commit()
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    "second",
    [new_job("second", unique_key="k"), new_job("second", unique_key="k", tags=("t",))],
    ids=["plain", "group"],
)
async def test_a_job_is_later_than_the_end_that_set_its_key_free(
    real: MysqlStore, own: Own, other: Own, second: Draft
) -> None:
    """Race: the key is taken when the enqueue comes, and free when it can look for it."""
    first = await enqueue_and_claim(real, new_job("first", unique_key="k"))
    await own.run(HELD)
    enqueueing = asyncio.ensure_future(enqueue(real, second))
    await sees(other, BLOCKED, 1)
    [ended] = await real.write([completed(first)], connection=own.connection)
    await own.connection.commit()
    await own.run("UNLOCK TABLES")
    [job] = await enqueueing

    assert (ended.outcome, job.was_duplicate) == (Outcome.APPLIED, False)
    end = (await real.log("first"))[-1]
    assert (end.event, job.id) == ("completed", "second")
    assert job.created_us >= end.at_us


async def test_a_redrive_is_later_than_the_end_that_set_its_key_free(
    real: MysqlStore, url: str, proxy: Proxy, own: Own
) -> None:
    """Race: the key is taken when the redrive locks its job, and free when it looks for it."""
    slow = MysqlStore(f"{proxy.through(url)}?pool=1", Clock())
    await enqueue(slow, new_job("first", unique_key="k"))
    await slow.write([transitions.cancel("first")])
    second = await enqueue_and_claim(real, new_job("second", unique_key="k"))
    proxy.delay(0.3)
    redriving = asyncio.ensure_future(slow.write([transitions.redrive("first")]))
    await sees(own, FREE, 0)
    assert await settle(real, completed(second)) == [Outcome.APPLIED]
    [redriven] = await redriving
    proxy.pass_on()
    await slow.close()

    assert redriven.outcome is Outcome.APPLIED
    began, ended = (await real.log("first"))[-1], (await real.log("second"))[-1]
    assert (began.event, ended.event) == ("redriven", "completed")
    assert began.at_us >= ended.at_us


def live(url: str) -> None:
    """Let a job with the key come and end, while whoever calls this stands still."""

    async def life() -> None:
        store = MysqlStore(url, Clock())
        await settle(store, completed(await enqueue_and_claim(store, new_job("between", unique_key="k"))))
        await store.close()

    thread = threading.Thread(target=lambda: asyncio.run(life()))
    thread.start()
    thread.join()


@pytest.mark.parametrize("delay", [0, 3600])
@pytest.mark.parametrize("tags", [(), ("t",)], ids=["plain", "group"])
async def test_a_job_is_later_than_a_life_that_no_one_saw(
    real: MysqlStore, url: str, tags: tuple[str, ...], delay: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Race: the key was free when it was looked for, and is free again when it is taken."""
    insert = inserting._insert

    def stalled(*args: Any) -> Any:
        monkeypatch.undo()
        live(url)
        return insert(*args)

    monkeypatch.setattr(inserting, "_insert", stalled)
    [job] = await enqueue(real, new_job("second", unique_key="k", tags=tags, delay=delay))
    end = (await real.log("between"))[-1]
    assert (end.event, job.was_duplicate) == ("completed", False)
    assert job.created_us >= end.at_us
    assert job.due_us == job.created_us + delay * 1_000_000
    assert await real.get(["second"]) == [job]
    assert (await real.log("second"))[0].at_us == job.created_us


async def test_a_redrive_is_later_than_a_life_that_no_one_saw(
    real: MysqlStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await settle(real, completed(await enqueue_and_claim(real, new_job("first", unique_key="k"))))
    rows = writing._rows

    def stalled(court: Any) -> Any:
        monkeypatch.undo()
        live(url)
        return rows(court)

    monkeypatch.setattr(writing, "_rows", stalled)
    assert await settle(real, transitions.redrive("first")) == [Outcome.APPLIED]
    began, ended = (await real.log("first"))[-1], (await real.log("between"))[-1]
    assert (began.event, ended.event) == ("redriven", "completed")
    assert began.at_us >= ended.at_us
    [job] = await real.get(["first"])
    assert job is not None
    assert (job.updated_us, job.due_us, job.events) == (began.at_us, began.at_us, began.seq)
