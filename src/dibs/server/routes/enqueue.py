"""POST /api/tasks: one job, or a batch of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from dibs.domain.errors import Problem
from dibs.domain.job import Status, Terms
from dibs.server.problems import Misfit
from dibs.server.route import Call, Reply, Route
from dibs.wire.answered import Enqueued, EnqueuedMany, Task
from dibs.wire.asked import NewTask, NewTasks
from dibs.wire.show import task_of
from dibs.wire.taken import new_job_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dibs.domain.job import Job
    from dibs.server.auth import Caller

HEADER = b"idempotency-key"

_QUOTED = re.compile(r'"((?:[^"\\]|\\["\\])*)"')


async def enqueue(call: Call) -> Reply:
    """Enqueue; 201 if any job is new."""
    asked: NewTask | NewTasks = call.body
    key = _key_in(call.headers)
    if isinstance(asked, NewTasks):
        if key is not None:
            raise Misfit([Problem("Idempotency-Key", "is for one job; give each of a batch its idempotency_key")])
        tasks = await _enqueue(call, asked.tasks)
        new = sum(not task.was_duplicate for task in tasks)
        message = f"{new} of {len(tasks)} tasks created"
        return Reply(EnqueuedMany(tasks=tasks, message=message), 201 if new else 200)
    [task] = await _enqueue(call, [_with_key(asked, key)])
    known = bool(task.was_duplicate)
    message = "Task was there already" if known else "Task created successfully"
    return Reply(Enqueued(task=task, was_duplicate=known, message=message), 200 if known else 201)


async def _enqueue(call: Call, asked: list[NewTask]) -> list[Task]:
    app, caller = call.state.app, call.caller
    jobs = [new_job_of(task) for task in asked]
    if caller.queues is not None:
        caller.allow(job.queue or usual_queue(call, job.task) for job in jobs)
    if call.state.checker is not None:
        await call.state.checker.check(jobs)
    enqueued = await app.enqueue_many(jobs)
    return [task_of(_shown(caller, job), duplicate=True) for job in enqueued]


def usual_queue(call: Call, task: str) -> str:
    """Say where a job goes that names no queue."""
    app = call.state.app
    known = app.tasks.get(task)
    named: str | None = None if known is None else known.defaults.get("queue")
    return named or app.runtime.config.queue


def _shown(caller: Caller, job: Job) -> Job:
    """Hide what a key may not see: the holder of a unique key can be a job of any queue. Its id and status are told."""
    if caller.sees(job.queue):
        return job
    blank: dict[str, Any] = dict.fromkeys(
        ("worker_id", "claimed_us", "lease_expires_us", "idempotency_key", "batch_id", "result_json", "error")
    )
    return msgspec.structs.replace(
        job,
        queue="",
        task="",
        params_json=b"null",
        status=Status.PENDING if job.status is Status.CLAIMED else job.status,
        progress=None,
        progress_note="",
        terms=Terms(),
        **blank,
    )


def _key_in(headers: Mapping[bytes, bytes]) -> str | None:
    """Read the header, with or without the quotes that its standard asks for."""
    given = headers.get(HEADER)
    if given is None:
        return None
    try:
        text = given.decode().strip()
    except UnicodeDecodeError:
        raise Misfit([Problem("Idempotency-Key", "is not UTF-8")]) from None
    if not text.startswith('"'):
        return text
    quoted = _QUOTED.fullmatch(text)
    if quoted is None:
        raise Misfit([Problem("Idempotency-Key", "is not a text in quotes")])
    return re.sub(r"\\(.)", r"\1", quoted[1])


def _with_key(task: NewTask, key: str | None) -> NewTask:
    if key is None:
        return task
    if task.idempotency_key not in {None, key}:
        raise Misfit([Problem("idempotency_key", "is not what the Idempotency-Key header says")])
    return msgspec.structs.replace(task, idempotency_key=key)


ROUTES = (
    Route(
        "POST",
        "/api/tasks",
        enqueue,
        "Enqueue one job, or a batch: all of them or none.",
        scope="produce",
        bodies=(NewTask, NewTasks),
        answers={201: Enqueued | EnqueuedMany, 200: Enqueued | EnqueuedMany},
        refuses=(413, 422),
        headers={"Idempotency-Key": "Of one job: the same as its field idempotency_key. With or without quotes."},
    ),
)
