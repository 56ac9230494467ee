"""``dibs worker`` with handlers in processes of their own, which import what it has imported."""

from pathlib import Path

import pytest

import dibs
from tests.cli.running import Place

TASKS = """
import threading
import dibs

tasks = dibs.Tasks()


@tasks.task(process=True)
def crunch(n: int) -> str:
    note.sync.enqueue(n * n)
    return threading.current_thread().name


@tasks.task(queue="notes")
def note(n: int) -> int:
    return n
"""
APP = """
import dibs
from shop.tasks import tasks

app = dibs.App()
app.include(tasks)
"""


@pytest.fixture
def shop(tmp_path: Path) -> Place:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "tasks.py").write_text(TASKS)
    (tmp_path / "shop" / "app.py").write_text(APP)
    return Place(tmp_path, f"sqlite:///{tmp_path / 'jobs.db'}")


def test_a_handler_finds_its_app_too(shop: Place) -> None:
    app = dibs.App(shop.url)
    job = app.sync.enqueue("crunch", {"n": 3})
    shop.dibs("worker", "shop.app:app", "--handler-processes", "1", "--until-idle")

    after = app.sync.get(job.id)
    assert after is not None
    assert (after.result, after.error) == ("MainThread", None)
    assert [(job.queue, job.result) for job in app.sync.find(task="note")] == [("notes", 9)]
    app.sync.close()


def test_so_it_does_in_several_processes_that_are_renewed(shop: Place) -> None:
    app = dibs.App(shop.url)
    app.sync.enqueue_many([dibs.NewJob("crunch", {"n": n}) for n in range(3)])
    shop.dibs("worker", "shop.app:app", "--processes", "2", "--renew-after-jobs", "2", "--until-idle")

    jobs = list(app.sync.find())
    assert len(jobs) == 6
    assert {(job.status, job.fence, job.attempts) for job in jobs} == {(dibs.Status.COMPLETED, 1, 1)}
    app.sync.close()


def test_more_processes_than_handlers(shop: Place) -> None:
    done = shop.dibs("worker", "shop.app:app", "--handler-processes", "3", "--concurrency", "2", code=2)
    assert "handler_processes: no more than 2 handlers run at once" in done.stderr
