"""What a client may send, how much, and how slowly: over real sockets, and while others are served as ever."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from dibs.server.protocol import MAX_HEADER_COUNT, MAX_HEADERS
from dibs.server.reading import MAX_BODY, MAX_DEPTH
from tests.server.process import PATIENCE, Serving
from tests.server.test_polling import answer, call

QUICK = """
from dibs.server import protocol, reading, serve
protocol.HEADER_SECONDS = reading.BODY_SECONDS = serve.KEEP_ALIVE = 1
from dibs.cli import main
main()"""


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Serving(tmp_path_factory.mktemp("lasting"), "--no-auth") as serving:
        yield serving


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server that waits for a second where others wait for half a minute."""
    with Serving(tmp_path_factory.mktemp("impatient"), "--no-auth", code=QUICK) as serving:
        yield serving


def post(head: str = "", path: str = "/api/tasks") -> bytes:
    """The head of a request, but for the empty line at its end."""
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{head}".encode()


def is_served(serving: Serving) -> bool:
    return call(serving, "/api/tasks", {"task_type": "t"})[0] == 201


# Size


def test_a_body_that_is_too_large_is_refused_before_it_is_sent(lasting: Serving) -> None:
    with lasting.connect() as connection:
        connection.sendall(post(f"Content-Length: {MAX_BODY + 1}\r\n\r\n"))
        status, told = answer(connection)
    assert (status, told["code"], told["limit"]) == (413, "too_large", MAX_BODY)


def test_a_body_without_a_length_is_refused_once_it_is_too_large(lasting: Serving) -> None:
    piece = b"100000\r\n" + b" " * (1 << 20) + b"\r\n"
    with lasting.connect() as connection:
        connection.sendall(post("Transfer-Encoding: chunked\r\n\r\n"))
        for _ in range(MAX_BODY // (1 << 20)):
            connection.sendall(piece)
        connection.sendall(b"1\r\n \r\n")
        status, told = answer(connection)
    assert (status, told["code"]) == (413, "too_large")
    assert is_served(lasting)


def test_depth(lasting: Serving) -> None:
    """The body itself is one level. What is not refused can be read by whoever claims it."""
    with lasting.connect() as connection:
        for depth in (10, MAX_DEPTH - 1, MAX_DEPTH, 900, 950, 1000, 10_000, 1_000_000):
            for left, right in ((b"[", b"]"), (b'{"a":', b"}")):
                body = b'{"task_type": "t", "params": ' + left * depth + b"1" + right * depth + b"}"
                connection.sendall(post(f"Content-Length: {len(body)}\r\n\r\n") + body)
                status, told = answer(connection)
                assert status == (201 if depth < MAX_DEPTH else 400), (depth, told)
        wide = b'{"task_type": "t", "params": [' + b"[],{}," * 1000 + b'"[[[["]}'
        connection.sendall(post(f"Content-Length: {len(wide)}\r\n\r\n") + wide)
        assert answer(connection)[0] == 201


def test_headers_may_be_so_many(lasting: Serving) -> None:
    """Host, Content-Type and Content-Length are three of them."""
    for number, expected in ((MAX_HEADER_COUNT - 3, 201), (MAX_HEADER_COUNT - 2, 400)):
        more = "".join(f"X-{n}: y\r\n" for n in range(number))
        with lasting.connect() as connection:
            connection.sendall(post(f'Content-Length: 17\r\n{more}\r\n{{"task_type":"t"}}'))
            assert int(connection.recv(65536).split()[1]) == expected


@pytest.mark.parametrize("pieces", [1, 50])
def test_headers_may_be_so_large(lasting: Serving, pieces: int) -> None:
    """Whether they come at once or in pieces."""
    data = post("X: " + "y" * (MAX_HEADERS + 1) + "\r\n\r\n")
    with lasting.connect() as connection:
        step = len(data) // pieces + 1
        for start in range(0, len(data), step):
            connection.sendall(data[start : start + step])
        assert int(connection.recv(65536).split()[1]) == 400
    assert is_served(lasting)


def test_a_header_without_end(lasting: Serving) -> None:
    with lasting.connect() as connection:
        connection.sendall(post("X: "))
        with pytest.raises(ConnectionError):
            connection.sendall(b"y" * (1 << 28))
    assert is_served(lasting)


# Time


def test_a_body_that_takes_too_long(impatient: Serving) -> None:
    """However steadily it comes."""
    with impatient.connect() as connection:
        connection.sendall(post("Content-Length: 1000\r\n\r\n"))
        connection.settimeout(0.1)
        began = time.monotonic()
        told = b""
        while not told:
            connection.sendall(b" ")
            try:
                told = connection.recv(65536)
            except TimeoutError:
                assert time.monotonic() - began < 20
    assert int(told.split()[1]) == 408


def test_headers_that_take_too_long(impatient: Serving) -> None:
    """However steadily they come."""
    with impatient.connect() as connection:
        connection.sendall(post())
        assert is_cut(connection, b"X: y\r\n")


def test_an_answer_that_is_not_taken(impatient: Serving) -> None:
    """It would be kept in memory for as long as the client likes, and so for each who asks."""
    for number in range(20):
        task = {"task_type": "big", "params": "x" * 1_000_000, "id": f"big-{number}"}
        assert call(impatient, "/api/tasks", task)[0] == 201
    with impatient.connect() as connection:
        connection.sendall(b"GET /api/tasks?task_type=big HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert is_cut(connection, b" ")


def is_cut(connection: socket.socket, drop: bytes) -> bool:
    """Send a drop now and then, and read nothing, until the server has cut the connection."""
    began = time.monotonic()
    try:
        while time.monotonic() - began < PATIENCE:
            connection.sendall(drop)
            time.sleep(0.1)  # a slow client
    except ConnectionError:
        return True
    return False


def test_slow_clients_keep_no_one_waiting(lasting: Serving) -> None:
    slow = [lasting.connect() for _ in range(300)]
    for number, connection in enumerate(slow):
        connection.sendall(post("Content-Length: 1000\r\n\r\n{") if number % 2 else post())
    began = time.monotonic()
    for _ in range(20):
        assert is_served(lasting)
    took = time.monotonic() - began
    for connection in slow:
        connection.close()
    assert took < 10
