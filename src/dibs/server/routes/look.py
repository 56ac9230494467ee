"""Looking at jobs: list, one, its log, and why it is not running."""

from __future__ import annotations

from dibs.domain.errors import NotFound
from dibs.domain.job import Filter
from dibs.server.route import Call, Reply, Route
from dibs.wire.answered import Explained, Log, OneTask, Page, log_entry, task_of
from dibs.wire.asked import TaskQuery


async def find(call: Call) -> Reply:
    """List a page of jobs."""
    asked: TaskQuery = call.query
    where = Filter(
        status=asked.status or None,
        queue=call.caller.listable(asked.queue),
        task=asked.task_type,
        worker_id=asked.worker_id,
        batch_id=asked.batch_id,
        tag=asked.tag,
        q=asked.q,
        priority_min=asked.priority_min,
        priority_max=asked.priority_max,
    )
    jobs, cursor = await call.broker.find(
        where, limit=asked.limit, cursor=asked.cursor, oldest_first=asked.sort == "created_at"
    )
    return Reply(Page(tasks=[task_of(job) for job in jobs], next_cursor=cursor))


async def get(call: Call) -> Reply:
    """Show one job."""
    id = call.path["id"]
    return Reply(OneTask(task=task_of(call.caller.own(await call.broker.get(id), id))))


async def log(call: Call) -> Reply:
    """Show what has happened to a job; of a pruned one its last event, for a day."""
    id = call.path["id"]
    if call.caller.queues is not None:
        call.caller.own(await call.broker.get(id), id)
    events = await call.broker.log(id)
    if not events:
        raise NotFound(f"there is no job {id!r}")
    return Reply(Log(events=[log_entry(event) for event in events]))


async def explain(call: Call) -> Reply:
    """Say why a job is not running now."""
    id = call.path["id"]
    if call.caller.queues is not None:
        call.caller.own(await call.broker.get(id), id)
    explained = await call.broker.explain(id)
    return Reply(Explained(code=explained.code, message=explained.message, task=task_of(explained.job)))


ROUTES = (
    Route("GET", "/api/tasks", find, "List jobs.", scope="read", query=TaskQuery, answers={200: Page}),
    Route("GET", "/api/tasks/{id}", get, "Show a job.", scope="read", answers={200: OneTask}, refuses=(404,)),
    Route(
        "GET",
        "/api/tasks/{id}/log",
        log,
        "Show what has happened to a job.",
        scope="read",
        answers={200: Log},
        refuses=(404,),
    ),
    Route(
        "GET",
        "/api/tasks/{id}/explain",
        explain,
        "Say why a job is not running now.",
        scope="read",
        answers={200: Explained},
        refuses=(404,),
    ),
)
