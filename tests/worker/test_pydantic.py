"""A pydantic model as a task's argument, from enqueue to handler, on each kind of store and through a server."""

import datetime as dt
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, computed_field

from dibs import App, InvalidJob, Status
from tests.worker.conftest import read, until_counts, work, working


class Address(BaseModel):
    street: str
    code: int = Field(gt=0, alias="postcode")


class Order(BaseModel):
    model_config = ConfigDict(extra="forbid")

    number: int
    due: dt.date
    to: Address

    @computed_field  # type: ignore[prop-decorator]
    @property
    def label(self) -> str:
        return f"no. {self.number}"


class Receipt(BaseModel):
    number: int

    @computed_field  # type: ignore[prop-decorator]
    @property
    def label(self) -> str:
        return f"receipt {self.number}"


ORDER = Order(number=7, due=dt.date(2026, 5, 1), to=Address(street="Elm", postcode=3))
SENT: dict[str, Any] = {"number": 7, "due": "2026-05-01", "to": {"street": "Elm", "postcode": 3}}


async def test_a_model_there_and_another_back(app: App) -> None:
    seen: list[Any] = []

    @app.task
    async def ship(order: Order, copies: int = 1) -> Receipt:
        seen.append((order, copies))
        return Receipt(number=order.number)

    @app.task
    def in_a_thread(orders: list[Order]) -> list[int]:
        return [order.number for order in orders]

    first, second = await ship.enqueue(ORDER, 2), await in_a_thread.enqueue([ORDER])
    by_name = await app.enqueue("ship", {"order": SENT})
    assert (first.params, second.params) == ({"order": SENT, "copies": 2}, {"orders": [SENT]})
    await work(app)
    assert sorted(seen, key=lambda one: -one[1]) == [(ORDER, 2), (ORDER, 1)]
    assert (await read(app, first)).result == {"number": 7, "label": "receipt 7"} == (await read(app, by_name)).result
    assert (await read(app, second)).result == [7]


async def test_what_does_not_fit_is_refused_by_field_when_it_is_enqueued(app: App) -> None:
    @app.task
    async def ship(order: Order) -> None: ...

    for bad in ({**SENT, "to": {"street": "Elm", "postcode": 0}}, ORDER.model_copy(update={"due": "soon"})):
        with pytest.raises(InvalidJob) as refused:
            await ship.enqueue(bad)  # type: ignore[arg-type]
        assert refused.value.fields in {("params.order.to.postcode",), ("params.order.due",)}
    assert (await app.counts()).unfinished == 0


async def test_what_no_longer_fits_is_a_dead_letter_that_names_the_field(app: App) -> None:
    @app.task
    async def ship(order: Order) -> None:
        raise AssertionError("it must not run")

    job = await app.enqueue("ship", {"order": {**SENT, "to": {"street": "Elm"}}})
    await work(app)
    after = await read(app, job)
    assert (after.status, after.attempts) == (Status.FAILED, 1)
    assert after.error is not None
    assert after.error.code == "invalid_params"
    assert "params.order.to.postcode: field required" in after.error.message


async def test_a_server_refuses_it_by_the_schema_that_a_worker_has_published(app: App, url: str) -> None:
    @app.task
    async def ship(order: Order, others: list[Order] | None = None) -> None: ...

    await work(app)
    [known] = await app.schemas()
    assert known.schema == ship.schema
    assert set(known.schema["properties"]) == {"order", "others"}
    if not url.startswith("http"):
        return
    async with working(app):
        await app.enqueue("ship", {"order": SENT, "others": [SENT]})
        with pytest.raises(InvalidJob) as refused:
            await app.enqueue("ship", {"order": {**SENT, "to": {"street": 5}}, "others": [{**SENT, "number": "x"}]})
        assert set(refused.value.fields) == {
            "params.order.to.street",
            "params.order.to.postcode",
            "params.others[0].number",
        }
        await until_counts(app, lambda counts: counts.completed == 1)
