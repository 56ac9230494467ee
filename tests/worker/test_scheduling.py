"""A worker looks after its app's schedules, on each kind of store and through a server process."""

from __future__ import annotations

from dibs import App
from tests.worker.conftest import until, working


async def test_a_worker_ticks_and_runs(app: App) -> None:
    ran: list[str] = []

    @app.schedule(1, params={"who": "me"})
    def hello(who: str) -> None:
        ran.append(who)

    async with working(app):
        await until(lambda: len(ran) >= 2, 20)

    [info] = await app.schedules()
    jobs = [job async for job in app.find(tag="schedule:hello")]
    assert (info.name, info.status) == ("hello", "active")
    assert len({job.idempotency_key for job in jobs}) == len(jobs) >= 2
    assert set(ran) == {"me"}
    assert len(ran) == sum(job.status == "completed" for job in jobs)


async def test_two_workers_share_a_schedule(app: App) -> None:
    ran: list[int] = []
    app.schedule("* * * * * *", name="each")(app.task("work")(lambda: ran.append(1)))

    async with working(app, worker_id="one"), working(app, worker_id="two"):
        await until(lambda: len(ran) >= 3, 20)

    keys = [job.idempotency_key async for job in app.find(tag="schedule:each")]
    assert len(set(keys)) == len(keys) >= 3
