"""The disk, the lock and the file itself: clear errors, nothing half done, and on it goes once the cause is gone."""

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import apsw
import pytest

from dibs.clock import Clock, FakeClock
from dibs.domain.errors import StoreUnavailable
from dibs.stores.sqlite import SqliteStore, connection
from dibs.stores.sqlite.moment import Moment
from dibs.testing.conformance.builders import claim, enqueue, ids, new_job, read


def locked(path: Path) -> apsw.Connection:
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE; CREATE TABLE theirs (x)")
    return other


async def test_a_lock_is_waited_for(store: SqliteStore, path: Path) -> None:
    other = locked(path)
    inserting = asyncio.ensure_future(enqueue(store, new_job("a")))
    assert await store.get(["a"]) == [None]  # readers do not wait
    assert not inserting.done()
    other.execute("COMMIT")

    assert ids(await inserting) == ["a"]
    other.close()


async def test_a_lock_is_not_waited_for_for_ever(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "LOCK_SECONDS", 0.05)
    other = locked(path)
    tries = [asyncio.ensure_future(enqueue(store, new_job(f"{n}"))) for n in range(3)]
    for result in await asyncio.gather(*tries, return_exceptions=True):
        assert isinstance(result, StoreUnavailable)
        assert "locked" in result.message
        assert "transaction" in result.hint
    other.execute("ROLLBACK")
    other.close()

    assert ids(await enqueue(store, new_job("0"))) == ["0"]


async def test_a_full_disk(store: SqliteStore) -> None:
    await enqueue(store, new_job("a"))

    def limit(pages: int) -> object:
        def run(moment: Moment) -> object:
            used = moment.connection.pragma("page_count")
            return moment.connection.pragma("max_page_count", used + pages)

        return store._engine.write(run)

    await limit(1)  # type: ignore[misc]
    with pytest.raises(StoreUnavailable, match="full") as raised:
        await enqueue(store, new_job("big", params=b'"' + b"x" * 100_000 + b'"'))
    assert "space" in raised.value.hint
    assert await store.get(["big"]) == [None]

    await enqueue(store, new_job("big", params=b'"' + b"x" * 100_000 + b'"'))  # the cause has gone with the connection
    assert ids(await claim(store)) == ["a", "big"]


FULL = """
import asyncio, resource, signal, sys
from dibs.clock import Clock
from dibs.domain.errors import StoreUnavailable
from dibs.stores.sqlite import SqliteStore
from dibs.testing.conformance.builders import enqueue, new_job

async def main():
    store = SqliteStore(sys.argv[1], Clock())
    await store.open()
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
    done = 0
    try:
        while True:
            await enqueue(store, new_job(f"job-{done}", params=b'"' + b"x" * 50_000 + b'"'))
            done += 1
    except StoreUnavailable as error:
        print(done, error.hint, sep="|")
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    await enqueue(store, new_job(f"job-{done}"))
    await store.close()

asyncio.run(main())
"""


async def test_a_file_that_may_not_grow(path: Path) -> None:
    run = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    done, hint = run.stdout.split("|")
    assert int(done) > 3
    assert "disk" in hint.lower() or "space" in hint.lower()
    store = SqliteStore(path, Clock())
    await store.open()
    wanted = [f"job-{n}" for n in range(int(done) + 1)]
    assert ids(await store.get(wanted)) == wanted
    assert (await store.counts()).pending == int(done) + 1
    await store.close()


async def test_no_folder(tmp_path: Path, clock: FakeClock) -> None:
    store = SqliteStore(tmp_path / "none" / "jobs.db", clock)
    with pytest.raises(StoreUnavailable, match="none is no folder"):
        await store.open()
    (tmp_path / "none").mkdir()
    await store.open()

    assert ids(await enqueue(store, new_job("a"))) == ["a"]
    await store.close()


async def test_not_a_database(path: Path, clock: FakeClock) -> None:
    path.write_text("These are not the jobs that you are looking for. " * 100)  # noqa: ASYNC240
    store = SqliteStore(path, clock)
    with pytest.raises(StoreUnavailable, match="not an SQLite database") as raised:
        await store.open()
    assert "another file" in raised.value.hint
    assert path.read_text().startswith("These")  # noqa: ASYNC240
    await store.close()


async def test_a_folder_instead_of_a_file(tmp_path: Path, clock: FakeClock) -> None:
    store = SqliteStore(tmp_path, clock)
    with pytest.raises(StoreUnavailable, match="cannot be opened"):
        await store.open()
    await store.close()


async def test_a_file_that_was_replaced_is_noticed(store: SqliteStore, path: Path) -> None:
    await enqueue(store, new_job("a", task="one"))
    for file in path.parent.glob("jobs.db*"):
        file.unlink()

    await enqueue(store, new_job("b", task="two"))

    assert path.exists()  # noqa: ASYNC240
    assert await store.get(["a"]) == [None]
    assert (await read(store, "b")).task == "two"


async def test_the_wal_stays_small_and_a_reader_in_the_way_is_outlived(store: SqliteStore, path: Path) -> None:
    wal = path.with_name("jobs.db-wal")
    body = b'"' + b"x" * 200_000 + b'"'
    reader = apsw.Connection(str(path))
    reader.execute("BEGIN; SELECT count(*) FROM dibs_job").fetchall()
    for _ in range(100):
        await enqueue(store, new_job(params=body))
    assert wal.stat().st_size > 16 * 2**20
    reader.execute("COMMIT")
    for _ in range(100):
        await enqueue(store, new_job(params=body))

    # One that comes after the restart finds the file cut to its limit.
    assert wal.stat().st_size <= 24 * 2**20
    reader.close()


async def test_threads_may_share_a_store(path: Path) -> None:
    store = SqliteStore(path, Clock())
    await store.open()
    errors: list[BaseException] = []

    def work(name: str) -> None:
        async def run() -> None:
            for n in range(20):
                await enqueue(store, new_job(f"{name}-{n}"))
                await claim(store, limit=1)

        try:
            asyncio.run(run())
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=work, args=(f"t{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)

    assert errors == []
    assert (await store.counts()).claimed == 80
    await store.close()
