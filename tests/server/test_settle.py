"""complete, heartbeat, release; settle and extend of many; cancel and retry."""

from __future__ import annotations

from typing import Any

import pytest

from dibs import App, FakeClock
from tests.server.client import Client, held, proof


async def test_complete(client: Client) -> None:
    task = await client.take()
    path = f"/api/tasks/{task['id']}/complete"
    answer = await client.post(path, proof(task, success=True, result={"n": 1}))
    again = await client.post(path, proof(task, success=True, result={"n": 1}))

    assert (answer.status, answer["outcome"], answer["will_retry"]) == (200, "applied", False)
    assert (answer["task"]["status"], answer["task"]["result"], answer["task"]["attempts"]) == (
        "completed",
        {"n": 1},
        1,
    )
    assert answer["message"] == "Task completed"
    assert (again.status, again["outcome"], again["task"]) == (200, "repeated", answer["task"])


async def test_complete_badly_and_be_retried(client: Client, clock: FakeClock) -> None:
    task = await client.take()
    failure = {"success": False, "error_message": "no disk", "error_code": "ENOSPC", "retry_in_seconds": 5}
    answer = await client.post(f"/api/tasks/{task['id']}/complete", proof(task, **failure))

    assert (answer["will_retry"], answer["message"]) == (True, "Task failed and will be retried")
    assert answer["task"]["status"] == "pending"
    assert answer["task"]["error"] == {"message": "no disk", "kind": "error", "code": "ENOSPC", "traceback": None}
    clock.advance(4.9)
    assert (await client.post("/api/tasks/claim", {"worker_id": "w"})).status == 404
    clock.advance(0.2)
    assert (await client.claim())["attempts"] == 1


async def test_complete_badly_for_good(client: Client) -> None:
    task = await client.take()
    failure = {"success": False, "error_message": "no use", "is_retryable": False}
    answer = await client.post(f"/api/tasks/{task['id']}/complete", proof(task, **failure))

    assert (answer["will_retry"], answer["task"]["status"]) == (False, "failed")
    assert answer["message"] == "Task failed for good"


async def test_complete_what_is_not_kept(client: Client, app: App) -> None:
    await app.enqueue("t", retention=0)
    task = await client.claim()
    answer = await client.post(f"/api/tasks/{task['id']}/complete", proof(task))

    assert (answer.status, answer["task"]) == (200, None)


async def test_complete_says_everything_of_a_lost_lease(client: Client) -> None:
    task = await client.take()
    path = f"/api/tasks/{task['id']}"
    await client.post(f"{path}/cancel")
    for call in ("complete", "heartbeat", "release"):
        lost = await client.post(f"{path}/{call}", proof(task))
        assert (lost.status, lost["code"]) == (409, "lease_lost")
        none = await client.post(f"/api/tasks/none/{call}", proof(task))
        assert (none.status, none["code"]) == (404, "not_found")
    assert (await client.look(task["id"]))["status"] == "cancelled"


@pytest.mark.parametrize("call", ["complete", "heartbeat", "release"])
@pytest.mark.parametrize("field", ["fence", "lease_token"])
async def test_fence_and_token_are_required(client: Client, call: str, field: str) -> None:
    task = await client.take()
    body = proof(task)
    del body[field]
    answer = await client.post(f"/api/tasks/{task['id']}/{call}", body)

    assert (answer.status, answer.fields) == (400, [field])
    assert answer["error"] == f"Missing required field: {field}"
    assert (await client.look(task["id"]))["status"] == "claimed"


