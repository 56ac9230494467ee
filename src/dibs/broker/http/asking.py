"""What a broker is asked for, as a server takes it. It is checked here as it is there, by the same rules.

So a mistake is told without a journey, in Python's own words; and what is not JSON cannot be sent at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import msgspec
from msgspec import Raw

from dibs.broker.batches import draft_of
from dibs.broker.intake import check_failure, check_verb, drafts_of, query_of
from dibs.broker.schedules import drafts_of_plans
from dibs.domain import checks
from dibs.domain.errors import InvalidRequest
from dibs.domain.job import Order, Retention
from dibs.domain.retry import SECOND, Duration, micros
from dibs.domain.settings import DEFAULTS, Config
from dibs.domain.validate import encode
from dibs.wire.asked import Claiming, ClaimingOne, Extending, NewTask, Retain, Retry, Settling, TaskFilter
from dibs.wire.batches import Sealing
from dibs.wire.schedules import NewSchedule, Publishing, without_id
from dibs.wire.schemas import NewSchema, Offering

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.broker.protocol import Ask, Ending
    from dibs.clock import Clock
    from dibs.domain.job import Draft, Extension, Filter
    from dibs.domain.newjob import NewJob
    from dibs.domain.schedule import Plan
    from dibs.domain.schema import Offer

_USUAL_QUEUE = Config.of().queue
_ORDERS: dict[Order, dict[str, Any]] = {
    Order.PRIORITY: {},
    Order.PRIORITY_ASC: {"sort_order": "asc"},
    Order.CREATED_AT: {"sort_by": "created_at"},
    Order.CREATED_AT_DESC: {"sort_by": "created_at", "sort_order": "desc"},
    Order.RANDOM: {"sort_by": "random"},
}


def new_tasks(jobs: Sequence[NewJob], config: Config, clock: Clock) -> list[NewTask]:
    """Make what is sent of new jobs: each with an id, so that sending it twice makes no second job."""
    drafts = drafts_of(jobs, config, clock)
    return [_new_task(_with_settings(new, config), draft) for new, draft in zip(jobs, drafts, strict=True)]


def publishing(plans: Sequence[Plan], config: Config, clock: Clock) -> Publishing:
    """Make what is sent of schedules, once they were checked."""
    drafts_of_plans(plans, config, clock)
    return Publishing(
        schedules=[
            NewSchedule(
                name=plan.name,
                task=without_id(new_tasks([plan.job], config, clock)[0]),
                cron=plan.timing.cron,
                every_seconds=None if plan.timing.every_us is None else plan.timing.every_us / SECOND,
                tz=plan.timing.tz,
                catch_up=plan.catch_up.value,
            )
            for plan in plans
        ]
    )


def offering(offers: Sequence[Offer], by: str | None) -> Offering:
    """Make what is sent of schemas."""
    schemas: Any = [NewSchema(task_type=each.task, schema=Raw(each.schema_json)) for each in offers]  # type: ignore[arg-type]
    return Offering(schemas=schemas, by=by)


def sealing(batch_id: str, on_end: NewJob, config: Config, clock: Clock) -> Sealing:
    """Make what is sent of a batch's last job, once it was checked."""
    draft_of(batch_id, on_end, config, clock)
    return Sealing(on_end=without_id(new_tasks([on_end], config, clock)[0]))


def _with_settings(new: NewJob, config: Config) -> NewJob:
    """Put in what this app settles for its queues and for itself; what it leaves open, the server settles."""
    queue = new.queue or (None if config.queue == _USUAL_QUEUE else config.queue)
    settled: dict[str, Any] = {**config.defaults, **config.queues.get(queue or _USUAL_QUEUE, {})}
    given = {name: settled[name] for name in DEFAULTS if name in settled and getattr(new, name) is None}
    return msgspec.structs.replace(new, queue=queue, **given)


