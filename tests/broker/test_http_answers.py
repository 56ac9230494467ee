"""What may come back over HTTP from whatever stands at an address: proxies, other servers, noise."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dibs import (
    App,
    Clock,
    DibsError,
    Forbidden,
    IdempotencyMismatch,
    InvalidJob,
    InvalidRequest,
    LeaseLost,
    NotSupported,
    RateLimited,
    SchemaOutdated,
    StoreUnavailable,
    TooLarge,
    Unauthorized,
    WrongState,
)
from dibs.broker.http import Remote, remote
from dibs.broker.http.remote import Request
from tests.server import certificates

COUNTS = {"pending": 1, "scheduled": 0, "claimed": 0, "completed": 0, "failed": 0, "cancelled": 0, "exact": True}
STATS = json.dumps({"success": True, "queue": None, "counts": COUNTS}).encode()


def answer(body: bytes = STATS, status: str = "200 OK", *headers: str, media: str = "application/json") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {media}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def problem(code: str, status: int, *headers: str, **more: Any) -> bytes:
    body = {
        "type": f"urn:dibs:error:{code}", "title": "t", "status": status, "detail": "a sentence (a hint)",
        "success": False, "error": "a sentence", "message": "a sentence", "code": code, **more,
    }  # fmt: skip
    return answer(json.dumps(body).encode(), f"{status} No", *headers, media="application/problem+json")


class Speaker:
    """Answers each request with the next of what it was given, byte for byte; the last again and again."""

    def __init__(self, *answers: bytes | list[bytes]) -> None:
        self.answers = list(answers)
        self.requests: list[bytes] = []
        self.connections = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
                self.requests.append(head + await reader.readexactly(int(length or 0)))
                given = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                for piece in [given] if isinstance(given, bytes) else given:
                    if piece == b"END":
                        return
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def speaking(*answers: bytes | list[bytes]) -> AsyncIterator[tuple[App, Speaker]]:
    speaker = Speaker(*answers)
    server = await asyncio.start_server(speaker, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with App(f"http://127.0.0.1:{port}/jobs/", api_key="dibs_x_secret") as app:
        yield app, speaker
    server.close()
    await server.wait_closed()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "TRIES", 2)
    monkeypatch.setattr(remote, "SECONDS", 2.0)


CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
WELL: dict[str, bytes | list[bytes]] = {
    "with a length": answer(),
    "byte by byte": [bytes([byte]) for byte in answer()],
    "after a 100 and a 103": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + answer(),
    "in chunks": CHUNKED + b"a;x=y\r\n" + STATS[:10] + b"\r\n%X\r\n" % len(STATS[10:]) + STATS[10:] + b"\r\n0\r\n\r\n",
    "in chunks, in pieces, with a trailer": [
        CHUNKED + b"%x\r\n" % len(STATS) + STATS[:5], STATS[5:], b"\r", b"\n0\r\nX: y\r\n", b"\r\n",
    ],
    "until it ends": [b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + STATS, b"END"],
    "in HTTP/1.0": [answer().replace(b"HTTP/1.1", b"HTTP/1.0"), b"END"],
    "with a field that is not known": answer(STATS[:-1] + b', "news": [1]}'),
}  # fmt: skip


@pytest.mark.parametrize("how", WELL)
async def test_answers_in_every_shape(how: str) -> None:
    async with speaking(WELL[how]) as (app, speaker):
        for _ in range(3):
            assert (await app.counts()).pending == 1
    assert len(speaker.requests) == 3
    assert speaker.requests[0].startswith(b"GET /jobs/api/stats HTTP/1.1\r\n")
    assert b"\r\nX-API-Key: dibs_x_secret\r\n" in speaker.requests[0]
    assert speaker.connections == (3 if how in {"until it ends", "in HTTP/1.0"} else 1)


NOISE: dict[str, bytes | list[bytes]] = {
    "nothing": [b"END"],
    "half a head": [b"HTTP/1.1 200 OK\r\nContent-Le", b"END"],
    "half a body": [answer()[:-5], b"END"],
    "another protocol": b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    "a status that is none": b"HTTP/1.1 abc OK\r\n\r\n",
    "a length that is none": b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
    "a chunk that is none": CHUNKED + b"zz\r\n\r\n",
    "a head without end": [b"HTTP/1.1 200 OK\r\n", *[b"X: " + b"y" * 8000 + b"\r\n"] * 10],
}


@pytest.mark.parametrize("what", NOISE)
async def test_noise_is_no_answer(what: str) -> None:
    async with speaking(NOISE[what]) as (app, speaker):
        with pytest.raises(StoreUnavailable) as raised:
            await app.counts()
        sent = len(speaker.requests)
        with pytest.raises(StoreUnavailable):
            await app.claim("w")
    assert (sent, len(speaker.requests)) == (2, 3)  # a look is tried again, a claim is not
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    "given",
    [
        answer(b"<html>not found", "404 Not Found", media="text/html"),
        answer(b"<html>moved", "301 Moved", "Location: https://elsewhere/", media="text/html"),
        answer(b"{}", "404 Not Found"),
        answer(b"{}", "404 Not Found", media="application/problem+json"),
        answer(b"not JSON"),
        answer(b"[]"),
    ],
)
async def test_another_server_is_not_taken_for_one_of_dibs(given: bytes) -> None:
    async with speaking(given) as (app, _):
        with pytest.raises(StoreUnavailable, match="not as a dibs server does"):
            await app.get("a")


async def test_a_redirect_is_not_followed() -> None:
    """Whoever is there would be told the key."""
    async with speaking(answer(STATS, "307 Temporary Redirect", "Location: http://127.0.0.1:1/")) as (app, speaker):
        with pytest.raises(StoreUnavailable, match="307"):
            await app.counts()
    assert {request.split()[1] for request in speaker.requests} == {b"/jobs/api/stats"}


@pytest.mark.parametrize("status", ["502 Bad Gateway", "504 Gateway Timeout"])
async def test_a_gateway_that_lost_it(status: str) -> None:
    lost = answer(b"<html>", status, media="text/html")
    async with speaking(lost, answer()) as (app, speaker):
        assert (await app.counts()).pending == 1
        assert len(speaker.requests) == 2
    async with speaking(lost) as (app, speaker):
        with pytest.raises(StoreUnavailable):
            await app.claim("w")
        assert len(speaker.requests) == 1


@pytest.mark.parametrize("call", ["counts", "claim"])
async def test_retry_after_is_obeyed(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(_: Clock, seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(Clock, "sleep", sleep)
    limited = problem("rate_limited", 429, "Retry-After: 7")
    nothing = problem("nothing_pending", 404, filters={})
    async with speaking(limited, limited, answer() if call == "counts" else nothing) as (app, speaker):
        await (app.counts() if call == "counts" else app.claim("w"))
        assert len(speaker.requests) == 3  # also a claim: it was not even looked at
    assert all(7 <= seconds <= 7.7 for seconds in slept)
    assert len(slept) == 2


@pytest.mark.parametrize(("before", "in_doubt"), [("store_unavailable", True), ("rate_limited", False)])
async def test_a_settle_that_was_refused_before_it_was_lost(before: str, in_doubt: bool) -> None:
    """A server that could not reach its store may have written all the same; one that was asked too often has not."""
    refused = problem(before, 503 if in_doubt else 429)
    lost = {"id": "j", "outcome": "lost", "status": "claimed", "will_retry": False}
    async with speaking(refused, answer(json.dumps({"success": True, "outcomes": [lost]}).encode())) as (app, speaker):
        claim = app.claimed("j", fence=1, lease_token="t" * 22)
        with pytest.raises(LeaseLost) as told:
            await claim.release()
        assert (told.value.in_doubt, len(speaker.requests)) == (in_doubt, 2)


async def test_there_is_an_end_to_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    async with speaking(problem("rate_limited", 429, "Retry-After: 3600")) as (app, speaker):
        with pytest.raises(RateLimited, match="a sentence"):
            await app.counts()
        assert len(speaker.requests) == 1


ERRORS: list[tuple[bytes, type[DibsError]]] = [
    (problem("unauthorized", 401), Unauthorized),
    (problem("forbidden", 403), Forbidden),
    (problem("wrong_state", 409), WrongState),
    (problem("schema_outdated", 503, "Retry-After: 1"), SchemaOutdated),
    (problem("error", 500), DibsError),
    (problem("something_new", 418), DibsError),
    (problem("not_found", 404, type="urn:dibs:error:no_route"), NotSupported),
]


@pytest.mark.parametrize(("given", "kind"), ERRORS, ids=[kind.__name__ for _, kind in ERRORS])
async def test_errors_keep_their_kind(given: bytes, kind: type[DibsError]) -> None:
    async with speaking(given) as (app, speaker):
        with pytest.raises(DibsError) as raised:
            await app.cancel("a")
        assert type(raised.value) is kind
        if kind is not NotSupported:
            assert (raised.value.message, raised.value.hint) == ("a sentence", "a hint")
        assert len(speaker.requests) == 1


async def test_what_a_server_finds_wrong_is_named_as_in_python() -> None:
    errors = [{"field": "tasks[3].delay_seconds", "message": "m"}, {"field": "tasks[4].retry.base", "message": "n"}]
    async with speaking(problem("invalid", 400, errors=errors)) as (app, _):
        with pytest.raises(InvalidJob) as raised:
            await app.enqueue("t")
        assert raised.value.fields == ("jobs[3].delay", "jobs[4].retry.base")
        with pytest.raises(InvalidRequest):
            await app.claim("w")
    large = {"errors": [{"field": "tasks[1].params", "message": "m"}], "size": 9, "limit": 5}
    async with speaking(problem("too_large", 413, **large)) as (app, _):
        with pytest.raises(TooLarge) as too_large:
            await app.enqueue("t")
        assert (too_large.value.field, too_large.value.size, too_large.value.limit) == ("jobs[1].params", 9, 5)
    mismatch = {"errors": [{"field": "tasks[2].idempotency_key", "message": "m"}]}
    async with speaking(problem("idempotency_mismatch", 422, **mismatch)) as (app, _):
        with pytest.raises(IdempotencyMismatch) as other:
            await app.enqueue("t")
        assert (other.value.field, other.value.index) == ("idempotency_key", 2)


async def test_an_idle_connection_is_not_trusted_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    async with speaking(answer()) as (app, speaker):
        await app.counts()
        monkeypatch.setattr("dibs.broker.http.link.IDLE_SECONDS", -1)
        await app.counts()
        assert speaker.connections == 2


async def test_a_server_that_answers_waits_too_early_is_not_asked_in_a_loop() -> None:
    async with speaking(problem("nothing_pending", 404, filters={})) as (app, speaker):
        assert await app.claim("w", wait=0.5) is None
        assert 2 <= len(speaker.requests) <= 8


@pytest.mark.parametrize(
    ("url", "field"),
    [
        ("http://", "url"),
        ("http:///jobs", "url"),
        ("http://host:port", "url"),
        ("http://host:99999", "url"),
        ("http://[::1", "url"),
        ("http://user:s3cret@host", "url"),
        ("http://host/?a=b", "url"),
        ("http://host/#a", "url"),
        ("http://" + "a" * 80 + ".b", "url"),
    ],
)
async def test_urls_that_cannot_be_used(url: str, field: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        await App(url).counts()
    assert raised.value.fields[0] == field
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize("key", ["", " ", "a\r\nX-Evil: 1", "ü", "a\0", 5])
async def test_keys_that_cannot_be_sent(key: Any) -> None:
    with pytest.raises(InvalidRequest) as raised:
        await App("http://host", api_key=key).counts()
    assert raised.value.fields == ("api_key",)


@pytest.mark.parametrize(
    ("url", "host", "port", "line"),
    [
        ("http://host", "host", 80, b"Host: host\r\n"),
        ("https://host", "host", 443, b"Host: host\r\n"),
        ("http://host:8642/a/b/", "host", 8642, b"Host: host:8642\r\n"),
        ("http://[::1]:1", "::1", 1, b"Host: [::1]:1\r\n"),
        ("http://bücher.example", "xn--bcher-kva.example", 80, b"Host: xn--bcher-kva.example\r\n"),
    ],
)
def test_urls_that_can(url: str, host: str, port: int, line: bytes) -> None:
    address = Remote(url, None, Clock()).address
    assert (address.host, address.port, address.tls is not None) == (host, port, url.startswith("https"))
    assert line in address.request("GET", "/api/x", None)


def test_the_key_is_not_shown() -> None:
    server = Remote("http://host", "dibs_x_secret", Clock())
    assert "secret" not in f"{server!r} {server.address!r} {server.address} {Request('GET', '/')!r}"


# TLS


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A key and a certificate for this machine, signed by itself."""
    return certificates.make(tmp_path).cert