@pytest.mark.parametrize("call", ["complete", "heartbeat", "release"])
async def test_a_worker_id_alone_is_nothing(client: Client, call: str) -> None:
    task = await client.take()
    for wrong in ({"lease_token": "guess"}, {"fence": 7}, {"lease_token": ""}):
        answer = await client.post(f"/api/tasks/{task['id']}/{call}", {**proof(task), **wrong})
        assert (answer.status, answer["code"]) == (409, "lease_lost")
    # and the name of whoever says it decides nothing
    assert (await client.post(f"/api/tasks/{task['id']}/{call}", proof(task, worker_id="other"))).status == 200


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"success": True, "error_message": "x"}, "error_message"),
        ({"error_code": "x"}, "error_code"),
        ({"retry_in_seconds": 1}, "retry_in_seconds"),
        ({"success": False, "result": 1}, "result"),
        ({"success": False, "retry_in_seconds": -1}, "retry_in_seconds"),
        ({"success": "yes"}, "success"),
        ({"worker_id": "a b"}, "worker_id"),
    ],
)
async def test_complete_refuses_what_contradicts_itself(client: Client, body: dict[str, Any], field: str) -> None:
    task = await client.take()
    answer = await client.post(f"/api/tasks/{task['id']}/complete", proof(task) | body)
    many = await client.post("/api/tasks/settle", {"claims": [held(task) | body]})

    assert (answer.status, answer.fields) == (400, [field])
    assert (many.status, many.fields) == (400, [f"claims[0].{field}"])
    assert (await client.look(task["id"]))["status"] == "claimed"


async def test_heartbeat(client: Client, clock: FakeClock) -> None:
    await client.enqueue()
    task = await client.claim(lease_seconds=10)
    clock.advance(8)
    answer = await client.post(
        f"/api/tasks/{task['id']}/heartbeat", proof(task, progress=0.25, progress_note="a quarter")
    )

    assert (answer.status, answer["extended"]) == (200, True)
    assert answer["lease_expires_at"] == answer["task"]["lease_expires_at"] > task["lease_expires_at"]
    assert (answer["task"]["progress"], answer["task"]["progress_note"]) == (0.25, "a quarter")
    for bad, field in (({"progress": 2}, "progress"), ({"progress_note": "\0", "progress": 0.5}, "progress_note")):
        refused = await client.post(f"/api/tasks/{task['id']}/heartbeat", proof(task, **bad))
        assert (refused.status, refused.fields) == (400, [field])


async def test_release(client: Client, clock: FakeClock) -> None:
    task = await client.take()
    answer = await client.post(f"/api/tasks/{task['id']}/release", proof(task, delay_seconds=30))

    assert (answer.status, answer["task"]["status"], answer["task"]["attempts"]) == (200, "pending", 0)
    assert answer["message"] == "Task released"
    assert (await client.post("/api/tasks/claim", {"worker_id": "w"})).status == 404
    clock.advance(31)
    again = await client.claim()
    assert (again["id"], again["fence"]) == (task["id"], 2)
    bad = await client.post(f"/api/tasks/{task['id']}/release", proof(again, delay_seconds=-1))
    assert (bad.status, bad.fields) == (400, ["delay_seconds"])


# Many


async def test_settle_many_and_claim_the_next(client: Client) -> None:
    a, b, c, d = [await client.take(id=id) for id in "abcd"]
    await client.post("/api/tasks/d/cancel")
    await client.enqueue(id="next")
    answer = await client.post(
        "/api/tasks/settle",
        {
            "claims": [
                held(a, result=1),
                held(b, success=False, error_message="x", is_retryable=False),
                held(c, release=True, delay_seconds=60),
                held(d),
                {"id": "none", "fence": 1, "lease_token": "x"},
            ],
            "claim": {"worker_id": "w", "limit": 5, "lease_seconds": 9},
        },
    )

    assert [(one["id"], one["outcome"], one["status"]) for one in answer["outcomes"]] == [
        ("a", "applied", "completed"),
        ("b", "applied", "failed"),
        ("c", "applied", "pending"),
        ("d", "lost", "cancelled"),
        ("none", "lost", None),
    ]
    assert [task["id"] for task in answer["tasks"]] == ["next"]
    assert answer["tasks"][0]["lease_token"]
    again = await client.post("/api/tasks/settle", {"claims": [held(a, result=1)], "claim": {"worker_id": "w"}})
    assert (again["outcomes"][0]["outcome"], again["tasks"]) == ("repeated", [])


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"claim": {"worker_id": "w", "lease_seconds": 0}}, "lease_seconds"),
        ({"claim": {"worker_id": "w", "wait_seconds": 1e9}}, "claim.wait_seconds"),
        ({"claim": {"worker_id": "a b"}}, "worker_id"),
        ({"claim": {}}, "claim.worker_id"),
        ({"claim": {"worker_id": "w", "colour": 1}}, "claim.colour"),
        ({"claim": {"worker_id": "w", "sort_by": "colour"}}, "claim.sort_by"),
    ],
)
async def test_settle_does_nothing_if_the_claim_is_bad(client: Client, body: dict[str, Any], field: str) -> None:
    task = await client.take()
    answer = await client.post("/api/tasks/settle", {"claims": [held(task)], **body})

    assert (answer.status, answer.fields) == (400, [field])
    assert (await client.look(task["id"]))["status"] == "claimed"


