"""What callers give, checked and turned into what the store takes; every problem of a call is told at once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dibs.domain import checks
from dibs.domain.errors import Invalid, InvalidJob, InvalidRequest, Problem, TooLarge
from dibs.domain.failure import cut
from dibs.domain.job import ClaimRequest, Filter, Order, Query, Status
from dibs.domain.retry import SECOND, micros
from dibs.domain.settings import MAX_BATCH, MAX_BATCH_BYTES, MAX_CLAIM, MIB
from dibs.domain.validate import draft

if TYPE_CHECKING:
    from dibs.broker.protocol import Ask, Ending
    from dibs.clock import Clock
    from dibs.domain.job import Draft, Extension, Ref
    from dibs.domain.newjob import NewJob
    from dibs.domain.settings import Config
    from dibs.domain.transitions import Failure

MAX_PAGE = 1000


def drafts_of(jobs: Sequence[NewJob], config: Config, clock: Clock) -> list[Draft]:
    """Check a batch of new jobs; one bad one refuses them all, and the problems name each by its index."""
    if len(jobs) > MAX_BATCH:
        raise InvalidJob([Problem("jobs", f"must be {MAX_BATCH} at most in one call; {len(jobs)} were given")])
    drafts: list[Draft] = []
    problems: list[Problem] = []
    for index, new in enumerate(jobs):
        try:
            drafts.append(draft(new, config, clock.new_id()))
        except Invalid as error:
            where = _place("jobs", index, len(jobs))
            problems += [Problem(where + problem.field, problem.message) for problem in error.problems]
        except TooLarge as error:
            raise (
                error if len(jobs) == 1 else TooLarge(f"jobs[{index}].{error.field}", error.size, error.limit)
            ) from None
    if problems:
        raise InvalidJob(problems)
    size = sum(len(draft.params_json) for draft in drafts)
    if size > MAX_BATCH_BYTES:
        raise TooLarge("jobs", size, MAX_BATCH_BYTES)
    return drafts


def check_ask(ask: Ask, token: str) -> tuple[ClaimRequest, float]:
    """Check a wish to claim; the second value is how long it may wait, in seconds."""
    problems = checks.check_worker_id(ask.worker_id)
    problems += checks.check_integer("limit", ask.limit, 1, MAX_CLAIM)
    problems += checks.check_integer("min_attempts_left", ask.min_attempts_left, 1, checks.MAX_ATTEMPTS)
    problems += checks.check_order(ask.order)
    problems += checks.check_duration("wait", ask.wait, least=0)
    if ask.lease is not None:
        problems += checks.check_duration("lease", ask.lease, least=checks.MIN_LEASE)
    if ask.queues is not None:
        problems += checks.check_names("queues", ask.queues)
    if ask.tasks is not None:
        problems += checks.check_names("tasks", ask.tasks)
    if ask.id is not None:
        problems += checks.check_id("id", ask.id)
        if ask.wait:
            problems.append(
                Problem("wait", "cannot be given together with id; a job named by id is claimable now or not")
            )
    if problems:
        raise InvalidRequest(problems)
    request = ClaimRequest(
        ask.worker_id,
        token,
        ask.limit,
        ask.id,
        None if ask.queues is None else tuple(dict.fromkeys(ask.queues)),
        None if ask.tasks is None else tuple(dict.fromkeys(ask.tasks)),
        ask.min_attempts_left,
        Order(ask.order),
        None if ask.lease is None else micros(ask.lease),
    )
    return request, micros(ask.wait) / SECOND


def check_refs(refs: Sequence[Ref], where: str) -> None:
    """Check the names of claims. Race: one that the store cannot take would fail the calls that it is merged with."""
    if checks.are_refs(refs):
        return
    problems = [p for i, ref in enumerate(refs) for p in checks.check_ref(ref, _place(where, i, len(refs)))]
    if problems:
        raise InvalidRequest(problems)


def check_failure(failure: Failure) -> Failure:
    """Check how an attempt failed; what is too long to be kept of its error is cut."""
    if failure.delay_us is not None:
        problems = checks.check_integer("delay", failure.delay_us, 0, micros(checks.MAX_DURATION))
        if problems:
            raise InvalidRequest([Problem("delay", "must be between 0 seconds and a hundred years")])
    return failure._replace(error=cut(failure.error))


def check_id(id: str) -> None:
    """Check the id of a job that is looked for."""
    problems = checks.check_id("id", id)
    if problems:
        raise InvalidRequest(problems)


def check_ids(ids: Sequence[str]) -> None:
    """Check the ids of jobs that are to be changed."""
    problems = [p for i, id in enumerate(ids) for p in checks.check_id(f"ids[{i}]" if len(ids) > 1 else "id", id)]
    if problems or not ids:
        raise InvalidRequest(problems or [Problem("ids", "name at least one job")])


def check_change(ids: Sequence[str], where: Filter | None) -> None:
    """Check which finished jobs are to be changed: those named, or those that match."""
    if bool(ids) == (where is not None):
        raise InvalidRequest([Problem("where", "give either ids or a filter, not both and not neither")])


def check_queue(queue: str) -> None:
    """Check the name of a queue."""
    problems = checks.check_name("queue", queue)
    if problems:
        raise InvalidRequest(problems)


def check_actor(by: str | None) -> None:
    """Check who is said to do what an operator does; it goes into the log."""
    problems = [] if by is None else checks.check_text("by", by, most=checks.MAX_KEY)
    if problems:
        raise InvalidRequest(problems)


def check_progress(extension: Extension) -> None:
    """Check how far a claim's work is said to have come."""
    fraction: Any = extension.progress
    number = isinstance(fraction, float | int) and not isinstance(fraction, bool)
    if fraction is not None and not (number and 0 <= fraction <= 1):
        raise InvalidRequest([Problem("fraction", "must be between 0 and 1")])
    if extension.note:
        problems = checks.check_text("note", extension.note, most=checks.MAX_KEY)
        if problems:
            raise InvalidRequest(problems)


