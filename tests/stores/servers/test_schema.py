"""The schema: made by ``migrate`` alone, once, by whoever comes first."""

import asyncio
import logging
import subprocess
import sys

import pytest

from dibs.clock import Clock
from dibs.domain.errors import SchemaOutdated
from dibs.testing.conformance.builders import claim_one, enqueue, new_job
from tests.stores.servers.kinds import Kind


@pytest.fixture
def bare(kind: Kind) -> str:
    return kind.bare("bare")


async def test_first_use_of_a_schema_that_is_not_there(kind: Kind, bare: str) -> None:
    store = kind.store(bare, Clock())
    with pytest.raises(SchemaOutdated) as caught:
        await enqueue(store, new_job())
    assert "dibs migrate" in caught.value.hint

    assert await store.migrate(dry_run=True) == kind.steps
    with pytest.raises(SchemaOutdated):
        await store.open()
    assert await store.migrate() == kind.steps
    assert await store.migrate() == await store.migrate(dry_run=True) == []
    await enqueue(store, new_job("a"))
    assert (await claim_one(store)).id == "a"
    await store.close()


async def test_a_schema_newer_than_this_dibs_is_refused(kind: Kind, bare: str) -> None:
    store = kind.store(bare, Clock())
    await store.migrate()
    await note_steps(kind, bare, "(9998, '9998_late.breaking.sql'), (9999, '9999_later.sql')")

    with pytest.raises(SchemaOutdated, match="9999") as caught:
        await store.open()
    assert "upgrade dibs" in caught.value.hint
    with pytest.raises(SchemaOutdated):
        await store.migrate()
    await store.close()


async def test_a_newer_schema_that_was_only_added_to_is_used(
    kind: Kind, bare: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = kind.store(bare, Clock())
    await store.migrate()
    await note_steps(kind, bare, "(9999, '9999_later.sql')")
    caplog.set_level(logging.INFO, "dibs")

    await enqueue(store, new_job("a"))
    assert (await claim_one(store)).id == "a"
    assert await store.migrate() == await store.migrate(dry_run=True) == []
    assert "has schema 9999, this version of dibs knows" in caplog.text
    await store.close()


async def note_steps(kind: Kind, url: str, steps: str) -> None:
    """Have a database say that a later dibs has migrated it."""
    own = await kind.connected(url)
    await own.begin()
    await own.run(f"INSERT INTO dibs_migration (version, name) VALUES {steps}")
    await own.commit()
    await own.close()


async def test_many_migrate_at_once(kind: Kind, bare: str) -> None:
    done = await asyncio.gather(*(kind.store(bare, Clock()).migrate() for _ in range(6)))

    assert sorted(done) == [[]] * 5 + [kind.steps]


def test_two_processes_migrate_at_once(kind: Kind, bare: str) -> None:
    command = [sys.executable, "-m", "dibs", "migrate", "--store", bare]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = sorted(process.communicate(timeout=50)[0].strip() for process in running)

    assert [process.returncode for process in running] == [0, 0]
    assert said == ["nothing to do: the schema is up to date", "\n".join(f"ran {name}" for name in kind.steps)]
