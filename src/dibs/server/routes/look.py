"""Looking at jobs: list, one, its log, why it is not running, how many there are, and whether the log holds."""

from __future__ import annotations

import msgspec

from dibs.broker.intake import MAX_PAGE
from dibs.domain.checks import MAX_KEY, check_text
from dibs.domain.errors import InvalidRequest, NotFound
from dibs.domain.job import FINISHED, Filter, Status
from dibs.server.route import Call, Reply, Route
from dibs.store import EXACT_COUNT
from dibs.wire.answered import Batch, Explained, Log, OneTask, Page, Stats, Verified
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


async def batch(call: Call) -> Reply:
    """Say how far a batch has come, by looking at its jobs."""
    id = call.path["id"]
    if problems := check_text("id", id, most=MAX_KEY):
        raise InvalidRequest(problems)
    where = Filter(batch_id=id, queue=call.caller.listable(None))
    found = dict.fromkeys(Status, 0)
    cursor: str | None = None
    while True:
        jobs, cursor = await call.broker.find(where, limit=MAX_PAGE, cursor=cursor)
        for job in jobs:
            found[job.status] += 1
        total = sum(found.values())
        if cursor is None or total >= EXACT_COUNT:
            break
    if not total:
        raise NotFound(f"there is no batch {id!r}", hint="Its jobs may have been pruned after their retention time.")
    return Reply(
        Batch(
            batch_id=id,
            total=total,
            progress=sum(found[status] for status in FINISHED) / total,
            exact=cursor is None,
            pending=found[Status.PENDING],
            claimed=found[Status.CLAIMED],
            completed=found[Status.COMPLETED],
            failed=found[Status.FAILED],
            cancelled=found[Status.CANCELLED],
        )
    )


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
        "GET",
        "/api/batches/{id}",
        batch,
        "Say how far a batch has come.",
        scope="read",
        answers={200: Batch},
        refuses=(404,),
    ),
    Route(
        "POST",
        "/api/verify",
        verify,
        "Replay the store's log and prove the promises on it.",
        scope="admin",
        answers={200: Verified},
    ),
)
