"""Recording: what is put down when, what survives a kill, and what an error tells."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dibs.clock import FakeClock
from dibs.domain import transitions
from dibs.domain.errors import (
    DibsError,
    InvalidRequest,
    LeaseLost,
    Problem,
    RateLimited,
    SchemaOutdated,
    StoreUnavailable,
)
from dibs.domain.job import ClaimRequest, Counts, Draft, Job, Keep, Outcome, Terms
from dibs.store import PAUSED, Refusal, Store, Written
from dibs.stores.memory import MemoryStore
from dibs.testing.history import Answer, History, Operation, Recorder, check, plain, read_audit, recorded


def job(id: str = "job") -> Job:
    return draft(id).job(0)


def draft(id: str = "job", params: bytes = b"{}") -> Draft:
    return Draft(id, "default", "task", params, 0, 3, Terms(), Keep(1, 1, 1), idempotency_key="k")


def in_doubt() -> LeaseLost:
    error = LeaseLost()
    error.in_doubt = True
    return error


def only(history: History) -> Operation:
    [operation] = history.operations
    return operation


async def test_a_call_is_recorded_from_before_it_is_sent_until_it_is_answered() -> None:
    history = History()
    async with Recorder(history, "p1").operation("claim", worker_id="w1", limit=2) as call:
        assert only(history).answer is Answer.UNKNOWN
        assert only(history).returned is None
        call.returned([job()])

    operation = only(history)
    assert (operation.kind, operation.process, operation.arguments) == ("claim", "p1", {"worker_id": "w1", "limit": 2})
    assert (operation.answer, operation.result) == (Answer.OK, [{"id": "job"}])
    assert operation.returned is not None
    assert operation.invoked <= operation.returned
    assert len(history) == 1


def test_a_call_that_returns_nothing_was_answered() -> None:
    history = History()
    with Recorder(history, "p1").operation("complete", id="job", fence=1):
        pass
    assert (only(history).answer, only(history).result) == (Answer.OK, None)


@pytest.mark.parametrize(
    ("error", "answer", "result"),
    [
        (LeaseLost(), Answer.REFUSED, "lease_lost"),
        (InvalidRequest([Problem("limit", "must be 1 or more")]), Answer.REFUSED, "invalid"),
        (RateLimited(), Answer.REFUSED, "rate_limited"),
        (in_doubt(), Answer.UNKNOWN, None),
        (StoreUnavailable(), Answer.UNKNOWN, None),
        (SchemaOutdated(), Answer.UNKNOWN, None),
        (DibsError("what?"), Answer.UNKNOWN, None),
        (ConnectionResetError(), Answer.UNKNOWN, None),
        (TimeoutError(), Answer.UNKNOWN, None),
        (asyncio.CancelledError(), Answer.UNKNOWN, None),
        (KeyboardInterrupt(), Answer.UNKNOWN, None),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_an_error_tells_whether_anything_was_done(error: BaseException, answer: Answer, result: str | None) -> None:
    history = History()
    with pytest.raises(type(error)), Recorder(history, "p1").operation("enqueue"):
        raise error
    operation = only(history)
    assert (operation.answer, operation.result) == (answer, result)
    assert (operation.returned is None) is (answer is Answer.UNKNOWN)


def test_an_error_after_the_reply_does_not_take_it_back() -> None:
    history = History()
    call = Recorder(history, "p1").operation("claim")
    with suppress(ValueError), call:
        call.returned([])
        raise ValueError
    assert (only(history).answer, only(history).result) == (Answer.OK, [])


class FakeClaim:
    id, fence = "job", 3
    job = transitions.claim(job(), ClaimRequest("w1", "secret", lease_us=5), 10)

    def __repr__(self) -> str:
        return "a claim"  # the same in every process that collects the tests


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (1.5, 1.5),
        (Outcome.LOST, "lost"),
        (Written(Outcome.APPLIED, None), "applied"),
        ([Written(Outcome.LOST, None)], ["lost"]),
        ((draft(),), [{"id": "job", "idempotency_key": "k"}]),
        (FakeClaim(), {"id": "job", "fence": 3, "lease_expires_us": 15}),
        ({"at": datetime(2027, 1, 1, tzinfo=UTC)}, {"at": "2027-01-01 00:00:00+00:00"}),
        (Refusal(0, "id", job()), "idempotency_mismatch"),
    ],
    ids=repr,
)
def test_values_become_plain_data(value: Any, expected: Any) -> None:
    assert plain(value) == expected


def test_counts_become_plain_data_and_tokens_are_never_put_down() -> None:
    assert plain(Counts(pending=2))["pending"] == 2
    assert "secret" not in str(plain(FakeClaim()))


# Files


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "p1.jsonl"
    with History(path) as history:
        with Recorder(history, "p1").operation("enqueue", jobs=[draft()]) as call:
            call.returned([job()])
        history.invoke("claim", "p1", {"worker_id": "w1"})
        written = history.operations
    assert History.load(path).operations == written
    history.invoke("claim", "p1", {})  # after the file was closed: in memory only
    assert len(History.load(path)) == 2


def test_histories_of_several_processes_are_merged_in_the_order_of_time(tmp_path: Path) -> None:
    ticks = iter(range(100))
    histories = [History(tmp_path / name, clock=lambda: next(ticks)) for name in ("a", "b")]
    for number in range(6):
        history = histories[number % 2]
        history.finish(history.invoke("claim", f"p{number % 2}", {}), Answer.OK, [])
    merged = History.load(tmp_path / "a", tmp_path / "b")
    assert [operation.process for operation in merged.operations] == ["p0", "p1"] * 3
    assert [operation.number for operation in merged.operations] == list(range(6))


@pytest.mark.parametrize("kept", range(1, 60, 7))
def test_a_torn_last_line_counts_as_not_written(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "p1.jsonl"
    history = History(path)
    for _ in range(2):
        history.finish(history.invoke("claim", "p1", {"worker_id": "w1"}), Answer.OK, [])
    lines = path.read_bytes().splitlines(keepends=True)

    path.write_bytes(b"".join(lines[:3]) + lines[3][:-1][: kept % len(lines[3])])  # the reply is torn
    assert [operation.answer for operation in History.load(path).operations] == [Answer.OK, Answer.UNKNOWN]

    path.write_bytes(b"".join(lines[:2]) + lines[2][:-1][:kept])  # the invocation is torn: nothing was sent yet
    assert [operation.answer for operation in History.load(path).operations] == [Answer.OK]


def test_a_process_that_is_started_again_goes_on_in_its_file(tmp_path: Path) -> None:
    path = tmp_path / "p1.jsonl"
    History(path).invoke("claim", "p1", {"first": True})
    with path.open("ab") as file:
        file.write(b'{"number":0,"retur')
    second = History(path)
    second.finish(second.invoke("claim", "p1", {"first": False}), Answer.OK, [])
    loaded = [(operation.arguments["first"], operation.answer) for operation in History.load(path).operations]
    assert loaded == [(True, Answer.UNKNOWN), (False, Answer.OK)]


@pytest.mark.parametrize("text", [b"nonsense\n", b'{"number": 7, "returned": 3, "answer": "ok"}\n'])
def test_a_broken_line_within_the_file_is_an_error(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "p1.jsonl"
    path.write_bytes(text)
    with pytest.raises(ValueError, match=r"p1\.jsonl, line 1"):
        History.load(path)


def test_what_a_killed_process_had_asked_is_in_its_file(tmp_path: Path) -> None:
    path = tmp_path / "p1.jsonl"
    program = f"""
