"""``examine``: each finding made real, on a server whose settings may be spoilt, and gone once its fix is taken."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest

from dibs.clock import Clock, FakeClock
from dibs.domain.errors import StoreUnavailable
from dibs.domain.finding import Finding, Level
from dibs.domain.job import Extension, Outcome
from dibs.stores.common import examining as common
from dibs.stores.mysql import MysqlStore, examining, link
from dibs.testing.conformance.builders import claim, completed, enqueue, new_job, new_jobs, settle
from tests.servers import mariadb
from tests.servers.databases import connect_mysql, empty_mysql

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "run-on-mysql.md"


@pytest.fixture(scope="module")
def server() -> Iterator[mariadb.Server]:
    """One that keeps what it promises, but for how a test spoils it; its times are another zone's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "JST-9")
        with mariadb.private() as server:
            yield server


@pytest.fixture
def url(server: mariadb.Server) -> str:
    return urlunsplit(urlsplit(server.url)._replace(path="/jobs"))


class Operator:
    """Someone who may do everything, statement by statement."""

    def __init__(self, server: mariadb.Server, url: str) -> None:
        self.url = url
        self.connect(server.url)
        for database in ("DROP DATABASE IF EXISTS jobs", "CREATE DATABASE jobs", "USE jobs"):
            self.run(database)
        asyncio.run(MysqlStore(url, Clock()).migrate())

    def connect(self, url: str | None = None) -> None:
        self.connection = connect_mysql(url or self.url)

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def clerk(self, *grants: str, options: str = "") -> str:
        """Make a user, and give its URL."""
        self.run("DROP USER IF EXISTS clerk")
        self.run(f"CREATE USER clerk IDENTIFIED BY 'x' {options}")
        for grant in grants:
            self.run(f"GRANT {grant} TO clerk")
        return self.url.replace(f"{urlsplit(self.url).netloc.rpartition('@')[0]}@", "clerk:x@")


@pytest.fixture
def own(server: mariadb.Server, url: str) -> Iterator[Operator]:
    own = Operator(server, url)
    before = dict(own.run("SHOW GLOBAL VARIABLES"))
    yield own
    for name, value in own.run("SHOW GLOBAL VARIABLES"):
        if before[name] != value and name in SPOILT:
            own.run(f"SET GLOBAL {name} = {before[name]}")
    own.connection.close()


SPOILT = {
    "innodb_flush_log_at_trx_commit": ["0", "2"],
    "innodb_deadlock_detect": ["OFF"],
    "max_statement_time": ["5"],
    "max_allowed_packet": ["1048576"],
    "wait_timeout": ["20"],
    "read_only": [],
}


async def look(url: str, clock: Clock | None = None) -> list[Finding]:
    return await MysqlStore(url, clock or Clock()).examine()


async def examine(url: str, clock: Clock | None = None) -> dict[str, Finding]:
    return {finding.code: finding for finding in await look(url, clock)}


def levels(found: dict[str, Finding]) -> dict[str, Level]:
    return {code: finding.level for code, finding in found.items() if finding.level is not Level.OK}


async def seen(url: str, *codes: str) -> dict[str, Finding]:
    """Look until these are what is wrong: InnoDB shows the same transactions to whoever looks more often."""
    while set(levels(found := await examine(url))) != set(codes):  # noqa: ASYNC110 - the server rings no bell
        await asyncio.sleep(0.12)
    return found


async def test_all_is_well(own: Operator) -> None:
    found = await examine(own.url)
    assert levels(found) == {}
    assert set(found) == {
        "reachable", "version", "clock", "settings", "connections", "snapshots", "schema", "privileges", "tables",
        "orphans",
    }  # fmt: skip


async def test_the_tests_own_server_is_quick_and_says_so() -> None:
    found = levels(await examine(await asyncio.to_thread(empty_mysql)))
    assert found == {"innodb_flush_log_at_trx_commit": Level.WARNING, "innodb_doublewrite": Level.WARNING}


