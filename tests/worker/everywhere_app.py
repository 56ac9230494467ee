"""An app for worker processes on any store: handlers that run, block, die or wait to be told. Each leaves lines."""

import asyncio
import ctypes
import os
import signal
import time

import dibs

app = dibs.App(os.environ["DIBS_STORE"], reap_every=0.2, retry=dibs.Backoff(base=0.01, cap=0.01))


def tell(what: str) -> None:
    """Leave a line, whole or not at all: what, the job, its fence, our process."""
    claim = dibs.current()
    line = f"{what} {claim.id} {claim.fence} {os.getpid()}\n"
    file = os.open(os.environ["TEST_RUNS"], os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    os.write(file, line.encode())
    os.close(file)


@app.task
async def wait(seconds: float, *, first: float | None = None) -> int:
    """Wait as one should, the first time for another time; say if it is cancelled, and whether the claim was lost."""
    tell("began")
    try:
        await asyncio.sleep(first if first is not None and dibs.current().fence == 1 else seconds)
    except asyncio.CancelledError:
        tell("lost" if dibs.current().lost else "cancelled")
        raise
    tell("ended")
    return dibs.current().fence


@app.task
async def block(seconds: float) -> int:
    """Let nothing else run on the loop."""
    tell("began")
    time.sleep(seconds)  # noqa: ASYNC251 - that is the mistake
    return dibs.current().fence


@app.task(process=True)
def hold_everything(seconds: float) -> int:
    """Wait in C without letting any other thread of the process run."""
    tell("began")
    ctypes.PyDLL(None).poll(None, 0, int(seconds * 1000))
    return dibs.current().fence


@app.task
async def poison() -> None:
    """Take the worker down."""
    tell("began")
    os.kill(os.getpid(), signal.SIGKILL)
