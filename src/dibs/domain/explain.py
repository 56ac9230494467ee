"""Why is this job not running?"""

from __future__ import annotations

from collections.abc import Sequence

from dibs.domain.errors import NotClaimable
from dibs.domain.job import NEVER, Explanation, Job, Status
from dibs.domain.retry import SECOND

_NAMED = 3  # workers, in words


def explain(  # noqa: PLR0911 - one for each reason
    job: Job, *, paused: bool, now: int, takers: Sequence[str] | None = None, moved: bool = False
) -> Explanation:
    """Say why a job is not running now, by the state it is in; ``takers`` are the workers that would take it.

    ``moved``: its queue is paused because another store has taken over.
    """
    if job.status is Status.CLAIMED:
        left = ((job.lease_expires_us or now) - now) / SECOND
        until = (
            f"its lease ends in {left:.1f} s"
            if left > 0
            else f"its lease ran out {-left:.1f} s ago, and is reaped next"
        )
        return Explanation("claimed", f"It is running: {job.worker_id} holds it under fence {job.fence}; {until}.", job)
    if job.status is Status.FAILED:
        why = f": {job.error.kind}: {job.error.message}" if job.error else ""
        tries = f"after {job.attempts} of {job.max_attempts} attempts"
        again = "Redrive it to run it again"
        if job.error is not None and job.error.code == "invalid_params":
            again += ", once its handler takes such params; or enqueue another with params that fit, and purge this one"
        return Explanation("finished", f"It failed for good {tries}{why}. {again}.", job)
    if job.status.finished:
        return Explanation("finished", f"It has ended: {job.status}. Redrive it to run it again.", job)
    if moved:
        told = "was copied to another store by `dibs copy`, and that one hands out its jobs now"
        return Explanation("paused", f"Its queue {job.queue} {told}.", job)
    if paused:
        return Explanation("paused", f"Its queue {job.queue} is paused. Resume the queue to let it run.", job)
    if job.due_us >= NEVER:
        return Explanation("limited", "It is held back until something other than time sets it free.", job)
    if job.due_us > now:
        after = f" after attempt {job.attempts} of {job.max_attempts}" if job.attempts else ""
        return Explanation("not_due", f"It is due in {(job.due_us - now) / SECOND:.1f} s{after}.", job)
    waited = (now - job.due_us) / SECOND
    message = f"It has been due for {waited:.1f} s and waits for a worker that takes {job.task} from {job.queue}"
    return Explanation("ready", f"{message}{_known(takers)}.", job)


def _known(takers: Sequence[str] | None) -> str:
    if takers is None:
        return ""
    if not takers:
        return "; no worker is known that takes it"
    more = len(takers) - _NAMED
    return f"; {', '.join(takers[:_NAMED])}{f' and {more} more' if more > 0 else ''} may take it next"


def not_claimable(explanation: Explanation) -> NotClaimable:
    """Turn an explanation into the error of one who wanted to claim just this job."""
    if explanation.code == "claimed":
        return NotClaimable("claimed", "Task already claimed by another worker")
    if explanation.code == "ready":
        # It was not claimable a moment ago, or its attempts are not what was asked for.
        return NotClaimable(
            "limited", "The job does not match what was asked for, or was held by another until just now."
        )
    return NotClaimable(explanation.code, explanation.message)
