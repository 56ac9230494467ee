"""``dibs serve --certfile``, and ``dibs.App("https://…")`` against it."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import dibs
from dibs.domain.errors import StoreUnavailable
from tests.server import certificates
from tests.server.certificates import Certificate
from tests.server.process import PATIENCE, Serving
from tests.server.test_polling import answer, request
from tests.server.test_serve import run


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return certificates.make(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="module", params=["1", "2"], ids=["one process", "two"])
def secure(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, certificate: Certificate
) -> Iterator[Serving]:
    options = (*certificate.options, "--processes", request.param)
    with Serving(tmp_path_factory.mktemp("secure"), *options) as serving:
        yield serving


def url_of(serving: Serving) -> str:
    return f"https://localhost:{serving.port}"


def key_of(serving: Serving) -> str:
    return (serving.folder / "dibs-admin.key").read_text().strip()


async def test_a_job_over_tls(secure: Serving, certificate: Certificate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.cert))
    async with dibs.App(url_of(secure), api_key=key_of(secure)) as app:
        claiming = asyncio.create_task(app.claim("w", wait=PATIENCE))
        job = await app.enqueue("t", {"n": 1})
        claim = await claiming
        assert claim is not None
        async with claim:
            assert (claim.id, claim.params) == (job.id, {"n": 1})
        assert (await app.wait(job.id, 10)).status == "completed"
    assert f"on https://127.0.0.1:{secure.port}" in "".join(secure.said)


async def test_a_claim_that_is_given_up_is_given_back(
    secure: Serving, certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.cert))
    async with dibs.App(url_of(secure), api_key=key_of(secure)) as app:
        for number in range(5):
            claiming = asyncio.create_task(app.claim("gone", wait=PATIENCE))
            await asyncio.sleep(0.02 * number)  # sometimes it is not even connected
            claiming.cancel()
            with pytest.raises(asyncio.CancelledError):
                await claiming
            job = await app.enqueue("t", number)
            claim = await app.claim("here", wait=10)
            assert claim is not None
            assert (claim.id, claim.attempt) == (job.id, 1)
            await claim.complete()


async def test_a_certificate_that_no_one_vouches_for(secure: Serving) -> None:
    async with dibs.App(url_of(secure), api_key=key_of(secure)) as app:
        began = time.monotonic()
        with pytest.raises(StoreUnavailable, match="is not trusted: certificate verify failed: self-signed") as raised:
            await app.counts()
        assert time.monotonic() - began < 2  # it is not tried again: it would be no better
    assert "SSL_CERT_FILE" in str(raised.value)
    assert key_of(secure) not in str(raised.value)


async def test_a_certificate_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = certificates.make(tmp_path, "other.example")
    monkeypatch.setenv("SSL_CERT_FILE", str(other.cert))
    with Serving(tmp_path, "--no-auth", *other.options) as serving:
        async with dibs.App(url_of(serving)) as app:
            with pytest.raises(StoreUnavailable, match=r"Hostname mismatch.*localhost"):
                await app.enqueue("t")
        async with dibs.App(serving.store) as store:
            assert (await store.counts()).pending == 0


async def test_without_tls_there_is_no_answer(secure: Serving) -> None:
    async with dibs.App(f"http://localhost:{secure.port}", api_key=key_of(secure)) as app:
        with pytest.raises(StoreUnavailable):
            await app.claim("w")


def test_old_versions_are_refused(secure: Serving, certificate: Certificate) -> None:
    context = ssl.create_default_context(cafile=certificate.cert)
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
    with secure.connect() as raw, context.wrap_socket(raw, server_hostname="localhost") as connection:
        assert connection.version() == "TLSv1.2"
    command = ["openssl", "s_client", "-tls1_1", "-cipher", "ALL:@SECLEVEL=0", "-connect", f"localhost:{secure.port}"]
    done = subprocess.run(command, check=False, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE)
    assert done.returncode != 0


def test_a_stop_ends_what_waits_over_tls(tmp_path: Path, certificate: Certificate) -> None:
    """Those who never began to speak TLS among them."""
    context = ssl.create_default_context(cafile=certificate.cert)
    with Serving(tmp_path, "--no-auth", *certificate.options) as serving:
        silent = serving.connect()
        waiting = context.wrap_socket(serving.connect(), server_hostname="localhost")
        stream = context.wrap_socket(serving.connect(), server_hostname="localhost")
        stream.sendall(b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200 OK" in stream.recv(65536)
        waiting.sendall(request("/api/tasks/claim", {"worker_id": "w", "wait_seconds": 60}))
        began = time.monotonic()
        assert serving.end() == 0
        assert time.monotonic() - began < 8
        assert answer(waiting)[0] == 404
        for connection in (silent, waiting, stream):
            connection.close()


def test_certificates_that_cannot_be(tmp_path: Path, certificate: Certificate) -> None:
    other = certificates.make(tmp_path, "other.example")
    locked = tmp_path / "locked.key"
    lock = ["openssl", "rsa", "-aes256", "-passout", "pass:abc", "-in", str(other.key), "-out", str(locked)]
    subprocess.run(lock, check=True, capture_output=True)
    (tmp_path / "garbage.pem").write_text("garbage")
    for options, word in {
        ("--certfile", "none.pem"): "none.pem cannot be read: No such file",
        ("--certfile", str(other.cert)): "--keyfile",
        ("--certfile", "garbage.pem"): "PEM",
        ("--certfile", str(certificate.cert), "--keyfile", str(other.key)): "its key is another one's",
        ("--certfile", str(other.cert), "--keyfile", str(locked)): "encrypted",
        ("--keyfile", str(other.key)): "without --certfile",
    }.items():
        done = run("serve", "--no-auth", "--port", "0", "--store", "memory://", *options, cwd=tmp_path)
        assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
        assert word in done.stderr, (options, done.stderr)
