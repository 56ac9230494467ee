"""``examine``: each finding made real, on a server whose settings may be spoilt."""

from collections.abc import AsyncIterator, Iterator
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from dibs.clock import Clock, FakeClock
from dibs.domain.finding import Finding, Level
from dibs.stores.common import examining as common
from dibs.stores.postgres import PostgresStore, examining
from dibs.testing.conformance.builders import claim, completed, enqueue, new_jobs, settle
from tests.servers import postgres


@pytest.fixture(scope="module")
def server() -> Iterator[postgres.Server]:
    """One that keeps what it promises, but for how a test spoils it."""
    with postgres.private() as server:
        yield server


@pytest.fixture
async def own(server: postgres.Server) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(server.url)
    await connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public; GRANT USAGE ON SCHEMA public TO public")
    await PostgresStore(server.url, Clock()).migrate()
    yield connection
    await connection.execute("ALTER ROLE postgres RESET ALL; ALTER DATABASE postgres RESET ALL")
    await connection.close()


async def examine(url: str, clock: Clock | None = None) -> dict[str, Finding]:
    found = await PostgresStore(url, clock or Clock()).examine()
    return {finding.code: finding for finding in found}


def levels(found: dict[str, Finding]) -> dict[str, Level]:
    bad = {code: finding.level for code, finding in found.items() if finding.level is not Level.OK}
    # The tests' server is told on its command line not to wait for the disk: no one can set that otherwise.
    return {code: level for code, level in bad.items() if code not in {"fsync", "full_page_writes"}}


async def test_all_is_well(server: postgres.Server, own: asyncpg.Connection) -> None:
    found = await examine(server.url)
    assert levels(found) == {}
    assert {"reachable", "version", "clock", "connections", "snapshots", "schema", "privileges", "tables"} <= set(found)
    assert "orphans" in found
    assert (found["fsync"].level, found["full_page_writes"].level) == (Level.FAILURE, Level.WARNING)


async def test_a_server_that_is_not_there() -> None:
    found = await examine("postgresql://me@127.0.0.1:1/none")
    assert levels(found) == {"reachable": Level.FAILURE}


async def test_a_database_that_is_not_there(server: postgres.Server) -> None:
    found = await examine(urlunsplit(urlsplit(server.url)._replace(path="/none")))
    assert levels(found) == {"reachable": Level.FAILURE}
    assert "createdb" in found["reachable"].fix


def test_versions() -> None:
    assert examining.version(120015).level is Level.FAILURE
    assert examining.version(130020).level is Level.WARNING
    assert examining.version(180001).level is Level.OK


async def test_no_schema_and_one_of_another_time(server: postgres.Server, own: asyncpg.Connection) -> None:
    await own.execute("UPDATE dibs_migration SET version = 9999, name = '9999_later.sql' WHERE version = 1")
    assert levels(await examine(server.url)) == {"schema": Level.WARNING}
    await own.execute("UPDATE dibs_migration SET name = '9999_later.breaking.sql'")
    assert levels(await examine(server.url)) == {"schema": Level.FAILURE}
    await own.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    found = await examine(server.url)
    assert levels(found) == {"schema": Level.FAILURE}
    assert "dibs migrate" in found["schema"].fix


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("synchronous_commit", "off"),
        ("default_transaction_isolation", "'repeatable read'"),
        ("idle_session_timeout", "'5min'"),
        ("statement_timeout", "'1s'"),
    ],
)
async def test_settings_that_hurt(server: postgres.Server, own: asyncpg.Connection, name: str, value: str) -> None:
    await own.execute(f"ALTER DATABASE postgres SET {name} = {value}")
    found = await examine(server.url)
    assert levels(found) == {name: Level.WARNING}
    assert name in found[name].fix


async def test_autovacuum_that_is_off(server: postgres.Server, own: asyncpg.Connection) -> None:
    await own.execute("ALTER SYSTEM SET autovacuum = off")
    await own.execute("SELECT pg_reload_conf()")
    try:
        while await (fresh := await asyncpg.connect(server.url)).fetchval("SHOW autovacuum") == "on":
            await fresh.close()
        await fresh.close()
        assert levels(await examine(server.url)) == {"autovacuum": Level.WARNING}
    finally:
        await own.execute("ALTER SYSTEM RESET autovacuum")
        await own.execute("SELECT pg_reload_conf()")


