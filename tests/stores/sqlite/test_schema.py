"""The file: how it comes to its schema, and what is refused."""

import logging
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from dibs.clock import FakeClock
from dibs.domain.errors import InvalidRequest, SchemaOutdated
from dibs.domain.job import Outcome
from dibs.stores.sqlite import SqliteStore, connection, from_url, migrate
from dibs.testing.conformance.builders import claim_one, enqueue, failed, new_job, settle

ROOT = Path(__file__).parents[3]
STEPS = [step.name for step in migrate.steps()]


def test_schema_sql_is_what_the_migrations_give() -> None:
    command = [sys.executable, "tools/schema.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_migrations_are_numbered_one_by_one() -> None:
    assert [step.version for step in migrate.steps()] == list(range(1, len(STEPS) + 1))


async def test_migrate_lists_what_it_would_do_and_does_it_when_opened(path: Path, clock: FakeClock) -> None:
    store = SqliteStore(path, clock)

    assert await store.migrate(dry_run=True) == STEPS
    assert list(path.parent.iterdir()) == []
    assert await store.migrate() == STEPS
    assert await store.migrate(dry_run=True) == []
    await enqueue(store, new_job())
    await store.close()


async def test_a_file_of_a_newer_dibs_is_refused(store: SqliteStore, path: Path, clock: FakeClock) -> None:
    await store.close()
    foreign = apsw.Connection(str(path))
    foreign.execute(
        "INSERT INTO dibs_migration VALUES (9998, '9998_late.breaking.sql', 0), (9999, '9999_later.sql', 0)"
    )
    foreign.close()
    newer = SqliteStore(path, clock)

    with pytest.raises(SchemaOutdated, match="schema 9999") as raised:
        await newer.open()
    assert "upgrade" in raised.value.hint
    with pytest.raises(SchemaOutdated):
        await newer.migrate(dry_run=True)
    await newer.close()


async def test_a_file_that_a_newer_dibs_has_only_added_to(
    store: SqliteStore, path: Path, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    await store.close()
    foreign = apsw.Connection(str(path))
    foreign.execute("INSERT INTO dibs_migration VALUES (9999, '9999_later.sql', 0)")
    foreign.execute("ALTER TABLE dibs_job ADD COLUMN later TEXT; ALTER TABLE dibs_event ADD COLUMN later TEXT")
    foreign.close()
    caplog.set_level(logging.INFO, "dibs")
    newer = SqliteStore(path, clock)

    await enqueue(newer, new_job("a"))
    job = await claim_one(newer)
    assert await settle(newer, failed(job)) == [Outcome.APPLIED]
    assert await newer.migrate() == await newer.migrate(dry_run=True) == []
    assert "has schema 9999, this version of dibs knows" in caplog.text
    await newer.close()


async def test_the_file_may_be_the_users_own(path: Path, clock: FakeClock) -> None:
    own = apsw.Connection(str(path))
    own.execute("CREATE TABLE job (id); PRAGMA user_version = 42")
    store = SqliteStore(path, clock)
    await store.open()

    await enqueue(store, new_job())

    assert own.pragma("user_version") == 42
    await store.close()
    own.close()


def test_an_old_library_is_refused(monkeypatch: pytest.MonkeyPatch, clock: FakeClock, path: Path) -> None:
    monkeypatch.setattr(connection, "OLDEST", (99, 0, 0))

    with pytest.raises(Exception, match="can damage a file") as raised:
        SqliteStore(path, clock)
    assert "apsw" in str(raised.value)


@pytest.mark.parametrize(("url", "path"), [
    ("sqlite:///jobs.db", Path.cwd() / "jobs.db"),
    ("sqlite:///some/jobs.db", Path.cwd() / "some/jobs.db"),
    ("sqlite:////var/lib/jobs.db", Path("/var/lib/jobs.db")),
    ("sqlite:////tmp/a%20b.db", Path("/tmp/a b.db")),
])  # fmt: skip
def test_a_url_names_a_file(url: str, path: Path, clock: FakeClock) -> None:
    assert from_url(url, clock).path == str(path)


@pytest.mark.parametrize(
    "url", ["sqlite://jobs.db", "sqlite:///", "sqlite:///:memory:", "sqlite:///a.db?mode=ro", "x:///a"]
)
def test_other_urls_are_refused(url: str, clock: FakeClock) -> None:
    with pytest.raises(InvalidRequest, match="url"):
        from_url(url, clock)


@pytest.mark.parametrize("path", ["", ":memory:"])
def test_a_store_needs_a_file(path: str, clock: FakeClock) -> None:
    with pytest.raises(InvalidRequest, match="path"):
        SqliteStore(path, clock)
