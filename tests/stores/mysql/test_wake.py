"""Waking up: at once from this process, soon from another, quietly while there is nothing to do."""

import asyncio
import subprocess
import sys
import time

import pytest

import dibs
from dibs.broker.local import LocalBroker
from dibs.broker.protocol import Ask
from dibs.clock import Clock, FakeClock
from dibs.domain.settings import Config
from dibs.store import alone
from dibs.stores.mysql import MysqlStore
from dibs.stores.mysql.link import Link
from dibs.stores.mysql.wake import Activity
from dibs.testing.conformance.builders import enqueue, new_job, one

PRODUCER = "import dibs, sys; dibs.App(sys.argv[1]).sync.enqueue('t', id='from-elsewhere'); print('sent')"


async def test_a_job_from_another_process_wakes_who_waits(url: str) -> None:
    async with dibs.App(url, poll_every=30) as app:
        waiting = asyncio.ensure_future(app.claim(wait=30))
        await asyncio.sleep(0.2)
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", PRODUCER, url, stdout=subprocess.PIPE)
        claim = await waiting
        assert claim is not None
        assert claim.id == "from-elsewhere"
        await claim.complete()
        assert (await process.communicate())[0] == b"sent\n"


async def test_a_job_from_this_process_wakes_at_once(real: MysqlStore) -> None:
    await real.open()
    real._activity._last -= 3600  # it looks every second by now
    took = []
    for n in range(5):
        waiting = asyncio.ensure_future(real.wait(one(queues=(f"q{n}",)), 10))
        await asyncio.sleep(0.05)
        await enqueue(real, new_job(queue=f"q{n}"))
        began = time.perf_counter()
        await waiting
        took.append(time.perf_counter() - began)
        real._activity._last -= 3600

    assert sorted(took)[2] < 0.05


async def test_looks_are_rarer_the_longer_nothing_happens() -> None:
    clock = FakeClock()
    activity = Activity(clock)
    paces = []
    for seconds in (0, 0.1, 0.9, 1, 1, 1, 3600):
        clock.advance(seconds)
        paces.append((await activity.pace(alone)).poll)
    activity.noted()

    assert paces == sorted(paces)
    assert (paces[0], paces[-1], (await activity.pace(alone)).poll) == (0.05, 1.0, 0.05)


async def test_of_a_crowd_each_looks_so_much_more_seldom() -> None:
    activity = Activity(FakeClock())
    rates = []
    for number in (1, 10, 20, 100):

        async def rivals(number: float = number) -> float:
            return number

        rates.append(number / (await activity.pace(rivals)).poll)

    assert rates == pytest.approx([20, 200, 200, 200])


async def test_who_waits_together_looks_together(real: MysqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = counted(monkeypatch)
    await real.open()
    real._activity._last -= 3600
    before = len(sent)
    waiting = [asyncio.ensure_future(real.wait(one(), 60)) for _ in range(20)]
    await asyncio.sleep(3)

    assert 2 <= len(sent) - before <= 8
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Note how many statements each packet has."""
    sent: list[int] = []
    send = Link.send

    async def count(self: Link, statements: list[str], more: float = 0.0) -> object:
        sent.append(len(statements))
        return await send(self, statements, more)

    monkeypatch.setattr(Link, "send", count)
    return sent


@pytest.mark.slow
async def test_fifty_idle_workers_make_few_queries(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = counted(monkeypatch)
    clock = Clock()
    stores = [MysqlStore(f"{url}?pool=2", clock) for _ in range(5)]
    workers = [LocalBroker(store, clock, Config.of()) for store in stores for _ in range(10)]
    waiting = [asyncio.ensure_future(broker.claim(Ask(worker_id="w", wait=60))) for broker in workers]
    await asyncio.sleep(5)
    before = sum(sent)
    await asyncio.sleep(4)

    assert 0 < (sum(sent) - before) / 4 < 100, "statements, not packets"
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    for store in stores:
        await store.close()
