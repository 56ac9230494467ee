"""A part of a store: one shard, as one event loop reaches it. A single server has one, a cluster several."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from dibs.domain.job import Job
    from dibs.stores.common.waiting import Name
    from dibs.stores.redis.scripts import Script

T = TypeVar("T")

Pass = tuple[bytes, int]
"""What whoever makes a job, or takes a unique key again, shows the shard; see ``lua/parts/passes.lua``."""

NO_PASS: Pass = (b"", 0)


class Taken(NamedTuple):
    """Unique keys that were reserved for jobs that begin again."""

    shown: Pass = NO_PASS
    refused: Mapping[str, str] = {}
    """Whose are others': id -> the job that has the key."""
    give_back: Callable[[Sequence[Job]], Awaitable[None]] | None = None
    """To be told which jobs did not begin again."""


class Part(Protocol):
    """One shard, and what it takes to change its jobs."""

    @property
    def number(self) -> bytes:
        """Its number among several, for the order of enqueueing; nothing if it is the only one."""
        ...

    @property
    def told(self) -> bytes:
        """What to tell a script about the time: nothing, unless a test has put its own clock in place."""
        ...

    async def run(self, script: Script, *words: Any) -> Any:
        """Run a script."""
        ...

    async def announce(self, news: Iterable[Name] | None, run: Callable[[str], Awaitable[T]]) -> T:
        """Run what makes jobs pending, and tell of it."""
        ...

    async def take_keys(self, jobs: Sequence[Job]) -> Taken:
        """Reserve the unique keys of jobs that are about to begin again."""
        ...

    async def leave(self, jobs: Sequence[Job]) -> Callable[[Sequence[Job]], Awaitable[None]] | None:
        """Prepare for these to go; give what is to be told which of them went, if anyone is."""
        ...
