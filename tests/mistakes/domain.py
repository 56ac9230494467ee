"""Mistakes in the rules themselves: every store makes them."""

from __future__ import annotations

from tests.mistakes.planting import Edit, Mistake

_T = "dibs.domain.transitions"

DOMAIN = [
    Mistake(
        "neither fence nor token is compared",
        3,
        "zombie finishes over its successor",
        "domain",
        (
            Edit(f"{_T}:_judge_claim", "if job.fence != ref.fence:", "if False:"),
            Edit(f"{_T}:_judge_claim", "if not same_token(job.lease_token, ref.token):", "if False:"),
        ),
        "simulator, memory",
    ),
    Mistake(
        "the fence is compared, the token is not",
        3,
        "zombie finishes over its successor",
        "domain",
        (
            Edit(f"{_T}:_judge_claim", "if not same_token(job.lease_token, ref.token):", "if False:"),
            Edit(f"{_T}:holds", " and same_token(job.lease_token, ref.token)", ""),
        ),
        "store suite",
    ),
    Mistake(
        "a stale holder can extend",
        3,
        "zombie finishes over its successor",
        "domain",
        (
            Edit(
                f"{_T}:holds",
                "job.status is Status.CLAIMED and job.fence == ref.fence and same_token(job.lease_token, ref.token)",
                "job.status is Status.CLAIMED",
            ),
        ),
        "simulator, memory",
    ),
    Mistake(
        "the reaper does not look at the lease again",
        1,
        "lost when a worker dies",
        "domain",
        (Edit(f"{_T}:_judge_claim", " and (job.lease_expires_us or 0) <= now", ""),),
        "simulator, sqlite",
    ),
    Mistake(
        "a crash is not counted",
        6,
        "poison pill",
        "domain",
        (
            Edit(
                f"{_T}:_failed",
                "counts=True",
                "counts=event is not EventName.EXPIRED",
            ),
        ),
        "simulator, memory",
    ),
    Mistake(
        "one attempt too many",
        6,
        "poison pill",
        "domain",
        (
            Edit(f"{_T}:fail", "job.attempts + 1 >= job.max_attempts", "job.attempts >= job.max_attempts"),
            Edit(f"{_T}:expire", "job.attempts + 1 >= job.max_attempts", "job.attempts >= job.max_attempts"),
        ),
        "simulator, memory",
    ),
    Mistake(
        "a release is counted",
        6,
        "lost when a worker dies",
        "domain",
        (Edit(f"{_T}:release", "ref, delay_us=delay_us", "ref, counts=True, delay_us=delay_us"),),
        "simulator, memory",
    ),
    Mistake(
        "an extension can shorten",
        11,
        "heartbeat starved",
        "domain",
        (
            Edit(
                f"{_T}:extend",
                "max(job.lease_expires_us or 0, now + (job.claim_lease_us or 0))",
                "now + (job.claim_lease_us or 0) // 2",
            ),
        ),
        "simulator, memory",
    ),
    Mistake(
        "settled again, done again",
        3,
        "zombie finishes over its successor",
        "domain",
        (Edit(f"{_T}:_judge_claim", "return Outcome.REPEATED if", "return Outcome.APPLIED if"),),
        "simulator, memory",
    ),
    Mistake(
        "a cancelled job can be completed",
        7,
        "zombie finishes over its successor",
        "domain",
        (
            Edit(
                f"{_T}:_judge_claim",
                "if job.status is Status.CLAIMED:",
                "if job.status in {Status.CLAIMED, Status.CANCELLED}:",
            ),
        ),
        "simulator, memory",
    ),
    Mistake(
        "no back-off",
        15,
        "herd",
        "domain",
        (
            Edit(
                f"{_T}:_backoff",
                "return round(job.terms.retry.delay(job.attempts + 1, random) * SECOND)",
                "return 0",
            ),
        ),
        "store suite",
    ),
    Mistake(
        "back-off without jitter",
        15,
        "herd",
        "domain",
        (
            Edit(
                "dibs.domain.retry:Backoff.delay",
                "random.uniform(0.0, self.ceiling(attempts))",
                "self.ceiling(attempts)",
            ),
        ),
        "broker suite",
    ),
    Mistake(
        "a redrive keeps the attempts",
        6,
        "stuck for ever",
        "domain",
        (Edit(f"{_T}:apply", "attempts=0 if redriven else job.attempts", "attempts=job.attempts"),),
        "simulator, memory",
    ),
    Mistake(
        "what shall not be retried is retried",
        7,
        "poison pill",
        "domain",
        (Edit(f"{_T}:fail", "if not failure.retryable or job", "if job"),),
        "simulator, memory",
    ),
    Mistake(
        "events are numbered from nought",
        12,
        "audit",
        "domain",
        (Edit(f"{_T}:log", "after.events,", "after.events - 1,"),),
        "simulator, memory",
    ),
    Mistake(
        "an idempotency key is not looked at",
        9,
        "uniqueness",
        "domain",
        (Edit(f"{_T}:identify", '(("id", by_id), ("idempotency_key", by_key))', '(("id", by_id),)'),),
        "simulator, memory",
    ),
]
