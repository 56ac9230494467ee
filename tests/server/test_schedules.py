"""Schedules over HTTP: published, ticked, listed, paused, run; by whom."""

from __future__ import annotations

from typing import Any

import pytest

from dibs import App, FakeClock
from tests.server.client import Client
from tests.server.conftest import Make

HOURLY: dict[str, Any] = {"name": "a/b", "cron": "0 * * * *", "task": {"task_type": "work", "params": {"n": 1}}}


async def publish(client: Client, *schedules: dict[str, Any], **options: Any) -> Any:
    return await client.post("/api/schedules", {"schedules": list(schedules)}, **options)


async def test_publish_tick_and_list(client: Client, clock: FakeClock) -> None:
    assert (await client.get("/api/schedules"))["schedules"] == []
    published = await publish(client, {**HOURLY, "tz": "Europe/Berlin", "catch_up": "all"})
    assert (published.status, published["published"]) == (200, 1)
    clock.advance(3600)
    ticked = await client.post("/api/schedules/tick", {"names": ["a/b", "none"]})

    assert (ticked["enqueued"], ticked["unknown"]) == (1, ["none"])
    assert 0 < ticked["next_in_seconds"] <= 3600
    [shown] = (await client.get("/api/schedules"))["schedules"]
    assert shown["next_at"] == shown["next"][0]
    assert len(shown["next"]) == 5
    known: dict[str, Any] = {
        "name": "a/b",
        "task_type": "work",
        "queue": "default",
        "params": {"n": 1},
        "cron": "0 * * * *",
    }
    known |= {"every_seconds": None, "tz": "Europe/Berlin", "catch_up": "all", "status": "active", "paused_by": None}
    assert known.items() <= shown.items()
    [task] = (await client.get("/api/tasks"))["tasks"]
    assert task["idempotency_key"] == f"schedule:a/b:{shown['last_tick_at']}"


async def test_pause_resume_and_run(client: Client) -> None:
    await publish(client, HOURLY)
    paused = await client.post("/api/schedules/a/b/pause", {"by": "olga"})
    assert (paused["schedule"]["status"], paused["schedule"]["paused_by"]) == ("paused", "olga")
    assert paused["schedule"]["next_at"] is None
    ran = await client.post("/api/schedules/a/b/run")
    assert (ran.status, ran["task"]["task_type"]) == (201, "work")
    resumed = await client.post("/api/schedules/a/b/resume")
    assert resumed["schedule"]["status"] == "active"


@pytest.mark.parametrize("verb", ["pause", "resume", "run"])
async def test_one_that_is_not_there(client: Client, verb: str) -> None:
    answer = await client.post(f"/api/schedules/none/{verb}")

    assert (answer.status, answer["code"]) == (404, "not_found")
    assert (await client.post(f"/api/schedules/a b/{verb}")).status == 400


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"cron": "61 * * * *"}, "schedules[0].cron"),
        ({"every_seconds": 5}, "schedules[0].cron"),
        ({"cron": None}, "schedules[0].cron"),
        ({"cron": None, "every_seconds": 0.1}, "schedules[0].interval"),
        ({"tz": "Mars/Olympus"}, "schedules[0].tz"),
        ({"name": "../x"}, "name"),
        ({"task": {"task_type": "work", "id": "mine"}}, "id"),
        ({"task": {"task_type": "work", "delay_seconds": 5}}, "delay_seconds"),
    ],
)
async def test_what_cannot_be_published(client: Client, wrong: dict[str, Any], field: str) -> None:
    answer = await publish(client, {**HOURLY, **wrong})

    assert (answer.status, answer.fields) == (400, [field])
    assert (await client.get("/api/schedules"))["schedules"] == []


@pytest.mark.parametrize("body", [{}, {"names": []}, {"names": ["a b"]}, {"names": "a"}, {"names": ["a"], "x": 1}])
async def test_what_cannot_be_ticked(client: Client, body: dict[str, Any]) -> None:
    assert (await client.post("/api/schedules/tick", body)).status == 400


async def test_scopes(client: Client, make_key: Make) -> None:
    await publish(client, HOURLY)
    asked: list[tuple[str, str, Any]] = [
        ("produce", "/api/schedules", {"schedules": [HOURLY]}),
        ("work", "/api/schedules/tick", {"names": ["a/b"]}),
        ("produce", "/api/schedules/a/b/run", {}),
        ("admin", "/api/schedules/a/b/pause", {}),
        ("admin", "/api/schedules/a/b/resume", {}),
    ]
    for scope in ("produce", "work", "read"):
        key = await make_key(scope)
        for needed, path, body in asked:
            assert (await client.post(path, body, key=key)).status in ({200, 201} if scope == needed else {403})
        assert (await client.get("/api/schedules", key=key)).status == (200 if scope == "read" else 403)


async def test_a_key_for_one_queue_reaches_no_other(client: Client, make_key: Make, app: App) -> None:
    await publish(client, HOURLY, {**HOURLY, "name": "mine", "task": {"task_type": "work", "queue": "mail"}})
    key = await make_key("produce", "work", "read", queues=["mail"])

    assert [each["name"] for each in (await client.get("/api/schedules", key=key))["schedules"]] == ["mine"]
    assert (await client.post("/api/schedules/tick", {"names": ["a/b"]}, key=key)).status == 403
    assert (await client.post("/api/schedules/tick", {"names": ["mine"]}, key=key)).status == 200
    assert (await client.post("/api/schedules/a/b/run", key=key)).status == 404
    assert (await publish(client, {**HOURLY, "name": "new"}, key=key)).status == 403
    stolen = {**HOURLY, "task": {"task_type": "work", "queue": "mail"}}  # the name is that of another queue's
    assert (await publish(client, stolen, key=key)).status == 403
    assert [info.queue for info in await app.schedules()] == ["default", "mail"]
