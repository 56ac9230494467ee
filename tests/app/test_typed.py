"""Params as the handler's annotations want them: checked when the job is made, and made anew before it runs."""

import datetime as dt
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

import dibs
from dibs.testing import drain


@dataclass
class Order:
    number: int
    due: dt.date


@pytest.fixture
async def app() -> AsyncIterator[dibs.App]:
    async with dibs.App("memory://") as app:
        yield app


async def test_a_handler_gets_what_its_annotations_say(app: dibs.App) -> None:
    seen: list[Any] = []

    @app.task
    async def ship(order: Order, at: dt.datetime, *, tags: set[str] | None = None) -> None:
        seen.append((order, at, tags))

    order, at = Order(7, dt.date(2026, 5, 1)), dt.datetime(2026, 5, 1, 12, tzinfo=dt.UTC)
    job = await ship.enqueue(order, at, tags={"a"})
    assert job.params == {
        "order": {"number": 7, "due": "2026-05-01"},
        "at": "2026-05-01T12:00:00Z",
        "tags": ["a"],
    }
    await app.enqueue("ship", {"order": {"number": 8, "due": "2026-05-02"}, "at": "2026-05-01T12:00:00Z"})
    await drain(app)

    assert seen == [(order, at, {"a"}), (Order(8, dt.date(2026, 5, 2)), at, None)]


async def test_what_the_handler_could_not_take_is_not_enqueued(app: dibs.App) -> None:
    @app.task
    async def ship(order: Order) -> None: ...

    for bad in ({"number": "7", "due": "2026-05-01"}, Order("7", dt.date(2026, 5, 1))):  # type: ignore[arg-type]
        with pytest.raises(dibs.InvalidJob, match=r"params\.order\.number.*expected `int`, got `str`"):
            await ship.enqueue(bad)  # type: ignore[arg-type]
    with pytest.raises(dibs.InvalidJob, match=r"params\.order\.due"):
        ship.job({"number": 7, "due": "soon"})  # type: ignore[arg-type]
    assert (await app.counts()).unfinished == 0


async def test_params_that_no_longer_fit_are_a_dead_letter_that_names_the_field(app: dibs.App) -> None:
    """As after a deploy that changed the type: to try again would help no one."""

    @app.task
    async def ship(order: Order) -> None:
        raise AssertionError("it must not run")

    job = await app.enqueue("ship", {"order": {"number": "seven", "due": "2026-05-01"}})
    await drain(app)

    after = await app.get(job.id)
    assert after is not None
    assert (after.status, after.attempts) == (dibs.Status.FAILED, 1)
    assert after.error is not None
    assert after.error.code == "invalid_params"
    assert "params.order.number: expected `int`, got `str`" in after.error.message


async def test_a_key_made_of_params_is_the_same_however_they_were_given(app: dibs.App) -> None:
    @app.task(unique=True)
    async def ship(order: Order) -> None: ...

    first = await ship.enqueue(Order(7, dt.date(2026, 5, 1)))
    again = await app.enqueue("ship", {"order": {"due": "2026-05-01", "number": 7}})
    assert (again.id, again.was_duplicate) == (first.id, True)
