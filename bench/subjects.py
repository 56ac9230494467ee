"""dibs as the cases need it: a store, a broker over it, and a quick way to fill it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path

import dibs
from bench.run import Broken, Run
from dibs.broker.local import LocalBroker
from dibs.broker.protocol import Ask, Ending
from dibs.clock import Clock
from dibs.domain import transitions
from dibs.domain.audit import Report
from dibs.domain.job import ClaimRequest, Draft, Job, Outcome, Retention, Terms
from dibs.domain.settings import Config
from dibs.domain.transitions import Write
from dibs.store import Refusal, Store

STORES = ("memory", "sqlite")
PARAMS: dibs.Json = {"to": "someone@example.com", "subject": "a job of usual size", "number": 1}
PARAMS_JSON = b'{"number":1,"subject":"a job of usual size","to":"someone@example.com"}'
GROUP = 1000
TERMS = Terms()
KEEP = Retention().keep(keyed=False)


def url_of(store: str, folder: Path) -> str:
    given = folder / "url"  # of a database on a server
    if given.exists():
        return given.read_text(encoding="utf-8")
    return "memory://" if store == "memory" else f"sqlite:///{folder / 'jobs.db'}"


@asynccontextmanager
async def opened(store: str, folder: Path) -> AsyncIterator[Store]:
    async with opened_at(url_of(store, folder)) as subject:
        yield subject


@asynccontextmanager
async def opened_at(url: str) -> AsyncIterator[Store]:
    from dibs.broker.connect import open_store

    subject = open_store(url, Clock())
    await subject.open()
    try:
        yield subject
    finally:
        await subject.close()


def broker_over(store: Store) -> LocalBroker:
    return LocalBroker(store, Clock(), Config.of())


def draft(clock: Clock, task: str = "noop", *, delay_us: int = 0) -> Draft:
    return Draft(clock.new_id(), "default", task, PARAMS_JSON, 0, 3, TERMS, KEEP, delay_us=delay_us)


async def insert(store: Store, drafts: Iterable[Draft], told: Callable[[int], None] = lambda _: None) -> int:
    """Insert in groups; say how many went in."""
    waiting = iter(drafts)
    total = 0
    while group := list(islice(waiting, GROUP)):
        [answer] = await store.insert([group])
        if isinstance(answer, Refusal):
            raise Broken(f"a new job was refused: {answer}")
        total += len(answer)
        told(len(answer))
    return total


async def finish(store: Store, number: int) -> None:
    """Claim and complete so many by the store's own calls."""
    while number:
        [jobs] = await store.claim([request(min(GROUP, number))])
        if not jobs:
            raise Broken(f"{number} jobs that should be pending are not")
        await complete_all(store, jobs)
        number -= len(jobs)


def request(limit: int) -> ClaimRequest:
    return ClaimRequest("bench", Clock().token(), limit)


async def complete_all(store: Store, jobs: Iterable[Job]) -> None:
    writes: list[Write] = [transitions.complete(job.ref) for job in jobs]
    for written in await store.write(writes):
        if written.outcome is not Outcome.APPLIED:
            raise Broken(f"a current claim could not be completed: {written}")


async def claim(broker: LocalBroker, limit: int = 1, tasks: tuple[str, ...] | None = None) -> list[Job]:
    return await broker.claim(Ask(worker_id="bench", limit=limit, tasks=tasks))


async def settle(broker: LocalBroker, jobs: Iterable[Job]) -> None:
    for settled in await broker.settle([Ending(job.ref, "complete", job=job) for job in jobs]):
        if settled.outcome is not Outcome.APPLIED:
            raise Broken(f"a current claim could not be settled: {settled}")


# Proof


def prove_once(run: Run, claimed: list[str], expected: int) -> None:
    """Every job was claimed, and none of them twice."""
    if len(claimed) != expected or len(set(claimed)) != expected:
        raise Broken(f"{expected} jobs, {len(claimed)} claims, {len(set(claimed))} different jobs claimed")
    run.jobs_checked += expected


async def prove_log(run: Run, store: Store, about: str, jobs: int) -> None:
    """The log tells how every job came to be what it is, and no promise is broken on the way."""
    with run.view.step(f"{about}: verify", jobs) as step:
        _judge(await broker_over(store).verify(step.at), jobs)


async def prove_app(app: dibs.App, jobs: int) -> None:
    """As ``prove_log``, through the public API."""
    _judge(await app.verify(), jobs)


def _judge(report: Report, jobs: int) -> None:
    if not report.ok:
        raise Broken(str(report))
    if report.jobs != jobs:
        raise Broken(f"{jobs} jobs were put in, {report.jobs} are there")
