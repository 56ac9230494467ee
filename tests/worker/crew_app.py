"""An app for worker processes: every run of a handler leaves a line, whole or not at all."""

import asyncio
import os
import time

import dibs

app = dibs.App(os.environ["DIBS_STORE"], reap_every=0.2)

leaked: list[bytes] = []


def tell(what: str) -> None:
    claim = dibs.current()
    line = f"{what} {claim.id} {claim.fence} {os.getpid()}\n"
    file = os.open(os.environ["TEST_RUNS"], os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    os.write(file, line.encode())
    os.close(file)


@app.task
async def on_loop(seconds: float) -> int:
    tell("began")
    await asyncio.sleep(seconds)
    tell("ended")
    return dibs.current().fence


@app.task
def in_thread(seconds: float) -> int:
    tell("began")
    time.sleep(seconds)
    tell("ended")
    return dibs.current().fence


@app.task
def leak(mib: int) -> int:
    tell("began")
    leaked.append(b"x" * (mib * 1024 * 1024))
    tell("ended")
    return os.getpid()


@app.task
def for_ever() -> None:
    tell("began")
    while True:
        time.sleep(1)
