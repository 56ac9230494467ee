"""``dibs copy``: everything that one store has, to another that takes over from it."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from dibs.broker.connect import open_store
from dibs.broker.copying import Copied, Copy
from dibs.cli.asking import progress
from dibs.cli.load import existing
from dibs.cli.output import print_json, remark
from dibs.clock import Clock
from dibs.domain.errors import InvalidRequest, Problem

if TYPE_CHECKING:
    from dibs.store import Store


def copy(
    from_: Annotated[str, Parameter(name="FROM", help="The URL of the store that has the jobs.")],
    to: Annotated[str, Parameter(help="The URL of a store that has none yet.")],
    /,
    *,
    wait: Annotated[float, Parameter(help="Seconds to wait for claimed jobs to end.")] = 0.0,
    json: Annotated[bool, Parameter(help="Print what was done as JSON.", negative=())] = False,
) -> int:
    """Copy everything that one store has to another, which takes over from it.

    FROM hands out nothing any more from the start on, and TO nothing before it has it all and was compared with FROM.
    Run it again if it was cut off: it goes on where it was. Claimed jobs are not copied: let their workers end first.
    """
    for name, url in (("from", from_), ("to", to)):
        if url.startswith("memory://"):
            raise InvalidRequest([Problem(name, "what is in memory is another process's own, and ends with it")])
    if wait < 0:
        raise InvalidRequest([Problem("wait", "must be 0 seconds or more")])
    copied = asyncio.run(
        _copy(
            existing(from_, hint="Name the store that has the jobs, then the one they go to.").url, to, wait, quiet=json
        )
    )
    if json:
        print_json(copied)
        return 0
    print(_said(copied))
    if copied.queues:
        queues = "its queue is" if len(copied.queues) == 1 else f"its {len(copied.queues):,} queues are"
        remark(f"FROM hands out nothing any more, {queues} paused; TO has taken over")
    return 0


def _said(copied: Copied) -> str:
    if copied.later and not copied.jobs and not copied.duplicates:
        return "nothing to copy: nothing has come to FROM since it was copied"
    which = " that came to FROM since it was copied" if copied.later else ""
    jobs, events = _number(copied.jobs, "job") + which, _number(copied.events, "event")
    known = f", {copied.duplicates:,} left out whose keys TO had already" if copied.duplicates else ""
    return f"copied {jobs}, with {events} in the log{known}; both stores were compared, and are alike"


def _number(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


async def _copy(from_: str, to: str, wait: float, *, quiet: bool) -> Copied:
    clock = Clock()
    async with AsyncExitStack() as stack:
        source, target = open_store(from_, clock), open_store(to, clock)
        for store in (source, target):
            stack.push_async_callback(store.close)
            await store.open()
        with progress("copying and comparing", 3 * await _jobs(source), quiet=quiet) as advance:
            return await Copy(source, target, clock, lambda _, more: advance(more)).run(wait)


async def _jobs(store: Store) -> int:
    counts = await store.counts()
    return counts.unfinished + counts.completed + counts.failed + counts.cancelled
