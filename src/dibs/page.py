"""Pages of what was found: one at a time by hand, or all of them in a loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from dibs.domain.errors import WrongState

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Generator

T = TypeVar("T")


class Page(Generic[T]):
    """``await`` it for one page; ``async for`` goes on through all the pages that follow. Nothing is read before."""

    def __init__(
        self, fetch: Callable[[str | None], Awaitable[tuple[list[T], str | None]]], cursor: str | None = None
    ) -> None:
        self._fetch = fetch
        self._cursor = cursor
        self._read: tuple[list[T], str | None] | None = None

    @property
    def items(self) -> list[T]:
        """What is on this page."""
        return self._content()[0]

    @property
    def next_cursor(self) -> str | None:
        """Where the next page begins: give it to ``find`` as ``cursor``. None: this is the last."""
        return self._content()[1]

    def _content(self) -> tuple[list[T], str | None]:
        if self._read is None:
            raise WrongState("the page was not read yet", hint="Write `page = await app.find(...)`, or `async for`.")
        return self._read

    async def _load(self) -> Page[T]:
        if self._read is None:
            self._read = await self._fetch(self._cursor)
        return self

    def __await__(self) -> Generator[None, None, Page[T]]:
        return self._load().__await__()

    async def __aiter__(self) -> AsyncIterator[T]:
        page = await self._load()
        while True:
            for item in page.items:
                yield item
            if page.next_cursor is None:
                return
            page = await Page(self._fetch, page.next_cursor)
