"""TLS to a server: jobs go through, and a server that cannot show who it is gets none of them."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import asyncpg
import pytest

import dibs
from tests.server import certificates
from tests.server.certificates import Certificate
from tests.servers import mariadb, postgres, redis
from tests.servers.databases import connect_mysql
from tests.servers.keeping import free_port

Url = Callable[[Path], str]
"""Makes the URL for whoever trusts this authority."""


@contextmanager
def on_postgres(certificate: Certificate) -> Iterator[Url]:
    for file in certificate:  # it is the server's user who must own the key
        if user := postgres.as_user():
            shutil.chown(file, user=user["user"])
    certificate.key.chmod(0o600)
    settings = {"ssl": "on", "ssl_cert_file": str(certificate.cert), "ssl_key_file": str(certificate.key)}
    with postgres.private(settings) as server:
        yield (
            lambda ca: (
                f"postgresql://postgres@localhost:{server.port}/postgres?sslmode=verify-full&sslrootcert={ca}&timeout=3"
            )
        )


@contextmanager
def on_mariadb(certificate: Certificate) -> Iterator[Url]:
    with mariadb.private({"ssl_cert": str(certificate.cert), "ssl_key": str(certificate.key)}) as server:
        with connect_mysql(server.url) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE jobs")
            cursor.execute("SET GLOBAL require_secure_transport = ON")
        plain = server.url.replace("127.0.0.1", "localhost").removesuffix("mysql")
        yield lambda ca: f"{plain}jobs?ssl_ca={ca}&timeout=3"


@contextmanager
def on_redis(certificate: Certificate) -> Iterator[Url]:
    port, (cert, key) = free_port(), map(str, certificate)
    settings = {"tls-port": str(port), "tls-cert-file": cert, "tls-key-file": key, "tls-auth-clients": "no"}
    with redis.private(settings):
        yield lambda ca: f"rediss://localhost:{port}/0?tls_ca={ca}&timeout=3"


SERVERS: dict[str, Callable[[Certificate], AbstractContextManager[Url]]] = {
    "postgresql": on_postgres,
    "mariadb": on_mariadb,
    "redis": on_redis,
}


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Url, Path]]:
    tmp_path.chmod(0o755)
    for folder in list(tmp_path.parents)[:3]:
        folder.chmod(folder.stat().st_mode | 0o011)  # for the server's user
    certificate = certificates.make(tmp_path)
    with SERVERS[request.param](certificate) as url:
        yield url, certificate.cert


async def test_jobs_go_through(server: tuple[Url, Path]) -> None:
    url_for, cert = server
    async with dibs.App(url_for(cert)) as app, dibs.App(url_for(cert)) as other:
        await app.migrate()
        waiting = asyncio.ensure_future(other.claim("w", wait=20))
        await asyncio.sleep(0.1)
        job = await app.enqueue("t", {"large": "x" * 500_000})  # many records of TLS
        claim = await waiting
        assert claim is not None
        async with claim:
            assert claim.params == {"large": "x" * 500_000}
        assert (await app.wait(job.id, 10)).status == "completed"
        if app.url.startswith("postgresql"):  # the others were told to refuse anything else
            connection = await asyncpg.connect(app.url.partition("?")[0])
            ours = "FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'dibs'"
            assert await connection.fetchval(f"SELECT bool_and(ssl) {ours}")
            await connection.close()


async def test_a_server_that_is_not_who_it_should_be_is_refused(server: tuple[Url, Path], tmp_path: Path) -> None:
    url_for, _ = server
    stranger = certificates.make(tmp_path, "elsewhere.example")
    async with dibs.App(url_for(stranger.cert)) as app:
        with pytest.raises(dibs.StoreUnavailable, match=r"(?i)certificate|ssl|tls"):
            await app.enqueue("t")