async def test_a_server_or_a_database_that_is_not_there(own: Operator) -> None:
    assert levels(await examine("mysql://me@127.0.0.1:1/none")) == {"reachable": Level.FAILURE}
    found = await examine(f"{own.url}_none")
    assert levels(found) == {"reachable": Level.FAILURE}
    assert "CREATE DATABASE" in found["reachable"].fix


def test_versions() -> None:
    old = ["8.0.13", "5.7.44-log", "10.5.28-MariaDB", "5.5.5-10.4.34-MariaDB-1:10.4.34+maria~ubu2004"]
    assert {examining.version(text).level for text in old} == {Level.FAILURE}
    assert {examining.version(text).level for text in ("8.0.43", "10.6.22-MariaDB-log")} == {Level.WARNING}
    assert {examining.version(text).level for text in ("8.4.6", "9.4.0", "10.11.1-MariaDB", "12.0.2-MariaDB")} == {
        Level.OK
    }
    assert examining.version("5.5.5-11.4.2-MariaDB-log").message == "MariaDB 11.4.2"


async def test_a_server_that_is_too_old(own: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(link.OLDEST, "MariaDB", (99, 0, 0))
    found = await examine(own.url)
    assert levels(found) == {"version": Level.FAILURE}
    assert "MariaDB 10.6" in found["version"].fix
    with pytest.raises(StoreUnavailable, match="the server is"):
        await MysqlStore(own.url, Clock()).open()


async def test_no_schema_and_one_of_another_time(own: Operator) -> None:
    own.run("UPDATE dibs_migration SET version = 9999, name = '9999_later.sql'")
    assert levels(await examine(own.url)) == {"schema": Level.WARNING}
    own.run("UPDATE dibs_migration SET name = '9999_later.breaking.sql'")
    assert levels(await examine(own.url)) == {"schema": Level.FAILURE}
    own.run("DROP DATABASE jobs")
    own.run("CREATE DATABASE jobs")
    found = await examine(own.url)
    assert levels(found) == {"schema": Level.FAILURE}
    assert "dibs migrate" in found["schema"].fix


# Settings


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in SPOILT.items() for value in values])
async def test_settings_that_hurt(own: Operator, name: str, value: str) -> None:
    own.run(f"SET GLOBAL {name} = {value}")
    found = await examine(own.url)
    assert levels(found) == {name: Level.WARNING}
    statement, rest = found[name].fix.split(";")
    own.run(statement)
    assert "configuration" in rest
    assert levels(await examine(own.url)) == {}


@pytest.mark.timeout(120)
async def test_settings_that_a_server_is_started_with(server: mariadb.Server, own: Operator) -> None:
    async def restarted(**options: str) -> dict[str, Finding]:
        server.options = {name.replace("_", "-"): value for name, value in options.items()}
        await asyncio.to_thread(server.stop)
        await asyncio.to_thread(server.start)
        own.connect()
        return await examine(own.url)

    durable = {"innodb_doublewrite": "0", "innodb_flush_method": "nosync", "innodb_rollback_on_timeout": "1"}
    logged = {"log_bin": "bin", "sync_binlog": "0", "binlog_format": "STATEMENT"}
    try:
        found = await restarted(**durable, **logged)
        assert levels(found) == {
            "innodb_doublewrite": Level.WARNING,
            "innodb_flush_method": Level.FAILURE,
            "innodb_rollback_on_timeout": Level.WARNING,
            "sync_binlog": Level.WARNING,
            "binlog_format": Level.FAILURE,
        }
        assert all("restart" in found[name].fix for name in durable)
        store = MysqlStore(own.url, Clock())
        with pytest.raises(StoreUnavailable, match="logs statements"):
            await enqueue(store, new_job())
        await store.close()
        for name in ("sync_binlog", "binlog_format"):
            own.run(found[name].fix.split(";")[0])
        assert set(levels(await examine(own.url))) == set(durable)
        assert levels(await restarted(log_bin="bin", sync_binlog="1")) == {}
        assert levels(await restarted(sync_binlog="0", binlog_format="STATEMENT")) == {}, "there is no such log"
    finally:
        await restarted()