async def test_settle_does_nothing_if_one_of_them_is_bad(client: Client) -> None:
    good, other = await client.take(), await client.take()
    for bad in (
        {"fence": 0},
        {"lease_token": "\ud800"},
        {"release": True, "success": False},
        {"release": True, "result": 1},
        {"delay_seconds": 5},
        {"result": 2**64},
    ):
        answer = await client.post("/api/tasks/settle", {"claims": [held(good), held(other) | bad]})
        assert answer.status == 400, bad
        assert answer.fields, bad
    assert (await client.look(good["id"]))["status"] == "claimed"


async def test_extend_many(client: Client, clock: FakeClock) -> None:
    a, b = await client.take(id="a"), await client.take(id="b")
    await client.post("/api/tasks/b/cancel")
    clock.advance(10)
    answer = await client.post(
        "/api/tasks/extend",
        {"claims": [held(a, progress=0.5), held(b), {"id": "none", "fence": 1, "lease_token": "x"}]},
    )

    assert [(one["id"], one["outcome"]) for one in answer["outcomes"]] == [
        ("a", "applied"),
        ("b", "lost"),
        ("none", "lost"),
    ]
    kept = await client.look("a")
    assert kept["lease_expires_at"] > a["lease_expires_at"]
    assert kept["progress"] == 0.5
    many = await client.post("/api/tasks/extend", {"claims": [held(a)] * 1001})
    assert (many.status, many.fields) == (400, ["claims"])


# Cancel and retry


async def test_cancel_and_retry(client: Client, app: App) -> None:
    task = await client.take(id="a")
    stopped = await client.post("/api/tasks/a/cancel")
    again = await client.post("/api/tasks/a/cancel", {})
    run = await client.post("/api/tasks/a/retry")

    assert (stopped.status, stopped["task"]["status"], again.status) == (200, "cancelled", 200)
    assert (run["task"]["status"], run["task"]["attempts"], run["task"]["fence"]) == ("pending", 0, task["fence"])
    assert [event.actor for event in await app.log("a")] == [None, None, "test", "test"]


async def test_cancel_and_retry_refused(client: Client) -> None:
    task = await client.take(id="a", unique_key="u")
    early = await client.post("/api/tasks/a/retry")
    await client.post("/api/tasks/a/complete", proof(task))
    late = await client.post("/api/tasks/a/cancel")
    await client.enqueue(unique_key="u")
    taken = await client.post("/api/tasks/a/retry")

    assert (early.status, early["code"]) == (409, "wrong_state")
    assert (late.status, late["code"]) == (409, "wrong_state")
    assert (taken.status, taken["code"]) == (409, "unique_conflict")
    for call in ("cancel", "retry"):
        assert (await client.post(f"/api/tasks/none/{call}")).status == 404
        unknown = await client.post(f"/api/tasks/a/{call}", {"force": True})
        assert (unknown.status, unknown.fields) == (400, ["force"])
