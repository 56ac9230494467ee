"""Prune and counts: what stays bounded."""

from dibs.broker.maintenance import Maintenance
from dibs.clock import FakeClock
from dibs.domain.job import EventName, Status
from dibs.domain.settings import Config
from dibs.domain.transitions import cancel
from dibs.stores.sqlite import SqliteStore
from dibs.stores.sqlite.moment import Moment
from dibs.testing.conformance.builders import DAY, claim, claim_one, completed, enqueue, find, new_job, settle

TABLES = ["dibs_job", "dibs_payload", "dibs_event", "dibs_tag", "dibs_tombstone", "dibs_document", "dibs_lane"]


async def sizes(store: SqliteStore) -> dict[str, int]:
    def count(moment: Moment) -> dict[str, int]:
        return {table: moment.rows(f"SELECT count(*) FROM {table}")[0][0] for table in TABLES}

    return await store._engine.read(count)


async def test_prune_leaves_nothing_behind(store: SqliteStore, clock: FakeClock) -> None:
    await enqueue(store, *[new_job(f"{n}", tags=("x", "y"), keep=10, task=f"t{n % 3}") for n in range(250)])
    await store.put("note", b"1", keep_us=1)
    jobs = await claim(store, limit=250)
    await settle(store, *[completed(job) for job in jobs])
    clock.advance(9)
    assert await store.prune(1000) == 0
    clock.advance(1)

    assert await store.prune(210) == 210
    assert await store.prune(1000) == 40
    assert (await store.log("7"))[0].event is EventName.PRUNED
    clock.advance(DAY)
    await store.prune(1000)
    assert set((await sizes(store)).values()) == {0}


async def test_one_run_forgets_all_that_is_old(store: SqliteStore, clock: FakeClock) -> None:
    for start in range(0, 2000, 500):
        names = [f"{start + n}" for n in range(500)]
        await enqueue(store, *[new_job(name, keep=0, task=f"t{int(name) % 600}") for name in names])
        await settle(store, *[cancel(name) for name in names])
    for n in range(300):
        await store.put(f"note/{n}", b"1", keep_us=1)
    assert (await sizes(store))["dibs_tombstone"] == 2000
    clock.advance(DAY)

    await Maintenance(store, clock, Config.of()).prune()

    assert set((await sizes(store)).values()) == {0}


async def test_lanes_in_use_stay(store: SqliteStore) -> None:
    await enqueue(store, *[new_job(name, task=name) for name in ("pending", "claimed", "completed")])
    await enqueue(store, new_job("gone", task="gone", keep=0))
    await claim_one(store, id="claimed")
    await settle(store, completed(await claim_one(store, id="completed")), cancel("gone"))

    await store.prune(10)

    assert (await sizes(store))["dibs_lane"] == 3


async def test_a_job_that_is_gone_at_once_leaves_nothing_but_its_tombstone(store: SqliteStore) -> None:
    await enqueue(store, new_job("a", keep=0, tags=("x",)))
    await settle(store, cancel("a"))

    left = await sizes(store)
    assert left["dibs_tombstone"] == 1
    assert left["dibs_job"] == left["dibs_payload"] == left["dibs_event"] == left["dibs_tag"] == 0


async def test_read_finds_one_document_by_its_whole_name(store: SqliteStore, clock: FakeClock) -> None:
    await store.put("note", b"1", keep_us=1_000_000)
    await store.put("note/more", b"2")

    found = await store.read("note")
    assert found is not None
    assert (found.name, found.version, found.value) == ("note", 1, b"1")
    assert await store.read("not") is None
    clock.advance(1)
    assert await store.read("note") is None


async def test_counts_beyond_ten_thousand_are_kept_for_a_minute(store: SqliteStore, clock: FakeClock) -> None:
    for _ in range(11):
        await enqueue(store, *[new_job(queue="big") for _ in range(1000)])
    await enqueue(store, new_job(queue="small"))
    first = await store.counts("big")
    assert (first.pending, first.exact) == (11_000, False)
    assert (await store.counts("small")).exact
    await claim(store, limit=100, queues=("big",))
    kept = await store.counts("big")
    assert (kept.pending, kept.claimed, kept.exact) == (11_000, 100, False)
    clock.advance(60)

    assert (await store.counts("big")).pending == 10_900


async def test_find_is_the_same_by_whichever_index(store: SqliteStore) -> None:
    await enqueue(store, *[new_job(f"{n}", queue="ab"[n % 2], batch_id="b", tags=("t",)) for n in range(6)])
    await claim(store, limit=2)

    for narrowed in ({}, {"batch_id": "b"}, {"tag": "t"}, {"batch_id": "b", "tag": "t"}):
        for status, expected in (((), "543210"), ((Status.PENDING,), "5432"), ((Status.CLAIMED,), "10")):
            found = await find(store, status=status, **narrowed)
            assert "".join(job.id for job in found) == expected
            found = await find(store, status=status, queue="a", **narrowed)
            assert "".join(job.id for job in found) == "".join(id for id in expected if id in "024")
