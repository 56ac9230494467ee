"""Tasks of Django's for the tests."""

from typing import Any

from asgiref.sync import sync_to_async
from django.db import connections, transaction

import dibs
from dibs.contrib.django import job_options

try:
    from django.tasks import task
except ImportError:
    from django_tasks import task

AT_ONCE = dibs.Backoff(base=0, cap=0)

seen: list[Any] = []
"""What the tasks have done, in order."""


class Refused(Exception):
    """An exception of the project's own."""


@task
def add(a: int, b: int = 0) -> int:
    seen.append(("add", a, b))
    return a + b


@task
def any_names(**names: int) -> dict[str, int]:
    return names


@task
async def double(a: int) -> int:
    return 2 * a


@task(takes_context=True)
@job_options(max_attempts=2, retry=AT_ONCE)
def second_time(context: Any, name: str) -> list[Any]:
    """Fails at first."""
    if context.attempt == 1:
        raise Refused(name)
    return [name, context.attempt, context.task_result.id == dibs.current().id]


@task(takes_context=True)
@job_options(max_attempts=2, retry=AT_ONCE)
async def never(context: Any) -> None:
    raise ValueError(f"attempt {context.attempt}")


@task
def odd() -> object:
    seen.append("odd")
    return object()


@task
@job_options(max_attempts=1)
def snooze() -> None:
    seen.append("snooze")
    if seen.count("snooze") < 3:
        raise dibs.Snooze(0)


@task
def use_database(alias: str) -> None:
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT 1")
    seen.append(connections[alias].connection)


@task
async def use_database_from_a_loop(alias: str) -> None:
    await sync_to_async(use_database.func)(alias)


@task
@job_options(max_attempts=1)
def complete_within(alias: str, *, fails: bool) -> str:
    """Its effect and its end are one."""
    with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
        cursor.execute("INSERT INTO effect VALUES (%s)", [fails])
        dibs.current().sync.complete("as one", connection=connections[alias].connection)
        if fails:
            raise Refused("after all")
    return "not kept: it has ended already"
