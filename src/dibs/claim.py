"""A claim: one job that is held, and the ways to keep and to end it."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any

import msgspec

from dibs.broker.protocol import Ending
from dibs.domain.checks import seconds
from dibs.domain.errors import Invalid, LeaseLost, StoreUnavailable, WrongState
from dibs.domain.failure import describe
from dibs.domain.job import Error, Extension, Job, Json, Outcome, Ref, Status
from dibs.domain.retry import SECOND, Duration, micros
from dibs.domain.signals import Fail, Retry, Snooze
from dibs.domain.transitions import Failure
from dibs.keeper import Held
from dibs.transaction import has_ended

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    from dibs.keeper import Handle
    from dibs.runtime import Runtime
    from dibs.sync import SyncClaim

logger = logging.getLogger("dibs")

_current: ContextVar[Claim] = ContextVar("dibs_claim")


def set_current(claim: Claim) -> Token[Claim]:
    """Make a claim the current one of this context."""
    return _current.set(claim)


def reset_current(token: Token[Claim]) -> None:
    """Put back what was current before."""
    with suppress(ValueError):  # a generator that is closed elsewhere has no context to put back
        _current.reset(token)


def current() -> Claim:
    """Return the claim that the running handler holds."""
    claim = _current.get(None)
    if claim is None:
        raise WrongState("no claim is held here", hint="Call it inside `async with claim`, or in a handler.")
    return claim


class Claim:
    """A job that is yours for as long as its lease lasts.

    Inside ``async with claim`` the lease is extended by itself, whatever the event loop does meanwhile, and leaving
    the block settles the job:

    - normally: completed, unless it was settled inside;
    - ``dibs.Retry``, ``dibs.Fail``, ``dibs.Snooze``: obeyed, and swallowed;
    - another exception: failed, and raised again;
    - cancelled or interrupted: released, unless a settle was under way, which goes through; and raised again;
    - taken over meanwhile: ``LeaseLost``.
    """

    def __init__(self, runtime: Runtime, ref: Ref, job: Job | None, *, quiet: bool = False) -> None:
        self._runtime = runtime
        self._ref = ref
        self._job = job
        self._params: Any = msgspec.UNSET
        self._since = runtime.clock.monotonic()
        self._quiet = quiet  # of a loop that goes on: what goes wrong is logged, not raised
        self._lost = False
        self._settled: str | None = None
        self._asked: Handle | None = None  # a settle whose caller did not wait for its end; it is seen to elsewhere
        self._wish: Ending | None = None  # what such a settle asks for, until it is known to be done, or void
        self._transaction: Any = None  # the caller's connection, if it was settled there: it may yet be rolled back
        self._kept = False  # whether it is to be extended for as long as it is held
        self._held: Held | None = None
        self._token: Token[Claim] | None = None
        self._on_lost: list[Callable[[], None]] = []
        self._lost_event: asyncio.Event | None = None

    # What is held

    @property
    def id(self) -> str:
        """The job's id."""
        return self._ref.id

    @property
    def fence(self) -> int:
        """How many times the job has been claimed: send it along with writes elsewhere, and refuse lower ones there."""
        return self._ref.fence

    @property
    def ref(self) -> Ref:
        """The claim's name: job, fence and token."""
        return self._ref

    @property
    def lease_token(self) -> str:
        """What proves that the claim is yours. Keep it to yourself."""
        return self._ref.token

    @property
    def job(self) -> Job:
        """The job as it was claimed."""
        if self._job is None:
            raise WrongState("the job of this claim was not read yet", hint="Call `await claim.load()` first.")
        return self._job

    @property
    def task(self) -> str:
        """The name of the job's task."""
        return self.job.task

    @property
    def params(self) -> Any:
        """The job's params."""
        if self._params is msgspec.UNSET:
            self._params = self.job.params
        return self._params

    @property
    def attempt(self) -> int:
        """Which attempt at the job this is, from 1."""
        return self.job.attempts + 1

    @property
    def lost(self) -> bool:
        """Whether the claim is known to have been taken over; then nothing that it asks for is done any more."""
        return self._lost

    @property
    def settled(self) -> bool:
        """Whether the claim has been completed, failed or released."""
        return self._settled is not None

    @property
    def verb(self) -> str | None:
        """How the claim has been settled: ``complete``, ``fail`` or ``release``; none if it has not."""
        return self._settled

    @property
    def lost_event(self) -> asyncio.Event:
        """An event of the running loop that is set as soon as the claim is known to be lost."""
        if self._lost_event is None:
            event = self._lost_event = asyncio.Event()
            loop = asyncio.get_running_loop()
            self.on_lost(lambda: _set_event(loop, event))
        return self._lost_event

    def on_lost(self, callback: Callable[[], None]) -> None:
        """Have a function called, on any thread, once the claim is known to be lost."""
        self._on_lost.append(callback)
        if self._lost:
            self._tell()

    @property
    def sync(self) -> SyncClaim:
        """The same claim for code without an event loop."""
        from dibs.sync import SyncClaim

        return SyncClaim(self._runtime, self)

    def __repr__(self) -> str:
        state = "lost" if self._lost else self._settled or "held"
        return f"<Claim of {self.id!r}, fence {self.fence}, {state}>"

    # What can be asked

    async def load(self) -> Job:
        """Extend and read a claim that came from elsewhere; ``LeaseLost`` if it is not current."""
        if self._job is None:
            # Only the store can compare the token; and who knows how much of the lease is left.
            if await self._extend(Extension(self._ref)) is Outcome.BUSY:
                raise _busy()
            job = await self._runtime.broker().get(self.id)
            if job is None or job.fence != self.fence or job.status is not Status.CLAIMED:
                raise self._lose()
            self._job = msgspec.structs.replace(job, lease_token=self.lease_token)
        return self._job

    async def complete(self, result: Json = None, *, connection: Any = None) -> None:
        """End the job well. With ``connection``, in the caller's own transaction: it commits or vanishes with it."""
        await self._settle(Ending(self._ref, "complete", result=result), connection)

    async def fail(
        self, error: BaseException | Error | str, *, retryable: bool = True, delay: Duration | None = None
    ) -> None:
        """End this attempt badly: tried again after ``delay``, or the job's back-off; or else the dead letter."""
        delay_us = None if delay is None else micros(seconds("delay", delay))
        failure = Failure(describe(error), retryable, delay_us)
        await self._settle(Ending(self._ref, "fail", failure=failure, job=self._job))

    async def release(self, *, delay: Duration | None = None) -> None:
        """Give the job back, at once or for later; no attempt is counted."""
        await self._settle(Ending(self._ref, "release", delay=delay))

    async def extend(self) -> None:
        """Keep the claim for another lease. Inside ``async with claim`` this happens by itself."""
        await self._extend(Extension(self._ref))

    async def progress(self, fraction: float, note: str = "") -> None:
        """Tell how far the work has come, from 0 to 1, and keep the claim for another lease."""
        await self._extend(Extension(self._ref, fraction, note))

    async def _extend(self, extension: Extension) -> Outcome:
        began = self._runtime.clock.monotonic()
        [outcome] = await self._runtime.broker().extend([extension])
        if outcome in {Outcome.LOST, Outcome.MISSING}:
            raise self._lose()
        if outcome is not Outcome.BUSY:
            self._since = began
        return outcome

    async def _settle(self, ending: Ending, connection: Any = None) -> None:
        await self._see_asked()
        # Race: a beat that meets a claim settled a moment ago would call it lost. So beats cease first.
        self._drop()
        try:
            [settled] = await self._runtime.broker().settle([ending], connection=connection)
        except BaseException as error:
            if connection is None and not isinstance(error, Exception):
                self._see_to(ending)
            else:
                self._hold()
            raise
        if settled.outcome is Outcome.BUSY:
            self._hold()
            raise _busy()
        if settled.outcome not in {Outcome.APPLIED, Outcome.REPEATED}:
            raise self._lose(in_doubt=settled.outcome is Outcome.IN_DOUBT)
        self._settled, self._wish = ending.verb, None
        self._transaction = connection
        self._hold()

    def _see_to(self, ending: Ending) -> None:
        """Race: cancelled while settling. What was asked for may be on its way, or may not have begun.

        A release could overtake it, and finished work would be done again. But settling twice is safe: so the same is
        asked for once more, where it depends on no caller (test_cancelled_while_it_settles).
        """
        if self._runtime.winding_up:
            return  # what is on its way is waited for there, and nothing can be begun any more
        self._wish, again = ending, self._repeat(ending)
        try:
            self._asked = self._runtime.hand_off(again)
        except (RuntimeError, WrongState):  # there is no loop any more, or the process ends
            again.close()

    async def _repeat(self, ending: Ending) -> None:
        try:
            [settled] = await self._runtime.broker().settle([ending])
        except Exception as reason:  # noqa: BLE001 - no one waits for it
            logger.warning("job %r could not be settled; its lease may run out instead: %s", self.id, reason)
            return
        self._wish = None
        if settled.outcome in {Outcome.APPLIED, Outcome.REPEATED}:
            self._settled = ending.verb
        else:  # settled, and then claimed again or gone; or taken over before. No one can say which
            logger.debug("job %r: its claim had ended when %s was repeated", self.id, ending.verb)

    async def _see_asked(self) -> None:
        """Wait for a settle whose caller has left, before anything else is asked for."""
        if (asked := self._asked) is not None:
            await self._runtime.ended(asked)
            if self._asked is asked:
                self._asked = None

    # For a worker, which runs no block: it keeps many claims and settles them together

    @property
    def untouched(self) -> bool:
        """Whether it is held, and its handler has not asked for anything that ends it."""
        return not self._lost and self._settled is None and self._asked is None and self._wish is None

    async def wish(self) -> Ending | None:
        """Say what its handler asked for as it was cancelled, if that could not be done."""
        await self._see_asked()
        return self._wish

    def keep(self) -> None:
        """Have it extended from now on."""
        self._kept = True
        self._hold()

    def to_be_kept(self) -> Held:
        """Give what the keeper needs to extend it from now on: many new claims are handed to it together."""
        self._kept = True
        return self._as_held()

    def let_go(self) -> None:
        """Extend it no longer."""
        self._kept = False
        self._drop()

    def conclude(self, verb: str) -> None:
        """Note how it was settled, by someone else on its behalf."""
        self._settled = verb
        self._on_lost.clear()

    def disown(self) -> None:
        """Tell a handler that cannot be stopped that its claim is no longer its own."""
        self._lost = True
        self._tell()

    async def leave(self, error: Exception | None) -> None:
        """Settle it as the end of a block would; what goes wrong is logged."""
        try:
            await self._see_asked()
            await self._leave_quietly(error)
        finally:
            self.let_go()

    # Keeping it

    def _hold(self) -> None:
        """Have it extended, if it is kept and still worth it."""
        if self._kept and self._held is None and not self._lost and not self._ended():
            self._runtime.keeper.hold([self._as_held()])

    def _as_held(self) -> Held:
        job = self.job
        lease = (job.claim_lease_us or job.terms.lease_us) / SECOND
        held = self._held = Held(self._ref, lease, self._since, self._beat_lost)
        return held

    def _ended(self) -> bool:
        """Say whether it was settled, and not in a transaction that may still undo it."""
        return self._settled is not None and self._transaction is None

    def _drop(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            self._runtime.keeper.drop(held)

    def _beat_lost(self) -> None:
        if self._settled is None:  # else its transaction was committed
            self._lose()

    def _lose(self, *, in_doubt: bool = False) -> LeaseLost:
        claim = f"the claim of job {self.id!r} with fence {self.fence}"
        if self._settled is not None and self._ended():
            hint = "Settle a claim once, and keep nothing that was settled; only the same again is safe."
            return LeaseLost(f"{claim} was {_PAST[self._settled]} already, by its own holder", hint=hint)
        if self._settled is None:
            self._lost = True
            self._tell()
        if in_doubt:
            hint = "The job's log tells which: what is logged under this fence was done by this call."
            told = "was taken over, or was ended by this call: it was sent again, as it was not told what became of it"
            lost = LeaseLost(f"{claim} {told}", hint=hint)
            lost.in_doubt = True
            return lost
        return LeaseLost(f"{claim} was taken over, or its job has ended, or its fence or token is another")

    def _tell(self) -> None:
        # Race: a callback that comes as the claim is lost. Each is taken out of the list by one thread only.
        while True:
            try:
                callback = self._on_lost.pop()
            except IndexError:
                return
            try:
                callback()
            except Exception:
                logger.exception("told that the claim of job %r is lost, %r failed", self.id, callback)

    # The block

    async def __aenter__(self) -> Self:
        if self._token is not None:
            raise WrongState("this claim's block was entered already")
        if self._lost:
            raise self._lose()
        if self._settled is not None:
            raise WrongState(f"this claim was settled already: {self._settled}")
        await self.load()
        self._token = set_current(self)
        self.keep()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        try:
            if error is not None and not isinstance(error, Exception):
                await self._give_back(error)
                return False
            await self._see_asked()
            return await (self._leave_quietly(error) if self._quiet else self._leave(error))
        finally:
            token, self._token = self._token, None
            self.let_go()
            if token is not None:
                reset_current(token)

    async def _leave(self, error: Exception | None) -> bool:
        """Settle it as the block is left; true if what was raised there is swallowed."""
        if self._lost:
            if isinstance(error, LeaseLost):
                return False
            raise self._lose() from error
        if self._settled is not None:
            if error is not None and has_ended(self._transaction):
                await self._fail_if_rolled_back(error)
            return False
        if error is None:
            await (self.complete() if self._wish is None else self._settle(self._wish))
            return False
        if isinstance(error, Retry | Fail | Snooze):
            await self._obey(error)
            return True
        await self._fail(error)
        return False

    async def _leave_quietly(self, error: Exception | None) -> bool:
        try:
            if not await self._leave(error) and error is not None:
                logger.error("job %r failed: %r", self.id, error, exc_info=error)
        except Exception:
            logger.exception("job %r could not be settled", self.id)
        return True

    async def _obey(self, verdict: Retry | Fail | Snooze) -> None:
        try:
            if isinstance(verdict, Snooze):
                await self.release(delay=verdict.delay)
            elif isinstance(verdict, Retry):
                await self.fail(verdict, delay=verdict.delay)
            else:
                await self.fail(verdict, retryable=False)
        except LeaseLost as lost:
            raise lost from verdict
        except Invalid as invalid:
            # A delay that is none. The attempt has failed by the handler's own mistake; better now than by its lease.
            await self.fail(invalid)
            raise

    async def _fail(self, error: Exception) -> None:
        try:
            await self.fail(error)
        except LeaseLost as lost:
            raise lost from error
        except Exception as reason:  # noqa: BLE001 - the handler's own error is the one to see
            logger.warning("the failure of job %r could not be recorded: %s", self.id, reason)
            error.add_note(f"dibs: this failure could not be recorded; the lease will run out instead: {reason}")

    async def _fail_if_rolled_back(self, error: Exception) -> None:
        """Race: the caller's transaction was committed, or was not. If it was, the failure is refused, and rightly."""
        try:
            await self.fail(error)
        except Exception as reason:  # noqa: BLE001 - the handler's own error is the one to see
            logger.debug("job %r stays as its transaction left it: %s", self.id, reason)

    async def _give_back(self, error: BaseException) -> None:
        """Cancelled, interrupted or thrown away: release it, whatever happens to the caller meanwhile."""
        waits = not isinstance(error, GeneratorExit)  # a coroutine that is being closed cannot
        if self._asked is not None:
            if waits:
                await self._see_asked()
            return
        if self._lost or (self._settled is not None and not has_ended(self._transaction)):
            return
        if waits:
            await self._runtime.see_through(self._release_or_log())
        else:
            self._runtime.hand_off(self._release_or_log())

    async def _release_or_log(self) -> None:
        try:
            await self.release()
        except Exception as reason:  # noqa: BLE001 - what ended the block is raised, not this
            level = logging.WARNING if self._settled is None else logging.DEBUG
            logger.log(level, "job %r could not be released; its lease will run out instead: %s", self.id, reason)


_PAST = {"complete": "completed", "fail": "failed", "release": "released"}


def _busy() -> StoreUnavailable:
    return StoreUnavailable("another transaction holds the job's row", hint="End it, then try again.")


def _set_event(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    with suppress(RuntimeError):  # the loop was closed; no one waits there any more
        loop.call_soon_threadsafe(event.set)
