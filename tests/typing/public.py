"""What type checkers say about the public names. Checked by mypy and basedpyright, and never run.

A call that must be refused carries an ignore, and both checkers complain about one that is not needed: a wrong call
that becomes accepted fails the check.
"""
# pyright: reportUnnecessaryTypeIgnoreComment=true

import os
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import assert_type

import dibs

app = dibs.App("memory://", max_attempts=5, lease=timedelta(minutes=1), queues={"mail": {"priority": "high"}})
tasks = dibs.Tasks()


@app.task
async def send(to: str, subject: str = "", *, copies: int = 1) -> bool:
    return bool(to and subject and copies)


@app.task("named", max_attempts=5, queue="mail", retry=dibs.Backoff(base=2, cap=600))
def resize(path: str, width: int) -> str:
    return path * width


@app.task(process=True, timeout=60)
def compute(below: int) -> int:
    return below


@tasks.task(name="elsewhere")
def elsewhere() -> None: ...


@app.schedule("0 4 * * *", tz="Europe/Berlin", catch_up="all")
@app.task(queue="mail")
async def nightly(days: int = 1) -> bool:
    return days > 0


@tasks.schedule(timedelta(minutes=5), params={"days": 7})
def often(days: int) -> str:
    return str(days)


async def what_is_scheduled_is_a_task() -> None:
    assert_type(await nightly.enqueue(3), dibs.Job)
    assert_type(await nightly(3), bool)
    assert_type(often(1), str)
    assert_type(await app.schedules(), list[dibs.ScheduleInfo])
    assert_type(await app.schemas(), list[dibs.SchemaInfo])
    assert_type(app.sync.pause_schedule("nightly", by="me"), dibs.ScheduleInfo)
    assert_type(await app.run_schedule("nightly"), dibs.Job)

    await nightly.enqueue("a")  # type: ignore[arg-type]
    app.schedule(60, catch_up="some")  # type: ignore[arg-type]
    app.schedule([60])  # type: ignore[arg-type]


@app.middleware
async def timing(claim: dibs.Claim, call: dibs.Call) -> str:
    return f"{claim.id}: {await call()}"


def named(name: str) -> dibs.Middleware:
    async def layer(claim: dibs.Claim, call: dibs.Call) -> object:
        return name, claim.task, await call()

    return layer


@app.trace_context
def trace() -> dict[str, str] | None:
    return {"traceparent": "00-1-2-03"}


def workers_take_queues_with_weights_or_without() -> None:
    assert_type(dibs.Worker(app, queues={"fast": 5, "slow": 1}).weights, dict[str, int] | None)
    dibs.Worker(app, queues=["fast", "slow"])
    dibs.Worker(app, queues={"fast": "5"})  # type: ignore[dict-item]
    dibs.Worker(app, queues=5)  # type: ignore[arg-type]


async def middleware_stays_what_it_is(claim: dibs.Claim, call: dibs.Call) -> None:
    assert_type(await timing(claim, call), str)
    assert_type(app.middleware(named("a")), dibs.Middleware)
    assert_type(app.layers, list[dibs.Middleware])
    assert_type(trace(), dict[str, str] | None)
    assert_type(claim.job.trace, dict[str, str])

    def plain(claim: dibs.Claim, call: dibs.Call) -> str:
        return f"{claim}: {call}"

    async def of_one(claim: dibs.Claim) -> str:
        return claim.id

    async def later() -> dict[str, str]:
        return {}

    app.middleware(plain)  # type: ignore[type-var]
    app.middleware(of_one)  # type: ignore[type-var]
    app.middleware("timing")  # type: ignore[type-var]
    app.trace_context(later)  # type: ignore[type-var]


