"""Claims that wait, over real sockets: whoever hangs up leaves the job to others, and a stop keeps no one waiting."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

import dibs
from dibs.broker.protocol import Ask
from dibs.server import asgi, polling
from dibs.server.auth import ANYONE
from dibs.server.protocol import Protocol
from dibs.server.reading import Gone
from dibs.server.route import Call
from tests.server.process import PATIENCE, Serving


def request(path: str, body: Any) -> bytes:
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json"
    return f"{head}\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data


def poll(serving: Serving, worker_id: str = "gone", **wish: Any) -> socket.socket:
    """Begin to wait for a job."""
    connection = serving.connect()
    connection.sendall(request("/api/tasks/claim", {"worker_id": worker_id, "wait_seconds": 60, **wish}))
    return connection


def answer(connection: socket.socket) -> tuple[int, Any]:
    """Read one answer."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            return 0, None
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
    while len(body) < length:
        body += connection.recv(65536)
    return int(head.split()[1]), json.loads(body)


def call(serving: Serving, path: str, body: Any) -> tuple[int, Any]:
    with serving.connect() as connection:
        connection.sendall(request(path, body))
        return answer(connection)


def test_a_client_that_hangs_up_leaves_the_job_to_others(serving: Serving) -> None:
    """Sockets closed while they wait, before a job comes: whoever is there gets it, at its first attempt."""
    for number in range(20):
        polls = [poll(serving, f"gone-{n}") for n in range(5)]
        if number % 2:
            time.sleep(0.02)  # some have begun to wait by then, some have not
        for connection in polls:
            connection.close()
        assert call(serving, "/api/tasks", {"task_type": "t", "params": number})[0] == 201
        status, got = call(serving, "/api/tasks/claim", {"worker_id": "here", "wait_seconds": 10})
        assert status == 200
        task = got["task"]
        assert (task["params"], task["attempts"]) == (number, 0)
        body = {"fence": task["fence"], "lease_token": task["lease_token"]}
        assert call(serving, f"/api/tasks/{task['id']}/complete", body)[0] == 200


def test_a_client_that_hangs_up_as_the_job_comes(serving: Serving) -> None:
    """Race: the job and the end of the connection meet. It is never held by no one for longer than a moment."""
    held_by_no_one = 0
    for number in range(40):
        gone = poll(serving)
        time.sleep(0.01)
        with serving.connect() as producer:
            producer.sendall(request("/api/tasks", {"task_type": "t", "params": number}))
            gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            gone.close()  # with a reset: nothing that is sent to it arrives
            assert answer(producer)[0] == 201
        status, got = call(serving, "/api/tasks/claim", {"worker_id": "here", "wait_seconds": 1})
        if status == 404:
            held_by_no_one += 1  # the answer was on the wire before the reset: only the lease can tell
            continue
        assert got["task"]["attempts"] == 0
        body = {"fence": got["task"]["fence"], "lease_token": got["task"]["lease_token"]}
        assert call(serving, f"/api/tasks/{got['task']['id']}/complete", body)[0] == 200
    assert held_by_no_one <= 10


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_ends_the_claims_that_wait(serving: Serving, number: int) -> None:
    polls = [poll(serving, f"w-{n}") for n in range(20)]
    time.sleep(0.3)
    began = time.monotonic()
    assert serving.end(number) == 0
    assert time.monotonic() - began < 5

    assert {answer(connection)[0] for connection in polls} == {404}
    for connection in polls:
        connection.close()


def test_a_stop_gives_back_what_was_not_delivered(serving: Serving) -> None:
    """What was claimed and sent is held by its clients; all else is pending when the server has stopped."""
    app = dibs.App(serving.store)
    polls = [poll(serving, f"w-{n}") for n in range(10)]
    time.sleep(0.2)
    with app.sync as queue:
        queue.enqueue_many([dibs.NewJob("t", n) for n in range(30)])
        assert serving.end() == 0
        delivered = [answer(connection) for connection in polls]
        held = {got["task"]["id"] for status, got in delivered if status == 200}
        claimed = {job.id for job in queue.find(status="claimed")}
        assert claimed == held
        assert queue.verify().ok
    for connection in polls:
        connection.close()


def test_a_stop_with_a_body_half_sent(serving: Serving) -> None:
    with serving.connect() as connection:
        connection.sendall(request("/api/tasks", {"task_type": "t"})[:-5])
        time.sleep(0.2)
        began = time.monotonic()
        assert serving.end() == 0
        assert time.monotonic() - began < 8


def test_many_waiters_and_one_job_each(serving: Serving) -> None:
    polls = [poll(serving, f"w-{n}") for n in range(50)]
    assert call(serving, "/api/tasks", {"tasks": [{"task_type": "t"}] * 50})[0] == 201
    ids = [answer(connection)[1]["task"]["id"] for connection in polls]
    assert len(set(ids)) == 50
    for connection in polls:
        connection.close()


def test_keep_alive_and_pipelines(serving: Serving) -> None:
    with serving.connect() as connection:
        for _ in range(3):
            connection.sendall(request("/api/tasks", {"task_type": "t"}))
            assert answer(connection)[0] == 201


