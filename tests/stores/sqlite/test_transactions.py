"""``connection=``: enqueue and complete inside the user's own transaction."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from dibs.clock import FakeClock
from dibs.domain.errors import NotSupported, StoreUnavailable
from dibs.domain.job import Outcome, Status
from dibs.stores.sqlite import SqliteStore
from dibs.testing.conformance.builders import claim, claim_one, completed, enqueue, new_job, read


@pytest.fixture
def own(store: SqliteStore, path: Path) -> Iterator[apsw.Connection]:
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(10_000)  # the store writes too
    connection.execute("CREATE TABLE orders (id)")
    yield connection
    connection.close()


async def test_enqueue_commits_with_the_user(store: SqliteStore, own: apsw.Connection) -> None:
    with own:
        own.execute("INSERT INTO orders VALUES (1)")
        await store.insert([[new_job("a")]], connection=own)
        assert await store.get(["a"]) == [None]

    assert (await claim_one(store)).id == "a"
    assert [event.event for event in await store.log("a")] == ["enqueued", "claimed"]


async def test_enqueue_vanishes_with_the_user(store: SqliteStore, own: apsw.Connection) -> None:
    own.execute("BEGIN IMMEDIATE")
    await store.insert([[new_job("a", task="never seen before")]], connection=own)
    own.execute("ROLLBACK")
    await enqueue(store, new_job("b", task="another"))  # gets the lane's number that was rolled back

    [job] = await claim(store)
    assert (job.id, job.task) == ("b", "another")


async def test_complete_with_the_user(store: SqliteStore, own: apsw.Connection) -> None:
    await enqueue(store, new_job("a"))
    job = await claim_one(store)
    own.execute("BEGIN IMMEDIATE")
    [written] = await store.write([completed(job)], connection=own)
    assert written.outcome is Outcome.APPLIED
    own.execute("ROLLBACK")
    assert (await read(store, "a")).status is Status.CLAIMED

    own.execute("BEGIN IMMEDIATE")
    await store.write([completed(job, b"7")], connection=own)
    own.execute("COMMIT")

    done = await read(store, "a")
    assert (done.status, done.result) == (Status.COMPLETED, 7)


async def test_a_stale_holder_changes_nothing(store: SqliteStore, own: apsw.Connection, clock: FakeClock) -> None:
    await enqueue(store, new_job("a"))
    stale = await claim_one(store)
    await store.write([completed(stale)])
    await store.write([])

    with own:
        [again] = await store.write([completed(stale)], connection=own)
    assert again.outcome is Outcome.REPEATED


async def test_the_users_tracers_do_not_see_our_rows(store: SqliteStore, own: apsw.Connection) -> None:
    def as_dict(cursor: apsw.Cursor, row: tuple[Any, ...]) -> Any:
        return dict(zip([name for name, *_ in cursor.description], row, strict=True))

    own.row_trace = as_dict
    with own:
        await store.insert([[new_job("a")]], connection=own)
        [[job]] = await store.insert([[new_job("a")]], connection=own)  # type: ignore[misc]

    assert job.was_duplicate
    assert own.row_trace is as_dict


async def test_a_transaction_that_cannot_write_is_left_as_it_was(store: SqliteStore, own: apsw.Connection) -> None:
    own.execute("BEGIN; SELECT * FROM orders").fetchall()  # its snapshot is older than what follows
    await enqueue(store, new_job("a"))

    with pytest.raises(StoreUnavailable):
        await store.insert([[new_job("b")]], connection=own)
    assert own.in_transaction
    own.execute("ROLLBACK")
    assert [job.id for job in await claim(store)] == ["a"]


async def test_anything_else_is_not_supported(store: SqliteStore, own: apsw.Connection, tmp_path: Path) -> None:
    with pytest.raises(NotSupported, match="no transaction"):
        await store.insert([[new_job()]], connection=own)
    with pytest.raises(NotSupported, match="object cannot be used"):
        await store.insert([[new_job()]], connection=object())
    other = apsw.Connection(str(tmp_path / "other.db"))
    other.execute("BEGIN")
    with pytest.raises(NotSupported, match="another file"):
        await store.write([], connection=other)
    other.close()
