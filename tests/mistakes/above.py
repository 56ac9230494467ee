"""Mistakes of those who use a store: the broker, the keeper and the worker."""

from __future__ import annotations

from tests.mistakes.planting import Edit, Mistake

_BATCHER = "dibs.broker.batching:Batcher"
_LOCAL = "dibs.broker.local:LocalBroker"
_REAPER = "dibs.broker.maintenance:Maintenance"
_KEEPER = "dibs.keeper:Keeper"
_WORKER = "dibs.worker.worker:Worker"
_SETTLING = "dibs.worker.settling"

BROKER = [
    Mistake(
        "a tick of a schedule has no key",
        9,
        "uniqueness",
        "broker",
        (Edit("dibs.domain.schedule:drafts_at", "idempotency_key=key_of(name, tick)", "idempotency_key=None"),),
        "broker suite",
    ),
    Mistake(
        "the last job of a batch has no key",
        9,
        "uniqueness",
        "broker",
        (Edit("dibs.domain.batch:last_of", "idempotency_key=key_of(id)", "idempotency_key=None"),),
        "broker suite",
    ),
    Mistake(
        "a batch ends before its jobs do",
        9,
        "uniqueness",
        "broker",
        (Edit("dibs.broker.batches:Batches._has_ended", "if jobs:", "if False:"),),
        "broker suite",
    ),
    Mistake(
        "a claim that no one waits for is kept",
        5,
        "a cancelled query's rows reach the next query",
        "broker",
        (Edit(f"{_BATCHER}._return", "if self._give_back is None:", "if True:"),),
        "broker suite",
    ),
    Mistake(
        "answers reach the wrong caller",
        10,
        "a cancelled query's rows reach the next query",
        "broker",
        (
            Edit(
                f"{_BATCHER}._flush",
                "own = list(answers[start : start + len(call.items)])",
                "own = list(answers[: len(call.items)])",
            ),
        ),
        "broker suite",
    ),
    Mistake(
        "a locked row is not asked for again",
        4,
        "deadlocks, lock waits",
        "broker",
        (Edit(f"{_LOCAL}._write", "if not busy:", "if True:"),),
        "broker suite",
    ),
    Mistake(
        "the last attempt is never reaped",
        5,
        "stuck for ever",
        "broker",
        (Edit(f"{_REAPER}._reap", "for job in jobs]", "for job in jobs if job.attempts_left > 1]"),),
        "simulator, memory",
    ),
    Mistake(
        "the reaper loses what it found",
        5,
        "stuck for ever",
        "broker",
        (
            Edit(
                f"{_REAPER}._reap",
                "await self._store.write([transitions.expire(job, self._clock.random) for job in jobs])",
                "[]",
            ),
        ),
        "simulator, memory",
    ),
]

KEEPER = [
    Mistake(
        "claims are not kept",
        5,
        "heartbeat starved",
        "keeper",
        (Edit(f"{_KEEPER}._run", "await self._beat(due)", "await self._clock.sleep(3600)"),),
        "simulator, memory",
    ),
    Mistake(
        "a store that cannot be reached has taken the claims",
        5,
        "reconnect",
        "keeper",
        (Edit(f"{_KEEPER}._beat", "[Outcome.BUSY] * len(due)", "[Outcome.LOST] * len(due)"),),
        "simulator, memory",
    ),
    Mistake(
        "no one is told that a claim is lost",
        3,
        "zombie finishes over its successor",
        "keeper",
        (Edit(f"{_KEEPER}._beat", "held.on_lost()", "pass"),),
        "simulator, memory",
    ),
]

WORKER = [
    Mistake(
        "a worker that stops forgets what it had not started",
        5,
        "lost when a worker dies",
        "worker",
        (Edit(f"{_WORKER}._give_back_queue", "    while", "    self._queue.clear()\n    while"),),
        "simulator, memory",
    ),
    Mistake(
        "what waits to be started is not kept",
        5,
        "ETA and prefetch",
        "worker",
        (
            Edit(f"{_WORKER}._take_in", "self._runtime.keeper.hold([claim.to_be_kept() for claim in claims])", "pass"),
            Edit(f"{_WORKER}._start", "    task = ", "    claim.keep()\n        task = "),
        ),
        "simulator, memory",
    ),
    Mistake(
        "what could not be settled is forgotten",
        5,
        "reconnect",
        "worker",
        (Edit(f"{_SETTLING}:Settling._settle", "            failures += 1\n", "            return\n"),),
        "simulator, sqlite",
    ),
    Mistake(
        "what could not be settled is released",
        3,
        "reconnect",
        "worker",
        (
            Edit(
                f"{_SETTLING}:Settling._settle",
                "            failures += 1\n",
                "            failures += 1\n            batch = [released(claim) for claim, _ in batch]\n",
            ),
        ),
        "simulator, memory",
    ),
    Mistake(
        "what is given back counts as failed",
        6,
        "lost when a worker dies",
        "worker",
        (
            Edit(
                f"{_SETTLING}:released",
                'Ending(claim.ref, "release", job=claim.job)',
                '_failure(claim, Failure(describe(RuntimeError("stopped"))))',
            ),
        ),
        "simulator, memory",
    ),
    Mistake(
        "a failure is told as success",
        4,
        "lost when a worker dies",
        "worker",
        (
            Edit(
                f"{_SETTLING}:failed",
                "return Settlement(claim, _verdict(claim, error))",
                "return completed(claim, None)",
            ),
        ),
        "simulator, memory",
    ),
    Mistake(
        "a job is run though its claim is lost",
        3,
        "zombie finishes over its successor",
        "worker",
        (
            Edit(f"{_WORKER}._start", "if claim.lost:", "if False:"),
            Edit("dibs.worker.handling:Handlers.handle", "if claim.lost:", "if False:"),
        ),
        "simulator, memory",
    ),
    Mistake(
        "a worker ends when the store cannot be reached",
        5,
        "reconnect",
        "worker",
        (Edit(f"{_WORKER}._fetch", "if isinstance(error, InvalidRequest):", "if True:"),),
        "simulator, memory",
    ),
]

ABOVE = BROKER + KEEPER + WORKER
