"""Request ids, and what is written down of each request."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest

import dibs
from dibs import App
from tests.server.client import Client
from tests.server.conftest import Make
from tests.server.process import Serving

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


async def test_every_answer_has_an_id(client: Client) -> None:
    for answer in (
        await client.get("/health"),
        await client.get("/api/tasks"),
        await client.get("/api/tasks/none"),
        await client.get("/nothing"),
        await client.send("PUT", "/api/tasks"),
        await client.get("/api/tasks", key="nonsense"),
        await client.post("/api/tasks", {}),
    ):
        assert UUID.fullmatch(answer.headers["x-request-id"]), answer
    given = {"X-Request-Id": "caller-7.a:b_c"}
    assert (await client.get("/api/tasks/none", headers=given)).headers["x-request-id"] == "caller-7.a:b_c"
    assert (await client.get("/nothing", headers=given)).headers["x-request-id"] == "caller-7.a:b_c"


@pytest.mark.parametrize("id", ["", "a b", "x" * 129, 'a"b', "{}", b"\xff", "a\tb"])
async def test_ids_that_cannot_be_are_replaced(client: Client, id: str | bytes) -> None:
    answer = await client.get("/health", headers={"X-Request-Id": id})
    assert UUID.fullmatch(answer.headers["x-request-id"])


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [json.loads(record.getMessage()) for record in caplog.records if record.name == "dibs.requests"]


async def test_what_is_written_down(client: Client, make_key: Make, caplog: pytest.LogCaptureFixture) -> None:
    key = await make_key("read")
    await client.get("/api/tasks/a", key=key, headers={"X-Request-Id": "one"})
    assert lines(caplog) == []  # no one has asked for it
    caplog.set_level(logging.INFO, "dibs.requests")
    await client.get("/api/tasks/a?x=y", key=key, headers={"X-Request-Id": "two"})
    await client.get("/nothing", key=key)
    await client.send("PUT", "/api/tasks")
    first, *others = lines(caplog)

    assert first.pop("ms") >= 0
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", first.pop("at"))
    assert first == {
        "request_id": "two",
        "method": "GET",
        "path": "/api/tasks/a",
        "route": "/api/tasks/{id}",
        "status": 404,
        "key": key.split("_")[1],
        "client": "127.0.0.1",
    }
    assert [(line["route"], line["status"]) for line in others] == [("other", 404), ("/api/tasks", 405)]


async def test_what_fails_inside_is_logged_with_the_id(
    client: Client, app: App, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(type(app.runtime.broker()), "find", broken)
    headers = {"X-API-Key": client.key or "", "X-Request-Id": "it-broke"}
    assert (await client.http.get("/api/tasks", headers=headers)).headers["x-request-id"] == "it-broke"
    assert "request it-broke" in caplog.text


async def test_a_key_in_the_wrong_place_is_not_written_down(
    client: Client, make_key: Make, caplog: pytest.LogCaptureFixture
) -> None:
    await client.document()  # which is a request of its own
    caplog.set_level(logging.INFO, "dibs.requests")
    key = await make_key("admin")
    secret = key.split("_", 2)[2]
    answer = await client.get(f"/api/tasks/{key}", headers={"X-Request-Id": key}, key=key)
    await client.get(f"/{key}?key={key}")
    await client.get(f"/api/tasks?q={key}", key=key)

    assert secret not in answer.headers["x-request-id"]
    assert secret not in json.dumps(lines(caplog))
    assert len(lines(caplog)) == 3


@pytest.mark.parametrize("number", ["1", "2"])
def test_a_server_writes_its_requests_down(tmp_path: Path, number: str) -> None:
    with Serving(tmp_path, "--log-requests", "--processes", number) as serving:
        key = (tmp_path / "dibs-admin.key").read_text().strip()

        async def use() -> str:
            async with dibs.App(serving.url, api_key=key) as app:
                await app.enqueue("t", {"password": "hunter2"})
                claim = await app.claim("w")
                assert claim is not None
                await claim.complete("hunter3")
                return claim.lease_token

        token = asyncio.run(use())
        assert serving.end() == 0
    said = "".join(serving.said)
    written = [json.loads(line) for line in said.splitlines() if line.startswith("{")]

    assert [(line["route"], line["status"], line["key"]) for line in written] == [
        ("/api/tasks", 201, "admin"),
        ("/api/tasks/claim", 200, "admin"),
        ("/api/tasks/settle", 200, "admin"),
    ]
    assert len({line["request_id"] for line in written}) == 3
    for secret in (key.split("_", 2)[2], token, "hunter2", "hunter3"):
        assert secret not in said
