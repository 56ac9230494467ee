"""``connection=``: enqueue and complete inside the user's own transaction, on asyncmy's connections and PyMySQL's."""

import asyncio
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pymysql
import pytest

from dibs.clock import FakeClock
from dibs.domain import transitions
from dibs.domain.errors import NotSupported, StoreUnavailable
from dibs.domain.job import Extension, Outcome, Status
from dibs.store import Refusal
from dibs.stores.mysql import MysqlStore
from dibs.testing.conformance.builders import (
    claim,
    claim_one,
    completed,
    enqueue,
    enqueue_and_claim,
    ids,
    new_job,
    new_jobs,
    one,
    read,
    soon,
)
from tests.servers.databases import connect_mysql
from tests.stores.mysql.conftest import Own, connected


@pytest.fixture
def blocking(url: str) -> Iterator[pymysql.Connection]:
    with connect_mysql(url, autocommit=False) as connection:
        yield connection


async def test_enqueue_commits_or_vanishes_with_the_user(store: MysqlStore, own: Own) -> None:
    for end in ("rollback", "commit"):
        groups = [[new_job(end, task=f"new {end}", tags=("t",))], new_jobs(2)]
        await store.insert(groups, connection=own.connection)
        assert await store.get([end]) == [None]
        await getattr(own.connection, end)()

    assert await store.get(["rollback"]) == [None]
    assert len(await claim(store)) == 3
    assert [event.event for event in await store.log("commit")] == ["enqueued", "claimed"]


async def test_a_duplicate_and_a_refusal_leave_the_user_s_transaction_alive(store: MysqlStore, own: Own) -> None:
    await enqueue(store, new_job("a", idempotency_key="k"))
    await own.run("CREATE TEMPORARY TABLE sold (id int) ENGINE = InnoDB")
    await own.run("INSERT INTO sold VALUES (1)")
    first, second = await store.insert(
        [[new_job(idempotency_key="k")], [new_job("b"), new_job(idempotency_key="k", params=b"2")]],
        connection=own.connection,
    )
    assert not isinstance(first, Refusal)
    assert first[0].was_duplicate
    assert isinstance(second, Refusal)
    await own.connection.commit()

    assert await own.value("SELECT count(*) FROM sold") == 1
    assert await store.get(["b"]) == [None]


async def test_a_duplicate_that_the_user_s_snapshot_does_not_show(store: MysqlStore, own: Own) -> None:
    """By default, what was committed after the transaction first looked is invisible to it; but the key is taken."""
    await own.run("SELECT count(*) FROM dibs_job")
    await enqueue(store, new_job("a", idempotency_key="k"))
    assert await own.value("SELECT count(*) FROM dibs_job") == 0

    [same, other] = await store.insert(
        [[new_job(idempotency_key="k")], [new_job(idempotency_key="k", params=b"2")]], connection=own.connection
    )
    assert not isinstance(same, Refusal)
    assert (same[0].id, same[0].was_duplicate) == ("a", True)
    assert isinstance(other, Refusal)
    assert other.field == "idempotency_key"
    await own.connection.commit()


async def test_a_claim_that_the_user_s_snapshot_does_not_show_is_completed(store: MysqlStore, own: Own) -> None:
    await own.run("SELECT count(*) FROM dibs_job")
    jobs = [await enqueue_and_claim(store, new_job(task=f"new{n}"), tasks=(f"new{n}",)) for n in range(2)]
    writes = [completed(jobs[0], b"1"), transitions.release(jobs[1].ref)]
    written = await store.write(writes, connection=own.connection)
    await own.connection.commit()

    assert [answer.outcome for answer in written] == [Outcome.APPLIED] * 2
    assert [(await read(store, job.id)).status for job in jobs] == [Status.COMPLETED, Status.PENDING]


async def test_the_same_key_twice_in_one_transaction(store: MysqlStore, own: Own) -> None:
    for expected in (False, True):
        [[job]] = await store.insert([[new_job(unique_key="k")]], connection=own.connection)  # type: ignore[misc]
        assert job.was_duplicate is expected
    await own.connection.commit()


async def test_others_enqueue_into_a_lane_that_an_open_transaction_made(store: MysqlStore, own: Own) -> None:
    await store.insert([[new_job("mine", task="new")]], connection=own.connection)
    await asyncio.wait_for(enqueue(store, new_job("yours", task="new")), 5)
    assert ids(await claim(store)) == ["yours"]
    await store.write([transitions.cancel("yours")])
    await store.write([transitions.purge("yours")])
    await store.prune(10)  # leaves the lane that is in use
    await own.connection.commit()

    assert ids(await claim(store)) == ["mine"]


async def test_complete_with_the_user(store: MysqlStore, own: Own, clock: FakeClock) -> None:
    job = await enqueue_and_claim(store, new_job("a"), lease=1)
    [written] = await store.write([completed(job)], connection=own.connection)
    assert written == (Outcome.APPLIED, Status.COMPLETED)
    clock.advance(2)
    assert await store.extend([Extension(job.ref)]) == [Outcome.BUSY]
    [late] = await store.expired(10)
    assert [w.outcome for w in await store.write([transitions.expire(late, clock.random)])] == [Outcome.BUSY]
    await own.connection.rollback()
    assert (await read(store, "a")).status is Status.CLAIMED

    await store.write([completed(job, b"7")], connection=own.connection)
    await own.connection.commit()
    done = await read(store, "a")
    assert (done.status, done.result) == (Status.COMPLETED, 7)


