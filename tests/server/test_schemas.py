"""Params are checked by what workers have published, before anything is enqueued."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any, Literal

import httpx2
import pytest

from dibs import App, FakeClock, InvalidJob, StoreUnavailable, Worker
from dibs.domain.schema import HELD, SAID, Offer, offer_of
from dibs.server import asgi
from dibs.server.checking import FRESH, STALE
from dibs.stores.memory import MemoryStore
from dibs.worker.publishing import offers_of
from tests.server.client import BASE, Client
from tests.server.conftest import Make
from tests.server.process import Serving

SECOND = 1_000_000


@dataclass
class Point:
    x: int
    y: float = 0.0


async def send(
    to: str, copies: int = 1, kind: Literal["html", "text"] = "html", at: Point | None = None, tags: Sequence[str] = ()
) -> None: ...


async def newer(to: list[str]) -> None: ...


def offers(**tasks: Callable[..., Any]) -> list[Offer]:
    """What a worker publishes of these functions."""
    app = App("memory://")
    return offers_of([app.task(name)(function) for name, function in tasks.items()])


async def publish(app: App, **tasks: Callable[..., Any]) -> None:
    await app.runtime.broker().publish_schemas(offers(**tasks), by="w")


@pytest.fixture
async def known(app: App) -> None:
    await publish(app, send=send)


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize(
    ("params", "field", "message"),
    [
        ({}, "params.to", "is required"),
        (None, "params.to", "is required"),
        ([1], "params", "must be an object, not a list"),
        ({"to": 5}, "params.to", "must be a text, not an integer"),
        ({"to": None}, "params.to", "must be a text, not null"),
        ({"to": "a", "copies": True}, "params.copies", "must be an integer, not true or false"),
        ({"to": "a", "copy": 1}, "params.copy", "is not an argument of task send; did you mean copies?"),
        ({"to": "a", "kind": "pdf"}, "params.kind", 'must be one of "html", "text"'),
        ({"to": "a", "at": "home"}, "params.at", "must be an object or null, not a text"),
        ({"to": "a", "at": {"x": 1, "y": "2"}}, "params.at.y", "must be a number, not a text"),
        ({"to": "a", "at": {}}, "params.at.x", "is required"),
        ({"to": "a", "tags": ["x", 2]}, "params.tags[1]", "must be a text, not an integer"),
    ],
)
async def test_bad_params_are_refused_with_their_field(client: Client, params: Any, field: str, message: str) -> None:
    answer = await client.post("/api/tasks", {"task_type": "send", "params": params})

    assert (answer.status, answer["code"]) == (400, "invalid")
    assert answer["errors"] == [{"field": field, "message": message}]
    assert (await client.get("/api/tasks"))["tasks"] == []


@pytest.mark.usefixtures("known")
async def test_good_params_are_taken_and_so_is_what_no_one_knows(client: Client) -> None:
    good = {"to": "a", "copies": 2, "kind": "text", "at": {"x": 1}, "tags": []}
    assert (await client.enqueue("send", good))["params"] == good
    await client.enqueue("send", {"to": "a", "at": None})
    await client.enqueue("unknown", [{"any": "thing"}])


@pytest.mark.usefixtures("known")
async def test_all_that_is_wrong_is_told_at_once(client: Client) -> None:
    answer = await client.post("/api/tasks", {"task_type": "send", "params": {"copies": "x", "what": 1}})
    assert sorted(answer.fields) == ["params.copies", "params.to", "params.what"]
    many = {"to": "a", **{f"n{number}": 1 for number in range(1000)}}
    answer = await client.post("/api/tasks", {"task_type": "send", "params": many})
    assert len(answer.fields) == 20
    answer = await client.post("/api/tasks", {"tasks": [{"task_type": "send", "params": many}] * 50})
    assert len(answer.fields) == 100


@pytest.mark.usefixtures("known")
async def test_what_was_sent_is_not_repeated_at_length(client: Client) -> None:
    huge = "x" * 100_000
    answer = await client.post("/api/tasks", {"task_type": "send", "params": {"to": [huge], huge: 1, "kind": huge}})
    assert answer.status == 400
    assert len(answer.text) < 5_000


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize(
    "params", [{"to": "\ud800"}, {"to": 5, "\ud800": 1}, {"\ud800": 1}, {"to": "a", "tags": ["\ud800", 5]}], ids=repr
)
async def test_what_is_no_text_is_refused_too(client: Client, params: Any) -> None:
    answer = await client.post("/api/tasks", {"task_type": "send", "params": params})
    assert answer.status == 400
    assert all(field.startswith("params") for field in answer.fields)
    for depth in (100, 190):
        params = "x"
        for _ in range(depth):
            params = [params]
        assert (await client.post("/api/tasks", {"task_type": "send", "params": {"to": params}})).status == 400


@pytest.mark.usefixtures("known")
async def test_a_batch_with_one_bad_job_is_refused_whole(client: Client) -> None:
    jobs = [{"task_type": "send", "params": {"to": "a"}} for _ in range(5)]
    jobs[3] = {"task_type": "send", "params": {"to": 5}}
    answer = await client.post("/api/tasks", {"tasks": jobs})

    assert (answer.status, answer.fields) == (400, ["tasks[3].params.to"])
    assert (await client.get("/api/tasks"))["tasks"] == []
    jobs[3] = jobs[0]
    assert (await client.post("/api/tasks", {"tasks": jobs})).status == 201


async def test_while_two_versions_are_at_work_either_fits(app: App, client: Client, clock: FakeClock) -> None:
    old, new = {"to": "a"}, {"to": ["a"]}
    await publish(app, send=send)
    assert (await client.post("/api/tasks", {"task_type": "send", "params": new})).status == 400
    await publish(app, send=newer)
    clock.advance(FRESH)
    for params in (old, new):
        await client.enqueue("send", params)
    answer = await client.post("/api/tasks", {"task_type": "send", "params": {"to": 5}})
    assert answer["errors"] == [{"field": "params.to", "message": "must be a list, not an integer"}]

    clock.advance(SAID / SECOND)
    await publish(app, send=newer)  # and of the older one no worker says anything
    clock.advance((HELD - SAID) / SECOND)
    await client.enqueue("send", new)
    assert (await client.post("/api/tasks", {"task_type": "send", "params": old})).status == 400


async def test_a_schema_that_cannot_be_understood_is_no_reason_to_refuse(app: App, client: Client) -> None:
    odd: list[dict[str, Any]] = [
        {"type": "nonsense"},
        {"$ref": "#/nowhere"},
        {"$ref": "http://127.0.0.1:1/x"},
        {"pattern": "("},
        {"$ref": 5},
    ]
    await app.runtime.broker().publish_schemas([offer_of(f"t{place}", schema) for place, schema in enumerate(odd)])
    for place in range(len(odd)):
        await client.enqueue(f"t{place}", {"any": "thing"})


async def test_the_check_can_be_switched_off(app: App, make_key: Make) -> None:
    await publish(app, send=send)
    transport = httpx2.ASGITransport(asgi(app, check_params=False))
    async with httpx2.AsyncClient(transport=transport, base_url=BASE) as http:
        await Client(http, await make_key("admin")).enqueue("send", {"to": 5})


async def test_in_process_enqueues_by_name_are_not_checked(app: App) -> None:
    await publish(app, send=send)
    await app.enqueue("send", {"to": 5})


# What is published, and by whom


async def test_schemas_are_listed(app: App, client: Client, clock: FakeClock) -> None:
    assert (await client.get("/api/schemas"))["schemas"] == []
    await publish(app, send=send, other=newer)
    other, mine = (await client.get("/api/schemas"))["schemas"]

    [_, offer] = sorted(offers(send=send, other=newer), key=lambda offer: offer.task)
    assert (other["task_type"], mine["task_type"], mine["by"]) == ("other", "send", "w")
    assert (mine["digest"], mine["schema"]) == (offer.digest, json.loads(offer.schema_json))
    assert mine["published_at"].endswith("Z")


async def test_schemas_are_published_over_http(client: Client, make_key: Make) -> None:
    worker = await make_key("work")
    schema = {"type": "object", "required": ["to"]}
    body = {"schemas": [{"task_type": "send", "schema": schema}], "by": "w-1"}

    assert (await client.post("/api/schemas", body, key=worker))["written"] == 1
    assert (await client.post("/api/schemas", body, key=worker))["written"] == 0
    [shown] = (await client.get("/api/schemas"))["schemas"]
    assert (shown["schema"], shown["by"]) == (schema, "test: w-1")
    assert (await client.post("/api/tasks", {"task_type": "send"})).fields == ["params.to"]


async def test_a_key_for_some_queues_neither_publishes_nor_lists(client: Client, make_key: Make) -> None:
    key = await make_key("work", "read", queues=["mail"])
    assert (await client.post("/api/schemas", {"schemas": []}, key=key)).status == 403
    assert (await client.get("/api/schemas", key=key)).status == 403


@pytest.mark.parametrize(
    ("schemas", "status", "field"),
    [
        ([{"task_type": "a b", "schema": {}}], 400, "schemas[0].task_type"),
        ([{"task_type": "a", "schema": {}}, {"task_type": "a"}], 400, "schemas[1].schema"),
        ([{"task_type": "a", "schema": True}], 400, "schemas[0].schema"),
        ([{"task_type": "a", "schema": {"title": "x" * 65_536}}], 413, "schemas[0].schema"),
        ([{"task_type": "a", "schema": {"maximum": 2**70}}], 400, "schemas[0].schema.maximum"),
        ([{"task_type": "a", "schema": {}}] * 101, 400, "schemas"),
    ],
)
async def test_bad_schemas_are_refused(client: Client, schemas: Any, status: int, field: str) -> None:
    answer = await client.post("/api/schemas", {"schemas": schemas})
    assert (answer.status, answer.fields) == (status, [field])
    assert (await client.get("/api/schemas"))["schemas"] == []


# What is remembered


class Watched(MemoryStore):
    """A store that counts how often schemas are read, and can be told not to answer, or to be slow."""

    reads = 0
    away = False
    gate: asyncio.Event | None = None

    async def documents(self, prefix: str) -> Any:
        if prefix == "schema/":
            type(self).reads += 1
            if self.away:
                raise StoreUnavailable("it is away")
            if self.gate is not None:
                await self.gate.wait()
        return await super().documents(prefix)


@pytest.fixture
async def watched(clock: FakeClock) -> AsyncIterator[tuple[Watched, App, Client]]:
    store = Watched(clock)
    Watched.reads = 0
    async with App("memory://", clock=clock, reap_every=3600) as app:
        app.runtime.open_store = lambda _url, _clock: store
        await publish(app, send=send)
        Watched.reads = 0
        transport = httpx2.ASGITransport(asgi(app, auth=False))
        async with httpx2.AsyncClient(transport=transport, base_url=BASE) as http:
            yield store, app, Client(http)


async def bad(client: Client) -> int:
    return (await client.post("/api/tasks", {"task_type": "send", "params": {"to": 5}})).status


async def test_schemas_are_read_once_in_a_while(watched: tuple[Watched, App, Client], clock: FakeClock) -> None:
    store, app, client = watched
    assert {await bad(client) for _ in range(20)} == {400}
    assert store.reads == 1
    clock.advance(FRESH)
    assert set(await asyncio.gather(*(bad(client) for _ in range(20)))) == {400}
    assert store.reads == 2
    await publish(app, late=newer)
    clock.advance(FRESH)
    assert (await client.post("/api/tasks", {"task_type": "late", "params": {}})).fields == ["params.to"]


async def test_one_request_reads_and_the_others_do_not_wait(
    watched: tuple[Watched, App, Client], clock: FakeClock
) -> None:
    store, _, client = watched
    assert await bad(client) == 400
    clock.advance(FRESH)
    store.gate = asyncio.Event()
    first = asyncio.create_task(bad(client))
    while store.reads < 2:  # noqa: ASYNC110 - a turn of the loop at a time
        await asyncio.sleep(0)
    assert await bad(client) == 400
    assert not first.done()
    store.gate.set()
    assert await first == 400
    assert store.reads == 2


async def test_a_store_that_is_away_leaves_what_was_known(
    watched: tuple[Watched, App, Client], clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    store, _, client = watched
    store.away = True
    assert {await bad(client) for _ in range(5)} == {201}  # nothing was known
    assert store.reads == 1
    store.away = False
    clock.advance(FRESH)
    assert await bad(client) == 400
    store.away = True
    clock.advance(10 * STALE)
    assert {await bad(client) for _ in range(5)} == {400}
    assert [record.levelname for record in caplog.records if "params are checked" in record.message] == ["WARNING"] * 2


# As a whole


def test_from_a_worker_to_a_refusal_over_a_socket(serving: Serving) -> None:
    async def work() -> None:
        async with App(serving.store) as app:
            app.task("send")(send)
            await Worker(app, worker_id="w").run(until_idle=True)

    asyncio.run(work())
    with closing(HTTPConnection("127.0.0.1", serving.port, timeout=30)) as http:
        tasks = [{"task_type": "send", "params": {"to": "a"}}, {"task_type": "send", "params": {"copies": 1.5}}]
        http.request("POST", "/api/tasks", json.dumps({"tasks": tasks}), {"Content-Type": "application/json"})
        response = http.getresponse()
        problem = json.loads(response.read())
        http.request("GET", "/api/stats")
        stats = json.loads(http.getresponse().read())

    assert (response.status, problem["code"]) == (400, "invalid")
    assert {error["field"]: error["message"] for error in problem["errors"]} == {
        "tasks[1].params.to": "is required",
        "tasks[1].params.copies": "must be an integer, not a number",
    }
    assert stats["counts"]["pending"] == 0
    with pytest.raises(InvalidJob) as refused:
        App(serving.url).sync.enqueue("send", {"to": 5})
    assert refused.value.fields == ("params.to",)


def test_serve_takes_params_as_they_come_if_told_to(tmp_path: Any) -> None:
    app = App(f"sqlite:///{tmp_path / 'jobs.db'}")

    async def known() -> None:
        async with app:
            await publish(app, send=send)

    asyncio.run(known())
    with Serving(tmp_path, "--no-auth", "--no-check-params", "--processes", "2") as serving:
        remote = App(serving.url)
        assert remote.sync.enqueue("send", {"to": 5}).task == "send"
        assert [info.task for info in remote.sync.schemas()] == ["send"]
        asyncio.run(remote.close())