async def test_a_small_packet_takes_the_largest_job(own: Operator) -> None:
    """What is called large enough is; half of that is not."""
    largest = b'"' + "é".encode() * (2**19 - 1) + b'"'

    async def is_stored() -> None:
        store = MysqlStore(own.url, Clock())
        try:
            await enqueue(
                store, new_job(params=largest, tags=("t",)), *new_jobs(20, params=b'"' + b"x" * 50_000 + b'"')
            )
            [job] = await claim(store, limit=1)
            assert await settle(store, completed(job, largest)) == [Outcome.APPLIED]
        finally:
            await store.close()

    own.run(f"SET GLOBAL max_allowed_packet = {examining.LEAST_PACKET}")
    await is_stored()
    own.run(f"SET GLOBAL max_allowed_packet = {examining.LEAST_PACKET // 2}")
    with pytest.raises(StoreUnavailable, match="too large for the server") as caught:
        await is_stored()
    assert "max_allowed_packet" in (caught.value.hint or "")


async def test_a_server_that_takes_no_writes(own: Operator) -> None:
    clerk = own.clerk("ALL ON jobs.*")
    own.run("SET GLOBAL read_only = ON")
    assert levels(await examine(clerk)) == {"writable": Level.FAILURE}
    assert levels(await examine(own.url)) == {}, "who may administrate may write"
    own.run("SET GLOBAL read_only = OFF")
    assert levels(await examine(clerk)) == {}


async def test_too_few_connections(own: Operator) -> None:
    assert levels(await examine(f"{own.url}?pool=500")) == {"connections": Level.WARNING}
    clerk = own.clerk("ALL ON jobs.*", options="WITH MAX_USER_CONNECTIONS 5")
    found = await examine(clerk)
    assert levels(found) == {"connections": Level.WARNING}
    assert found["connections"].message.startswith("4 of 5")
    assert levels(await examine(f"{clerk}?pool=4")) == {}


# What others do