async def test_autovacuum_that_is_off_for_the_table(server: postgres.Server, own: asyncpg.Connection) -> None:
    await own.execute("ALTER TABLE dibs_job SET (autovacuum_enabled = false)")
    while await own.fetchval("SHOW autovacuum") == "off":
        pass
    found = await examine(server.url)
    assert levels(found) == {"autovacuum": Level.WARNING}
    await own.execute(found["autovacuum"].fix)
    assert levels(await examine(server.url)) == {}


async def test_a_server_that_takes_no_writes(server: postgres.Server, own: asyncpg.Connection) -> None:
    await own.execute("ALTER DATABASE postgres SET default_transaction_read_only = on")
    found = await examine(server.url)
    await own.execute("SET default_transaction_read_only = off")
    assert levels(found)["writable"] is Level.FAILURE


async def test_too_few_connections(server: postgres.Server, own: asyncpg.Connection) -> None:
    assert levels(await examine(f"{server.url}?pool=500")) == {"connections": Level.WARNING}


async def test_a_transaction_that_was_forgotten(
    server: postgres.Server, own: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    forgetful = await asyncpg.connect(server.url, server_settings={"application_name": "report"})
    await forgetful.execute("BEGIN; SELECT 1")
    assert levels(await examine(server.url)) == {}, "not for long"
    monkeypatch.setattr(common, "IDLE_SECONDS", 0.1)
    while "snapshots" not in levels(found := await examine(server.url)):
        pass  # until a tenth of a second has passed
    assert "report" in found["snapshots"].message
    assert "idle in transaction" in found["snapshots"].message
    await forgetful.close()


async def test_a_clock_that_is_off(server: postgres.Server, own: asyncpg.Connection) -> None:
    for seconds, word in ((3600, "ahead of"), (-3600, "behind")):
        clock = FakeClock()
        clock.advance(Clock().now() / 1e6 - clock.now() / 1e6 + seconds)
        found = await examine(server.url, clock)
        assert levels(found) == {"clock": Level.WARNING}
        assert f"s {word} the server" in found["clock"].message


async def test_a_user_who_may_not(server: postgres.Server, own: asyncpg.Connection) -> None:
    await own.execute("DROP ROLE IF EXISTS clerk; CREATE ROLE clerk LOGIN")
    url = server.url.replace("postgres@", "clerk@")
    found = await examine(url)
    assert (
        levels(found) == {"schema": Level.FAILURE}
        or levels(found) == {"privileges": Level.FAILURE}
        or (levels(found) == {"reachable": Level.FAILURE})
    )

    await own.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO clerk")
    every = await PostgresStore(url, Clock()).examine()
    missing = [finding for finding in every if finding.code == "privileges"]
    assert {finding.level for finding in missing} == {Level.FAILURE}
    for finding in missing:
        await own.execute(finding.fix)
    assert levels(await examine(url)) == {}, "what it says to do is enough"

    store = PostgresStore(url, Clock())
    await enqueue(store, *new_jobs(2, tags=("t",)))
    first, second = await claim(store)
    await settle(store, completed(first), completed(second))
    await store.close()


async def test_claims_and_jobs_that_no_one_looks_after(server: postgres.Server, own: asyncpg.Connection) -> None:
    store = PostgresStore(server.url, Clock())
    await enqueue(store, *new_jobs(3))
    first, *_ = await claim(store, lease=1)
    await settle(store, completed(first))
    await store.close()
    hours = 2 * 3600 * 1_000_000
    await own.execute("UPDATE dibs_job SET lease_expires = lease_expires - $1 WHERE status = 'claimed'", hours)
    await own.execute("UPDATE dibs_job SET expires = updated - $1 WHERE status = 'completed'", hours)

    found = await examine(server.url)
    assert levels(found) == {"leases": Level.WARNING, "retention": Level.WARNING}
    assert found["leases"].message.startswith("2 claims")


async def test_an_index_that_is_not_valid(server: postgres.Server, own: asyncpg.Connection) -> None:
    await own.execute(
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'dibs_job_batch'::regclass"
    )  # as CREATE INDEX CONCURRENTLY leaves it when it fails
    found = await examine(server.url)
    assert levels(found) == {"indexes": Level.FAILURE}
    await own.execute(found["indexes"].fix)
    assert levels(await examine(server.url)) == {}


async def test_behind_a_pooler_no_one_ends_lost_transactions(server: postgres.Server, own: asyncpg.Connection) -> None:
    name = "idle_in_transaction_session_timeout"
    assert levels(await examine(f"{server.url}?prepared=no")) == {name: Level.WARNING}
    await own.execute(f"ALTER DATABASE postgres SET {name} = '10s'")
    assert levels(await examine(f"{server.url}?prepared=no")) == {}
