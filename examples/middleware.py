"""Middleware: what is done around every handler. Run it: python examples/middleware.py"""

import asyncio
import logging
import time
from contextvars import ContextVar
from typing import Any

import dibs

app = dibs.App("memory://")
request_id: ContextVar[str | None] = ContextVar("request_id", default=None)


@app.middleware  # the first added is the outermost: it sees what the others make of a job
async def report(claim: dibs.Claim, call: dibs.Call) -> Any:
    try:
        return await call()
    except (dibs.Retry, dibs.Snooze):
        raise  # as it was meant
    except Exception as error:
        print(f"reported: {claim.task} {claim.params}, attempt {claim.attempt}: {error}")
        raise  # how the job ends is for the error to say


@app.middleware
async def timing(claim: dibs.Claim, call: dibs.Call) -> Any:
    began = time.perf_counter()
    try:
        return await call()
    finally:
        assert time.perf_counter() - began < 60, claim


@app.trace_context
def trace() -> dict[str, str] | None:
    """Each job carries the request that it was enqueued for."""
    current = request_id.get()
    return None if current is None else {"request": current}


@app.middleware
async def go_on_with_the_trace(claim: dibs.Claim, call: dibs.Call) -> Any:
    request_id.set(claim.job.trace.get("request"))  # each job has a context of its own: nothing to put back
    return await call()


@app.task
async def fetch(url: str) -> str:
    print(f"fetching {url} for {request_id.get()}")
    await resize.enqueue(f"{url}/cat.png")  # which is for the same request
    return url


@app.task
def resize(path: str) -> None:
    print(f"resizing {path} for {request_id.get()}")  # a thread has the context too
    raise dibs.Fail("no such picture")


async def main() -> None:
    logging.getLogger("dibs").setLevel(logging.ERROR)  # failures are told above
    request_id.set("request-7")
    await fetch.enqueue("https://example.org")
    await dibs.Worker(app).run(until_idle=True)
    print(await app.counts())
    await app.close()


if __name__ == "__main__":
    asyncio.run(main())
