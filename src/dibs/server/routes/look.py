"""Looking at jobs: list, one, its log, why it is not running, how many there are, and whether the log holds."""

from __future__ import annotations

import msgspec

from dibs.domain.errors import NotFound
from dibs.domain.job import Filter
from dibs.server.route import Call, Reply, Route
from dibs.wire.answered import Explained, Log, OneTask, Page, Stats, Verified
from dibs.wire.asked import QueueQuery, TaskQuery
from dibs.wire.show import count_of, log_entry, task_of, verified_of


async def find(call: Call) -> Reply:
    """List a page of jobs."""
    asked: TaskQuery = call.query
    queue = call.caller.listable(asked.queue)
    asked = msgspec.structs.replace(asked, queue=queue)
    where = Filter(
        status=asked.status or None,
        queue=queue,
        task=asked.task_type,
        worker_id=asked.worker_id,
        batch_id=asked.batch_id,
        tag=asked.tag,
        q=asked.q,
        priority_min=asked.priority_min,
        priority_max=asked.priority_max,
    )
    cursors = call.state.cursors
    jobs, place = await call.broker.find(
        where, limit=asked.limit, cursor=await cursors.open(asked), oldest_first=asked.sort == "created_at"
    )
    return Reply(Page(tasks=[task_of(job) for job in jobs], next_cursor=await cursors.seal(place, asked)))


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


async def stats(call: Call) -> Reply:
    """Count jobs by state."""
    asked: QueueQuery = call.query
    queue = call.caller.listable(asked.queue)
    return Reply(Stats(queue=queue, counts=count_of(await call.broker.counts(queue))))


async def verify(call: Call) -> Reply:
    """Replay the store's log and prove the promises on it."""
    call.caller.need_all_queues()
    return Reply(verified_of(await call.broker.verify()))


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
    Route("GET", "/api/stats", stats, "Count jobs by state.", scope="read", query=QueueQuery, answers={200: Stats}),
    Route(
        "POST",
        "/api/verify",
        verify,
        "Replay the store's log and prove the promises on it.",
        scope="admin",
        answers={200: Verified},
    ),
)
