"""A migration that was cut, and URLs. What holds of the schema on any server is in ``tests/stores/servers``."""

import subprocess
import sys

import pytest

from dibs.clock import Clock
from dibs.domain.errors import InvalidRequest
from dibs.stores.mysql import MysqlStore, address, migrate
from dibs.stores.mysql.turn import Turn
from dibs.testing.conformance.builders import enqueue, new_job
from tests.servers.databases import bare_mysql, connect_mysql

STEPS = [step.name for step in migrate.steps()]


@pytest.fixture
def bare() -> str:
    return bare_mysql("bare")


async def test_a_migration_that_was_cut_anywhere_is_taken_again(bare: str) -> None:
    connection = connect_mysql(bare)
    [step] = migrate.steps()
    for cut in range(len(migrate.statements(step)) + 1):
        with connection.cursor() as cursor:
            cursor.execute("DROP VIEW IF EXISTS dibs_whole")
            cursor.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = database()")
            for (table,) in cursor.fetchall():
                cursor.execute(f"DROP TABLE {table}")
            for sql in migrate.statements(step)[:cut]:
                cursor.execute(sql)
        store = MysqlStore(bare, Clock())
        assert await store.migrate() == STEPS
        await enqueue(store, new_job("a"))
        await store.close()
    connection.close()


async def test_a_snapshot_that_is_older_than_a_migration_is_taken_anew(bare: str) -> None:
    """A table that was altered since a transaction began to read cannot be read in it: error 1412."""
    store = MysqlStore(bare, Clock())
    await store.migrate()
    connection = connect_mysql(bare)
    seen: list[int] = []

    async def look(turn: Turn) -> None:
        async with turn.snapshot():
            await turn.fetch("SELECT count(*) FROM dibs_job")
            if not seen:
                connection.cursor().execute("ALTER TABLE dibs_event FORCE")
            seen.append(0)
            seen[-1] = 1 + (await turn.fetch("SELECT count(*) FROM dibs_event"))[0][0]

    await store._again(look)
    assert seen == [0, 1]
    connection.close()
    await store.close()


def test_a_url_is_read() -> None:
    read = address.read("mysql://m%40e:s%2Fe@db:3307/jobs?pool=3&ssl_ca=/ca.pem&socket=/run/s.sock&timeout=2.5")

    assert read == address.Address(
        "mysql:///run/s.sock/jobs", "db", 3307, "m@e", "s/e", "jobs", "/run/s.sock", True, "/ca.pem", 3, 2.5
    )
    assert address.read("mariadb://db/jobs").name == "mysql://db:3306/jobs"


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("mysql://me:hush@db", "one database"),
        ("mysql://me:hush@db/a/b", "one database"),
        ("mysql://me:hush@db:port/jobs", "cannot be read"),
        ("mysql://me:hush@db/jobs?pool=0", "pool=0"),
        ("mysql://me:hush@db/jobs?pool=x", "pool=x"),
        ("mysql://me:hush@db/jobs?ssl=maybe", "ssl=maybe"),
        ("mysql://me:hush@db/jobs?timeout=0", "timeout=0"),
        ("mysql://me:hush@db/jobs?timeout=soon", "timeout=soon"),
        ("mysql://me:hush@db/jobs?charset=utf8", "charset: is no option"),
    ],
)
def test_a_bad_url_is_refused_and_its_password_not_told(bad: str, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said) as caught:
        address.read(bad)
    assert "hush" not in str(caught.value)


def test_without_the_driver_the_extra_is_named() -> None:
    code = "import sys; sys.modules['asyncmy'] = None; import dibs; dibs.App('mysql://db/jobs').sync.counts()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=50)

    assert "NotSupported" in done.stderr
    assert "pip install 'dibs-queue[mysql]'" in done.stderr