def check_extensions(extensions: Sequence[Extension]) -> None:
    """Check claims that are to be kept."""
    check_refs([extension.ref for extension in extensions], "extensions")
    for extension in extensions:
        check_progress(extension)


def check_verb(ending: Ending) -> None:
    """Check that a claim is to end in one of the ways there are."""
    if ending.verb not in {"complete", "release"} and (ending.verb != "fail" or ending.failure is None):
        raise InvalidRequest([Problem("verb", "must be complete, fail (with a failure) or release")])


def check_document(name: Any, value: bytes | None) -> None:
    """Check what is to be kept in the registry, where it comes from elsewhere."""
    problems = checks.check_text("name", name, most=2 * checks.MAX_KEY)
    if problems:
        raise InvalidRequest(problems)
    if value is not None and len(value) > MIB:
        raise TooLarge("value", len(value), MIB)


def _place(where: str, index: int, number: int) -> str:
    return f"{where}[{index}]." if number > 1 else ""


def query_of(where: Filter, *, limit: int, cursor: int | None, oldest_first: bool = False) -> Query:
    """Check a filter and make the store's query of it."""
    problems = checks.check_integer("limit", limit, 1, MAX_PAGE)
    statuses = _statuses(where.status)
    problems += [
        Problem("status", f"{status!r} is none of {', '.join(Status)}")
        for status in statuses
        if not isinstance(status, str) or status not in set(Status)
    ]
    for field, value in (("queue", where.queue), ("task", where.task)):
        if value is not None:
            problems += checks.check_name(field, value)
    if where.worker_id is not None:
        problems += checks.check_worker_id(where.worker_id)
    for field, value in (("batch_id", where.batch_id), ("tag", where.tag), ("q", where.q)):
        if value is not None:
            problems += checks.check_text(field, value, most=checks.MAX_KEY)
    for field, bound in (("priority_min", where.priority_min), ("priority_max", where.priority_max)):
        if bound is not None:
            problems += checks.check_integer(field, bound, checks.MIN_PRIORITY, checks.MAX_PRIORITY)
    if problems:
        raise InvalidRequest(problems)
    return Query(
        status=tuple(Status(status) for status in statuses),
        queue=where.queue,
        task=where.task,
        worker_id=where.worker_id,
        batch_id=where.batch_id,
        tag=where.tag,
        q=where.q,
        priority_min=where.priority_min,
        priority_max=where.priority_max,
        oldest_first=oldest_first,
        limit=limit,
        cursor=cursor,
    )


def _statuses(status: Any) -> Sequence[Any]:
    if status is None:
        return ()
    return tuple(status) if isinstance(status, Sequence) and not isinstance(status, str) else (status,)


def read_cursor(cursor: str | None) -> int | None:
    """Read the place that a page ended at."""
    if cursor is None:
        return None
    if not re.fullmatch("[0-9]{1,18}", str(cursor)):
        raise InvalidRequest([Problem("cursor", "is not one that a page came with")])
    return int(cursor)
