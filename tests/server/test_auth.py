"""Keys, scopes, queues and rates: who may do what."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import httpx2
import pytest

from dibs import App, FakeClock
from dibs.server import asgi, keys
from dibs.server.routes import ROUTES
from tests.server.client import BASE, Client, held, proof
from tests.server.conftest import Make

OPEN = {"/health", "/ready", "/openapi.json", "/docs", "/"}
SCOPES = {
    "POST /api/tasks": "produce",
    "POST /api/tasks/cancel": "produce",
    "POST /api/tasks/{id}/cancel": "produce",
    "POST /api/tasks/{id}/retry": "produce",
    "POST /api/tasks/claim": "work",
    "POST /api/tasks/{id}/claim": "work",
    "POST /api/tasks/{id}/complete": "work",
    "POST /api/tasks/{id}/heartbeat": "work",
    "POST /api/tasks/{id}/release": "work",
    "POST /api/tasks/settle": "work",
    "POST /api/tasks/extend": "work",
    "POST /api/workers/heartbeat": "work",
    "POST /api/workers/{id}/shutdown": "work",
    "GET /api/tasks": "read",
    "GET /api/tasks/{id}": "read",
    "GET /api/tasks/{id}/log": "read",
    "GET /api/tasks/{id}/explain": "read",
    "GET /api/workers": "read",
    "GET /api/queues": "read",
    "GET /api/stats": "read",
    "GET /api/batches/{id}": "read",
    "POST /api/batches/{id}/seal": "produce",
    "POST /api/batches/end": "work",
    "GET /api/events": "read",
    "GET /metrics": "read",
    "GET /api/documents": "work",
    "POST /api/documents": "work",
    "GET /api/schedules": "read",
    "GET /api/schemas": "read",
    "POST /api/schemas": "work",
    "POST /api/schedules": "produce",
    "POST /api/schedules/tick": "work",
    "POST /api/schedules/{name:path}/pause": "admin",
    "POST /api/schedules/{name:path}/resume": "admin",
    "POST /api/schedules/{name:path}/run": "produce",
    "POST /api/dead/redrive": "admin",
    "POST /api/dead/purge": "admin",
    "POST /api/queues/{queue:path}/pause": "admin",
    "POST /api/queues/{queue:path}/resume": "admin",
    "POST /api/verify": "admin",
}
STREAMS = {"GET /api/events": "?id=none"}
"""What is asked for, so that the answer has an end."""
BODIES: dict[str, Any] = {
    "/api/tasks": {"task_type": "t"},
    "/api/tasks/claim": {"worker_id": "w"},
    "/api/tasks/{id}/claim": {"worker_id": "w"},
    "/api/tasks/settle": {"claims": []},
    "/api/tasks/extend": {"claims": []},
    "/api/workers/heartbeat": {"worker_id": "w"},
    "/api/tasks/cancel": {"ids": ["none"]},
    "/api/dead/redrive": {"ids": ["none"]},
    "/api/dead/purge": {"ids": ["none"]},
    "/api/documents": {"name": "once/x"},
    "/api/schedules": {"schedules": []},
    "/api/schemas": {"schemas": []},
    "/api/schedules/tick": {"names": ["none"]},
}
CLAIM = {"fence": 1, "lease_token": "x"}


def test_the_table_names_every_route() -> None:
    assert {f"{route.method} {route.path}" for route in ROUTES if route.path not in OPEN} == set(SCOPES)


@pytest.mark.parametrize("scope", keys.SCOPES)
async def test_scopes(client: Client, make_key: Make, scope: str) -> None:
    key = await make_key(scope)
    for call, needed in SCOPES.items():
        method, path = call.split()
        body = BODIES.get(path, CLAIM if path.endswith(("complete", "heartbeat", "release")) else None)
        address = path.replace("{id}", "none").replace("{queue:path}", "a/b").replace(
            "{name:path}", "a/b"
        ) + STREAMS.get(call, "")
        answer = await client.send(method, address, key=key) if method == "GET" else None
        answer = answer or await client.post(address, body, key=key)
        if scope in {needed, "admin"}:
            assert answer.status not in {401, 403}, (call, answer)
        else:
            assert (answer.status, answer["code"]) == (403, "forbidden"), (call, answer)
            assert needed in answer["detail"]


async def test_scopes_add_up(client: Client, make_key: Make) -> None:
    key = await make_key("produce", "read")
    assert (await client.post("/api/tasks", {"task_type": "t"}, key=key)).status == 201
    assert len((await client.get("/api/tasks", key=key))["tasks"]) == 1
    assert (await client.post("/api/tasks/claim", {"worker_id": "w"}, key=key)).status == 403


async def test_without_a_valid_key_nothing_is_done(client: Client, make_key: Make) -> None:
    good = await make_key("admin")
    id, secret = good.removeprefix("dibs_").split("_", 1)
    other = await make_key("admin")
    bad = [
        {},
        {"X-API-Key": ""},
        {"X-API-Key": "nonsense"},
        {"X-API-Key": good[:-1]},
        {"X-API-Key": good + "A"},
        {"X-API-Key": f"dibs_{id}_{'A' * 43}"},
        {"X-API-Key": f"dibs_none_{secret}"},
        {"X-API-Key": f"dibs_{other.split('_')[1]}_{secret}"},
        {"X-API-Key": b"\xff\xfe"},
        {"X-API-Key": "dibs_../../x_" + secret},
        {"X-API-Key": "x" * 10_000},
        {"Authorization": good},
        {"Authorization": f"Basic {good}"},
        {"Authorization": "Bearer"},
        {"Authorization": f"Bearer {good}", "X-API-Key": good},
    ]
    quiet = Client(client.http)
    for headers in bad:
        for method, path in (call.split() for call in SCOPES):
            answer = await quiet.send(method, path.replace("{id}", "x"), headers=headers)
            assert (answer.status, answer["code"]) == (401, "unauthorized"), (headers, path)
            assert answer.headers["www-authenticate"].startswith("Bearer")
            assert secret not in answer.text
    two = [("Authorization", f"Bearer {good}"), ("Authorization", f"Bearer {good}")]
    assert (await client.http.get("/api/tasks", headers=two)).status_code == 401
    assert (await quiet.send("GET", "/api/tasks", headers={"Authorization": f"Bearer {good}"})).status == 200
    assert (await client.get("/api/tasks"))["tasks"] == []


async def test_some_calls_need_no_key(client: Client) -> None:
    for path in OPEN:
        assert (await Client(client.http).get(path)).status == 200


async def test_a_revoked_or_expired_key_is_refused_within_seconds(
    client: Client, make_key: Make, app: App, clock: FakeClock
) -> None:
    revoked, brief = await make_key("read"), await make_key("read", expires=60)
    assert (await client.get("/api/tasks", key=revoked)).status == 200
    assert (await client.get("/api/tasks", key=brief)).status == 200

    assert await keys.revoke(app.runtime.broker(), revoked.split("_")[1])
    clock.advance(3)
    assert (await client.get("/api/tasks", key=revoked)).status == 401
    assert (await client.get("/api/tasks", key=brief)).status == 200
    clock.advance(60)
    assert (await client.get("/api/tasks", key=brief)).status == 401


async def test_keys_are_kept_hashed(app: App, make_key: Make) -> None:
    text = await make_key("read")
    [found] = await app.runtime.broker().documents(keys.KEYS)

    assert re.fullmatch(r"dibs_[a-z0-9]+_[A-Za-z0-9_-]{43}", text)
    assert text.split("_", 2)[2].encode() not in found.value


async def test_a_thousand_guesses_at_once(client: Client, make_key: Make) -> None:
    answers = await asyncio.gather(
        *(client.http.get("/api/tasks", headers={"X-API-Key": f"dibs_{n:x}_{'A' * 43}"}) for n in range(1000))
    )
    assert {answer.status_code for answer in answers} == {401}


# Queues


async def test_a_key_for_one_queue(client: Client, make_key: Make) -> None:
    """Jobs of other queues are neither seen nor touched, whatever is known of them."""
    mine = Client(client.http, await make_key("produce", "work", "read", queues=["mine"]))
    other = await client.take(id="other", queue="other", params="secret", unique_key="u")
    own = await mine.enqueue(id="own", queue="mine")

    assert (await mine.post("/api/tasks", {"task_type": "t", "queue": "other"})).status == 403
    assert (await mine.post("/api/tasks", {"task_type": "t"})).status == 403
    assert (await mine.post("/api/tasks/claim", {"worker_id": "w", "queues": ["other"]})).status == 403
    assert (await mine.get("/api/tasks?queue=other")).status == 403
    assert [task["id"] for task in (await mine.get("/api/tasks"))["tasks"]] == ["own"]
    for path in ("", "/log", "/explain"):
        assert (await mine.get(f"/api/tasks/other{path}")).status == 404
    for call in ("cancel", "retry"):
        assert (await mine.post(f"/api/tasks/other/{call}")).status == 404
    for call in ("complete", "heartbeat", "release"):
        assert (await mine.post(f"/api/tasks/other/{call}", proof(other))).status == 404
    assert (await mine.post("/api/tasks/other/claim", {"worker_id": "w"})).status == 404
    settled = await mine.post("/api/tasks/settle", {"claims": [held(other)]})
    extended = await mine.post("/api/tasks/extend", {"claims": [held(other)]})
    assert [settled["outcomes"][0]["outcome"], extended["outcomes"][0]["outcome"]] == ["lost", "lost"]
    beat = await mine.post("/api/workers/heartbeat", {"worker_id": "w", "claims": [held(other)]})
    left = await mine.post("/api/workers/w/shutdown", {"claims": [held(other)]})
    assert (beat["lost"], left["lost"], left["released"]) == (["other"], ["other"], [])
    for path in ("/api/workers", "/metrics"):
        assert (await mine.get(path)).status == 403
    duplicate = await mine.post("/api/tasks", {"task_type": "t", "queue": "mine", "unique_key": "u"})
    assert (duplicate["task"]["id"], duplicate["was_duplicate"]) == ("other", True)
    assert "secret" not in duplicate.text

    assert (await client.look("other"))["status"] == "claimed"
    claimed = await mine.claim()
    assert claimed["id"] == own["id"]
    assert (await mine.post("/api/tasks/own/complete", proof(claimed))).status == 200


async def test_a_key_for_two_queues_lists_one_at_a_time(client: Client, make_key: Make) -> None:
    mine = Client(client.http, await make_key("produce", "work", "read", queues=["a", "b"]))
    await mine.enqueue(queue="a")
    unnamed = await mine.get("/api/tasks")

    assert (unnamed.status, unnamed.fields) == (400, ["queue"])
    assert len((await mine.get("/api/tasks?queue=a"))["tasks"]) == 1
    assert (await mine.claim())["queue"] == "a"


# Rates


async def test_rate(client: Client, make_key: Make, clock: FakeClock) -> None:
    slow, free = await make_key("read", rate=3), await make_key("read")
    answers = [await client.get("/api/tasks", key=slow) for _ in range(4)]

    assert [answer.status for answer in answers] == [200, 200, 200, 429]
    assert [answer.headers["ratelimit"] for answer in answers[:3]] == [f'"key";r={left};t=60' for left in (2, 1, 0)]
    assert answers[0].headers["ratelimit-policy"] == '"key";q=3;w=60'
    last = answers[3]
    assert (last["code"], last.headers["retry-after"]) == ("rate_limited", "60")
    assert "--rate" in last["detail"]
    assert "ratelimit" not in (await client.get("/api/tasks", key=free)).headers
    clock.advance(59)
    assert (await client.get("/api/tasks", key=slow)).headers["retry-after"] == "1"
    clock.advance(1)
    assert (await client.get("/api/tasks", key=slow)).status == 200


async def test_rate_is_the_seeds_unless_set(client: Client, app: App) -> None:
    made = await keys.create(app.runtime.broker(), app.runtime.clock, name="n", scopes=["read"])
    answer = await client.get("/api/tasks", key=made.text)
    assert answer.headers["ratelimit-policy"] == '"key";q=100;w=60'


async def test_refused_calls_count(client: Client, make_key: Make) -> None:
    slow = await make_key("read", rate=2)
    assert (await client.post("/api/tasks/claim", {"worker_id": "w"}, key=slow)).status == 403
    assert (await client.get("/api/tasks?limit=x", key=slow)).status == 400
    assert (await client.get("/api/tasks", key=slow)).status == 429


# Without keys


@pytest.fixture
async def local(app: App) -> Any:
    transport = httpx2.ASGITransport(asgi(app, auth=False))
    async with httpx2.AsyncClient(transport=transport, base_url=BASE) as http:
        yield Client(http)


async def test_without_keys(local: Client) -> None:
    await local.enqueue()
    assert (await local.claim())["status"] == "claimed"
    for host in ("127.0.0.1:8642", "[::1]:8642", "localhost", "LOCALHOST:1"):
        assert (await local.get("/api/tasks", headers={"Host": host})).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "10.0.0.1"},
        {"Host": "[::1"},
        {"Host": "127.0.0.1.evil.example"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
    ],
)
async def test_without_keys_web_pages_elsewhere_are_refused(local: Client, headers: dict[str, str]) -> None:
    await local.enqueue(id="a")
    for answer in (
        await local.get("/api/tasks", headers=headers),
        await local.post("/api/tasks/a/cancel", headers=headers),
        await local.post("/api/tasks", {"task_type": "t"}, headers=headers),
    ):
        assert (answer.status, answer["code"]) == (403, "forbidden")
    assert (await local.look("a"))["status"] == "pending"


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
async def test_forms_of_other_sites_are_not_json(local: Client, kind: str) -> None:
    answer = await local.post("/api/tasks", {"task_type": "t"}, headers={"Content-Type": kind})
    assert (answer.status, answer["code"]) == (415, "unsupported_media_type")
