"""Whatever is sent, the answer is a 4xx in problem+json that names the field, and nothing is half done."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from typing import Any

import pytest

from dibs import App, FakeClock
from dibs.server.reading import MAX_BODY
from dibs.wire.asked import Claiming, NewTask
from tests.server.client import Client

JSON = {"Content-Type": "application/json"}
DEEP = b"[" * 10_000 + b"]" * 10_000


@pytest.fixture
async def app(clock: FakeClock) -> AsyncIterator[App]:
    """One store will do: what reaches the others is tested with the app (tests/app/test_bad_input.py)."""
    async with App("memory://", clock=clock) as app:
        yield app


@pytest.fixture
async def quiet(client: Client, app: App) -> AsyncIterator[Client]:
    """A client of a queue that must be as it was in the end."""
    await client.take(id="held")
    await client.enqueue(id="waiting", queue="q")
    before = [job async for job in app.find()]
    yield client
    assert [job async for job in app.find()] == before
    assert await app.workers() == [(await app.workers())[0]]


BODIES: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "body"),
    "not JSON": (b"{", "body"),
    "more after it": (b"{} {}", "body"),
    "not UTF-8": (b'{"task_type": "\xff"}', "body"),
    "UTF-16": ('{"task_type": "t"}'.encode("utf-16"), "body"),
    "byte order mark": (b'\xef\xbb\xbf{"task_type": "t"}', "body"),
    "NUL": (b"\0", "body"),
    "a list": (b"[]", "body"),
    "a number": (b"5", "body"),
    "null": (b"null", "body"),
    "NaN": (b'{"task_type": "t", "params": NaN}', "body"),
    "Infinity": (b'{"task_type": "t", "params": [-Infinity]}', "body"),
    "1e999": (b'{"task_type": "t", "params": 1e999}', "params"),
    "2**64": (b'{"task_type": "t", "params": {"n": 18446744073709551616}}', "params.n"),
    "10**400": (b'{"task_type": "t", "params": 1' + b"0" * 400 + b"}", "params"),
    "10**5000": (b'{"task_type": "t", "params": 1' + b"0" * 5000 + b"}", "body"),
    "10,000 deep": (b'{"task_type": "t", "params": ' + DEEP + b"}", "body"),
    "a field twice": (b'{"task_type": "t", "task_type": "u"}', "task_type"),
    "a field twice, inside": (b'{"task_type": "t", "params": {"a": [{"b": 1, "b": 1}]}}', "b"),
    "an unknown field": (b'{"task_type": "t", "task": "u"}', "task"),
    "an unknown field with a lone surrogate": (b'{"task_type": "t", "a\\ud800": 1}', "body"),
    "no task": (b"{}", "task_type"),
    "a task and tasks": (b'{"task_type": "t", "tasks": []}', "task_type"),
    "tasks of another kind": (b'{"tasks": {"task_type": "t"}}', "tasks"),
    "one of many": (b'{"tasks": [{"task_type": "t"}, {"task_type": 5}]}', "tasks[1].task_type"),
}


@pytest.mark.parametrize("name", BODIES)
async def test_bodies(quiet: Client, name: str) -> None:
    body, field = BODIES[name]
    answer = await quiet.send("POST", "/api/tasks", content=body, headers=JSON)

    assert (answer.status, answer["code"], answer.fields) == (400, "invalid", [field])
    assert field.split(".")[0] in answer["message"]


TEXTS: dict[str, Any] = {
    "empty": "", "NUL": "a\0b", "lone surrogate": "a\ud800", "line break": "a\r\nb", "braces": "{a}{b}", "dots": "../",
    "a dot": ".", "10 kB": "x" * 10_000, "bidi": "a\u202eb", "HTML": "<b>", "space": "a b", "number": 5, "list": ["a"],
    "bool": True, "object": {},
}  # fmt: skip
KEYS = {
    name: value for name, value in TEXTS.items() if name not in {"braces", "dots", "a dot", "bidi", "HTML", "space"}
}
SPANS: dict[str, Any] = {"negative": -1, "huge": 1e18, "text": "5", "bool": True, "10**400": 10**400, "1e999": 1e999}
NUMBERS: dict[str, Any] = {
    "negative": -1, "float": 1.5, "text": "1", "bool": True, "2**63": 2**63, "10**400": 10**400, "list": [1],
}  # fmt: skip
LISTS: dict[str, Any] = {"text": "abc", "number": 5, "empty": [], "of numbers": [5], "bad name": ["a", "../"]}
TIMES: dict[str, Any] = {
    "year 0": "0000-01-01T00:00:00Z", "no offset": "2030-01-01T00:00:00", "year 10000": "9999-12-31T23:59:59-12:00",
    "number": 1_900_000_000, "words": "tomorrow", "a day": "2030-01-01",
}  # fmt: skip
ENQUEUE: dict[str, dict[str, Any]] = {
    "task_type": {**TEXTS, "null": None},
    "queue": TEXTS,
    "id": TEXTS,
    "idempotency_key": KEYS,
    "unique_key": KEYS,
    "batch_id": KEYS,
    "priority": {"word": "urgent", "float": 1.5, "bool": True, "high": 32768, "huge": 2**80, "list": [1]},
    "max_attempts": {**NUMBERS, "zero": 0},
    "delay_seconds": SPANS,
    "timeout_seconds": {**SPANS, "zero": 0},
    "lease_seconds": {**SPANS, "zero": 0},
    "scheduled_at": TIMES,
    "tags": {"text": "abc", "NUL": ["\0"], "surrogate": ["\ud800"], "many": ["x"] * 100, "of numbers": [1]},
    "retry": {"text": "x", "unknown": {"colour": 1}, "negative": {"base": -1}, "huge": {"cap": 1e30}},
    "unique": {"text": "yes", "number": 1, "null": None},
    "retention": {**SPANS, "unknown": {"colour": 1}, "negative part": {"failed": -1}, "huge part": {"keyed": 1e30}},
    "trace": {"text": "x", "list": [], "of numbers": {"a": 1}, "NUL": {"a": "\0"}, "long": {"a": "x" * 10_000}},
}
CLAIM: dict[str, dict[str, Any]] = {
    "worker_id": {**TEXTS, "null": None, "dot": "a.b"},
    "task_types": LISTS,
    "queues": LISTS,
    "max_attempts_remaining": {**NUMBERS, "many": 10**9},
    "sort_by": {"unknown": "best", "number": 5, "case": "PRIORITY"},
    "sort_order": {"unknown": "up", "number": 5, "case": "DESC"},
    "limit": {**NUMBERS, "zero": 0, "many": 10**9},
    "lease_seconds": {**SPANS, "zero": 0},
    "wait_seconds": {**SPANS, "an hour": 3600},
}
SETTLE: dict[str, dict[str, Any]] = {
    "fence": {**NUMBERS, "zero": 0, "null": None},
    "lease_token": {"number": 5, "surrogate": "\ud800", "long": "x" * 10_000, "null": None},
}


def cases(table: dict[str, dict[str, Any]]) -> list[Any]:
    return [
        pytest.param(field, value, id=f"{field}-{name}")
        for field, values in table.items()
        for name, value in values.items()
    ]


def names(answer: Any, field: str) -> bool:
    """Whether the answer is a refusal of this field, as such or as a part of it."""
    return answer.status == 400 and any(
        fault.split(".")[-1].split("[")[0] == field or fault.split(".")[0].split("[")[0] == field
        for fault in answer.fields
    )


@pytest.mark.parametrize(("field", "value"), cases(ENQUEUE))
async def test_enqueue(quiet: Client, field: str, value: Any) -> None:
    answer = await quiet.post("/api/tasks", {"task_type": "t", field: value})
    batch = await quiet.post("/api/tasks", {"tasks": [{"task_type": "t"}, {"task_type": "t", field: value}]})

    assert names(answer, field), answer
    assert batch.status == 400
    assert batch.fields[0].startswith(f"tasks[1].{field}")


@pytest.mark.parametrize(("field", "value"), cases(CLAIM))
async def test_claim(quiet: Client, field: str, value: Any) -> None:
    answer = await quiet.post("/api/tasks/claim", {"worker_id": "w", field: value})
    assert names(answer, field), answer
    if field == "worker_id":
        expected = "Invalid worker_id format" if isinstance(value, str) else "worker_id"
        assert expected in answer["error"]
    if field in {"worker_id", "lease_seconds"}:
        assert names(await quiet.post("/api/tasks/waiting/claim", {"worker_id": "w", field: value}), field)


@pytest.mark.parametrize(("field", "value"), cases(SETTLE))
@pytest.mark.parametrize("call", ["complete", "heartbeat", "release"])
async def test_settle(quiet: Client, call: str, field: str, value: Any) -> None:
    body = {"fence": 1, "lease_token": "x", field: value}
    answer = await quiet.post(f"/api/tasks/held/{call}", body)
    many = "settle" if call != "heartbeat" else "extend"

    assert names(answer, field), answer
    assert names(await quiet.post(f"/api/tasks/{many}", {"claims": [{"id": "held", **body}]}), field)


@pytest.mark.parametrize(
    "path", ["%00", "a%20b", "%FF", "%ED%A0%80", "{a}", "x" * 200, "%3Cscript%3E", "a%0d%0ab", "..%00", "%E2%80%AE"]
)
async def test_ids_in_paths(quiet: Client, path: str) -> None:
    for call in ("", "/log", "/explain"):
        answer = await quiet.get(f"/api/tasks/{path}{call}")
        assert (answer.status, answer.fields) == (400, ["id"])
    for call in ("cancel", "retry"):
        assert (await quiet.post(f"/api/tasks/{path}/{call}")).status == 400
    assert (await quiet.post(f"/api/tasks/{path}/claim", {"worker_id": "w"})).status == 400
    assert (await quiet.post(f"/api/tasks/{path}/complete", {"fence": 1, "lease_token": "x"})).status == 400


@pytest.mark.parametrize("path", ["/nothing", "/api", "/api/", "/api/tasks/", "/api/tasks/a/b/c", "/API/tasks"])
async def test_addresses_that_there_are_not(quiet: Client, path: str) -> None:
    answer = await quiet.get(path)
    assert (answer.status, answer["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/api/tasks", "GET, POST"),
        ("DELETE", "/api/tasks/a", "GET"),
        ("GET", "/api/tasks/a/complete", "POST"),
        ("POST", "/health", "GET"),
        ("BREW", "/api/tasks/claim", "POST"),
    ],
)
async def test_methods(quiet: Client, method: str, path: str, allowed: str) -> None:
    answer = await quiet.send(method, path)
    assert (answer.status, answer["code"], answer.headers["allow"]) == (405, "method_not_allowed", allowed)


async def test_body_too_large(quiet: Client) -> None:
    at_most = b'{"task_type": "' + b" " * (MAX_BODY - 17) + b'"}'
    assert (await quiet.send("POST", "/api/tasks", content=at_most, headers=JSON)).status == 400
    for body in (at_most + b" ", _chunks(at_most + b" ")):
        answer = await quiet.send("POST", "/api/tasks", content=body, headers=JSON)
        assert (answer.status, answer["code"], answer.fields) == (413, "too_large", ["body"])


async def _chunks(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), 1 << 20):
        yield body[start : start + (1 << 20)]


async def test_values_too_large(quiet: Client) -> None:
    long = "x" * (1 << 20)
    params = await quiet.post("/api/tasks", {"task_type": "t", "params": long})
    batch = await quiet.post("/api/tasks", {"tasks": [{"task_type": "t"}, {"task_type": "t", "params": long}]})
    result = await quiet.post("/api/tasks/held/complete", {"fence": 1, "lease_token": "x", "result": long})

    assert (params.status, params.fields) == (413, ["params"])
    assert (batch.status, batch.fields) == (413, ["tasks[1].params"])
    assert (result.status, result.fields) == (413, ["result"])


async def test_a_compressed_body(quiet: Client) -> None:
    bomb = gzip.compress(b" " * 100_000_000)
    answer = await quiet.send("POST", "/api/tasks", content=bomb, headers={**JSON, "Content-Encoding": "gzip"})
    assert (answer.status, answer["code"]) == (415, "unsupported_media_type")


@pytest.mark.parametrize("text", ["a\u202eb", "<script>alert(1)</script>", "\r\n", "a\0b", "\U0001f600"])
async def test_any_text_is_taken_in_params_and_errors(client: Client, text: str) -> None:
    task = await client.take(params={text: [text]})
    assert task["params"] == {text: [text]}
    body = {
        "fence": 1,
        "lease_token": task["lease_token"],
        "success": False,
        "error_message": text,
        "error_code": "\ud800",
    }
    answer = await client.post(f"/api/tasks/{task['id']}/complete", body)
    assert answer["task"]["error"]["message"] == text.replace("\0", "\\x00")
    assert answer.headers["content-type"] == "application/json"


async def test_a_bad_call_does_not_harm_its_neighbours(client: Client) -> None:
    bodies = [{"task_type": "t" if number % 3 else "../", "params": number} for number in range(30)]
    answers = await asyncio.gather(*(client.post("/api/tasks", body) for body in bodies))
    assert [answer.status for answer in answers] == [201 if number % 3 else 400 for number in range(30)]


def test_the_table_covers_every_field() -> None:
    assert set(ENQUEUE) | {"params"} == set(NewTask.__struct_fields__)
    assert set(CLAIM) == set(Claiming.__struct_fields__)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "body: is empty; send a JSON object"),
        (b"[]", "body: must be an object, not a list"),
        (b'{"type": "a"}', "type: is not a field of this call; did you mean task_type?"),
        (b'{"task_type": "a", "zzz": 1}', "zzz: is not a field of this call"),
        (b'{"task_type": 5}', "task_type: must be a text, not an integer"),
        (b'{"task_type": "a", "delay_seconds": "soon"}', "delay_seconds: must be"),
        (b'{"tasks": [{"task_type": "a", "tags": 1}]}', "tasks[0].tags: must be a list"),
    ],
)
async def test_what_does_not_fit_is_said_in_plain_words(quiet: Client, body: bytes, text: str) -> None:
    answer = await quiet.send("POST", "/api/tasks", content=body, headers=JSON)
    assert answer["detail"].startswith(text)