async def tasks_are_typed_by_their_signature() -> None:
    assert_type(await send.enqueue("a", "b", copies=2), dibs.Job)
    assert_type(compute(3), int)
    assert_type(await compute.enqueue(3), dibs.Job)
    dibs.Worker(app, handler_processes=2)
    dibs.Worker(app, handler_processes="2")  # type: ignore[arg-type]
    app.task(process="yes")  # type: ignore[call-overload]
    assert_type(await send.options(delay=60, idempotency_key="k", connection=None).enqueue("a"), dibs.Job)
    key: str | None = os.environ.get("KEY")  # as of a request's header, which may be there or not
    assert_type(await send.options(idempotency_key=key, queue=None).enqueue("a"), dibs.Job)
    assert_type(send.sync.enqueue("a", subject="b"), dibs.Job)
    assert_type(send.sync.options(priority="high").enqueue("a"), dibs.Job)
    assert_type(send.job("a"), dibs.NewJob)
    assert_type(await send("a"), bool)
    assert_type(resize("a", 5), str)
    assert_type(await resize.enqueue("a", width=5), dibs.Job)
    assert_type(await elsewhere.enqueue(), dibs.Job)

    await send.enqueue()  # type: ignore[call-arg]
    await send.enqueue(5)  # type: ignore[arg-type]
    await send.enqueue("a", subjetc="b")  # type: ignore[call-arg]
    await resize.enqueue("a", "b")  # type: ignore[arg-type]
    await resize.options(priority=1).enqueue("a")  # type: ignore[call-arg]
    send.options(colour="red")  # type: ignore[call-arg]
    send.sync.enqueue(to=5)  # type: ignore[arg-type]
    resize.job("a", 5, 6)  # type: ignore[call-arg]
    app.task(colour="red")  # type: ignore[call-overload]


async def calls_of_an_app() -> None:
    assert_type(await app.enqueue("t", {"a": [1, None]}, priority=5, tags=["x"]), dibs.Job)
    assert_type(await app.enqueue_many([dibs.NewJob("t", 1, delay=5)]), list[dibs.Job])
    assert_type(await app.claim("w", wait=timedelta(seconds=5)), dibs.Claim | None)
    assert_type(await app.claim_many(limit=5), list[dibs.Claim])
    assert_type(app.claims(), AsyncIterator[dibs.Claim])
    assert_type(app.claimed("a", fence=1, lease_token="x"), dibs.Claim)
    assert_type(await app.get("a"), dibs.Job | None)
    assert_type(await app.find(status=["failed", dibs.Status.COMPLETED]), dibs.Page[dibs.Job])
    assert_type([job async for job in app.find()], list[dibs.Job])
    assert_type(await app.log("a"), list[dibs.Event])
    assert_type(await app.explain("a"), dibs.Explanation)
    assert_type(await app.wait("a", timeout=5), dibs.Job)
    assert_type(app.watch("a"), AsyncIterator[dibs.Job])
    assert_type(await app.cancel("a", "b", by="me"), dibs.Changes)
    assert_type(await app.redrive(where=dibs.Filter(queue="q"), dry_run=True), dibs.Changes)
    assert_type(await app.counts(), dibs.Counts)
    assert_type(await app.verify(), dibs.Report)
    assert_type(app.sync, dibs.SyncApp)

    await app.enqueue("t", prority=5)  # type: ignore[call-arg]
    await app.enqueue("t", priority=1.5)  # type: ignore[arg-type]
    await app.claim(limit=5)  # type: ignore[call-arg]
    await app.claim_many()  # type: ignore[call-arg]
    dibs.App("memory://", colour="red")  # type: ignore[call-arg]


async def a_claim(claim: dibs.Claim) -> None:
    async with claim as held:
        assert_type(held, dibs.Claim)
        assert_type(dibs.current(), dibs.Claim)
        assert_type(held.fence, int)
        assert_type(held.job, dibs.Job)
        assert_type(held.sync, dibs.SyncClaim)
    assert_type(await claim.complete({"a": 1}), None)
    assert_type(await claim.fail(ValueError("x"), delay=timedelta(0)), None)
    await claim.fail(5)  # type: ignore[arg-type]


def the_twin(queue: dibs.SyncApp) -> None:
    assert_type(queue.enqueue("t", priority="high"), dibs.Job)
    assert_type(queue.claim(), dibs.SyncClaim | None)
    assert_type(queue.claim_many(limit=5), list[dibs.SyncClaim])
    assert_type(queue.claims(), Iterator[dibs.SyncClaim])
    assert_type(queue.find(), dibs.SyncPage[dibs.Job])
    assert_type(list(queue.find()), list[dibs.Job])
    assert_type(queue.watch("a"), Iterator[dibs.Job])
    with queue.claimed("a", fence=1, lease_token="x") as held:
        assert_type(held, dibs.SyncClaim)
    queue.enqueue("t", prority=5)  # type: ignore[call-arg]
