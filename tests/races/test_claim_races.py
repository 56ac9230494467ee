"""Many want the same at once, from threads and from processes: one gets it, and all are told the truth about it."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import dibs
from dibs.testing.history import History, check, read_audit
from tests.chaos.crew import Actor, Crew, at_once
from tests.chaos.histories import assert_clean, recording

QUICK = dibs.Backoff(base=0.01, cap=0.01)


async def gather(crew: Crew, number: int, *arguments: Any, histories: Path | None = None) -> list[Actor]:
    """Start so many processes, and wait until all of them are there."""
    actors = []
    for index in range(number):
        more = [] if histories is None else [histories / f"actor-{index}.jsonl"]
        actors.append(crew(*arguments, f"actor-{index}", *more))
    for actor in actors:
        assert await asyncio.to_thread(actor.hear) == "ready"
    return actors


async def all_at_once(actors: list[Actor], do: str, **more: Any) -> list[Any]:
    begin = at_once()
    for actor in actors:
        actor.tell(do, at=begin, **more)
    return [await asyncio.to_thread(actor.hear) for actor in actors]


def in_threads(functions: list[Callable[[], Any]]) -> list[Any]:
    """Run all at once, each in a thread of its own."""
    barrier = threading.Barrier(len(functions))

    def run(function: Callable[[], Any]) -> Any:
        barrier.wait()
        return function()

    with ThreadPoolExecutor(len(functions)) as pool:
        return list(pool.map(run, functions))


# ------------------------------------------------------------------------------------------------ each job claimed once


@pytest.mark.slow
async def test_ten_processes_claim_each_of_two_thousand_jobs_once(url: str, crew: Crew) -> None:
    async with dibs.App(url) as app:
        ids = [job.id for _ in range(2) for job in await app.enqueue_many([dibs.NewJob("t", n) for n in range(1000)])]
        actors = await gather(crew, 10, url)
        taken = await all_at_once(actors, "drain", limits=[1, 2, 10])

        assert Counter(id for each in taken for id, _ in each) == Counter(ids)
        assert {fence for each in taken for _, fence in each} == {1}
        assert sum(bool(each) for each in taken) > 1, "one took them all: there was no race"
        counts = await app.counts()
        assert (counts.completed, counts.unfinished) == (2000, 0)
        report = await app.verify()
        assert report.ok, str(report)
        assert (report.jobs, report.events) == (2000, 6000)


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_ten_threads_claim_each_of_five_hundred_jobs_once(store: str, url: str) -> None:
    app = dibs.App("memory://" if store == "memory" else url)
    # On SQLite each thread has an app of its own: ten writers on one file in one process.
    apps = [app if store == "memory" else dibs.App(url) for _ in range(10)]
    ids = [job.id for job in app.sync.enqueue_many([dibs.NewJob("t", number) for number in range(500)])]

    def worker(index: int) -> list[str]:
        taken = []
        while claim := apps[index].sync.claim(f"worker-{index}"):
            claim.complete()
            taken.append(claim.id)
        return taken

    taken = in_threads([lambda index=index: worker(index) for index in range(10)])  # type: ignore[misc]

    assert Counter(id for each in taken for id in each) == Counter(ids)
    assert {job.fence for job in app.sync.find(limit=1000)} == {1}
    report = app.sync.verify()
    assert report.ok, str(report)
    for each in {id(app): app for app in [app, *apps]}.values():
        each.sync.close()


async def test_claim_by_id_has_one_winner_among_processes(url: str, crew: Crew) -> None:
    async with dibs.App(url) as app:
        actors = await gather(crew, 4, url)
        for _ in range(10):
            job = await app.enqueue("t")
            answers = await all_at_once(actors, "claim", id=job.id)
            won = [answer for answer in answers if isinstance(answer, dict)]
            assert len(won) == 1
            assert [answer for answer in answers if answer not in won] == ["claimed"] * 3


# ------------------------------------------------------------------------------------------------ one claim, one end

PAIRS = [
    ("complete", "complete"),
    ("complete", "fail"),
    ("complete", "release"),
    ("complete", "cancel"),
    ("complete", "reap"),
    ("fail", "reap"),
    ("release", "reap"),
    ("release", "cancel"),
    ("extend", "cancel"),
    ("extend", "complete"),
    ("extend", "reap"),
    ("cancel", "reap"),
    ("reap", "reap"),
]
ROUNDS = 12
SHORT = 0.05


def ends(events: list[dibs.Event]) -> list[str]:
    """Say how the first claim ended."""
    return [str(event.event) for event in events if event.from_ == "claimed" and event.fence == 1]


def lease_end(job: dibs.Job | None) -> int:
    """Say when a lease ends, by the clock that processes share, give or take what makes a race of it."""
    assert job is not None
    assert job.lease_expires_us is not None
    left = job.lease_expires_us * 1000 - time.time_ns()
    return time.monotonic_ns() + left + random.randrange(-1_000_000, 4_000_000)


def message(verb: str, id: str) -> dict[str, Any]:
    return {"do": verb} if verb == "reap" else {"do": verb, "id": id}


@pytest.mark.parametrize("pair", PAIRS, ids=" and ".join)
async def test_two_processes_end_one_claim(pair: tuple[str, str], url: str, tmp_path: Path, crew: Crew) -> None:
    first, second = await gather(crew, 2, url, histories=tmp_path)
    with recording(tmp_path / "test.jsonl", "test"):
        async with dibs.App(url, retry=QUICK, reap_every=3600) as app:
            won: Counter[str] = Counter()
            for number in range(ROUNDS):
                job = await app.enqueue("t", number, queue=f"round-{number}")
                lease = SHORT if "reap" in pair else 60
                claim = first.ask("claim", queues=[job.queue], lease=lease)
                assert isinstance(claim, dict), claim
                assert second.ask("adopt", **claim) is None
                begin = lease_end(await app.get(job.id)) if "reap" in pair else at_once()
                for actor, verb in zip((first, second), pair, strict=True):
                    actor.tell(**message(verb, job.id), at=begin)
                answers = [await asyncio.to_thread(actor.hear) for actor in (first, second)]

                ended = ends(await app.log(job.id))
                assert len(ended) <= 1
                # A lease that was extended, or had not quite run out when the reapers looked, may go on.
                assert ended or pair in {("extend", "reap"), ("reap", "reap")}, answers
                won[ended[0] if ended else "none"] += 1
            while (await app.counts()).unfinished:
                for each in await app.claim_many("closer", limit=100, lease=60, wait=1):
                    await each.complete()
            report = await app.verify()
            assert report.ok, str(report)
    assert won.total() == ROUNDS
    for actor in (first, second):
        actor.end()
    await assert_clean(url, tmp_path)


def do(app: dibs.App, verb: str, claim: dibs.SyncClaim) -> None:
    mine = app.sync.claimed(claim.id, fence=claim.fence, lease_token=claim.lease_token)
    verbs: dict[str, Callable[[], object]] = {
        "complete": mine.complete,
        "extend": mine.extend,
        "release": mine.release,
        "fail": lambda: mine.fail("told to"),
        "cancel": lambda: app.sync.cancel(claim.id),
        "reap": lambda: app.sync.claim("reaper", queues=["nowhere"]),
    }
    with suppress(dibs.LeaseLost, dibs.WrongState):
        verbs[verb]()


@pytest.mark.parametrize("pair", PAIRS, ids=" and ".join)
async def test_two_threads_end_one_claim_in_memory(pair: tuple[str, str], tmp_path: Path) -> None:
    with recording(tmp_path / "test.jsonl", "test"):
        app = dibs.App("memory://", retry=QUICK, reap_every=3600)

        def play() -> None:
            for number in range(ROUNDS):
                job = app.sync.enqueue("t", number)
                lease = 0.02 if "reap" in pair else 60
                claim = app.sync.claim("first", id=job.id, lease=lease)
                assert claim is not None
                if "reap" in pair:
                    begin = lease_end(app.sync.get(job.id))
                    while time.monotonic_ns() < begin:
                        pass
                in_threads([lambda verb=verb, claim=claim: do(app, verb, claim) for verb in pair])  # type: ignore[misc]
                ended = ends(app.sync.log(job.id))
                assert len(ended) <= 1
                assert ended or pair in {("extend", "reap"), ("reap", "reap")}
            while app.sync.counts().unfinished:
                for each in app.sync.claim_many("closer", limit=100, lease=60, wait=1):
                    each.complete()

        await asyncio.to_thread(play)
        store: Any = app.runtime._opened.store
        assert store is not None
        report = check(History.load(tmp_path / "test.jsonl"), await read_audit(store), now_us=await store.now())
        assert report.ok, str(report)
        await app.close()


# ------------------------------------------------------------------------------------------------ one key, one job


async def test_enqueues_with_one_key_from_eight_processes_make_one_job(url: str, crew: Crew) -> None:
    actors = await gather(crew, 8, url)
    for number in range(4):
        for field in ("idempotency_key", "unique_key", "id"):
            same = {field: f"same-{field}-{number}", "params": {"number": number}}
            told = await all_at_once(actors, "enqueue_many_times", times=4, **same)
            answers = [answer for each in told for answer in each]
            assert len(answers) == 32
            assert len({answer["id"] for answer in answers}) == 1
            assert sum(not answer["duplicate"] for answer in answers) == 1
    async with dibs.App(url) as app:
        assert (await app.counts()).pending == 12
        assert (await app.verify()).ok


@pytest.mark.parametrize("field", ["idempotency_key", "unique_key", "id"])
def test_enqueues_with_one_key_from_threads_make_one_job_in_memory(field: str) -> None:
    app = dibs.App("memory://")
    for number in range(5):
        same: Any = {field: f"same-{number}"}
        jobs = in_threads([lambda same=same: app.sync.enqueue("t", **same) for _ in range(32)])  # type: ignore[misc]
        assert len({job.id for job in jobs}) == 1
        assert sum(not job.was_duplicate for job in jobs) == 1
    assert app.sync.counts().pending == 5
    app.sync.close()


# ------------------------------------------------------------------------------------------------ a new file


@pytest.mark.slow
async def test_forty_apps_open_a_fresh_file_at_once(url: str, crew: Crew) -> None:
    actors = await gather(crew, 4, url)
    assert await all_at_once(actors, "open_many", number=10) == [[]] * 4
    async with dibs.App(url) as app:
        opened = Counter([(job.params["by"], job.params["index"]) async for job in app.find(limit=100)])
        assert opened == {(f"actor-{actor}", index): 1 for actor in range(4) for index in range(10)}
        assert (await app.verify()).ok
        assert await app.migrate(dry_run=True) == []
