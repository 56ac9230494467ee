"""How handled jobs end: what ends while one batch is on its way makes up the next."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, NamedTuple

from dibs.broker.protocol import Ending
from dibs.domain.checks import seconds
from dibs.domain.errors import Invalid, SchemaOutdated, TooLarge
from dibs.domain.failure import describe
from dibs.domain.job import Error, Outcome
from dibs.domain.retry import micros
from dibs.domain.settings import MAX_BATCH
from dibs.domain.signals import Fail, Retry, Snooze
from dibs.domain.transitions import Failure
from dibs.worker.pace import pause

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.claim import Claim
    from dibs.runtime import Runtime
    from dibs.worker.meter import Counting

logger = logging.getLogger("dibs")

_OUTDATED_TRIES = 3  # where the store has no place for what this dibs would write: only an upgrade changes that
_APPLIED, _REPEATED = Outcome.APPLIED, Outcome.REPEATED


class TimedOut(Exception):
    """A handler took longer than its job allows; what is kept of it is of the kind ``timeout``."""

    def __init__(self, limit: float | None, *, detail: str | None = None) -> None:
        super().__init__(f"took longer than the {limit:g} seconds it may take")
        self.error = Error(str(self), "timeout", traceback=detail or None)


class Exited(Exception):
    """A program has ended badly; ``error`` is what is kept of it, as it is."""

    def __init__(self, error: Error, *, retryable: bool) -> None:
        super().__init__(error.message)
        self.error = error
        self.retryable = retryable


class Reported(Exited):
    """What a handler has raised in another process, as that has told it; ``meant``: it was a ``Retry``."""

    def __init__(
        self, error: Error, *, retryable: bool = True, delay: float | None = None, meant: bool = False
    ) -> None:
        super().__init__(error, retryable=retryable)
        self.delay = delay
        self.meant = meant

    def __repr__(self) -> str:
        """Show it as in a log of the other process."""
        return (self.error.traceback or f"{self.error.kind}: {self.error.message}").rstrip()


class Settlement(NamedTuple):
    """A claim and how it shall end."""

    claim: Claim
    ending: Ending


def completed(claim: Claim, result: object) -> Settlement:
    """End a claim well."""
    return Settlement(claim, Ending(claim.ref, "complete", result=result, job=claim.job))


def released(claim: Claim) -> Settlement:
    """Give a claim back at once."""
    return Settlement(claim, Ending(claim.ref, "release", job=claim.job))


def failed(claim: Claim, error: BaseException) -> Settlement:
    """End a claim as what its handler raised says."""
    try:
        return Settlement(claim, _verdict(claim, error))
    except Invalid as invalid:  # a delay that is none: the attempt has failed by the handler's own mistake
        return Settlement(claim, _failure(claim, Failure(describe(invalid))))


def _verdict(claim: Claim, error: BaseException) -> Ending:
    if isinstance(error, Snooze):
        return Ending(claim.ref, "release", delay=seconds("delay", error.delay), job=claim.job)
    if isinstance(error, TimedOut):
        return _failure(claim, Failure(describe(error.error)))
    if isinstance(error, Reported):
        delay_us = None if error.delay is None else micros(error.delay)
        return _failure(claim, Failure(error.error, error.retryable, delay_us))
    if isinstance(error, Exited):
        return _failure(claim, Failure(describe(error.error), retryable=error.retryable))
    if isinstance(error, Retry) and error.delay is not None:
        return _failure(claim, Failure(describe(error), delay_us=micros(seconds("delay", error.delay))))
    return _failure(claim, Failure(describe(error), retryable=not isinstance(error, Fail)))


def _failure(claim: Claim, failure: Failure) -> Ending:
    return Ending(claim.ref, "fail", failure=failure, job=claim.job)


class Settling:
    """Sends settlements in batches, in order, and does not let go of one before the store has answered."""

    def __init__(
        self, runtime: Runtime, on_sent: Callable[[list[Settlement]], None], counting: Counting | None = None
    ) -> None:
        self._runtime = runtime
        self._counting = counting
        self._on_sent = on_sent
        self._waiting: list[Settlement] = []
        self._running: asyncio.Task[None] | None = None
        self.outdated = False  # whether the worker ends because the store was changed beyond what this dibs knows

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, settlement: Settlement) -> None:
        """Have it sent, as soon as the batch before is through."""
        self._waiting.append(settlement)
        if self._running is None:
            # It begins in the next turn of the loop: whatever else ends in this one goes along.
            self._running = asyncio.get_running_loop().create_task(self._run(), name="dibs-settling")

    async def close(self) -> None:
        """Wait until everything is settled."""
        while self._waiting or self._running is not None:
            if self._running is not None:
                await asyncio.wait([self._running])
            if self._waiting:  # it was cancelled with the loop's other tasks
                await self._run()

    async def _run(self) -> None:
        try:
            while self._waiting:
                batch = self._waiting[:MAX_BATCH]
                await self._settle(batch)
                # Race: cancelled on the way. What was sent may have been settled or not; to settle it again is safe.
                del self._waiting[: len(batch)]
                self._on_sent(batch)
        finally:
            self._running = None

    async def _settle(self, batch: list[Settlement]) -> None:
        failures = 0
        # Race: a beat that meets a claim settled a moment ago would call it lost. So beats cease first.
        for claim, _ in batch:
            claim.let_go()
        while True:
            try:
                await self._send(batch, again=failures > 0)
                return
            except Exception as error:  # noqa: BLE001 - whatever it was, the work was done and must be told
                failures += 1
                if failures >= _OUTDATED_TRIES and (self.outdated or isinstance(error, SchemaOutdated)):
                    # No one is to wait for that: another dibs takes these jobs over once their leases have run out.
                    logger.error("%d jobs cannot be settled, and will be run again: %s", len(batch), error)  # noqa: TRY400
                    return
                logger.warning("%d jobs could not be settled, trying again: %s", len(batch), error)
                for claim, _ in batch:
                    claim.keep()
            await self._runtime.clock.sleep(pause(self._runtime, failures))
            for claim, _ in batch:
                claim.let_go()

    async def _send(self, batch: list[Settlement], *, again: bool) -> None:
        """Send them; ``again`` if they were sent before, and it is not known what became of that."""
        try:
            written = await self._runtime.broker().settle([ending for _, ending in batch])
        except (Invalid, TooLarge) as error:
            if len(batch) > 1:
                for one in batch:
                    await self._send([one], again=again)
                return
            [(claim, ending)] = batch
            if ending.verb != "complete":
                raise
            # The result cannot be stored. To run the handler again would give no other, and do its work twice.
            logger.error("job %r: %s", claim.id, error)  # noqa: TRY400 - there is nothing to see in its traceback
            failed = Settlement(claim, _failure(claim, Failure(describe(error), retryable=False)))
            await self._send([failed], again=False)
            return
        for (claim, ending), end in zip(batch, written, strict=True):
            outcome = end.outcome
            if self._counting is not None:
                self._counting.written(claim, ending, end)
            if outcome is _APPLIED or outcome is _REPEATED:
                claim.conclude(ending.verb)
            elif outcome is Outcome.IN_DOUBT or again:
                logger.warning("job %r was taken over before or after its %s: no answer came", claim.id, ending.verb)
            else:
                logger.warning("job %r was taken over before it was settled: its %s is void", claim.id, ending.verb)
