"""What the generated sync twins stand on, and the few calls that are more than their async counterpart."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import suppress
from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from dibs import once
from dibs.app import App
from dibs.batches import Batch
from dibs.claim import Claim, reset_current, set_current
from dibs.domain.errors import WrongState
from dibs.page import Page

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterable, Iterator
    from contextvars import Token
    from types import TracebackType
    from typing import Self

    from dibs.domain.newjob import NewJob
    from dibs.runtime import Runtime

T = TypeVar("T")
U = TypeVar("U")


async def give_back(claims: Claim | list[Claim] | None) -> None:
    """Release what was claimed for a caller who was interrupted before it could take it."""
    for claim in [claims] if isinstance(claims, Claim) else claims or []:
        await claim.release()


class _End:
    """Stands for what comes after the last item: StopAsyncIteration has a meaning of its own on its way here."""


async def _next(iterator: AsyncIterator[T]) -> T | _End:
    return await anext(iterator, _End())


async def _undo_item(undo: Callable[[T], Awaitable[object]], item: T | _End) -> None:
    if not isinstance(item, _End):
        await undo(item)


async def _result(awaitable: Awaitable[T]) -> T:
    return await awaitable


class Twin(Generic[T]):
    """The blocking side of something async."""

    def __init__(self, runtime: Runtime, original: T) -> None:
        self._runtime = runtime
        self._async = original

    def _run(self, coroutine: Coroutine[Any, Any, U], undo: Callable[[U], Awaitable[object]] | None = None) -> U:
        return self._runtime.run(coroutine, undo)

    def _iterate(
        self, iterator: AsyncIterator[U], undo: Callable[[U], Awaitable[object]] | None = None
    ) -> Generator[U, None, None]:
        take_back = None if undo is None else partial(_undo_item, undo)
        try:
            while not isinstance(item := self._run(_next(iterator), take_back), _End):
                yield item
        finally:
            if isinstance(iterator, AsyncGenerator) and not sys.is_finalizing():
                # An interrupted step ends the iterator by itself, and may not be done with that yet.
                with suppress(RuntimeError, WrongState):
                    self._run(iterator.aclose())


class TwinApp(Twin[App]):
    """The calls of an app that are not just run and waited for."""

    def once(self, key: str, function: Callable[[], Any]) -> Any:
        """Return what is kept under the key, or run the function and keep what it returns, for seven days."""
        found, result = self._run(once.recall(self._runtime, key, function))
        if found:
            return result
        result = function()  # in the caller's own thread: the portal has beats to keep
        if isawaitable(result):
            result = self._run(_result(result))
        return self._run(once.remember(self._runtime, key, result))

    def close(self) -> None:
        """Let go of everything. What is used after that is opened again."""
        self._runtime.close_and_wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class TwinBatch(Twin[Batch]):
    """``with batch`` obeys the same rules as ``async with batch``."""

    @property
    def id(self) -> str:
        """What its jobs share."""
        return self._async.id

    def add(self, jobs: Iterable[NewJob]) -> int:
        """Enqueue jobs as part of it, a thousand at a time; say how many. Those before one that is refused are in."""
        return self._run(self._async.add(list(jobs)))  # which the caller's own thread makes

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._run(self._async.__aexit__(kind, error, traceback))


class TwinClaim(Twin[Claim]):
    """``with claim`` obeys the same rules as ``async with claim``."""

    _token: Token[Claim] | None = None

    def __enter__(self) -> Self:
        try:
            self._run(self._async.__aenter__())
            self._token = set_current(self._async)
        except (KeyboardInterrupt, SystemExit) as error:
            # Race: interrupted on the way in. A block that was not entered is not left: the claim is given back here.
            self._run(self._async.__aexit__(type(error), error, None))
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        try:
            return self._run(self._async.__aexit__(kind, error, traceback))
        finally:
            token, self._token = self._token, None
            if token is not None:
                reset_current(token)

    def __repr__(self) -> str:
        return f"<Sync{repr(self._async)[1:]}"


class SyncPage(Twin[Page[U]], Generic[U]):
    """A page that reads itself when it is looked at; a loop goes on through all the pages that follow."""

    @property
    def items(self) -> list[U]:
        """What is on this page."""
        return self._load().items

    @property
    def next_cursor(self) -> str | None:
        """Where the next page begins: give it to ``find`` as ``cursor``. None: this is the last."""
        return self._load().next_cursor

    def _load(self) -> Page[U]:
        return self._run(_result(self._async))

    def __iter__(self) -> Iterator[U]:
        return self._iterate(aiter(self._async))
