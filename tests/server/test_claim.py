"""POST /api/tasks/claim and /api/tasks/{id}/claim."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dibs import App, FakeClock
from tests.server.client import Client, proof

SEED = {
    "id", "task_type", "status", "params", "priority", "attempts", "max_attempts", "worker_id", "claimed_at",
    "created_at", "fence", "lease_token", "lease_expires_at", "queue",
}  # fmt: skip


async def test_claim_as_the_seed_says(client: Client) -> None:
    await client.enqueue("youtube_video_scrape", {"video_id": "dQw4w9WgXcQ", "quality": "hd"}, priority=5)
    answer = await client.post(
        "/api/tasks/claim",
        {
            "worker_id": "worker-youtube-01",
            "task_types": ["youtube_video_scrape", "youtube_search"],
            "max_attempts_remaining": 1,
            "sort_by": "priority",
            "sort_order": "desc",
        },
    )

    assert answer.status == 200
    assert answer["message"] == "Task claimed successfully"
    assert set(answer["task"]) >= SEED
    assert (answer["task"]["status"], answer["task"]["worker_id"], answer["task"]["fence"]) == (
        "claimed",
        "worker-youtube-01",
        1,
    )
    assert "tasks" not in answer.json


async def test_claim_nothing_as_the_seed_says(client: Client) -> None:
    body = {"worker_id": "w", "task_types": ["youtube_video_scrape"], "max_attempts_remaining": 1}
    answer = await client.post("/api/tasks/claim", body)

    assert (answer.status, answer["code"], answer["message"]) == (404, "nothing_pending", "No pending tasks available")
    assert answer["filters"] == {"task_types": ["youtube_video_scrape"], "max_attempts_remaining": 1, "queues": None}


async def test_claim_several(client: Client) -> None:
    for number in range(5):
        await client.enqueue(params=number)
    answer = await client.post("/api/tasks/claim", {"worker_id": "w", "limit": 3})
    one = await client.post("/api/tasks/claim", {"worker_id": "w", "limit": 1})

    assert [task["params"] for task in answer["tasks"]] == [0, 1, 2]
    assert answer["task"] == answer["tasks"][0]
    assert all(task["lease_token"] for task in answer["tasks"])
    assert [task["params"] for task in one["tasks"]] == [3]


@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        ({}, [3, 1, 2]),
        ({"sort_by": "priority", "sort_order": "asc"}, [2, 1, 3]),
        ({"sort_by": "created_at"}, [1, 2, 3]),
        ({"sort_by": "created_at", "sort_order": "asc"}, [1, 2, 3]),
        ({"sort_by": "created_at", "sort_order": "desc"}, [3, 2, 1]),
    ],
)
async def test_claim_in_order(client: Client, wish: dict[str, Any], expected: list[int]) -> None:
    for number, priority in ((1, 0), (2, -5), (3, 5)):
        await client.enqueue(params=number, priority=priority)

    assert [(await client.claim(**wish))["params"] for _ in range(3)] == expected


async def test_claim_at_random(client: Client) -> None:
    await client.enqueue()
    assert (await client.claim(sort_by="random"))["status"] == "claimed"


async def test_claim_by_queue_task_and_attempts(client: Client) -> None:
    await client.enqueue("a", "one", queue="x")
    await client.enqueue("b", "two", queue="y", max_attempts=1)

    assert (await client.post("/api/tasks/claim", {"worker_id": "w", "queues": ["z"]})).status == 404
    none_left = {"worker_id": "w", "queues": ["y"], "max_attempts_remaining": 1}
    assert (await client.post("/api/tasks/claim", none_left)).status == 404
    assert (await client.claim(queues=["y"], max_attempts_remaining=0))["params"] == "two"
    assert (await client.claim(task_types=["a"]))["params"] == "one"


async def test_claim_with_a_lease_of_its_own(client: Client, clock: FakeClock) -> None:
    await client.enqueue(retry={"base": 0})
    first = await client.claim(lease_seconds=10)
    clock.advance(9)
    assert (await client.post("/api/tasks/claim", {"worker_id": "v"})).status == 404
    clock.advance(10)
    second = await client.claim("v")

    assert (second["id"], second["fence"], second["attempts"]) == (first["id"], 2, 1)
    lost = await client.post(f"/api/tasks/{first['id']}/complete", proof(first))
    assert (lost.status, lost["code"]) == (409, "lease_lost")


async def test_claim_waits_for_a_job(client: Client, app: App) -> None:
    waiting = asyncio.ensure_future(client.claim(wait_seconds=60))
    await asyncio.sleep(0)  # it may have begun to wait, or not: it finds the job either way
    job = await app.enqueue("t")

    assert (await asyncio.wait_for(waiting, 10))["id"] == job.id


async def test_claim_waits_no_longer_than_asked(client: Client, clock: FakeClock) -> None:
    waiting = asyncio.ensure_future(client.post("/api/tasks/claim", {"worker_id": "w", "wait_seconds": 20}))
    while not waiting.done():
        clock.advance(1)
        await asyncio.sleep(0.001)

    assert (await waiting).status == 404


async def test_claim_that_one(client: Client) -> None:
    await client.enqueue(id="a")
    await client.enqueue(id="b")
    answer = await client.post("/api/tasks/b/claim", {"worker_id": "w", "lease_seconds": 5})

    assert (answer["task"]["id"], answer["task"]["status"]) == ("b", "claimed")
    assert answer["task"]["lease_token"]


async def test_claim_that_one_says_why_not(client: Client) -> None:
    held = await client.take(id="held", queue="q")
    await client.enqueue(id="later", delay_seconds=60)
    await client.enqueue(id="stopped")
    await client.post("/api/tasks/stopped/cancel")

    async def refused(id: str) -> tuple[int, str]:
        answer = await client.post(f"/api/tasks/{id}/claim", {"worker_id": "v"})
        return answer.status, answer["code"]

    taken = await client.post("/api/tasks/held/claim", {"worker_id": "v"})
    assert (taken.status, taken["code"]) == (409, "claimed")
    assert taken["error"] == "Task already claimed by another worker"
    assert taken["message"] == "Race condition detected, please retry"
    assert await refused("later") == (409, "not_due")
    assert await refused("stopped") == (409, "finished")
    assert await refused("none") == (404, "not_found")
    assert (await client.look(held["id"]))["fence"] == 1


async def test_claim_of_a_paused_queue(client: Client, app: App) -> None:
    await client.enqueue(id="a", queue="q")
    await app.pause("q")

    assert (await client.post("/api/tasks/a/claim", {"worker_id": "w"}))["code"] == "paused"
    assert (await client.post("/api/tasks/claim", {"worker_id": "w"})).status == 404


async def test_lease_tokens_are_shown_to_the_claimer_alone(client: Client) -> None:
    task = await client.take(idempotency_key="k")
    id, token = task["id"], task["lease_token"]
    await client.post(f"/api/tasks/{id}/heartbeat", proof(task))
    seen = [
        await client.get("/api/tasks"),
        await client.get(f"/api/tasks/{id}"),
        await client.get(f"/api/tasks/{id}/log"),
        await client.get(f"/api/tasks/{id}/explain"),
        await client.get("/api/workers"),
        await client.get("/metrics"),
        await client.post("/api/tasks", {"task_type": "t", "idempotency_key": "k"}),
        await client.post(f"/api/tasks/{id}/claim", {"worker_id": "v"}),
        await client.post(f"/api/tasks/{id}/complete", {**proof(task), "fence": 2}),
        await client.post(f"/api/tasks/{id}/heartbeat", proof(task, progress=0.5)),
        await client.post(f"/api/tasks/{id}/complete", proof(task)),
        await client.post(f"/api/tasks/{id}/retry"),
    ]

    assert all(token not in answer.text for answer in seen)
    assert all("lease_token" not in answer.text for answer in seen)


async def test_ten_claimers_and_five_jobs(client: Client) -> None:
    for _ in range(5):
        await client.enqueue()
    answers = await asyncio.gather(*(client.post("/api/tasks/claim", {"worker_id": f"worker-{n}"}) for n in range(10)))

    assert sorted(answer.status for answer in answers) == [200] * 5 + [404] * 5
    assert len({answer["task"]["id"] for answer in answers if answer.status == 200}) == 5