@pytest.mark.parametrize(
    "data",
    [
        b"nonsense\r\n\r\n",
        b"GET /%zz HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST /api/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /api/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 200_000 + b"\r\n\r\n",
    ],
)
def test_what_is_not_http(serving: Serving, data: bytes) -> None:
    with serving.connect() as connection:
        connection.sendall(data)
        status = int(connection.recv(65536).split()[1])
        assert 400 <= status < 500
    assert call(serving, "/api/tasks", {"task_type": "t"})[0] == 201


def test_a_connection_that_says_nothing_is_ended(tmp_path: Path) -> None:
    """As is one that sends its headers too slowly, but not one that sends its second request late."""
    code = """
from dibs.server import protocol
protocol.HEADER_SECONDS = 0.5
from dibs.cli import main
main()"""
    with Serving(tmp_path, "--no-auth", code=code) as serving:
        with serving.connect() as silent, serving.connect() as slow, serving.connect() as patient:
            slow.sendall(b"GET / HTTP/1.1\r\nHost:")
            patient.sendall(request("/api/tasks", {"task_type": "t"}))
            assert answer(patient)[0] == 201
            assert silent.recv(1) == b""
            assert slow.recv(1) == b""
            patient.sendall(request("/api/tasks", {"task_type": "t"}))
            assert answer(patient)[0] == 201
        with poll(serving, wait_seconds=2) as waiting:
            assert answer(waiting)[0] == 200


# The same races, one step at a time


async def held_up() -> dict[str, Any]:
    """Receive nothing, for ever."""
    await asyncio.sleep(PATIENCE)
    return {}


@pytest.mark.parametrize("who", ["client", "request"])
async def test_a_claim_that_comes_as_its_client_goes_is_given_back(monkeypatch: pytest.MonkeyPatch, who: str) -> None:
    """In the very turn of the loop in which the claim is made, the client hangs up or the request is cancelled."""
    gone = asyncio.Event()

    async def receive() -> dict[str, Any]:
        await gone.wait()
        return {"type": "http.disconnect"}

    async with dibs.App("memory://") as app:
        job = await app.enqueue("t")
        call = Call(asgi(app, auth=False).state, ANYONE, {}, None, None, {}, receive)
        kind = type(app.runtime.broker())
        real = kind.claim

        async def claim(self: Any, ask: Ask) -> list[dibs.Job]:
            jobs: list[dibs.Job] = await real(self, ask)
            if who == "client":
                gone.set()
            else:
                asyncio.get_running_loop().call_soon(polled.cancel)
            return jobs

        monkeypatch.setattr(kind, "claim", claim)
        polled = asyncio.ensure_future(polling.claim(call, Ask(worker_id="w", wait=5)))
        with pytest.raises(asyncio.CancelledError if who == "request" else Gone):
            await polled
        monkeypatch.undo()
        again = await app.claim("v")
        assert again is not None
        assert (again.id, again.fence, again.attempt) == (job.id, 2, 1)


async def test_cancelled_requests_give_back(tmp_path: Path) -> None:
    """A server that cancels a request task, as uvicorn does with those that take too long."""
    async with dibs.App(f"sqlite:///{tmp_path}/jobs.db") as app:
        api = asgi(app, auth=False)

        for turn in range(40):
            job = await app.enqueue("t", turn)
            one = Call(api.state, ANYONE, {}, None, None, {}, held_up)
            task = asyncio.ensure_future(polling.claim(one, Ask(worker_id="w", wait=5)))
            for _ in range(turn):
                await asyncio.sleep(0)
            if turn > 30:
                await asyncio.sleep(0.001 * (turn - 30))
            task.cancel()
            try:
                [got] = await task
            except asyncio.CancelledError:
                again = await app.claim("v", wait=1)
                assert again is not None
                assert (again.id, again.attempt) == (job.id, 1)
                await again.complete()
            else:
                assert got.id == job.id
                await app.claimed(got.id, fence=got.fence, lease_token=got.lease_token).complete()


async def test_a_client_whose_end_was_seen_is_gone_at_once() -> None:
    """Race: between the end of what a client sends and the end of its connection, what is written reaches no one.

    A claim that is answered in that very turn of the loop would be held by no one until its lease runs out.
    """
    found: list[bool] = []
    protocols: list[Protocol] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        while not protocols[0].transport.is_closing():  # noqa: ASYNC110 - the turn after the end was seen
            await asyncio.sleep(0)
        found.append(polling._gone(SimpleNamespace(receive=receive)))  # type: ignore[arg-type]

    config = uvicorn.Config(app, lifespan="off", http=Protocol, ws="none", log_config=None, access_log=False)
    config.load()

    def make() -> Protocol:
        protocols.append(Protocol(config=config, server_state=ServerState(), app_state={}))
        return protocols[-1]

    server = await asyncio.get_running_loop().create_server(make, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(request("/api/tasks/claim", {}))
    writer.write_eof()
    assert await reader.read() == b""
    while not found:  # noqa: ASYNC110 - the app ends in its own time
        await asyncio.sleep(0.01)
    writer.close()
    server.close()
    await server.wait_closed()
    assert found == [True]
