"""A claim that lasts only as long as there is someone to have the job."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from dibs.broker.protocol import Ending
from dibs.server.reading import Gone

if TYPE_CHECKING:
    from dibs.broker.protocol import Ask
    from dibs.domain.job import Job
    from dibs.server.route import Call


async def claim(call: Call, ask: Ask) -> list[Job]:
    """Claim for a client. If it hangs up, or the server goes down, nothing stays claimed for it."""
    state = call.state
    state.app.runtime.maintain()
    if state.stopping:
        ask = msgspec.structs.replace(ask, wait=0)
    jobs = await (_wait(call, ask) if ask.wait else call.broker.claim(ask))
    # Race: the job came as the client went. It is not sent to no one, but given back
    # (test_a_claim_that_comes_as_its_client_goes_is_given_back).
    if _gone(call):
        await give_back(call, jobs)
        raise Gone
    state.metrics.claimed(len(jobs))
    return jobs


def _gone(call: Call) -> bool:
    """Look whether the client has hung up, without waiting: begin to receive, and go no further."""
    receiving: Any = call.receive()
    try:
        receiving.send(None)
    except StopIteration as told:
        return bool(told.value["type"] == "http.disconnect")
    finally:
        receiving.close()
    return False


async def _wait(call: Call, ask: Ask) -> list[Job]:
    """Wait for a job for as long as the client does, and the server."""
    state = call.state
    work = asyncio.ensure_future(call.broker.claim(ask))
    watch = asyncio.ensure_future(_watch(call, work))
    state.polls.add(work)
    try:
        return await work
    except asyncio.CancelledError:
        await _give_back_if_claimed(call, work)
        if watch.done():
            raise Gone from None
        if state.stopping and not _cancelled():
            return []
        raise
    finally:
        state.polls.discard(work)
        if not watch.done():
            watch.cancel()


async def _watch(call: Call, work: asyncio.Future[list[Job]]) -> None:
    """Wait until the client has gone, and call its claim off. The body was read: all that can come is the end."""
    while (await call.receive())["type"] != "http.disconnect":
        pass
    work.cancel()


async def _give_back_if_claimed(call: Call, work: asyncio.Future[list[Job]]) -> None:
    """Race: this request was cancelled just as its claim had come. The broker knows nothing of that any more.

    (test_a_claim_that_comes_as_its_client_goes_is_given_back)
    """
    if work.done() and not work.cancelled() and work.exception() is None:
        await give_back(call, work.result())


async def give_back(call: Call, jobs: list[Job]) -> None:
    """Release what was claimed and will reach no one."""
    if jobs:
        await asyncio.shield(call.broker.settle([Ending(job.ref, "release") for job in jobs]))


def _cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
