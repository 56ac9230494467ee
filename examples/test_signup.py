"""A test of code that enqueues: in memory, by a clock that stands still, and run on the spot.

    pytest examples/test_signup.py

Nothing has to run for it, whatever store the app works on otherwise.
"""

from datetime import timedelta

import dibs
from dibs.testing import drain, enqueued, use

app = dibs.App("postgresql://db.internal/shop")
sent: list[str] = []


@app.task(max_attempts=3)
async def send_welcome(to: str) -> None:
    if dibs.current().attempt == 1:
        raise ConnectionError("the mail server is away")
    sent.append(to)


async def sign_up(address: str) -> None:
    """The code under test."""
    await send_welcome.options(delay=timedelta(minutes=5)).enqueue(to=address)


async def test_whoever_signs_up_is_welcomed_five_minutes_later() -> None:
    with use(app) as clock:
        await sign_up("ada@example.com")
        await enqueued(app, send_welcome, to="ada@example.com", times=1)
        assert await drain(app) == []  # it is not due yet

        clock.advance(timedelta(minutes=5))
        [job] = await drain(app)
        assert job.error is not None  # the first attempt failed, and it is tried again

        [job] = await drain(app, later=True)  # moves the clock to the next attempt
        assert job.status == "completed"
        assert sent == ["ada@example.com"]
