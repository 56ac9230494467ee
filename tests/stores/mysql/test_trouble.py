"""What gets in the way on MySQL and MariaDB only; what does on any server is in ``tests/stores/servers``."""

import asyncio
import time
from typing import Any

import pytest

from dibs.clock import Clock
from dibs.domain.errors import StoreUnavailable
from dibs.domain.job import Extension, Outcome
from dibs.store import Refusal
from dibs.stores.mysql import MysqlStore, claiming
from dibs.testing.conformance.builders import (
    claim,
    enqueue,
    enqueue_and_claim,
    ids,
    new_job,
    one,
)
from tests.servers import mariadb
from tests.servers.databases import connect_mysql
from tests.stores.mysql.conftest import Own


async def test_the_server_s_clock_rules_whatever_the_time_zone(real: MysqlStore, own: Own) -> None:
    now = "SELECT CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED)"
    before = await own.value(now)
    [job] = await enqueue(real, new_job())
    after = await own.value(now)
    assert before <= job.created_us <= after

    await own.run("SET time_zone = '+11:00'")
    [[mine]] = await real.insert([[new_job()]], connection=own.connection)  # type: ignore[misc]
    assert 0 <= mine.created_us - job.created_us < 60_000_000


async def test_a_wrong_password_and_a_wrong_database_are_told(url: str) -> None:
    user, _, host = url.partition("@")
    for bad, said in ((f"mysql://dibs:hush@{host}", "password is wrong"), (f"{user}@{host}_none", "no such database")):
        store = MysqlStore(bad, Clock())
        with pytest.raises(StoreUnavailable, match=said) as caught:
            await store.open()
        assert "hush" not in str(caught.value)
        await store.close()


async def test_a_transaction_whose_client_stalls_is_ended_by_the_server(real: MysqlStore) -> None:
    """A stopped process holds its rows no longer than that; here, one that has locked a row and says nothing more."""
    job = await enqueue_and_claim(real, new_job())
    async with real._sites.here().pool.connection() as link:
        await link.send(["START TRANSACTION", "SELECT seq FROM dibs_job FOR UPDATE"])
        began = time.monotonic()
        assert await real.extend([Extension(job.ref)]) == [Outcome.BUSY]
        while (outcome := await real.extend([Extension(job.ref)])) == [Outcome.BUSY]:
            assert time.monotonic() - began < 15
        link.terminate()

    assert outcome == [Outcome.APPLIED]


async def test_a_slot_of_the_clock_that_is_held_holds_up_no_one_for_long(real: MysqlStore, own: Own) -> None:
    """Two connections may share a slot; who holds it is about to commit. One that is not, is waited for, and told."""
    await real.open()
    await own.run("SELECT at FROM dibs_clock FOR UPDATE")
    running = asyncio.ensure_future(enqueue(real, new_job("a")))
    await asyncio.sleep(0.1)
    assert not running.done()
    await own.rollback()

    assert ids(await running) == ["a"]


async def test_a_socket_in_place_of_a_port() -> None:
    with mariadb.private() as server:
        connect_mysql(server.url).cursor().execute("CREATE DATABASE jobs")
        store = MysqlStore(f"mysql://dibs:se%27cr%20et@nowhere/jobs?socket={server.socket}", Clock())
        await store.migrate()
        await enqueue(store, new_job("a"))
        assert ids(await claim(store)) == ["a"]
        await store.close()


async def test_a_deadlock_is_tried_again_and_told_to_no_one(real: MysqlStore, own: Own) -> None:
    """Groups with the same keys in opposite orders, until InnoDB has ended one; with tags, so that they wait."""
    met = "SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'Innodb_deadlocks'"
    before, turn, pool = int(await own.value(met)), 0, real._sites.here().pool
    for link in [await pool.acquire() for _ in range(8)]:  # so that none waits for another's connection
        pool.release(link, None)
    while int(await own.value(met)) == before:
        turn += 1
        assert turn < 200
        keys = [f"{turn}-{n}" for n in range(10)]
        groups = [[new_job(idempotency_key=key, tags=("t",)) for key in keys[::step]] for step in (1, -1) * 4]
        answers = await asyncio.gather(*(real.insert([group]) for group in groups))
        jobs = [job for [answer] in answers if not isinstance(answer, Refusal) for job in answer]
        assert (len(jobs), len({job.id for job in jobs})) == (80, 10)


async def test_what_was_leased_before_a_claim_is_tried_again_is_returned(
    real: MysqlStore, own: Own, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two transactions in one call: the second waits for a lock in vain, and only it is tried again."""
    await enqueue(real, new_job("a", queue="first"), new_job("b", queue="second"))
    plain, calls = claiming._claim_best, 0

    async def claim_best(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            await own.run("SELECT at FROM dibs_clock FOR UPDATE")
        try:
            return await plain(*args)
        finally:
            if calls == 2:
                await own.rollback()

    monkeypatch.setattr(claiming, "_claim_best", claim_best)
    first, second = await real.claim([one(queues=("first",)), one(queues=("second",))])

    assert calls == 4, "all was asked again"
    assert (ids(first), ids(second)) == (["a"], ["b"])
