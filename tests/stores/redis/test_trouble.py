"""When the server, its scripts or its connections get in the way: told, survived, and over by itself."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import redis

import dibs
from dibs.clock import Clock
from dibs.domain import transitions
from dibs.domain.errors import InvalidRequest, NotSupported, StoreUnavailable
from dibs.domain.job import Extension, Outcome, Status
from dibs.stores.redis import RedisStore, address
from dibs.testing.conformance.builders import (
    claim,
    claim_one,
    completed,
    enqueue,
    enqueue_and_claim,
    failed,
    ids,
    new_job,
    new_jobs,
    one,
    read,
    released,
    settle,
)
from dibs.testing.conformance.log import assert_replays
from tests.servers import redis as server


async def soon(call: Callable[[], Awaitable[Any]], seconds: float = 20.0) -> Any:
    """Call until the store is back."""
    end = time.monotonic() + seconds
    while True:
        try:
            return await call()
        except StoreUnavailable:
            assert time.monotonic() < end, "still unavailable"
            await asyncio.sleep(0.05)


def kill_all(own: redis.Redis) -> int:
    """End every connection to this database but our own."""
    number, mine = str(own.get_connection_kwargs()["db"]), own.client_id()
    others = [c["id"] for c in own.client_list() if c["db"] == number and int(c["id"]) != mine]
    return sum(own.client_kill_filter(_id=id) for id in others)


def micros(own: redis.Redis) -> int:
    seconds, rest = own.time()
    return int(seconds) * 1_000_000 + int(rest)


async def test_the_server_s_clock_rules(real: RedisStore, own: redis.Redis) -> None:
    before = micros(own)
    [job] = await enqueue(real, new_job())
    assert before <= job.created_us <= micros(own)


async def test_scripts_are_flushed_in_the_middle_and_no_one_notices(real: RedisStore, own: redis.Redis) -> None:
    async def work(name: str) -> int:
        done = 0
        for n in range(20):
            await enqueue(real, new_job(f"{name}-{n}", queue=name, unique_key=f"{name}-{n}"))
            [job] = await claim(real, name, limit=1, queues=(name,))
            own.script_flush()
            assert await real.extend([Extension(job.ref)]) == [Outcome.APPLIED]
            own.script_flush()
            assert await settle(real, failed(job)) == [Outcome.APPLIED]
            [job] = await claim(real, name, limit=1, queues=(name,))
            own.script_flush()
            assert await settle(real, completed(job)) == [Outcome.APPLIED]
            done += 1
        return done

    assert sum(await asyncio.gather(*(work(f"w{n}") for n in range(3)))) == 60
    assert (await real.counts()).completed == 60


async def test_every_connection_is_killed_and_work_goes_on(real: RedisStore, own: redis.Redis) -> None:
    await enqueue(real, *new_jobs(20))
    done: list[str] = []
    for _ in range(5):
        [job] = await soon(lambda: claim(real, limit=1))
        assert kill_all(own) >= 1
        assert await soon(lambda job=job: settle(real, completed(job))) == [Outcome.APPLIED]  # type: ignore[misc]
        done.append(job.id)

    assert len(set(done)) == 5
    assert (await real.counts()).completed == 5


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_the_server_restarts_and_what_was_acknowledged_is_there(mode: str) -> None:
    with server.private(server.DURABLE) as private:
        store = RedisStore(private.url, Clock())
        held = await enqueue_and_claim(store, new_job(queue="held"), queues=("held",))
        await enqueue(store, *new_jobs(3))
        await store.put("a", b"1")
        waiting = asyncio.ensure_future(store.wait(one(queues=("other",)), 60))
        await asyncio.sleep(0.1)
        await asyncio.to_thread(private.stop, mode)
        with pytest.raises(StoreUnavailable):
            await claim(store)
        await asyncio.to_thread(private.start)

        assert await soon(lambda: settle(store, completed(held))) == [Outcome.APPLIED]
        assert len(await soon(lambda: claim(store, limit=10))) == 3
        assert await store.read("a") is not None
        await enqueue(store, new_job(queue="other"))
        await asyncio.wait_for(waiting, 5)
        await assert_replays(store, (await store.find(dibs.domain.job.Query()))[0])
        await store.close()


async def test_no_server_is_told_and_the_password_is_not() -> None:
    store = RedisStore("redis://nobody:hush@127.0.0.1:1/3", Clock())
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:1/3") as caught:
        await store.open()
    assert "hush" not in f"{caught.value!r} {caught.value.__cause__!r}"
    await store.close()


async def test_what_the_server_refuses_is_told_with_a_hint() -> None:
    with server.private({"databases": "4"}) as private:
        private.ask("CONFIG", "SET", "requirepass", "right")
        bad = {
            private.url: "password is wrong",
            private.url.replace("redis://", "redis://:hush@"): "password is wrong",
            private.url.replace("redis://", "redis://:right@").replace("/0", "/9"): "no such database",
        }
        for url, said in bad.items():
            store = RedisStore(url, Clock())
            with pytest.raises(StoreUnavailable, match=said) as caught:
                await store.open()
            assert caught.value.hint
            assert "hush" not in str(caught.value)
            await store.close()
        good = RedisStore(private.url.replace("redis://", "redis://:right@"), Clock())
        await enqueue(good, new_job())
        await good.close()


async def test_a_replica_takes_no_writes_and_is_well_again_as_a_master() -> None:
    with server.private() as private:
        store = RedisStore(private.url, Clock())
        [job] = await enqueue(store, new_job())
        private.ask("REPLICAOF", "127.0.0.1", "1")
        with pytest.raises(StoreUnavailable, match="replica"):
            await claim(store)
        with pytest.raises(StoreUnavailable, match="replica"):
            await enqueue(store, new_job())
        private.ask("REPLICAOF", "NO", "ONE")
        assert ids(await claim(store)) == [job.id]
        assert len(await store.log(job.id)) == 2
        await store.close()


async def test_a_full_memory_refuses_whole_enqueues_and_lets_jobs_end() -> None:
    with server.private() as private:
        store = RedisStore(private.url, Clock())
        await enqueue(store, *new_jobs(20))
        private.ask("CONFIG", "SET", "maxmemory", "1")
        with pytest.raises(StoreUnavailable, match="memory is full") as caught:
            await enqueue(store, *new_jobs(3, tags=("t",)))
        assert "noeviction" in (caught.value.hint or "")
        jobs = await claim(store, limit=10)
        assert await settle(store, *map(completed, jobs[:5])) == [Outcome.APPLIED] * 5
        assert await settle(store, *map(released, jobs[5:])) == [Outcome.APPLIED] * 5
        private.ask("CONFIG", "SET", "maxmemory", "0")

        found = await store.find(dibs.domain.job.Query())
        assert len(found[0]) == 20, "a part of the refused group is there"
        await assert_replays(store, found[0])
        assert len(await claim(store)) == 15
        await store.close()


async def test_a_full_disk_refuses_and_forgets_nothing() -> None:
    """A server that could not save takes no writes, until it can; what was acknowledged before is there."""
    with server.private({**server.DURABLE, "dbfilename": "folder", "save": "3600 1"}) as private:
        store = RedisStore(private.url, Clock())
        held = await enqueue_and_claim(store, new_job("held"))
        await enqueue(store, new_job("next"))
        in_the_way = private.folder / "folder" / "in-the-way"
        in_the_way.mkdir(parents=True)
        save(private)
        for call in (
            lambda: enqueue(store, *new_jobs(3)),
            lambda: claim(store),
            lambda: settle(store, completed(held)),
        ):
            with pytest.raises(StoreUnavailable, match="cannot save to its disk"):
                await call()
        in_the_way.rmdir()
        in_the_way.parent.rmdir()
        save(private)

        assert await settle(store, completed(held)) == [Outcome.APPLIED]
        assert ids(await claim(store)) == ["next"]
        found = (await store.find(dibs.domain.job.Query()))[0]
        assert sorted(ids(found)) == ["held", "next"]
        await assert_replays(store, found)
        await store.close()


def save(private: server.Server) -> None:
    """Let it save all that it holds, or try to."""
    private.ask("BGSAVE")
    while private.ask("INFO", "persistence")["rdb_bgsave_in_progress"]:
        time.sleep(0.01)


async def test_a_short_lease_is_noticed_though_no_one_was_late_a_moment_ago(real: RedisStore) -> None:
    await enqueue(real, new_job())
    assert await real.expired(10) == []
    job = await claim_one(real, lease=0.05)
    await asyncio.sleep(0.1)

    assert ids(await real.expired(10)) == [job.id]


async def test_a_cancelled_claim_leaves_nothing_behind(url: str) -> None:
    """Its answer is never read by whoever comes next, on the same pool."""
    store = RedisStore(f"{url}?pool=1", Clock())
    await enqueue(store, *new_jobs(200))
    for n in range(40):
        running = asyncio.ensure_future(claim(store, limit=1))
        for _ in range(n % 8):
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        name = f"document-{n}"
        written = await store.put(name, name.encode())
        assert written is not None
        assert await store.read(name) == written
    for job in await claim(store, limit=200):
        assert await settle(store, completed(job)) == [Outcome.APPLIED]
    await store.close()


async def test_a_claim_whose_caller_gave_up_is_given_back(url: str) -> None:
    async with dibs.App(url) as app:
        await app.enqueue("t", id="a")
        for n in range(20):
            running = asyncio.ensure_future(app.claim())
            await asyncio.sleep(0.0004 * n)
            running.cancel()
            [claim_] = await asyncio.gather(running, return_exceptions=True)
            if isinstance(claim_, dibs.Claim):
                await claim_.release()
        job = await app.get("a")
        while job is not None and job.status is not Status.PENDING:
            await asyncio.sleep(0.01)
            job = await app.get("a")
        assert job is not None
        assert (await app.verify()).ok


async def test_what_was_leased_before_a_claim_failed_is_returned(
    real: RedisStore, own: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large claim is several scripts: the first is done when the second one fails."""
    await enqueue(real, *new_jobs(400))
    site, run = real._sites.here(), real._sites.here().run
    calls = 0

    async def cut(script: Any, *words: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > 1:
            monkeypatch.undo()
            raise StoreUnavailable("cut")
        return await run(script, *words)

    monkeypatch.setattr(site, "run", cut)
    assert len(await claim(real, limit=400)) == 250
    assert len(await claim(real, limit=400)) == 150


async def test_a_store_that_was_inherited_by_a_fork_says_so(real: RedisStore) -> None:
    await real.open()
    pid = os.fork()
    if pid == 0:  # pragma: no cover - the child
        try:
            real._sites.here()
        except StoreUnavailable:
            os._exit(42)
        os._exit(1)
    _, status = await asyncio.to_thread(os.waitpid, pid, 0)
    assert os.waitstatus_to_exitcode(status) == 42
    assert await real.now() > 0


async def test_a_write_that_others_overtook_is_judged_again(real: RedisStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Race: the job was extended between reading and writing. The state is compared whole."""
    job = await enqueue_and_claim(real, new_job())
    site, run = real._sites.here(), real._sites.here().run
    extended = 0

    async def meddle(script: Any, *words: Any) -> Any:
        nonlocal extended
        if script.name == "write" and extended < 3:
            extended += 1
            assert await real.extend([Extension(job.ref, 0.1 * extended, "on my way")]) == [Outcome.APPLIED]
        return await run(script, *words)

    monkeypatch.setattr(site, "run", meddle)
    assert await settle(real, failed(job)) == [Outcome.APPLIED]
    assert extended == 3
    found = await read(real, job.id)
    assert (found.status, found.attempts) == (Status.PENDING, 1)
    assert found.progress == pytest.approx(0.3)
    await assert_replays(real, [found])


async def test_a_redrive_that_others_overtook_conflicts(real: RedisStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Race: someone enqueues with the unique key between reading and writing."""
    job = await enqueue_and_claim(real, new_job(unique_key="one"))
    await settle(real, completed(job))
    site, run = real._sites.here(), real._sites.here().run

    async def meddle(script: Any, *words: Any) -> Any:
        if script.name == "write":
            monkeypatch.setattr(site, "run", run)
            await enqueue(real, new_job("newer", unique_key="one"))
        return await run(script, *words)

    monkeypatch.setattr(site, "run", meddle)
    assert await settle(real, transitions.redrive(job.id)) == [Outcome.CONFLICT]
    assert (await read(real, job.id)).status is Status.COMPLETED


async def test_a_redrive_is_dated_when_it_takes_its_key(real: RedisStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Race: the holder ends between reading and writing. Else the log would say that both had the key at once."""
    old = await enqueue_and_claim(real, new_job(unique_key="one"))
    await settle(real, completed(old))
    holder = await enqueue_and_claim(real, new_job(unique_key="one"))
    site, run = real._sites.here(), real._sites.here().run

    async def meddle(script: Any, *words: Any) -> Any:
        if script.name == "write":
            monkeypatch.setattr(site, "run", run)
            await settle(real, completed(holder))
        return await run(script, *words)

    monkeypatch.setattr(site, "run", meddle)
    assert await settle(real, transitions.redrive(old.id)) == [Outcome.APPLIED]
    redriven, ended = (await real.log(old.id))[-1], (await real.log(holder.id))[-1]
    assert redriven.at_us >= ended.at_us
    again = await read(real, old.id)
    assert (again.due_us, again.updated_us, redriven.due_us) == (redriven.at_us,) * 3
    assert ids(await claim(real)) == [old.id]
    await assert_replays(real, [await read(real, old.id)])


async def test_connection_is_not_supported(real: RedisStore) -> None:
    with pytest.raises(NotSupported, match="connection"):
        await real.insert([[new_job()]], connection=object())
    with pytest.raises(NotSupported, match="connection"):
        await real.write([transitions.cancel("a")], connection=object())


def test_a_url_is_read() -> None:
    found = address.read("rediss://me:p%40ss@host:7000/3?prefix=a:b&pool=2&timeout=1.5&tls_ca=/ca.pem")
    assert found == address.Address(
        "rediss://host:7000/3", "host", 7000, 3, "me", "p@ss", True, "/ca.pem", "a:b", 2, 1.5
    )
    assert address.read("redis://").name == "redis://localhost:6379/0"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis://h/x", "number of a database"),
        ("redis://h:x", "cannot be read"),
        ("redis://h?pool=0", "pool"),
        ("redis://h?timeout=soon", "timeout"),
        ("redis://h?timeout=nan", "timeout"),
        ("redis://h?prefix={a}", "prefix"),
        ("redis://h?colour=red", "is no option"),
        ("redis://h?tls_ca=/a", "is no option"),
    ],
)
def test_a_url_that_makes_no_sense_is_refused(url: str, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        address.read(url)