@asynccontextmanager
async def speaking_tls(certificate: Path, *answers: bytes) -> AsyncIterator[tuple[App, Speaker]]:
    speaker = Speaker(*answers)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, certificate.with_suffix(".key"))
    server = await asyncio.start_server(speaker, "127.0.0.1", 0, ssl=context)
    async with App(f"https://localhost:{server.sockets[0].getsockname()[1]}", api_key="dibs_x_secret") as app:
        yield app, speaker
    server.close()
    await server.wait_closed()


async def test_tls_with_a_certificate_that_is_trusted(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    async with speaking_tls(certificate, answer()) as (app, speaker):
        for _ in range(3):
            assert (await app.counts()).pending == 1
    assert (len(speaker.requests), speaker.connections) == (3, 1)


async def test_tls_with_a_certificate_that_is_not(certificate: Path) -> None:
    async with speaking_tls(certificate, answer()) as (app, speaker):
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # the server's own complaint
        with pytest.raises(StoreUnavailable, match="certificate verify failed") as raised:
            await app.counts()
    assert speaker.requests == []  # and so was the key not sent
    assert "secret" not in str(raised.value)


async def test_tls_and_a_claim_that_is_given_up(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    async with speaking_tls(certificate, b"") as (app, speaker):
        claiming = asyncio.create_task(app.claim("w", wait=60))
        while not speaker.requests:  # noqa: ASYNC110 - it tells no one
            await asyncio.sleep(0.01)
        claiming.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(claiming, 5)
