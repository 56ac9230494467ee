"""What operators do over HTTP: cancel, the dead letter, queues, counts, batches, the registry, the log."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import httpx2
import pytest

from dibs import App, FakeClock, NewJob
from dibs.server import asgi, cursors, keys
from tests.server.client import BASE, Client, proof
from tests.server.conftest import Make

COUNTS = {"matched": 0, "changed": 0, "repeated": 0, "refused": 0, "missing": 0, "conflicts": 0, "dry_run": False}


async def dead(client: Client, *ids: str, **fields: Any) -> None:
    """Put jobs into the dead letter."""
    for id in ids:
        task = await client.take(id=id, **fields)
        await client.post(f"/api/tasks/{id}/complete", proof(task, success=False, is_retryable=False))


def counted(answer: Any) -> dict[str, Any]:
    return {name: answer[name] for name in COUNTS}


async def actors(client: Client, id: str) -> list[tuple[str, str | None]]:
    return [(event["event"], event["actor"]) for event in (await client.get(f"/api/tasks/{id}/log"))["events"]]


# The dead letter


@pytest.mark.parametrize(("verb", "left"), [("redrive", ["pending", "pending", "failed"]), ("purge", ["failed"])])
async def test_dead_by_filter_and_what_it_would_do(client: Client, verb: str, left: list[str]) -> None:
    await dead(client, "a", "b", queue="mail")
    await dead(client, "c", queue="other")

    tried = await client.post(f"/api/dead/{verb}", {"filter": {"queue": "mail"}, "dry_run": True})
    assert counted(tried) == {**COUNTS, "matched": 2, "dry_run": True}
    assert (await client.get("/api/stats"))["counts"]["failed"] == 3
    done = await client.post(f"/api/dead/{verb}", {"filter": {"queue": "mail"}, "by": "olga"})

    assert counted(done) == {**COUNTS, "matched": 2, "changed": 2}
    assert sorted(task["status"] for task in (await client.get("/api/tasks"))["tasks"]) == sorted(left)
    last = {"redrive": "redriven", "purge": "pruned"}[verb]
    assert (await actors(client, "a"))[-1] == (last, "olga")


async def test_dead_by_name(client: Client) -> None:
    await dead(client, "a", "b")
    await client.enqueue(id="c")

    answer = await client.post("/api/dead/redrive", {"ids": ["a", "b", "c", "none"]})
    assert counted(answer) == {**COUNTS, "matched": 3, "changed": 2, "refused": 1, "missing": 1}
    alone = await client.post("/api/dead/redrive", {"ids": ["c"]})
    assert (alone.status, alone["code"]) == (409, "wrong_state")
    assert (await client.post("/api/dead/purge", {"ids": ["none"]})).status == 404


async def test_dead_leaves_out_what_is_not_meant(client: Client) -> None:
    """No filter is not the same as one that matches everything."""
    await dead(client, "a")
    for body, field in [
        ({}, "filter"),
        ({"ids": []}, "filter"),
        ({"ids": ["a"], "filter": {}}, "filter"),
        ({"filter": {"colour": "red"}}, "filter.colour"),
        ({"filter": {"status": ["done"]}}, "filter.status[0]"),
        ({"filter": {"queue": "../"}}, "queue"),
        ({"filter": {"priority_min": 99_999}}, "priority_min"),
        ({"filter": [], "dry_run": True}, "filter"),
        ({"filter": {}, "dry_run": "yes"}, "dry_run"),
        ({"filter": {}, "by": "a\0"}, "by"),
        ({"filter": {}, "by": "x" * 300}, "by"),
        ({"ids": ["a b"]}, "id"),
        ({"ids": ["a"] * 1001}, "ids"),
    ]:
        for verb in ("redrive", "purge"):
            answer = await client.post(f"/api/dead/{verb}", body)
            assert (answer.status, answer["code"], answer.fields) == (400, "invalid", [field]), body
    assert (await client.look("a"))["status"] == "failed"


async def test_a_key_for_some_queues_changes_no_others(client: Client, make_key: Make) -> None:
    await dead(client, "a", queue="mail")
    await dead(client, "b", queue="other")
    key = await make_key("admin", queues=["mail"])

    assert (await client.post("/api/dead/purge", {"ids": ["a", "b"]}, key=key)).status == 404
    assert (await client.post("/api/dead/purge", {"filter": {"queue": "other"}}, key=key)).status == 403
    assert (await client.post("/api/tasks/cancel", {"ids": ["b"]}, key=key)).status == 404
    assert (await client.post("/api/queues/other/pause", key=key)).status == 403
    assert (await client.post("/api/verify", key=key)).status == 403
    assert [queue["queue"] for queue in (await client.get("/api/queues", key=key))["queues"]] == ["mail"]
    assert (await client.get("/api/stats", key=key))["counts"]["failed"] == 1
    assert counted(await client.post("/api/dead/purge", {"filter": {}}, key=key))["changed"] == 1
    assert (await client.look("b"))["status"] == "failed"


# Cancel, and who did it


async def test_cancel_many(client: Client) -> None:
    for id in ("a", "b"):
        await client.enqueue(id=id)
    answer = await client.post("/api/tasks/cancel", {"ids": ["a", "b", "none"]})

    assert counted(answer) == {**COUNTS, "matched": 2, "changed": 2, "missing": 1}
    assert (await client.post("/api/tasks/cancel", {"ids": ["none"]})).status == 404
    assert (await client.post("/api/tasks/cancel", {"ids": []})).fields == ["ids"]


async def test_the_log_says_whose_key_it_was(client: Client, make_key: Make) -> None:
    other = await make_key("produce")
    for id, key, body in [
        ("a", client.key, None),
        ("b", client.key, {"by": "olga"}),
        ("c", other, None),
        ("d", other, {"by": "olga"}),
    ]:
        await client.enqueue(id=id)
        assert (await client.post(f"/api/tasks/{id}/cancel", body, key=key)).status == 200

    told = [(await actors(client, id))[-1][1] for id in "abcd"]
    assert told == ["test", "olga", "test", "test: olga"]


# Queues, counts, batches


async def test_queues(client: Client, clock: FakeClock) -> None:
    await client.enqueue(queue="mail/out")
    clock.advance(5)
    assert (await client.post("/api/queues/mail/out/pause", {"by": "olga"}))["paused"] is True
    assert (await client.post("/api/tasks/claim", {"worker_id": "w"})).status == 404
    [queue] = (await client.get("/api/queues"))["queues"]
    assert (queue["queue"], queue["paused"], queue["counts"]["pending"]) == ("mail/out", True, 1)
    assert queue["oldest_due_at"].endswith("Z")
    assert queue["oldest_due_seconds"] == 5
    assert (await client.post("/api/queues/mail%2Fout/resume"))["paused"] is False
    assert (await client.claim())["queue"] == "mail/out"


@pytest.mark.parametrize("queue", ["..", "a%20b", "a//b", "%00", "x" * 200])
async def test_queues_refuse(client: Client, app: App, queue: str) -> None:
    for verb in ("pause", "resume"):
        answer = await client.post(f"/api/queues/{queue}/{verb}")
        assert (answer.status, answer.fields) in [(400, ["queue"]), (404, [])]
    assert await app.queues() == []


async def test_stats(client: Client) -> None:
    await client.enqueue(queue="a")
    await client.enqueue(queue="b", delay_seconds=60)
    await client.take(queue="a")
    everything = await client.get("/api/stats")

    assert everything["counts"] == {
        "pending": 1, "scheduled": 1, "claimed": 1, "completed": 0, "failed": 0, "cancelled": 0, "exact": True,
    }  # fmt: skip
    assert (await client.get("/api/stats?queue=b"))["counts"]["scheduled"] == 1
    assert (await client.get("/api/stats?queue=..")).fields == ["queue"]


async def test_batches(client: Client) -> None:
    await client.post("/api/tasks", {"tasks": [{"task_type": "t", "batch_id": "b 1"} for _ in range(4)]})
    task = await client.claim()
    await client.post(f"/api/tasks/{task['id']}/complete", proof(task))
    await client.claim()
    batch = await client.get("/api/batches/b%201")

    assert batch.json == {
        "success": True, "batch_id": "b 1", "total": 4, "pending": 2, "claimed": 1, "completed": 1, "failed": 0,
        "cancelled": 0, "progress": 0.25, "exact": True,
    }  # fmt: skip
    assert (await client.get("/api/batches/none")).status == 404
    assert (await client.get("/api/batches/%00")).fields == ["id"]


async def test_verify(client: Client) -> None:
    await dead(client, "a")
    report = await client.post("/api/verify")
    assert (report["ok"], report["jobs"], report["events"], report["violations"]) == (True, 1, 3, [])


# The registry


async def test_documents(client: Client, make_key: Make) -> None:
    key = await make_key("work")
    value = base64.b64encode(b'{"a": 1}').decode()
    written = await client.post("/api/documents", {"name": "once/k", "value": value, "expect": 0}, key=key)
    assert (written["document"]["version"], written["document"]["value"]) == (1, value)
    again = await client.post("/api/documents", {"name": "once/k", "value": value, "expect": 0}, key=key)
    assert again["document"] is None
    [found] = (await client.get("/api/documents?name=once/k", key=key))["documents"]
    assert found == written["document"]
    assert (await client.get("/api/documents?prefix=once/", key=key))["documents"] == [found]
    assert (await client.get("/api/documents?name=once/none", key=key))["documents"] == []


async def test_documents_that_are_not_the_caller_s(client: Client, make_key: Make) -> None:
    worker, admin = await make_key("work"), await make_key("admin")
    some = await make_key("admin", queues=["mail"])
    await client.get("/api/tasks?limit=1")
    for name in ("paused/mail", "worker/w", "on", ""):
        for key in (worker, some):
            assert (await client.post("/api/documents", {"name": name}, key=key)).status == 403
            assert (await client.get("/api/documents", params={"prefix": name}, key=key)).status == 403
    for name in (keys.KEYS, cursors.SECRETS, keys.KEYS + keys.FIRST):
        assert (await client.post("/api/documents", {"name": name, "value": ""}, key=admin)).status == 403
        assert (await client.get("/api/documents", params={"prefix": name}, key=admin)).status == 403
        assert (await client.get("/api/documents", params={"name": name}, key=admin)).status == 403
    everything = (await client.get("/api/documents?prefix=", key=admin))["documents"]
    assert not [one for one in everything if one["name"].startswith((keys.KEYS, cursors.SECRETS))]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "name"),
        ({"name": "once/" + "x" * 600}, "name"),
        ({"name": "once/\0"}, "name"),
        ({"name": "once/a", "value": "no base64!"}, "value"),
        ({"name": "once/a", "value": 5}, "value"),
        ({"name": "once/a", "expect": -1}, "expect"),
        ({"name": "once/a", "keep_seconds": -1}, "keep_seconds"),
        ({"name": "once/a", "colour": "red"}, "colour"),
    ],
)
async def test_documents_refuse(client: Client, body: Any, field: str) -> None:
    answer = await client.post("/api/documents", body)
    assert (answer.status, answer.fields) == (400, [field])


async def test_documents_too_large(client: Client) -> None:
    value = base64.b64encode(b"x" * (1 << 20) + b"x").decode()
    answer = await client.post("/api/documents", {"name": "once/a", "value": value})
    assert (answer.status, answer.fields, answer["limit"]) == (413, ["value"], 1 << 20)
    for query in ("", "?name=a&prefix=a"):
        assert (await client.get(f"/api/documents{query}")).fields == ["name"]


# Cursors


async def test_a_cursor_is_for_one_list_alone(client: Client) -> None:
    for number in range(6):
        await client.enqueue(params=number, queue="q")
    page = await client.get("/api/tasks?limit=2&queue=q")
    cursor = page["next_cursor"]

    assert not cursor.isdigit()
    rest = await client.get("/api/tasks", params={"limit": "3", "queue": "q", "cursor": cursor})
    assert [task["params"] for task in rest["tasks"]] == [3, 2, 1]
    for other in ({}, {"queue": "r"}, {"queue": "q", "sort": "created_at"}, {"queue": "q", "status": "pending"}):
        answer = await client.get("/api/tasks", params={"limit": "2", "cursor": cursor, **other})
        assert (answer.status, answer.fields) == (400, ["cursor"]), other


async def test_a_cursor_is_taken_by_every_server_of_the_store(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    async with App(url) as one, App(url) as two:
        await one.enqueue_many([NewJob("t", number) for number in range(4)])
        clients = [
            Client(httpx2.AsyncClient(transport=httpx2.ASGITransport(asgi(app, auth=False)), base_url=BASE))
            for app in (one, two)
        ]
        cursor = (await clients[0].get("/api/tasks?limit=2"))["next_cursor"]
        rest = await clients[1].get("/api/tasks", params={"limit": "2", "cursor": cursor})
        assert [task["params"] for task in rest["tasks"]] == [1, 0]
        for client in clients:
            await client.http.aclose()


async def test_a_cursor_cannot_be_changed(client: Client) -> None:
    for number in range(4):
        await client.enqueue(params=number)
    cursor = (await client.get("/api/tasks?limit=2"))["next_cursor"]
    raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    for place in range(len(raw)):
        changed = bytes(byte ^ 1 if place == at else byte for at, byte in enumerate(raw))
        forged = base64.urlsafe_b64encode(changed).decode().rstrip("=")
        answer = await client.get("/api/tasks", params={"limit": "2", "cursor": forged})
        assert (answer.status, answer.fields) == (400, ["cursor"])
    for forged in (cursor[:-4], cursor + "AAAA", "A" * 300, "ü", base64.urlsafe_b64encode(b"2").decode()):
        assert (await client.get("/api/tasks", params={"limit": "2", "cursor": forged})).fields == ["cursor"]


# Prefer


@pytest.mark.parametrize("prefer", ["wait=0", "respond-async, wait=0", 'Wait="0"; foo=bar'])
async def test_prefer_wait(client: Client, prefer: str) -> None:
    await client.enqueue()
    answer = await client.post("/api/tasks/claim", {"worker_id": "w"}, headers={"Prefer": prefer})
    assert (answer.status, answer.headers["preference-applied"]) == (200, "wait=0")


@pytest.mark.parametrize("prefer", ["wait=soon", "wait=-1", "wait=301", "wait=1.5", "wait", "wait=" + "9" * 400])
async def test_prefer_wait_refuses(client: Client, prefer: str) -> None:
    await client.enqueue(id="a")
    answer = await client.post("/api/tasks/claim", {"worker_id": "w"}, headers={"Prefer": prefer})
    assert (answer.status, answer.fields) == (400, ["Prefer"])
    assert (await client.look("a"))["status"] == "pending"


async def test_prefer_something_else(client: Client) -> None:
    await client.enqueue()
    answer = await client.post("/api/tasks/claim", {"worker_id": "w"}, headers={"Prefer": "return=minimal"})
    assert answer.status == 200
    assert "preference-applied" not in answer.headers
