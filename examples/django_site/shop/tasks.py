"""The tasks of the shop, as Django has them. Workers import this module of each installed app."""

from datetime import timedelta
from typing import Any

import dibs
from dibs.contrib.django import job_options

try:
    from django.tasks import task
except ImportError:  # before Django 6
    from django_tasks import task


@task(queue_name="mail", priority=10)
@job_options(max_attempts=8, retry=dibs.Backoff(base=2, cap=600), timeout=timedelta(seconds=30))
def send_receipt(order: int, to: str) -> str:
    if "@" not in to:
        raise dibs.Fail(f"{to!r} is no address")  # not tried again
    return f"receipt {order} was sent to {to}"


@task(takes_context=True)
async def recount(context: Any, shelf: str) -> dict[str, Any]:
    return {"shelf": shelf, "attempt": context.attempt, "fence": dibs.current().fence}
