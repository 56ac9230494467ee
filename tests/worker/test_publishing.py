"""A worker publishes what the params of its tasks must look like, on each kind of store and through a server."""

from __future__ import annotations

import asyncio
import logging
from typing import Annotated, Any

import msgspec
import pytest

from dibs import App, SchemaInfo, Worker
from dibs.broker.schemas import SCHEMAS
from dibs.domain.schema import MAX_SCHEMA
from dibs.worker.command import Command
from dibs.worker.publishing import Publishing
from tests.worker.conftest import working


async def until_known(app: App, number: int) -> list[SchemaInfo]:
    async with asyncio.timeout(10):
        while len(known := await app.schemas()) < number:  # noqa: ASYNC110 - another process may publish
            await asyncio.sleep(0.005)
    return known


def old(app: App) -> None:
    @app.task
    async def send(to: str) -> None: ...


def new(app: App) -> None:
    @app.task
    async def send(to: list[str]) -> None: ...

    @app.task
    async def other() -> None: ...


async def versions(app: App) -> list[int]:
    return [document.version for document in await app.runtime.broker().documents(SCHEMAS)]


async def test_a_worker_publishes_as_it_begins(app: App) -> None:
    new(app)
    assert await app.schemas() == []
    async with working(app, worker_id="w-1", tasks=["send"]):
        [info] = await until_known(app, 1)
    assert (info.task, info.schema) == ("send", app.tasks["send"].schema)
    assert (info.by or "").endswith("w-1")


async def test_one_that_has_nothing_to_do_publishes_too_and_the_same_is_not_written_twice(app: App) -> None:
    new(app)
    await Worker(app).run(until_idle=True)
    assert [info.task for info in await app.schemas()] == ["other", "send"]
    before = await versions(app)
    await Worker(app).run(until_idle=True)
    assert await versions(app) == before


async def test_two_versions_at_work_are_both_known(url: str) -> None:
    async with App(url) as first, App(url) as second:
        if url == "memory://":  # each app has a memory of its own
            second.runtime.open_store = lambda _url, _clock: first.runtime._opened.store  # type: ignore[return-value,assignment]
        old(first)
        new(second)
        async with working(first, worker_id="old"):
            await until_known(first, 1)
            async with working(second, worker_id="new"):
                known = await until_known(first, 3)
    assert [(info.task, info.schema["properties"]) for info in known] == [
        ("other", {}),
        ("send", {"to": {"type": "array", "items": {"type": "string"}}}),
        ("send", {"to": {"type": "string"}}),
    ]


async def test_a_worker_looks_again(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is gone, as after thirty days without a word, is published by a worker that runs on."""
    monkeypatch.setattr("dibs.worker.publishing.LOOK_EVERY", 0.05)
    old(app)
    async with working(app):
        await until_known(app, 1)
        await app.runtime.broker().put(SCHEMAS + "send", None)
        await until_known(app, 1)


async def test_a_schema_that_is_too_large_gives_way_to_one_that_all_fits(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    async def send(to: Any) -> None: ...

    send.__annotations__["to"] = Annotated[str, msgspec.Meta(description="x" * MAX_SCHEMA)]
    app.task(send)
    await Worker(app).run(until_idle=True)
    assert [(info.task, info.schema) for info in await app.schemas()] == [("send", {})]
    assert len([record for record in caplog.records if "'send'" in record.message]) == 1


async def test_a_command_takes_anything(app: App) -> None:
    command = Command(app, ["true"], ["t"])
    try:
        await Worker(app).run(until_idle=True)
    finally:
        command.close()
    assert [(info.task, info.schema) for info in await app.schemas()] == [("t", {})]


async def test_one_that_may_not_publish_works_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "dibs")
    async with App("memory://") as app:
        old(app)
        app.tasks["send"].name = "no name"  # stands for whatever a broker refuses: a key, or an older server
        publishing = Publishing(app.runtime, "w", list(app.tasks.values()), once=False)
        await publishing.leave()
    assert ["schemas are not published" in record.message for record in caplog.records] == [True]
