"""Jobs that live in Django's own database: enqueued within its transactions, in tables that its ``migrate`` makes."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterator

import pytest
from django.core.management import call_command
from django.db import connections, transaction
from django.test import override_settings

from dibs import SchemaOutdated, Worker
from dibs.contrib.django import DibsBackend
from dibs.contrib.django.interface import TaskResultDoesNotExist, task_backends
from tests.contrib.conftest import tasks
from tests.contrib.work import add, complete_within, seen, use_database, use_database_from_a_loop


@pytest.fixture
def backend(database: str) -> Iterator[DibsBackend]:
    with override_settings(TASKS=tasks(database=database)):
        yield task_backends["default"]
        task_backends["default"].app.sync.close()


@pytest.fixture
def migrated(backend: DibsBackend, database: str) -> DibsBackend:
    call_command("migrate", database=database, verbosity=0)
    return backend


def test_migrate_makes_the_tables(backend: DibsBackend, database: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SchemaOutdated):
        add.enqueue(1)
    call_command("migrate", database=database, stdout=io.StringIO())
    assert "  dibs: " in capsys.readouterr().out
    assert add.enqueue(1).status == "READY"
    call_command("migrate", database=database, stdout=io.StringIO())
    assert "  dibs: " not in capsys.readouterr().out


def test_a_job_commits_with_the_transaction(migrated: DibsBackend, database: str) -> None:
    with connections[database].cursor() as cursor:
        cursor.execute("CREATE TABLE item (id integer PRIMARY KEY)")
    with transaction.atomic(using=database):
        with connections[database].cursor() as cursor:
            cursor.execute("INSERT INTO item VALUES (1)")
        result = add.enqueue(1, 2)
        assert result.status == "READY"
        with pytest.raises(TaskResultDoesNotExist):  # it is not there for others yet
            migrated.get_result(result.id)
        asyncio.run(Worker(migrated.app).run(until_idle=True))
    assert migrated.get_result(result.id).status == "READY"
    asyncio.run(Worker(migrated.app).run(until_idle=True))
    assert migrated.get_result(result.id).return_value == 3


def test_a_job_vanishes_with_the_transaction(migrated: DibsBackend, database: str) -> None:
    @transaction.atomic(using=database)
    def sold_out() -> None:
        add.enqueue(1)
        raise RuntimeError("sold out")

    with pytest.raises(RuntimeError, match="sold out"):
        sold_out()
    with transaction.atomic(using=database):
        kept = add.enqueue(2)
        with pytest.raises(RuntimeError, match="sold out"):
            sold_out()  # now it is a savepoint that is rolled back to
    assert [job.id for job in migrated.app.sync.find()] == [kept.id]


def test_without_a_transaction_it_is_there_at_once(migrated: DibsBackend) -> None:
    assert migrated.get_result(add.enqueue(1).id).status == "READY"


async def test_on_a_loop(migrated: DibsBackend) -> None:
    assert (await migrated.aget_result((await add.aenqueue(1)).id)).status == "READY"


async def test_a_task_s_own_connections_are_closed_after_it(migrated: DibsBackend, database: str) -> None:
    """In the thread of a plain function, and in that of a coroutine's ``sync_to_async``: threads outlive jobs."""
    seen.clear()
    ids = [(await task.aenqueue(database)).id for task in (use_database, use_database_from_a_loop)]
    worker = Worker(migrated.app)
    running = asyncio.create_task(worker.run())
    for id in ids:
        assert (await migrated.app.wait(id, timeout=10)).status == "completed"
    assert [connection.closed for connection in seen] == [True, True]
    worker.stop()
    await running


def test_a_task_s_effect_and_its_end_commit_together(migrated: DibsBackend, database: str) -> None:
    with connections[database].cursor() as cursor:
        cursor.execute("CREATE TABLE effect (fails boolean)")
        good, bad = complete_within.enqueue(database, fails=False), complete_within.enqueue(database, fails=True)
        asyncio.run(Worker(migrated.app).run(until_idle=True))
        cursor.execute("SELECT fails FROM effect")
        assert cursor.fetchall() == [(False,)]
    good.refresh()
    assert (good.status, good.return_value) == ("SUCCESSFUL", "as one")
    bad.refresh()
    assert (bad.status, [error.exception_class.__name__ for error in bad.errors]) == ("FAILED", ["Refused"])
