"""``dibs complete``, ``dibs fail``, ``dibs release``: how a script ends what it has claimed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from dibs.cli.given import json_of
from dibs.cli.options import Json, Link
from dibs.cli.output import ago, print_json
from dibs.domain.job import Error, Job, Status
from dibs.wire.show import task_of

if TYPE_CHECKING:
    from dibs.sync import SyncClaim

Id = Annotated[str, Parameter(help="The job.")]
Fence = Annotated[int, Parameter(help="As the claim said.")]
Token = Annotated[
    str,
    Parameter(
        help="As the claim said; no list of processes shows what is in the variable.",
        env_var="DIBS_LEASE_TOKEN",
        allow_leading_hyphen=True,  # one in sixty-four begins with one
    ),
]


def complete(
    id: Id,
    /,
    *,
    fence: Fence,
    lease_token: Token,
    result: Annotated[str | None, Parameter(help="What came of it, as JSON.", allow_leading_hyphen=True)] = None,
    json: Json = False,
    link: Link = Link(),
) -> int:
    """End a claim well.

    Exits with 4 if the claim is no longer current: then nothing was changed.
    """
    value = None if result is None else json_of("result", result)
    return _settle(id, fence, lease_token, lambda claim: claim.complete(value), link, json=json)


def fail(
    id: Id,
    /,
    *,
    fence: Fence,
    lease_token: Token,
    error: Annotated[str, Parameter(help="What went wrong, in words.", allow_leading_hyphen=True)],
    kind: Annotated[str, Parameter(help="What kind of error: dead letters are grouped by it.")] = "error",
    code: Annotated[str | None, Parameter(help="A code of your own.")] = None,
    retry: Annotated[bool, Parameter(help="Whether it may be tried again.")] = True,
    delay: Annotated[float | None, Parameter(help="Tried again in so many seconds; else as the job says.")] = None,
    json: Json = False,
    link: Link = Link(),
) -> int:
    """End a claim badly: tried again, or else a dead letter.

    Exits with 4 if the claim is no longer current: then nothing was changed.
    """
    failure = Error(error, kind, code)
    return _settle(
        id, fence, lease_token, lambda claim: claim.fail(failure, retryable=retry, delay=delay), link, json=json
    )


def release(
    id: Id,
    /,
    *,
    fence: Fence,
    lease_token: Token,
    delay: Annotated[float | None, Parameter(help="Due again in so many seconds; else as it was.")] = None,
    json: Json = False,
    link: Link = Link(),
) -> int:
    """Give a claim back; no attempt is counted.

    Exits with 4 if the claim is no longer current: then nothing was changed.
    """
    return _settle(id, fence, lease_token, lambda claim: claim.release(delay=delay), link, json=json)


def _settle(id: str, fence: int, token: str, end: Callable[[SyncClaim], None], link: Link, *, json: bool) -> int:
    with link.app() as app:
        end(app.sync.claimed(id, fence=fence, lease_token=token))
        job = app.sync.get(id)  # none if it is kept for no time at all
        now = app.runtime.clock.now()
    if json:
        print_json({"id": id, "task": None if job is None else task_of(job)})
    else:
        print(f"{id} {_now(job, now)}")
    return 0


def _now(job: Job | None, now: int) -> str:
    if job is None:
        return "has ended, and is not kept"
    if job.status is Status.PENDING:
        return "is pending, due " + (ago(job.due_us, now) if job.due_us > now else "now")
    return f"is {job.status}"
