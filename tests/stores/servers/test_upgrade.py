"""A migration of a later dibs under running stores of this one: what they wait for, and what they notice of it."""

import asyncio

import pytest

from dibs.clock import Clock
from dibs.domain.errors import SchemaOutdated, StoreUnavailable
from dibs.domain.job import Outcome
from dibs.stores.common import steps
from dibs.stores.common.steps import Step
from dibs.stores.mysql import migrate as mysql_migrate
from dibs.stores.postgres import migrate as postgres_migrate
from dibs.testing.conformance.builders import (
    claim_one,
    completed,
    enqueue,
    enqueue_and_claim,
    failed,
    find,
    new_job,
    settle,
)
from tests.stores.servers.kinds import Kind, Own, ServerStore

ADDS = "ALTER TABLE dibs_job ADD COLUMN later_{0} integer;\nALTER TABLE dibs_event ADD COLUMN later_{0} integer;\n"
WIDENS = {
    "postgresql": "ALTER TABLE dibs_event ALTER COLUMN n TYPE bigint, ALTER COLUMN attempts TYPE bigint;\n",
    "mysql": "ALTER TABLE dibs_event MODIFY n bigint NOT NULL, MODIFY attempts bigint NOT NULL;\n",
}


@pytest.fixture
def url(kind: Kind) -> str:
    """A database that a test may do anything to."""
    url = kind.bare("upgrade")
    asyncio.run(kind.store(url, Clock()).migrate())
    return url


def know(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Be a later dibs, which knows one step more."""
    for module in (postgres_migrate, mysql_migrate):
        known = module.steps()
        monkeypatch.setattr(module, "steps", lambda known=known: [*known, Step(2, "0002_later.sql", text)])


async def test_tables_are_altered_under_a_running_store(kind: Kind, real: ServerStore, own: Own) -> None:
    """Whatever was prepared or seen before is of no use any more, in the middle of anything; no one is told."""
    altered = asyncio.Event()

    async def work(name: str) -> int:
        number = 0
        while not altered.is_set():
            number += 1
            id = f"{name}-{number}"
            await enqueue(real, new_job(id, queue=name, max_attempts=3, tags=("odd",) if number % 2 else ()))
            job = await claim_one(real, queues=(name,))
            assert await settle(real, failed(job)) == [Outcome.APPLIED]
            assert await settle(real, completed(await claim_one(real, queues=(name,)))) == [Outcome.APPLIED]
            assert [event.attempts for event in await real.log(id)] == [0, 0, 1, 1, 2]
            assert id in {job.id for job in await find(real, queue=name)}
            await real.audit(None, 10)
        return number

    async def alter() -> None:
        for number in range(6):
            for sql in (ADDS.format(number) + (WIDENS[kind.name] if number == 3 else "")).split(";\n")[:-1]:
                await own.run(sql)
                await asyncio.sleep(0.1)
        altered.set()

    async with asyncio.timeout(40):
        altering = asyncio.create_task(alter())
        numbers = await asyncio.gather(*(work(name) for name in "abcd"))
        await altering
    assert all(numbers)
    assert (await real.counts()).completed == sum(numbers)


async def test_a_migration_that_waits_holds_no_one_up(
    kind: Kind, url: str, real: ServerStore, own: Own, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Someone has looked at a job, and does not end their transaction: the step waits for that, and no one else."""
    await enqueue(real, new_job())
    know(monkeypatch, ADDS.format(1))
    monkeypatch.setattr(steps, "PAUSE_SECONDS", 0.5)
    await own.begin()
    await own.run("SELECT * FROM dibs_job")

    later = kind.store(url, Clock())
    migrating = asyncio.create_task(later.migrate())
    waited = 0
    async with asyncio.timeout(30):
        watch = await kind.connected(url)
        while waited < 2:  # it has given up its place, and is back
            while not await watch.run(kind.blocked):
                assert not migrating.done()
                await asyncio.sleep(0.01)
            # Nothing is in the way of this but the step, which is about to give up.
            job = await enqueue_and_claim(real)
            assert await settle(real, completed(job)) == [Outcome.APPLIED]
            waited += 1
        await watch.close()
        assert not migrating.done()
        await own.rollback()
        assert await migrating == ["0002_later.sql"]
    await enqueue(later, new_job())
    await later.close()


async def test_a_migration_that_waits_in_vain_says_why(
    kind: Kind, url: str, own: Own, monkeypatch: pytest.MonkeyPatch
) -> None:
    know(monkeypatch, ADDS.format(1))
    monkeypatch.setattr(steps, "PATIENCE_SECONDS", 0.0)
    await own.begin()
    await own.run("SELECT * FROM dibs_job")
    later = kind.store(url, Clock())

    with pytest.raises(StoreUnavailable, match="another transaction holds what is needed") as caught:
        await later.migrate()
    assert not isinstance(caught.value, SchemaOutdated)
    assert "open for too long" in caught.value.hint
    await own.rollback()
    assert await later.migrate() == ["0002_later.sql"]
    await later.close()


async def test_a_table_that_is_gone_is_told_as_what_it_is(real: ServerStore, own: Own) -> None:
    job = await enqueue_and_claim(real)
    await own.run("ALTER TABLE dibs_job RENAME TO dibs_job_of_another")

    for call in (claim_one(real), settle(real, completed(job)), enqueue(real, new_job())):
        with pytest.raises(SchemaOutdated) as caught:
            await call
        assert "upgrade dibs here too" in caught.value.hint
