"""What a worker says of the ends that it could not be sure of."""

from collections.abc import Sequence
from typing import Any

import pytest

import dibs
from dibs import App
from dibs.broker.protocol import Ending
from dibs.store import Written
from tests.worker.conftest import until, working


async def test_an_end_that_was_not_answered_until_another_held_the_job_is_in_doubt(
    app: App, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It was done, so the log would be wrong to say that it is void."""

    @app.task
    async def once_more() -> None:
        raise dibs.Retry(delay=0)

    job = await once_more.enqueue()
    broker, taken = app.runtime.broker(), list[dibs.Claim | None]()
    settle = broker.settle

    async def lose(endings: Sequence[Ending], **options: Any) -> list[Written]:
        written = await settle(endings, **options)
        if not taken:
            taken.append(await app.claim("other", wait=10))
            raise dibs.StoreUnavailable("no answer came")
        return written

    monkeypatch.setattr(broker, "settle", lose)
    async with working(app, renew_after_jobs=1):  # so that it does not take it itself
        await until(lambda: taken)

    [other] = taken
    assert other is not None
    assert [event.event.value for event in await app.log(job.id)] == ["enqueued", "claimed", "retried", "claimed"]
    assert "before or after its fail" in caplog.text
    assert "void" not in caplog.text
    await other.complete()