async def test_a_stale_holder_is_told(store: MysqlStore, own: Own) -> None:
    job = await enqueue_and_claim(store, new_job("a"))
    await store.write([transitions.cancel("a")])
    [written] = await store.write([completed(job)], connection=own.connection)

    assert written.outcome is Outcome.LOST
    await own.connection.rollback()


async def test_repeating_leaves_the_transaction_as_it_was(store: MysqlStore, own: Own) -> None:
    job = await enqueue_and_claim(store, new_job("a"))
    await store.write([completed(job)])
    [written] = await store.write([completed(job)], connection=own.connection)
    assert written.outcome is Outcome.REPEATED
    await store.insert([[new_job("b")]], connection=own.connection)
    await own.connection.commit()

    assert await store.get(["b"]) != [None]


async def test_a_user_s_commit_is_found_by_who_waits(store: MysqlStore, own: Own, clock: FakeClock) -> None:
    running = asyncio.ensure_future(store.wait(one(), 3600))
    await asyncio.sleep(0.1)
    await store.insert([[new_job("a")]], connection=own.connection)
    await own.connection.commit()

    await soon(running, clock)
    assert (await claim_one(store)).id == "a"


async def test_the_user_s_settings_are_left_as_they_were(store: MysqlStore, own: Own) -> None:
    settings = "SELECT @@innodb_lock_wait_timeout, @@sql_mode, @@time_zone, @@autocommit, @@tx_isolation"
    await own.run("SET innodb_lock_wait_timeout = 7")
    before = await own.run(settings)
    job = await enqueue_and_claim(store, new_job())
    await store.insert([[new_job("a")]], connection=own.connection)
    await store.write([transitions.release(job.ref)], connection=own.connection)

    assert await own.run(settings) == before


async def test_a_deadlock_in_the_user_s_transaction_is_told(store: MysqlStore, own: Own, url: str) -> None:
    """The server has rolled all of it back, so there is nothing that could be tried again.

    The names are new: InnoDB locks the gap around one that was just removed and is used again.
    """
    mine, theirs = f"mine-{uuid4()}", f"theirs-{uuid4()}"
    other = await connected(url)
    await own.run("CREATE TABLE IF NOT EXISTS shop (id int PRIMARY KEY) ENGINE = InnoDB")
    await store.insert([[new_job(mine, idempotency_key=mine)]], connection=own.connection)
    for n in range(5):  # more than the first has done, so that it is the first which must give way
        await other.run(f"INSERT INTO shop VALUES ({n})")
    await store.insert([[new_job(theirs, idempotency_key=theirs)]], connection=other.connection)
    waiting = asyncio.ensure_future(
        store.insert([[new_job(f"a{mine}", idempotency_key=mine, params=b"2")]], connection=other.connection)
    )
    await asyncio.sleep(0.3)
    with pytest.raises(StoreUnavailable, match="waited for each other"):
        await store.insert([[new_job(f"a{theirs}", idempotency_key=theirs, params=b"2")]], connection=own.connection)
    await asyncio.wait_for(waiting, 10)
    await other.connection.commit()
    await own.connection.rollback()

    assert await store.get([mine]) == [None]
    await other.run("DROP TABLE shop")
    await other.connection.ensure_closed()


async def test_pymysql_that_blocks(store: MysqlStore, blocking: pymysql.Connection) -> None:
    await store.insert([[new_job("a")], [new_job("b")]], connection=blocking)
    blocking.rollback()
    await store.insert([[new_job("c", tags=("t",), idempotency_key="k")]], connection=blocking)
    assert await store.get(["c"]) == [None]
    blocking.commit()

    job = await claim_one(store)
    assert job.id == "c"
    await store.write([completed(job, b"[1]")], connection=blocking)
    blocking.commit()
    assert (await read(store, "c")).result == [1]
    [lost] = await store.write([transitions.release(job.ref)], connection=blocking)
    assert lost.outcome is Outcome.LOST


async def test_connections_of_any_make(store: MysqlStore, url: str) -> None:
    """Other cursors, other character sets, autocommit with a transaction begun."""
    makes: list[dict[str, Any]] = [
        {"cursorclass": pymysql.cursors.DictCursor},
        {"charset": "latin1"},
        {"sql_mode": "NO_BACKSLASH_ESCAPES,ANSI_QUOTES"},
        {"autocommit": True},
    ]
    for n, options in enumerate(makes):
        with connect_mysql(url, **{"autocommit": False, **options}) as connection:
            connection.begin()
            params = '{"é\'": "\\\\😀"}'.encode()
            await store.insert([[new_job(f"{n}", idempotency_key=f"ü'\\{n}", params=params)]], connection=connection)
            connection.commit()
            job = await claim_one(store)
            assert (job.id, job.idempotency_key, job.params_json) == (f"{n}", f"ü'\\{n}", params)
            connection.begin()
            await store.write([completed(job, params)], connection=connection)
            connection.commit()
            assert (await read(store, f"{n}")).result_json == params


async def test_anything_else_is_not_supported(store: MysqlStore, url: str, blocking: pymysql.Connection) -> None:
    each = await connected(url, autocommit=True)
    with pytest.raises(NotSupported, match="no transaction"):
        await store.insert([[new_job()]], connection=each.connection)
    await each.connection.ensure_closed()
    with pytest.raises(NotSupported, match="object cannot be used"):
        await store.write([], connection=object())
    blocking.autocommit(True)
    with pytest.raises(NotSupported, match="no transaction"):
        await store.insert([[new_job()]], connection=blocking)
