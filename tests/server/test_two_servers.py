"""Two servers on one PostgreSQL, workers on both, one of them killed again and again: nothing is lost or done twice."""

from __future__ import annotations

import asyncio
import random
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

import dibs
from dibs.testing.history import History, Recorder
from tests.chaos.histories import assert_clean
from tests.server.process import Serving
from tests.servers.databases import empty_postgres

WORKERS, PRODUCERS = 3, 1
"""On each server."""
BACKLOG = 300
LEASE = 2.0
"""Seconds: a claim whose answer died with the server comes back after that."""
RETRY = dibs.Backoff(base=0.01, cap=0.05)


class Crowd:
    """Producers and workers that each know one server, and all that they asked and were told."""

    def __init__(self, history: History) -> None:
        self._history = history
        self.producing = self.working = True
        self.sent: set[str] = set()
        self.acknowledged: set[str] = set()
        self.claimed: list[tuple[str, int]] = []
        self.completed: list[tuple[str, int]] = []
        self.refused = 0  # settles that came too late
        self.unanswered = 0
        self.progress = {True: asyncio.Event(), False: asyncio.Event()}  # of the server that is killed, and the other

    async def produce(self, app: dibs.App, name: str) -> None:
        recorder, number = Recorder(self._history, name), 0
        while self.producing:
            jobs = [
                dibs.NewJob("t", id=f"{name}-{number + place}", max_attempts=100, retry=RETRY)
                for place in range(random.choice([1, 1, 5]))
            ]
            ids = [str(job.id) for job in jobs]
            self.sent.update(ids)
            number += len(jobs)
            while ids[0] not in self.acknowledged:  # under the same ids it is one job, however often it is sent
                try:
                    async with recorder.operation("enqueue", jobs=[{"id": id} for id in ids]) as call:
                        call.returned(await app.enqueue_many(jobs))
                    self.acknowledged.update(ids)
                except dibs.StoreUnavailable:
                    await self._breathe()
            while self._far_ahead():  # noqa: ASYNC110 - likewise
                await asyncio.sleep(0.02)

    def _far_ahead(self) -> bool:
        return self.producing and len(self.acknowledged) - len(self.completed) > BACKLOG

    async def work(self, app: dibs.App, name: str, *, shaky: bool) -> None:
        recorder = Recorder(self._history, name)
        while self.working:
            limit = random.choice([1, 4])
            try:
                async with recorder.operation("claim", worker_id=name, limit=limit) as call:
                    claims = await app.claim_many(name, limit=limit, lease=LEASE, wait=0.5)
                    call.returned(claims)
            except dibs.StoreUnavailable:
                await self._breathe()
                continue
            self.claimed += [(claim.id, claim.fence) for claim in claims]
            await asyncio.gather(*(self._end(recorder, claim) for claim in claims))
            if claims:
                self.progress[shaky].set()

    async def _end(self, recorder: Recorder, claim: dibs.Claim) -> None:
        kind = random.choices(["complete", "fail", "release"], [18, 1, 1])[0]
        while True:  # settling twice is safe
            try:
                async with recorder.operation(kind, id=claim.id, fence=claim.fence):
                    await self._settle(kind, claim)
            except dibs.StoreUnavailable:
                await self._breathe()
            except dibs.LeaseLost:
                self.refused += 1
                return
            else:
                if kind == "complete":
                    self.completed.append((claim.id, claim.fence))
                return

    @staticmethod
    async def _settle(kind: str, claim: dibs.Claim) -> None:
        if kind == "complete":
            await claim.complete(claim.fence)
        elif kind == "fail":
            await claim.fail("as it happens")
        else:
            await claim.release()

    async def _breathe(self) -> None:
        self.unanswered += 1
        await asyncio.sleep(random.uniform(0.01, 0.05))


@pytest.fixture
def store() -> str:
    return empty_postgres()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kills", [4, pytest.param(20, marks=pytest.mark.long)])
async def test_one_of_two_servers_is_killed_again_and_again(tmp_path: Path, store: str, kills: int) -> None:
    histories = tmp_path / "histories"
    histories.mkdir()
    with History(histories / "clients.jsonl") as history, served(tmp_path / "a", store) as steady:
        with served(tmp_path / "b", store) as shaky:
            crowd = Crowd(history)
            await drive(crowd, steady, shaky, kills)
            assert shaky.end() == 0
        assert steady.end() == 0

    async with dibs.App(store) as app:
        kept = {job.id: job async for job in app.find(limit=1000)}
        verified = await app.verify()
    assert crowd.acknowledged <= set(kept) <= crowd.sent
    assert {job.status for job in kept.values()} == {dibs.Status.COMPLETED}
    assert len(crowd.claimed) == len(set(crowd.claimed)), "a fence was handed out twice"
    told = dict(crowd.completed)
    assert len(told) == len(set(crowd.completed)), "a job was completed under two fences"
    for id, fence in told.items():
        assert (kept[id].fence, kept[id].result) == (fence, fence)
    assert (verified.ok, verified.jobs) == (True, len(kept)), str(verified)
    report = await assert_clean(store, histories)
    assert crowd.unanswered, "no one noticed that a server was killed"
    print(
        f"{kills} kills: {len(kept)} jobs, {len(crowd.claimed)} claims, {report.operations} operations, "
        f"{crowd.unanswered} without an answer, {crowd.refused} too late"
    )


def served(folder: Path, store: str) -> Serving:
    folder.mkdir()
    serving = Serving(folder, "--no-auth")
    serving.store = store
    return serving


async def drive(crowd: Crowd, steady: Serving, shaky: Serving, kills: int) -> None:
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
        for server in (steady, shaky):
            app = await stack.enter_async_context(dibs.App(server.url))
            for number in range(WORKERS):
                group.create_task(crowd.work(app, f"w{server.port}-{number}", shaky=server is shaky))
            for number in range(PRODUCERS):
                group.create_task(crowd.produce(app, f"p{server.port}-{number}"))
        for _ in range(kills):
            for event in crowd.progress.values():
                event.clear()
            for event in crowd.progress.values():
                await event.wait()  # both of them work
            await asyncio.sleep(random.uniform(0.1, 0.4))  # when it hits them is the point
            await asyncio.to_thread(shaky.end, signal.SIGKILL)
            await asyncio.to_thread(shaky.start)
        crowd.producing = False
        async with dibs.App(steady.url) as looking:
            while (await looking.counts()).unfinished:  # noqa: ASYNC110 - several others make it true
                await asyncio.sleep(0.1)
        crowd.working = False