def _new_task(new: NewJob, draft: Draft) -> NewTask:
    retry = None if new.retry is None else new.retry.in_seconds()
    return NewTask(
        task_type=new.task,
        params=Raw(draft.params_json),
        id=draft.id,
        queue=new.queue,
        priority=new.priority,
        max_attempts=new.max_attempts,
        delay_seconds=_seconds(new.delay),
        scheduled_at=new.scheduled_at,
        idempotency_key=new.idempotency_key,
        unique=new.unique,
        unique_key=new.unique_key,
        batch_id=new.batch,
        tags=list(new.tags),
        retry=None if retry is None else Retry(base=_seconds(retry.base) or 0.0, cap=_seconds(retry.cap) or 0.0),
        timeout_seconds=_seconds(new.timeout),
        lease_seconds=_seconds(new.lease),
        retention=_retention(new.retention),
        trace=new.trace,
    )


def _retention(given: Retention | Duration | None) -> float | Retain | None:
    if not isinstance(given, Retention):
        return _seconds(given)
    return Retain(
        completed=micros(given.completed) / SECOND,
        cancelled=micros(given.cancelled) / SECOND,
        failed=micros(given.failed) / SECOND,
        keyed=micros(given.keyed) / SECOND,
    )


def _seconds(duration: Duration | None) -> float | None:
    return None if duration is None else micros(duration) / SECOND


def claiming(ask: Ask, wait: float) -> Claiming:
    """Make a wish to claim, for as long as one request waits."""
    return Claiming(
        worker_id=ask.worker_id,
        task_types=None if ask.tasks is None else list(ask.tasks),
        queues=None if ask.queues is None else list(ask.queues),
        max_attempts_remaining=ask.min_attempts_left - 1,
        limit=ask.limit,
        lease_seconds=_seconds(ask.lease),
        wait_seconds=wait,
        **_ORDERS[Order(ask.order)],
    )


def claiming_one(ask: Ask) -> ClaimingOne:
    """Make a wish to claim just one job."""
    return ClaimingOne(
        worker_id=ask.worker_id,
        task_types=None if ask.tasks is None else list(ask.tasks),
        queues=None if ask.queues is None else list(ask.queues),
        max_attempts_remaining=ask.min_attempts_left - 1,
        lease_seconds=_seconds(ask.lease),
    )


def extending(extension: Extension) -> Extending:
    """Make a claim that is to be kept."""
    ref = extension.ref
    return Extending(
        id=ref.id, fence=ref.fence, lease_token=ref.token, progress=extension.progress, progress_note=extension.note
    )


def settling(ending: Ending, config: Config) -> Settling:
    """Make how a claim shall end."""
    check_verb(ending)
    id, fence, token = ending.ref.id, ending.ref.fence, ending.ref.token
    if ending.verb == "complete":
        if ending.result is None:
            return Settling(id=id, fence=fence, lease_token=token)
        result = encode("result", ending.result, config.max_result_bytes, InvalidRequest)
        return Settling(id=id, fence=fence, lease_token=token, result=Raw(result))
    if ending.failure is None:
        delay = None if ending.delay is None else checks.seconds("delay", ending.delay)
        return Settling(id=id, fence=fence, lease_token=token, release=True, delay_seconds=delay)
    failure = check_failure(ending.failure)
    error = failure.error
    return Settling(
        id=id,
        fence=fence,
        lease_token=token,
        success=False,
        error_message=error.message,
        error_code=error.code,
        error_kind=error.kind,
        error_traceback=error.traceback,
        is_retryable=failure.retryable,
        retry_in_seconds=None if failure.delay_us is None else failure.delay_us / SECOND,
    )


def task_filter(where: Filter) -> TaskFilter:
    """Make a filter, once it was checked."""
    query = query_of(where, limit=1, cursor=None)
    return TaskFilter(
        status=list(query.status),
        task_type=query.task,
        queue=query.queue,
        worker_id=query.worker_id,
        batch_id=query.batch_id,
        tag=query.tag,
        q=query.q,
        priority_min=query.priority_min,
        priority_max=query.priority_max,
    )


def in_query(path: str, fields: dict[str, Any]) -> str:
    """Write what is asked for behind a path."""
    given = {name: value for name, value in fields.items() if value is not None and value != []}
    return f"{path}?{urlencode(given, doseq=True)}" if given else path
