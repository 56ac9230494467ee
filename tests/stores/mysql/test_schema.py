"""The schema: made by ``migrate`` alone, once, by whoever comes first, and from wherever the last one was cut."""

import asyncio
import subprocess
import sys

import pytest

from dibs.clock import Clock
from dibs.domain.errors import InvalidRequest, SchemaOutdated
from dibs.stores.mysql import MysqlStore, address, migrate
from dibs.testing.conformance.builders import claim_one, enqueue, new_job
from tests.servers.databases import bare_mysql, connect_mysql

STEPS = [step.name for step in migrate.steps()]


@pytest.fixture
def bare() -> str:
    return bare_mysql("bare")


async def test_first_use_of_a_schema_that_is_not_there(bare: str) -> None:
    store = MysqlStore(bare, Clock())
    with pytest.raises(SchemaOutdated) as caught:
        await enqueue(store, new_job())
    assert "dibs migrate" in caught.value.hint

    assert await store.migrate(dry_run=True) == STEPS
    with pytest.raises(SchemaOutdated):
        await store.open()
    assert await store.migrate() == STEPS
    assert await store.migrate() == await store.migrate(dry_run=True) == []
    await enqueue(store, new_job("a"))
    assert (await claim_one(store)).id == "a"
    await store.close()


async def test_a_schema_newer_than_this_dibs_is_refused(bare: str) -> None:
    store = MysqlStore(bare, Clock())
    await store.migrate()
    with connect_mysql(bare).cursor() as cursor:
        cursor.execute("INSERT INTO dibs_migration (version, name) VALUES (9999, 'later')")
        cursor.connection.close()

    with pytest.raises(SchemaOutdated, match="9999") as caught:
        await store.open()
    assert "upgrade dibs" in caught.value.hint
    await store.close()


async def test_a_migration_that_was_cut_anywhere_is_taken_again(bare: str) -> None:
    connection = connect_mysql(bare)
    [step] = migrate.steps()
    for cut in range(len(step.statements) + 1):
        with connection.cursor() as cursor:
            cursor.execute("DROP VIEW IF EXISTS dibs_whole")
            cursor.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = database()")
            for (table,) in cursor.fetchall():
                cursor.execute(f"DROP TABLE {table}")
            for sql in step.statements[:cut]:
                cursor.execute(sql)
        store = MysqlStore(bare, Clock())
        assert await store.migrate() == STEPS
        await enqueue(store, new_job("a"))
        await store.close()
    connection.close()


async def test_many_migrate_at_once(bare: str) -> None:
    done = await asyncio.gather(*(MysqlStore(bare, Clock()).migrate() for _ in range(6)))

    assert sorted(done) == [[]] * 5 + [STEPS]


def test_two_processes_migrate_at_once(bare: str) -> None:
    command = [sys.executable, "-m", "dibs", "migrate", "--store", bare]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = sorted(process.communicate(timeout=50)[0].strip() for process in running)

    assert [process.returncode for process in running] == [0, 0]
    assert said == ["nothing to do: the schema is up to date", "\n".join(f"ran {name}" for name in STEPS)]


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
