"""Ending and keeping claims: complete, heartbeat and release of one; settle and extend of many."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Literal

from dibs.broker.intake import check_ask
from dibs.broker.protocol import Ending
from dibs.domain.checks import check_duration, check_worker_id
from dibs.domain.errors import InvalidRequest, LeaseLost, NotFound, Problem
from dibs.domain.job import Error, Extension, Outcome, Ref, Status
from dibs.domain.retry import micros
from dibs.domain.transitions import Failure
from dibs.server import polling
from dibs.server.problems import Misfit
from dibs.server.route import Call, Reply, Route
from dibs.server.routes.claim import ask_of
from dibs.store import Written
from dibs.wire.answered import ExtendedMany, ExtendOutcome, Kept, Settled, SettledMany, SettleOutcome, Task
from dibs.wire.asked import (
    Beating,
    Completing,
    Extending,
    ExtendingMany,
    Held,
    Releasing,
    Settling,
    SettlingMany,
)
from dibs.wire.show import task_of

if TYPE_CHECKING:
    from collections.abc import Sequence

_FAILED = "the worker said that it failed"
_OF_FAILURE = ("error_message", "error_code", "error_kind", "error_traceback", "is_retryable", "retry_in_seconds")
_MESSAGES = {
    Status.COMPLETED: "Task completed",
    Status.FAILED: "Task failed for good",
    Status.PENDING: "Task failed and will be retried",
}


# Of one job


async def complete(call: Call) -> Reply:
    """End a claim, well or badly."""
    asked: Completing = call.body
    _check_worker(asked.worker_id)
    ref = Ref(call.path["id"], asked.fence, asked.lease_token)
    return await _settle(call, _ending(ref, asked))


async def release(call: Call) -> Reply:
    """Give a claim back."""
    asked: Releasing = call.body
    _check_worker(asked.worker_id)
    ref = Ref(call.path["id"], asked.fence, asked.lease_token)
    return await _settle(call, Ending(ref, "release", delay=asked.delay_seconds))


async def _settle(call: Call, ending: Ending) -> Reply:
    id = ending.ref.id
    if call.caller.queues is not None:
        call.caller.own(await call.broker.get(id), id)
    [written] = await call.broker.settle([ending])
    call.state.metrics.settled([written.outcome])
    call.state.metrics.retried(_will_retry(ending, written))
    if written.outcome is Outcome.MISSING:
        raise NotFound(f"there is no job {id!r}")
    if written.outcome is Outcome.LOST:
        raise LeaseLost
    message = "Task released" if ending.verb == "release" else _message(written)
    return Reply(
        Settled(
            task=await _read(call, id),
            outcome="applied" if written.outcome is Outcome.APPLIED else "repeated",
            will_retry=_will_retry(ending, written),
            message=message,
        )
    )


def _message(written: Written) -> str:
    return "Task ended" if written.status is None else _MESSAGES.get(written.status, "Task ended")


async def heartbeat(call: Call) -> Reply:
    """Keep a claim for another lease."""
    asked: Beating = call.body
    _check_worker(asked.worker_id)
    id = call.path["id"]
    if call.caller.queues is not None:
        call.caller.own(await call.broker.get(id), id)
    extension = Extension(Ref(id, asked.fence, asked.lease_token), asked.progress, asked.progress_note)
    [outcome] = await call.broker.extend([extension])
    call.state.metrics.extended([outcome])
    task = await _read(call, id)
    if outcome not in {Outcome.APPLIED, Outcome.BUSY}:
        if task is None:
            raise NotFound(f"there is no job {id!r}")
        raise LeaseLost
    return Reply(
        Kept(
            task=task,
            extended=outcome is Outcome.APPLIED,
            lease_expires_at=None if task is None else task.lease_expires_at,
        )
    )


async def _read(call: Call, id: str) -> Task | None:
    job = await call.broker.get(id)
    return None if job is None else task_of(job)


# Of many


async def settle(call: Call) -> Reply:
    """End many claims, each for itself, and claim what is next. Everything is checked before anything is done."""
    asked: SettlingMany = call.body
    endings = [_ending_of(item, place) for place, item in enumerate(asked.claims)]
    ask = None if asked.claim is None else ask_of(asked.claim, call.caller)
    if ask is not None:
        check_ask(ask, "")
    own = await own_ids(call, asked.claims)
    written = iter(await call.broker.settle([ending for ending in endings if ending.ref.id in own]))
    answers = [next(written) if ending.ref.id in own else Written(Outcome.MISSING, None) for ending in endings]
    call.state.metrics.settled(answer.outcome for answer in answers)
    outcomes = [_outcome(*pair) for pair in zip(endings, answers, strict=True)]
    call.state.metrics.retried(sum(outcome.will_retry for outcome in outcomes))
    if ask is None:
        return Reply(SettledMany(outcomes=outcomes))
    jobs = await polling.claim(call, ask)
    return Reply(SettledMany(outcomes=outcomes, tasks=[task_of(job, token=True) for job in jobs]))


_DONE: dict[Outcome, Literal["applied", "repeated"]] = {Outcome.APPLIED: "applied", Outcome.REPEATED: "repeated"}
_KEPT: dict[Outcome, Literal["applied", "busy"]] = {Outcome.APPLIED: "applied", Outcome.BUSY: "busy"}


def _will_retry(ending: Ending, written: Written) -> bool:
    return ending.verb == "fail" and written.outcome in _DONE and written.will_retry


def _outcome(ending: Ending, written: Written) -> SettleOutcome:
    return SettleOutcome(
        id=ending.ref.id,
        outcome=_DONE.get(written.outcome, "lost"),
        status=written.status,
        will_retry=_will_retry(ending, written),
    )


async def extend(call: Call) -> Reply:
    """Keep many claims for another lease, each for itself."""
    asked: ExtendingMany = call.body
    outcomes = await extend_own(call, asked.claims)
    kept = [ExtendOutcome(id=id, outcome=_KEPT.get(outcome, "lost")) for id, outcome in outcomes]
    return Reply(ExtendedMany(outcomes=kept))


async def extend_own(call: Call, asked: Sequence[Extending]) -> list[tuple[str, Outcome]]:
    """Keep those of the claims whose jobs the caller may see; the others are as good as lost."""
    own = await own_ids(call, asked)
    kept = iter(await call.broker.extend([extension_of(item) for item in asked if item.id in own]))
    outcomes = [(item.id, next(kept) if item.id in own else Outcome.LOST) for item in asked]
    call.state.metrics.extended(outcome for _, outcome in outcomes)
    return outcomes


async def own_ids(call: Call, asked: Sequence[Held | Settling]) -> set[str]:
    """Say which of the jobs the caller may see; one whose key is for all queues, without looking."""
    ids = {item.id for item in asked}
    if call.caller.queues is None:
        return ids
    jobs = await asyncio.gather(*(call.broker.get(id) for id in ids))
    return {job.id for job in jobs if job is not None and call.caller.sees(job.queue)}


# What was asked, as the broker takes it


def extension_of(item: Extending) -> Extension:
    """Turn one claim that is to be kept into what the broker takes."""
    return Extension(ref_of(item), item.progress, item.progress_note)


def ref_of(item: Held | Settling) -> Ref:
    """Turn what names a claim on the wire into its name."""
    return Ref(item.id, item.fence, item.lease_token)


def _ending_of(item: Settling, place: int) -> Ending:
    where = f"claims[{place}]."
    _check_worker(item.worker_id, where)
    if not item.release:
        if item.delay_seconds is not None:
            raise Misfit([Problem(where + "delay_seconds", "is for a release; a failure has retry_in_seconds")])
        return _ending(ref_of(item), item, where)
    if not item.success or item.result is not None or _given(item):
        raise Misfit([Problem(where + "release", "cannot be given together with a result or an error; choose one")])
    return Ending(ref_of(item), "release", delay=item.delay_seconds)


def _ending(ref: Ref, asked: Completing, where: str = "") -> Ending:
    given = _given(asked)
    if asked.success:
        if given:
            raise Misfit([Problem(where + given[0], "is for a failure; send it with success: false")])
        return Ending(ref, "complete", result=asked.result)
    if asked.result is not None:
        raise Misfit([Problem(where + "result", "is for a success; a failure has error_message")])
    delay = asked.retry_in_seconds
    if delay is not None and (problems := check_duration(where + "retry_in_seconds", delay, least=0)):
        raise Misfit(problems)
    kind = asked.error_kind or "error"
    error = Error(asked.error_message or _FAILED, kind, asked.error_code, asked.error_traceback)
    retryable = asked.is_retryable is not False
    return Ending(ref, "fail", failure=Failure(error, retryable, None if delay is None else micros(delay)))


def _given(asked: Completing) -> list[str]:
    return [field for field in _OF_FAILURE if getattr(asked, field) is not None]


def _check_worker(worker_id: str | None, where: str = "") -> None:
    """Check who says it; that decides nothing: the fence and the token do."""
    if worker_id is not None and (problems := check_worker_id(worker_id)):
        raise InvalidRequest([Problem(where + problem.field, problem.message) for problem in problems])


ROUTES = (
    Route(
        "POST",
        "/api/tasks/settle",
        settle,
        "End many claims, each for itself, and claim what is next.",
        scope="work",
        bodies=(SettlingMany,),
        answers={200: SettledMany},
        refuses=(413,),
    ),
    Route(
        "POST",
        "/api/tasks/extend",
        extend,
        "Keep many claims for another lease, each for itself.",
        scope="work",
        bodies=(ExtendingMany,),
        answers={200: ExtendedMany},
    ),
    Route(
        "POST",
        "/api/tasks/{id}/complete",
        complete,
        "End a claim: well, with a result; or badly, with an error.",
        scope="work",
        bodies=(Completing,),
        answers={200: Settled},
        refuses=(404, 409, 413),
    ),
    Route(
        "POST",
        "/api/tasks/{id}/heartbeat",
        heartbeat,
        "Keep a claim for another lease, and say how far its work has come.",
        scope="work",
        bodies=(Beating,),
        answers={200: Kept},
        refuses=(404, 409),
    ),
    Route(
        "POST",
        "/api/tasks/{id}/release",
        release,
        "Give a claim back; no attempt is counted.",
        scope="work",
        bodies=(Releasing,),
        answers={200: Settled},
        refuses=(404, 409),
    ),
)
