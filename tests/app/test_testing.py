"""``dibs.testing``: an app in memory by a fake clock, run on the spot, and looked at."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import dibs
from dibs.testing import drain, enqueued, use


@pytest.fixture
def app(tmp_path: Path) -> dibs.App:
    return dibs.App(f"sqlite:///{tmp_path / 'jobs.db'}", retry=dibs.Backoff(base=60, cap=60))


@pytest.fixture
def did(app: dibs.App) -> list[str]:
    """What handlers have done: one enqueues another, one fails at first, one is a plain function."""
    did: list[str] = []

    @app.task
    async def order(number: int) -> None:
        did.append(f"order {number}")
        await mail.enqueue(to=f"customer-{number}")

    @app.task(queue="mail")
    def mail(to: str) -> str:
        did.append(f"mail {to}")
        return to.upper()

    @app.task(max_attempts=3)
    async def flaky(good: int) -> None:
        did.append(f"flaky {dibs.current().attempt}")
        if dibs.current().attempt < good:
            raise ValueError("not yet")

    @app.task
    async def snoozing() -> None:
        raise dibs.Snooze(0)

    return did


async def test_what_was_enqueued_runs_and_what_that_enqueues(app: dibs.App, did: list[str]) -> None:
    with use(app):
        await app.tasks["order"].enqueue(7)
        runs = await drain(app)
        assert did == ["order 7", "mail customer-7"]
        assert [(job.task, str(job.status)) for job in runs] == [("order", "completed"), ("mail", "completed")]
        assert runs[1].result == "CUSTOMER-7"
        assert await drain(app) == []


async def test_what_fails_is_retried_when_the_clock_has_moved(app: dibs.App, did: list[str]) -> None:
    with use(app, at=datetime(2030, 1, 1, tzinfo=UTC)) as clock:
        await app.tasks["flaky"].enqueue(good=3)
        [first] = await drain(app)
        assert (str(first.status), first.attempts, first.error is not None) == ("pending", 1, True)
        assert await drain(app) == []
        clock.advance(3600)
        [second] = await drain(app)
        assert (str(second.status), second.attempts) == ("pending", 2)
        [third] = await drain(app, later=True)
        assert (str(third.status), third.attempts) == ("completed", 3)
        assert third.completed_at is not None
        assert (
            timedelta(hours=1) < third.completed_at - datetime(2030, 1, 1, tzinfo=UTC) < timedelta(hours=1, minutes=2)
        )


async def test_later_takes_jobs_in_the_order_of_their_time_and_leaves_what_is_never_due(
    app: dibs.App, did: list[str]
) -> None:
    with use(app):
        for number, delay in ((1, 300), (2, 100), (3, 0)):
            await app.enqueue("mail", {"to": str(number)}, delay=delay)
        await app.enqueue("of_another_app", delay=5)
        await app.enqueue("mail", {"to": "paused"}, queue="paused")
        await app.pause("paused")
        await drain(app, later=True)
        assert did == ["mail 3", "mail 2", "mail 1"]
        assert (await app.counts()).unfinished == 2


async def test_the_last_job_of_a_batch_runs_too(app: dibs.App, did: list[str]) -> None:
    with use(app):
        async with app.batch(on_end=app.tasks["mail"].job("done")) as batch:
            await batch.add([app.tasks["mail"].job("a"), app.tasks["mail"].job("b")])
        assert [job.batch_id for job in await drain(app)] == [batch.id, batch.id, None]
        assert did == ["mail a", "mail b", "mail done"]


async def test_some_queues_only(app: dibs.App, did: list[str]) -> None:
    with use(app):
        await app.tasks["order"].enqueue(1)
        assert [job.task for job in await drain(app, queues=["default"], later=True)] == ["order"]
        assert [job.task for job in await drain(app, queues=["mail"])] == ["mail"]


async def test_a_job_that_is_due_for_ever_is_told(
    app: dibs.App, did: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dibs.testing.draining.MOST", 5)
    with use(app):
        await app.tasks["snoozing"].enqueue()
        with pytest.raises(RecursionError, match="snoozing"):
            await drain(app)


async def test_a_real_clock_is_not_moved(app: dibs.App, did: list[str]) -> None:
    await app.tasks["mail"].enqueue("a")
    assert [str(job.status) for job in await drain(app)] == ["completed"]
    with pytest.raises(dibs.NotSupported, match="later"):
        await drain(app, later=True)
    await app.close()


async def test_nothing_of_it_is_left_and_what_was_there_is_there_again(app: dibs.App, did: list[str]) -> None:
    outside = await app.enqueue("mail", {"to": "outside"})
    sync = app.sync
    with use(app) as clock:
        assert await app.get(outside.id) is None
        await asyncio.to_thread(sync.enqueue, "mail", {"to": "inside"})  # a handle from before is of the same app
        assert (await app.counts()).pending == 1
        assert app.runtime.clock is clock
    assert (await app.counts()).pending == 1
    assert (await app.get(outside.id)) is not None
    with use(app):
        assert (await app.counts()).pending == 0
    await app.close()


async def test_an_error_within_leaves_the_app_as_it_was(app: dibs.App, did: list[str]) -> None:
    async def fail() -> None:
        with use(app):
            await app.enqueue("mail", {"to": "a"})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert (await app.counts()).pending == 0
    await app.close()


def test_without_an_event_loop(app: dibs.App, did: list[str]) -> None:
    with use(app):
        app.tasks["mail"].sync.enqueue("a")
        asyncio.run(drain(app))
        assert did == ["mail a"]


async def test_what_was_enqueued_is_asserted(app: dibs.App, did: list[str]) -> None:
    with use(app):
        mail = app.tasks["mail"]
        await mail.enqueue("a")
        await mail.enqueue("b")
        await drain(app)
        assert [job.params for job in await enqueued(app, mail)] == [{"to": "a"}, {"to": "b"}]
        assert [str(job.status) for job in await enqueued(app, "mail", to="b", times=1)] == ["completed"]
        await enqueued(app, "mail", to="c", times=0)
        with pytest.raises(AssertionError, match=r"mail\(to='c'\) was enqueued 0 times, not at least once") as raised:
            await enqueued(app, mail, to="c")
        assert "mail {'to': 'b'}, completed" in str(raised.value)
        with pytest.raises(AssertionError, match="was enqueued 2 times, not 1 times"):
            await enqueued(app, mail, times=1)
        with pytest.raises(AssertionError, match="at least once"):
            await enqueued(app, mail, cc="a")


PROJECT = {
    "jobs.py": """
