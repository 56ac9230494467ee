"""Lists, one job, logs and explanations; and workers."""

from __future__ import annotations

from typing import Any

import pytest

from dibs import App, FakeClock
from tests.server.client import Client, held, proof


async def test_list_by_pages(client: Client) -> None:
    for number in range(5):
        await client.enqueue(params=number)
    first = await client.get("/api/tasks?limit=3")
    rest = await client.get("/api/tasks", params={"limit": "3", "cursor": first["next_cursor"]})
    oldest = await client.get("/api/tasks?sort=created_at&limit=2")

    assert [task["params"] for task in first["tasks"]] == [4, 3, 2]
    assert ([task["params"] for task in rest["tasks"]], rest["next_cursor"]) == ([1, 0], None)
    assert [task["params"] for task in oldest["tasks"]] == [0, 1]


async def test_list_by_filter(client: Client) -> None:
    await client.take("worker-7", id="a", task_type="mail", queue="q", tags=["red"], batch_id="b", priority=5)
    await client.enqueue("mail", {"to": "someone"}, id="b", priority=-5)
    await client.enqueue(id="c")
    await client.post("/api/tasks/c/cancel")

    for query, expected in {
        "status=claimed": ["a"],
        "status=claimed&status=cancelled": ["c", "a"],
        "task_type=mail": ["b", "a"],
        "queue=q": ["a"],
        "worker_id=worker-7": ["a"],
        "batch_id=b": ["a"],
        "tag=red": ["a"],
        "q=someone": ["b"],
        "priority_min=1": ["a"],
        "priority_max=-1": ["b"],
        "priority_min=-5&priority_max=0": ["c", "b"],
        "task_type=mail&status=pending": ["b"],
        "q=nothing": [],
    }.items():
        assert [task["id"] for task in (await client.get(f"/api/tasks?{query}"))["tasks"]] == expected, query


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("limit=1000000000", "limit"),
        ("limit=x", "limit"),
        ("limit=" + "9" * 400, "limit"),
        ("limit=1&limit=2", "limit"),
        ("cursor=forged", "cursor"),
        ("cursor=-1", "cursor"),
        ("cursor=", "cursor"),
        ("cursor=" + "9" * 40, "cursor"),
        ("status=dead", "status[0]"),
        ("status=", "status[0]"),
        ("sort=colour", "sort"),
        ("colour=red", "colour"),
        ("queue=../", "queue"),
        ("task_type=%00", "task_type"),
        ("worker_id=a%20b", "worker_id"),
        ("tag=", "tag"),
        ("q=" + "x" * 300, "q"),
        ("q=%ff", "query"),
        ("priority_min=99999", "priority_min"),
        ("priority_max=1.5", "priority_max"),
        ("&".join(["status=pending"] * 200), "query"),
    ],
)
async def test_list_refuses(client: Client, query: str, field: str) -> None:
    answer = await client.get(f"/api/tasks?{query}")
    assert (answer.status, answer["code"], answer.fields) == (400, "invalid", [field])


async def test_get_log_and_explain(client: Client) -> None:
    task = await client.take(id="a")
    await client.post("/api/tasks/a/complete", proof(task))
    events = (await client.get("/api/tasks/a/log"))["events"]
    explained = await client.get("/api/tasks/a/explain")

    assert [event["event"] for event in events] == ["enqueued", "claimed", "completed"]
    assert set(events[0]) == {
        "seq", "event", "from", "to", "worker_id", "actor", "fence", "attempts", "due_at", "lease_expires_at", "at",
        "note",
    }  # fmt: skip
    assert [(event["from"], event["to"]) for event in events] == [
        (None, "pending"),
        ("pending", "claimed"),
        ("claimed", "completed"),
    ]
    assert (explained["code"], explained["task"]["id"]) == ("finished", "a")
    assert "completed" in explained["message"]
    for path in ("", "/log", "/explain"):
        none = await client.get(f"/api/tasks/none{path}")
        assert (none.status, none["code"]) == (404, "not_found")


async def test_head(client: Client) -> None:
    response = await client.http.head("/health")
    assert response.status_code == 200


# Workers


async def test_workers_beat_and_leave(client: Client, clock: FakeClock) -> None:
    a, b = await client.take("mail-1", id="a"), await client.take("mail-1", id="b")
    await client.post("/api/tasks/b/cancel")
    clock.advance(5)
    body: dict[str, Any] = {"worker_id": "mail-1", "metadata": {"host": "h", "n": [1]}, "claims": [held(a), held(b)]}
    beat = await client.post("/api/workers/heartbeat", body)

    assert (beat["extended"], beat["lost"], beat["next_heartbeat_in"]) == (["a"], ["b"], 15.0)
    assert (await client.look("a"))["lease_expires_at"] > a["lease_expires_at"]
    [worker] = (await client.get("/api/workers"))["workers"]
    assert worker.pop("last_seen_at")
    assert worker == {"worker_id": "mail-1", "status": "active", "metadata": {"host": "h", "n": [1]}, "active_tasks": 1}

    left = await client.post("/api/workers/mail-1/shutdown", {"claims": [held(a), held(b)]})
    assert (left["released"], left["lost"]) == (["a"], ["b"])
    assert (await client.get("/api/workers"))["workers"][0]["status"] == "inactive"
    assert (await client.look("a"))["status"] == "pending"


async def test_a_worker_that_misses_two_beats_is_stale(client: Client, clock: FakeClock) -> None:
    assert (await client.post("/api/workers/heartbeat", {"worker_id": "w"}))["extended"] == []
    clock.advance(31)
    assert (await client.get("/api/workers"))["workers"][0]["status"] == "stale"


async def test_a_heartbeat_without_claims_extends_nothing(client: Client, clock: FakeClock) -> None:
    """A restarted worker with its predecessor's name holds none of its claims."""
    task = await client.take("w")
    clock.advance(5)
    await client.post("/api/workers/heartbeat", {"worker_id": "w"})
    await client.post("/api/workers/w/shutdown")

    after = await client.look(task["id"])
    assert (after["status"], after["lease_expires_at"]) == ("claimed", task["lease_expires_at"])


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("heartbeat", {}, "worker_id"),
        ("heartbeat", {"worker_id": "a b"}, "worker_id"),
        ("heartbeat", {"worker_id": "w", "metadata": [1]}, "metadata"),
        ("heartbeat", {"worker_id": "w", "metadata": {"x": 2**70}}, "metadata.x"),
        ("heartbeat", {"worker_id": "w", "claims": {}}, "claims"),
        ("heartbeat", {"worker_id": "w", "claims": [{"id": "a", "fence": 1}]}, "claims[0].lease_token"),
        ("heartbeat", {"worker_id": "w", "claims": [{"id": "a", "fence": -1, "lease_token": "x"}]}, "fence"),
        ("w/shutdown", {"claims": [{"id": "a"}]}, "claims[0].fence"),
        ("a%20b/shutdown", {}, "worker_id"),
    ],
)
async def test_workers_refuse(client: Client, app: App, path: str, body: Any, field: str) -> None:
    answer = await client.post(f"/api/workers/{path}", body)

    assert (answer.status, answer.fields) == (400, [field])
    assert await app.workers() == []


async def test_worker_metadata_too_large(client: Client) -> None:
    answer = await client.post("/api/workers/heartbeat", {"worker_id": "w", "metadata": {"x": "y" * 20_000}})
    assert (answer.status, answer["code"], answer.fields) == (413, "too_large", ["metadata"])
