"""Prune and counts: what stays bounded."""

from dibs.clock import FakeClock
from dibs.domain.job import EventName, Status
from dibs.domain.transitions import cancel
from dibs.stores.sqlite import SqliteStore
from dibs.stores.sqlite.moment import Moment
from dibs.testing.conformance.builders import DAY, claim, completed, enqueue, find, new_job, settle

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
    for _ in range(20):
        await store.prune(1000)
    assert set((await sizes(store)).values()) == {0}


async def test_a_job_that_is_gone_at_once_leaves_nothing_but_its_tombstone(store: SqliteStore) -> None:
    await enqueue(store, new_job("a", keep=0, tags=("x",)))
    await settle(store, cancel("a"))

    left = await sizes(store)
    assert left["dibs_tombstone"] == 1
    assert left["dibs_job"] == left["dibs_payload"] == left["dibs_event"] == left["dibs_tag"] == 0


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