import dibs
app = dibs.App("postgresql://nowhere.invalid/jobs")

@app.task
async def mail(to: str) -> None:
    if not to:
        raise dibs.Fail("no one")
""",
    "test_own.py": """
from jobs import app, mail

async def test_one(dibs_use):
    await mail.enqueue("a")
    await dibs_use.enqueued(mail, to="a", times=1)
    [job] = await dibs_use.drain()
    assert job.status == "completed"

async def test_each_begins_anew(dibs_use):
    await dibs_use.enqueued(mail, times=0)
    await mail.options(delay=60).enqueue("")
    assert await dibs_use.drain() == []
    dibs_use.clock.advance(60)
    [job] = await dibs_use.drain()
    assert job.status == "failed"
""",
}


def run_pytest(folder: Path, **options: str) -> subprocess.CompletedProcess[str]:
    for name, text in PROJECT.items():
        (folder / name).write_text(text)
    chosen = [part for name, value in {"asyncio_mode": "auto", **options}.items() for part in ("-o", f"{name}={value}")]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "pythonpath=.", *chosen]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=60)


def test_the_plugin(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, dibs_app="jobs:app")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_the_plugin_with_a_fixture_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "import jobs, pytest\n\n@pytest.fixture\ndef dibs_app():\n    return jobs.app\n"
    )
    assert run_pytest(tmp_path).returncode == 0


def test_the_plugin_that_was_not_told_which_app(tmp_path: Path) -> None:
    done = run_pytest(tmp_path)
    assert done.returncode == 1
    assert "which app? Set dibs_app" in done.stdout