import sys
from dibs.testing.history import History, Recorder
recorder = Recorder(History({str(path)!r}), "p1")
with recorder.operation("claim", worker_id="w1") as call:
    call.returned([])
with recorder.operation("complete", id="job", fence=1):
    print("ready", flush=True)
    sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        os.kill(process.pid, signal.SIGKILL)
    answers = [(operation.kind, operation.answer) for operation in History.load(path).operations]
    assert answers == [("claim", Answer.OK), ("complete", Answer.UNKNOWN)]


def test_many_threads_record_at_once(tmp_path: Path) -> None:
    history = History(tmp_path / "p1.jsonl")

    def work(name: str) -> None:
        recorder = Recorder(history, name)
        for number in range(200):
            with recorder.operation("claim", worker_id=name, limit=number) as call:
                call.returned([])

    threads = [threading.Thread(target=work, args=(f"t{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    loaded = History.load(tmp_path / "p1.jsonl")
    assert len(loaded) == 1600
    assert all(operation.answer is Answer.OK for operation in loaded.operations)
    assert [operation.invoked for operation in history.operations] == sorted(o.invoked for o in history.operations)


# Around a store


async def test_a_recorded_store_is_still_a_store() -> None:
    history = History()
    store: Store = recorded(MemoryStore(FakeClock()), Recorder(history, "p1"))
    await store.insert([[draft()], [draft("other", b"[]")]])
    [[claimed]] = await store.claim([ClaimRequest("w1", "token")])
    await store.write([transitions.complete(claimed.ref)])
    await store.put(PAUSED + "mail", b"{}")
    await store.put("other/document", b"{}")
    await store.put(PAUSED + "mail", b"{}", expect=0)
    await store.put(PAUSED + "mail", None)
    await store.counts()
    assert await store.get(["job"])

    told = [(operation.kind, operation.answer, operation.result) for operation in history.operations]
    assert told[:4] == [
        ("enqueue", Answer.OK, [{"id": "job"}]),
        ("enqueue", Answer.REFUSED, "idempotency_mismatch"),
        ("claim", Answer.OK, [{"id": "job", "fence": 1, "lease_expires_us": claimed.lease_expires_us}]),
        ("complete", Answer.OK, "applied"),
    ]
    assert [each[::2] for each in told[4:7]] == [("pause", "applied"), ("pause", "lost"), ("resume", "applied")]
    assert told[7][0] == "counts"
    assert check(history, await read_audit(store)).ok


async def test_a_store_that_fails_leaves_operations_without_a_reply() -> None:
    class Broken:
        async def claim(self, requests: list[ClaimRequest]) -> list[list[Job]]:
            raise ConnectionResetError

    history = History()
    store: Any = recorded(Broken(), Recorder(history, "p1"))  # type: ignore[arg-type]
    with pytest.raises(ConnectionResetError):
        await store.claim([ClaimRequest("w1", "token"), ClaimRequest("w2", "token")])
    assert [operation.answer for operation in history.operations] == [Answer.UNKNOWN] * 2


async def test_all_pages_of_the_audit_are_read() -> None:
    store = MemoryStore(FakeClock())
    await store.insert([[Draft(str(number), "q", "t", b"{}", 0, 3, Terms(), Keep(1, 1, 1)) for number in range(25)]])
    assert len(await read_audit(store, page=10)) == 25
