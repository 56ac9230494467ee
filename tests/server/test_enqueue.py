"""POST /api/tasks."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from dibs import FakeClock
from tests.server.client import Client


async def test_enqueue_one(client: Client) -> None:
    answer = await client.post("/api/tasks", {"task_type": "resize", "params": {"path": "a.png"}, "priority": 5})

    assert answer.status == 201
    assert answer["was_duplicate"] is False
    task = answer["task"]
    assert (task["task_type"], task["status"], task["params"], task["priority"], task["attempts"]) == (
        "resize",
        "pending",
        {"path": "a.png"},
        5,
        0,
    )
    assert task["created_at"].endswith("Z")
    assert (await client.look(task["id"])) == {key: value for key, value in task.items() if key != "was_duplicate"}


async def test_enqueue_takes_every_field(client: Client, clock: FakeClock) -> None:
    task = await client.enqueue(
        "mail/send",
        ["any", {"json": None}],
        id="my-job.1",
        queue="mail",
        priority="high",
        max_attempts=7,
        delay_seconds=60,
        idempotency_key="k",
        unique_key="u",
        batch_id="b",
        tags=["x", "y"],
        retry={"base": 2},
        timeout_seconds=5,
        lease_seconds=30.5,
    )

    expected = {
        "id": "my-job.1",
        "queue": "mail",
        "priority": 10,
        "max_attempts": 7,
        "idempotency_key": "k",
        "unique_key": "u",
        "batch_id": "b",
        "tags": ["x", "y"],
        "retry": {"base": 2.0, "cap": 3600.0},
        "timeout_seconds": 5.0,
        "lease_seconds": 30.5,
    }
    assert {name: task[name] for name in expected} == expected
    due = datetime.fromisoformat(task["scheduled_at"])
    assert due.timestamp() == pytest.approx(clock.now() / 1e6 + 60)


async def test_enqueue_at_a_time(client: Client) -> None:
    task = await client.enqueue(scheduled_at="2031-01-02T03:04:05+01:00")
    assert datetime.fromisoformat(task["scheduled_at"]) == datetime(2031, 1, 2, 2, 4, 5, tzinfo=UTC)


async def test_enqueue_unique(client: Client) -> None:
    first = await client.enqueue(params={"n": 1}, unique=True)
    again = await client.post("/api/tasks", {"task_type": "t", "params": {"n": 1}, "unique": True})

    assert (again.status, again["was_duplicate"], again["task"]["id"]) == (200, True, first["id"])


@pytest.mark.parametrize("quote", ["{}", '"{}"'], ids=["bare", "quoted"])
async def test_enqueue_with_a_key_in_the_header(client: Client, quote: str) -> None:
    headers = {"Idempotency-Key": quote.format("order-42")}
    first = await client.post("/api/tasks", {"task_type": "t", "params": 1}, headers=headers)
    again = await client.post("/api/tasks", {"task_type": "t", "params": 1, "idempotency_key": "order-42"})
    other = await client.post("/api/tasks", {"task_type": "t", "params": 2}, headers=headers)

    assert (first.status, again.status, other.status) == (201, 200, 422)
    assert first["task"]["idempotency_key"] == "order-42"
    assert again["was_duplicate"] is True
    assert (other["code"], other.fields) == ("idempotency_mismatch", ["idempotency_key"])


@pytest.mark.parametrize(
    ("header", "body", "field"),
    [
        ('"half', {"task_type": "t"}, "Idempotency-Key"),
        ('""', {"task_type": "t"}, "idempotency_key"),
        ("x" * 300, {"task_type": "t"}, "idempotency_key"),
        ("a", {"task_type": "t", "idempotency_key": "b"}, "idempotency_key"),
        ("a", {"tasks": [{"task_type": "t"}]}, "Idempotency-Key"),
        (b"\xff\xfe", {"task_type": "t"}, "Idempotency-Key"),
    ],
)
async def test_enqueue_with_a_bad_header(client: Client, header: str, body: object, field: str) -> None:
    answer = await client.post("/api/tasks", body, headers={"Idempotency-Key": header})

    assert (answer.status, answer["code"], answer.fields) == (400, "invalid", [field])
    assert (await client.get("/api/tasks"))["tasks"] == []


async def test_enqueue_a_batch(client: Client) -> None:
    body = {"tasks": [{"task_type": "t", "id": "a"}, {"task_type": "t", "id": "b"}, {"task_type": "t", "id": "a"}]}
    first = await client.post("/api/tasks", body)
    again = await client.post("/api/tasks", body)

    assert (first.status, again.status) == (201, 200)
    assert [(task["id"], task["was_duplicate"]) for task in first["tasks"]] == [("a", False), ("b", False), ("a", True)]
    assert all(task["was_duplicate"] for task in again["tasks"])
    assert (await client.post("/api/tasks", {"tasks": []})).status == 200


async def test_enqueue_a_batch_whole_or_not_at_all(client: Client) -> None:
    await client.enqueue(id="taken", params=1)
    bad = await client.post(
        "/api/tasks",
        {"tasks": [{"task_type": "t"}, {"task_type": "../"}, {"task_type": "t", "lease_seconds": -1}]},
    )
    mismatch = await client.post("/api/tasks", {"tasks": [{"task_type": "t"}, {"task_type": "t", "id": "taken"}]})
    many = await client.post("/api/tasks", {"tasks": [{"task_type": "t"}] * 1001})

    assert (bad.status, bad.fields) == (400, ["tasks[1].task_type", "tasks[2].lease_seconds"])
    assert (mismatch.status, mismatch.fields) == (422, ["tasks[1].id"])
    assert (many.status, many.fields) == (400, ["tasks"])
    assert len((await client.get("/api/tasks"))["tasks"]) == 1
