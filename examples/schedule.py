"""Tasks on a schedule, by interval and by cron. Run it: python examples/schedule.py"""

import asyncio
from datetime import timedelta

import dibs

app = dibs.App("memory://")  # with "sqlite:///jobs.db" workers may be other processes: dibs worker schedule:app
ticks: list[str] = []
ticked_twice = asyncio.Event()


@app.schedule(timedelta(seconds=1), params={"name": "world"})
@app.task(max_attempts=5)
async def greet(name: str) -> str:
    """Each second; the key of the job says for which one."""
    ticks.append(str(dibs.current().job.idempotency_key))
    if len(ticks) > 1:
        ticked_twice.set()
    return f"hello {name}"


@app.schedule("30 3 * * *", tz="Europe/Berlin", catch_up="none")
def clean_up() -> None:
    """Each night in Berlin, also when the clocks are changed; a night that was missed is left out."""


async def main() -> None:
    worker = dibs.Worker(app)
    running = asyncio.create_task(worker.run())
    await ticked_twice.wait()

    for schedule in await app.schedules():
        print(f"{schedule.name}: {schedule.timing}, {schedule.status}, next at {schedule.next_at}")
    paused = await app.pause_schedule("clean_up", by="olga")
    job = await app.run_schedule("clean_up")  # now, though it is paused
    ended = await app.wait(job.id, timeout=30)
    print(f"{paused.name} is {paused.status} by {paused.paused_by}; run by hand: {ended.status}")
    print(f"{len(set(ticks))} of {len(ticks)} ticks were different ones")

    worker.stop()
    await running
    await app.close()


if __name__ == "__main__":
    asyncio.run(main())