async def test_a_transaction_that_was_forgotten(own: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    forgetful = connect_mysql(own.url, autocommit=False)
    forgetful.cursor().execute("SELECT count(*) FROM dibs_job")
    assert levels(await examine(own.url)) == {}, "not for long"
    monkeypatch.setattr(common, "IDLE_SECONDS", 0.1)
    found = await seen(own.url, "snapshots")
    assert f"connection {forgetful.thread_id()} (dibs, sleep)" in found["snapshots"].message
    forgetful.close()
    await seen(own.url)


async def test_a_prepared_transaction_that_no_one_ends(own: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common, "IDLE_SECONDS", 0.1)
    lost = connect_mysql(own.url)
    for sql in (
        "XA START 'lost'",
        "UPDATE dibs_clock SET at = 1 WHERE slot = 63",
        "XA END 'lost'",
        "XA PREPARE 'lost'",
    ):
        lost.cursor().execute(sql)
    lost.close()
    assert "XA" in (await seen(own.url, "snapshots"))["snapshots"].message
    own.run("XA ROLLBACK 'lost'")
    await seen(own.url)


async def test_purge_that_is_behind(own: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examining, "HISTORY", 200)
    await seen(own.url)  # until what the tests before have left is gone
    reader = connect_mysql(own.url, autocommit=False)
    reader.cursor().execute("SELECT count(*) FROM dibs_clock")
    for at in range(1, 400):
        own.run(f"UPDATE dibs_clock SET at = {at} WHERE slot = 63")
    assert levels(await examine(own.url)) == {"history": Level.WARNING}
    reader.close()
    while levels(await examine(own.url)):
        own.run("UPDATE dibs_clock SET at = at + 1 WHERE slot = 63")  # purge comes after those who write
        await asyncio.sleep(0.12)


async def test_a_user_who_sees_only_itself(own: Operator) -> None:
    clerk = own.clerk("ALL ON jobs.*")
    found = await examine(clerk)
    assert levels(found) == {}
    assert "not looked at" in found["snapshots"].message
    own.run("GRANT PROCESS ON *.* TO clerk")
    assert "no transaction" in (await examine(clerk))["snapshots"].message


async def test_a_clock_that_is_off(own: Operator) -> None:
    for seconds, word in ((3600, "ahead of"), (-3600, "behind")):
        clock = FakeClock()
        clock.advance(Clock().now() / 1e6 - clock.now() / 1e6 + seconds)
        found = await examine(own.url, clock)
        assert levels(found) == {"clock": Level.WARNING}
        assert f"s {word} the server" in found["clock"].message


# The database itself


async def test_a_user_who_may_not(own: Operator) -> None:
    clerk = own.clerk()
    assert levels(await examine(clerk)) == {"reachable": Level.FAILURE}
    own.run("GRANT SELECT ON jobs.dibs_lane TO clerk")
    missing = [finding for finding in await look(clerk) if finding.level is not Level.OK]
    assert {(finding.code, finding.level) for finding in missing} == {("privileges", Level.FAILURE)}
    for finding in missing:
        own.run(finding.fix)
    assert levels(await examine(clerk)) == {}, "what it says to do is enough"

    store = MysqlStore(clerk, Clock())
    await enqueue(store, *new_jobs(3, tags=("t",), keep=0.001))
    first, second, third = await claim(store)
    assert await store.extend([Extension(first.ref)]) == [Outcome.APPLIED]
    await settle(store, completed(first), completed(second), completed(third))
    await store.put("paused/q", b"1")
    await store.put("paused/q", None)
    await store.prune(10)
    assert (await store.counts()).completed == 0
    assert len((await store.audit("gone:", 10)).items) == 3
    await store.close()


async def test_a_user_with_the_grants_of_the_page(own: Operator) -> None:
    [block] = re.findall(r"```sql\n(.*?)```", PAGE.read_text(), re.DOTALL)
    create, *grants = [line.strip() for line in block.split(";") if line.strip()]
    assert create.startswith("CREATE USER shop_worker")
    asked = [re.fullmatch(r"GRANT (.*) ON shop\.(\w+) TO shop_worker", grant) for grant in grants]
    clerk = own.clerk(*(f"{found[1]} ON jobs.{found[2]}" for found in asked if found is not None))
    assert len(grants) == sum(found is not None for found in asked) == 9
    assert levels(await examine(clerk)) == {}


async def test_claims_and_jobs_that_no_one_looks_after(own: Operator) -> None:
    store = MysqlStore(own.url, Clock())
    await enqueue(store, *new_jobs(3))
    first, *_ = await claim(store, lease=1)
    await settle(store, completed(first))
    await store.close()
    hours = 2 * 3600 * 1_000_000
    own.run(f"UPDATE dibs_job SET lease_expires = lease_expires - {hours} WHERE status = 'claimed'")
    own.run(f"UPDATE dibs_job SET expires = updated - {hours} WHERE status = 'completed'")

    found = await examine(own.url)
    assert levels(found) == {"leases": Level.WARNING, "retention": Level.WARNING}
    assert found["leases"].message.startswith("2 claims")
    assert found["retention"].message.startswith("1 finished")


@pytest.mark.parametrize(
    ("spoil", "code", "level"),
    [("ENGINE = MyISAM", "tables", Level.FAILURE), ("ROW_FORMAT = COMPRESSED", "row_format", Level.WARNING)],
)
async def test_a_table_that_is_not_what_it_was(own: Operator, spoil: str, code: str, level: Level) -> None:
    own.run(f"ALTER TABLE dibs_event {spoil}")
    found = await examine(own.url)
    assert levels(found) == {code: level}
    assert "dibs_event" in found[code].message
    own.run(found[code].fix)
    assert levels(await examine(own.url)) == {}
