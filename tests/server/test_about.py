"""health, ready, metrics, the page, the OpenAPI document, and being mounted in another app."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from dibs import App, FakeClock
from dibs.server import asgi
from dibs.server.routes import ROUTES
from tests.server.client import BASE, Client, proof
from tests.server.conftest import Make


@asynccontextmanager
async def unreachable() -> AsyncIterator[Client]:
    async with App("sqlite:////no/such/folder/jobs.db") as app:
        transport = httpx2.ASGITransport(asgi(app, auth=False))
        async with httpx2.AsyncClient(transport=transport, base_url=BASE) as http:
            yield Client(http)


async def test_health_and_ready(client: Client) -> None:
    assert (await client.get("/health")).json == {"status": "ok"}
    assert (await client.get("/ready")).json == {"status": "ready"}


async def test_a_store_that_cannot_be_reached(app: App) -> None:
    async with unreachable() as client:
        assert (await client.get("/health")).status == 200
        for answer in (
            await client.get("/ready"),
            await client.post("/api/tasks", {"task_type": "t"}),
            await client.post("/api/tasks/claim", {"worker_id": "w"}),
            await client.get("/api/tasks"),
            await client.get("/metrics"),
        ):
            assert (answer.status, answer["code"]) == (503, "store_unavailable")
            assert answer.headers["retry-after"] == "1"


async def test_metrics(client: Client, clock: FakeClock) -> None:
    task = await client.take(queue="q")
    await client.enqueue(queue="q")
    path = f"/api/tasks/{task['id']}"
    await client.post(f"{path}/complete", proof(task))
    await client.post(f"{path}/complete", proof(task, fence=7))
    await client.post(f"{path}/heartbeat", proof(task))
    clock.advance(30)
    text = (await client.get("/metrics")).text

    for line in (
        'dibs_http_requests_total{method="POST",route="/api/tasks",status="201"} 2.0',
        'dibs_http_requests_total{method="POST",route="/api/tasks/{id}/complete",status="409"} 1.0',
        "dibs_claims_total 1.0",
        'dibs_settles_total{outcome="applied"} 1.0',
        'dibs_settles_total{outcome="lost"} 1.0',
        "dibs_lost_leases_total 2.0",
        'dibs_queue_jobs{queue="q",state="pending"} 1.0',
        'dibs_queue_jobs{queue="q",state="completed"} 1.0',
        'dibs_queue_oldest_due_seconds{queue="q"} 30.0',
    ):
        assert line in text.splitlines(), line
    assert task["id"] not in text


async def test_metrics_ask_the_store_only_now_and_then(client: Client, clock: FakeClock) -> None:
    await client.get("/metrics")
    await client.enqueue()
    assert "dibs_queue_jobs{" not in (await client.get("/metrics")).text
    clock.advance(5)
    assert "dibs_queue_jobs{" in (await client.get("/metrics")).text


async def test_the_page_needs_nothing_from_outside(client: Client) -> None:
    page = await client.get("/")

    assert not re.search(r"https?:|//|<script", page.text)
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy


async def test_the_docs_describe_every_route(client: Client) -> None:
    page = await client.get("/docs")

    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    assert not re.search(r"https?:|src=|<script", page.text)
    for route in ROUTES:
        assert f"<code>{route.method} {route.path.replace(':path', '')}</code>" in page.text
    for field in ("max_attempts_remaining", "lease_token", "Idempotency-Key", "Last-Event-ID", "dry_run"):
        assert f"<code>{field}</code>" in page.text


async def test_metrics_count_retries_and_time(client: Client) -> None:
    for retryable in (True, False):
        task = await client.take()
        body = proof(task, success=False, is_retryable=retryable)
        await client.post(f"/api/tasks/{task['id']}/complete", body)
    told = (await client.get("/metrics")).text

    assert "dibs_retries_total 1.0" in told
    assert 'dibs_http_request_seconds_count{method="POST",route="/api/tasks/{id}/complete"} 2.0' in told


async def test_openapi_describes_every_route(client: Client) -> None:
    document = await client.document()

    assert document["openapi"] == "3.1.0"
    described = {f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods}
    assert described == {f"{route.method} {route.path.replace(':path', '')}" for route in ROUTES}
    operations = [operation for methods in document["paths"].values() for operation in methods.values()]
    assert len({operation["operationId"] for operation in operations}) == len(ROUTES)
    refs = set(re.findall(r'"\$ref": "([^"]*)"', json.dumps(document)))
    assert {ref.removeprefix("#/components/schemas/") for ref in refs} <= set(document["components"]["schemas"])
    for path, methods in document["paths"].items():
        for operation in methods.values():
            named = {item["name"] for item in operation.get("parameters", []) if item["in"] == "path"}
            assert named == set(re.findall(r"{(\w+)}", path))
            assert all(answer["description"] for answer in operation["responses"].values())
            assert operation.get("security", [{}])[0] == ({"key": []} if "security" in operation else {})
    assert document["components"]["schemas"]["Claiming"]["required"] == ["worker_id"]
    assert document["components"]["schemas"]["Claiming"]["additionalProperties"] is False


async def test_openapi_says_what_is_answered(client: Client) -> None:
    document = await client.document()
    task = document["components"]["schemas"]["Task"]
    assert "lease_token" not in task["required"]
    assert {"id", "task_type", "status", "fence", "lease_expires_at"} <= set(task["required"])


async def test_mounted_in_another_app(app: App, make_key: Make) -> None:
    outer = Starlette(routes=[Mount("/jobs", app=asgi(app))])
    key = await make_key("admin")
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(outer), base_url=f"{BASE}/jobs") as http:
        headers = {"X-API-Key": key}
        made = await http.post("/api/tasks", json={"task_type": "t"}, headers=headers)
        assert made.status_code == 201
        claimed = await http.post("/api/tasks/claim", json={"worker_id": "w", "wait_seconds": 1}, headers=headers)
        assert claimed.json()["task"]["id"] == made.json()["task"]["id"]
        assert (await http.get("/nothing")).headers["content-type"] == "application/problem+json"
        assert (await http.put("/api/tasks")).status_code == 405
        assert (await http.get("/openapi.json")).json()["openapi"] == "3.1.0"


async def test_a_mounted_app_knows_its_tasks(app: App, client: Client) -> None:
    @app.task("mail", queue="letters", max_attempts=9)
    async def mail() -> None: ...

    task = await client.enqueue("mail")
    assert (task["queue"], task["max_attempts"]) == ("letters", 9)


async def test_what_goes_wrong_inside_is_told_without_details(
    client: Client, app: App, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a secret of the server")

    monkeypatch.setattr(type(app.runtime.broker()), "find", broken)
    answer = await client.http.get("/api/tasks", headers={"X-API-Key": client.key or ""})

    assert answer.status_code == 500
    assert answer.json()["code"] == "error"
    assert "secret" not in answer.text
    assert "a secret of the server" in caplog.text
