"""Those who have nothing to do ask seldom, and together; and what they ask less for is not noticed later."""

import asyncio

import asyncpg

import dibs
from bench.subjects import request
from dibs.clock import Clock
from dibs.domain.job import Document
from dibs.stores.postgres import PostgresStore
from dibs.testing.conformance.builders import claim_one, enqueue, new_job

WAITERS, SECONDS = 50, 6.0
TRANSACTIONS = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"


async def test_many_who_wait_in_one_process_ask_as_one(url: str, own: asyncpg.Connection) -> None:
    before = await own.fetchval(TRANSACTIONS)
    async with dibs.App(url) as app:
        loop = asyncio.get_running_loop()
        over = loop.time() + SECONDS

        async def wait(number: int) -> dibs.Claim | None:
            await asyncio.sleep(number / WAITERS)  # so that they have no reason of their own to look at the same time
            return await app.claim(f"w-{number}", wait=over - loop.time())

        assert await asyncio.gather(*map(wait, range(WAITERS))) == [None] * WAITERS
    await own.execute("SELECT pg_stat_clear_snapshot()")  # what ended connections did is counted by now
    asked = await own.fetchval(TRANSACTIONS) - before

    # Each has looked once by itself; from then on all of them look together, about once a second.
    assert asked < WAITERS * SECONDS / 2


async def test_a_claim_in_vain_asks_for_leases_in_passing(url: str, own: asyncpg.Connection) -> None:
    store = PostgresStore(url, Clock())
    await enqueue(store, new_job())
    await claim_one(store, lease=1.2)
    [nothing] = await store.claim([request(1)])
    assert nothing == []
    assert await store.expired(10) == []  # told by the claim: nothing has run out yet
    await own.execute("UPDATE dibs_job SET lease_expires = lease_expires - 2000000")
    store._none_late.forget()
    [nothing] = await store.claim([request(1)])
    assert nothing == []
    assert len(await store.expired(10)) == 1  # told by the claim: something has, so it is looked for
    await store.close()


async def test_a_put_without_a_condition_never_slips_between_a_look_and_a_write(url: str) -> None:
    """Race: a writer compares the version, another one writes, the first writes over it."""
    store, other = PostgresStore(url, Clock()), PostgresStore(url, Clock())
    written: list[Document] = []

    async def beat(beats: PostgresStore) -> None:
        for _ in range(40):
            document = await beats.put("worker/a", b"beat", keep_us=1_000_000_000)
            assert document is not None
            written.append(document)

    async def compare() -> None:
        for _ in range(40):
            found = await store.read("worker/a")
            document = await store.put("worker/a", b"compared", expect=0 if found is None else found.version)
            if document is not None:
                written.append(document)

    await asyncio.gather(beat(store), beat(other), compare(), compare())
    versions = [document.version for document in written]
    assert sorted(versions) == list(range(1, len(versions) + 1))
    last = await store.read("worker/a")
    assert last is not None
    assert last.version == len(versions)
    await store.close()
    await other.close()
