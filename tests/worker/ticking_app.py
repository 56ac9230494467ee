"""An app for worker processes with schedules: every run of a handler leaves the key of its tick."""

import os
import signal
import time
from pathlib import Path

import dibs
from dibs.broker.schedules import SCHEDULES
from dibs.clock import Clock
from dibs.domain.job import Document
from dibs.store import Store
from dibs.stores.sqlite import SqliteStore

ZONE = os.environ.get("TEST_ZONE", "UTC")


class Elsewhen(Clock):
    """The machine's time, so many seconds off: a change of the clocks comes when the test wants it."""

    def now(self) -> int:
        return (time.time_ns() + int(os.environ.get("TEST_OFFSET_NS", "0"))) // 1000


class DyingStore(SqliteStore):
    """Kills its process where a schedule was ticked and is about to be moved on."""

    async def put(
        self, name: str, value: bytes | None, *, expect: int | None = None, keep_us: int | None = None
    ) -> Document | None:
        if name.startswith(SCHEDULES) and expect:
            os.kill(os.getpid(), signal.SIGKILL)
        return await super().put(name, value, expect=expect, keep_us=keep_us)


app = dibs.App(os.environ["DIBS_STORE"], clock=Elsewhen())


def _dying(url: str, clock: Clock) -> Store:
    return DyingStore(Path(url.removeprefix("sqlite:///")), clock)


if os.environ.get("TEST_DIES"):
    app.runtime.open_store = _dying


def tell() -> None:
    file = os.open(os.environ["TEST_RUNS"], os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    os.write(file, f"{dibs.current().job.idempotency_key}\n".encode())
    os.close(file)


@app.schedule("* * * * * *", tz=ZONE)
@app.task
async def second() -> None:
    tell()


@app.schedule(os.environ.get("TEST_FIXED", "30 2 * * *"), tz=ZONE)
async def fixed() -> None:
    tell()


app.schedule(2, name="regular")(second)
