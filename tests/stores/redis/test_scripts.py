"""Scripts name every key that they touch, and touch no other: what a cluster asks for."""

import re
from importlib.resources import files

import pytest

from dibs.clock import FakeClock
from dibs.stores.redis import RedisStore, keys, values
from dibs.stores.redis.scripts import script
from dibs.testing.conformance.builders import claim, completed, enqueue, failed, new_job, new_jobs, read, reap, settle
from tests.servers import redis as server

LUA = files("dibs.stores.redis").joinpath("lua")
NAMES = sorted(path.name.removesuffix(".lua") for path in LUA.iterdir() if path.name.endswith(".lua"))
CALL = re.compile(r"redis\.call\('(\w+)'(?:, ([\w.]+))?")
YEAR_9999 = 253_402_300_799_999_999


@pytest.mark.parametrize("name", NAMES)
def test_a_script_is_given_every_key_that_it_touches_and_no_other(name: str) -> None:
    known = script(name)
    text = known.text.decode()
    assert set(known.kinds) <= set(keys.KINDS)
    touched = {key for command, key in CALL.findall(text) if command != "TIME"}
    given = {kind.upper() for kind in known.kinds}
    # Local names of what is passed on to a helper: each stands for one that is given.
    assert touched - {"key", "from"} <= given
    assert all(re.search(rf"\b{kind}\b", text.split("\n", len(given))[-1]) for kind in given)
    assert ".." not in "".join(key or "" for _, key in CALL.findall(text))


@pytest.mark.parametrize("name", NAMES)
def test_a_script_says_what_it_is(name: str) -> None:
    source = LUA.joinpath(f"{name}.lua").read_text("utf-8")
    assert source.startswith(f"-- {name}.lua: ")
    assert re.search(r"^-- KEYS ", source, re.MULTILINE)
    assert re.search(r"^-- Returns ", source, re.MULTILINE)


async def test_a_user_who_may_touch_nothing_else_can_do_everything(clock: FakeClock) -> None:
    with server.private() as private:
        private.ask(
            "ACL",
            "SETUSER",
            "dibs",
            "on",
            ">pw",
            "resetkeys",
            "~dibs:{0}:*",
            "resetchannels",
            "&dibs:{0}:*",
            "+@all",
            "-@dangerous",
        )
        store = RedisStore(private.url.replace("redis://", "redis://dibs:pw@"), clock)
        await enqueue(store, *new_jobs(5, tags=("t",), keep=1))
        first, second, *_ = await claim(store, limit=3, lease=1)
        await settle(store, completed(first), failed(second))
        clock.advance(5)
        await reap(store, clock)
        await store.put("a", b"1", keep_us=1)
        await store.counts()
        await store.queues()
        await store.audit(None, 10)
        assert await store.prune(10) == 1
        assert len(await store.log(second.id)) == 3
        await store.close()


async def test_a_due_time_far_away_is_exact(store: RedisStore) -> None:
    """Numbers in a script are doubles, exact up to the year 2255; what is beyond never becomes one."""
    for n, due in enumerate((YEAR_9999, YEAR_9999 - 1, 2**53 + 1)):
        [job] = await enqueue(store, new_job(f"far-{n}", scheduled_us=due))
        assert job.due_us == due
        assert await read(store, job.id) == job
    assert [event.due_us for event in await store.log("far-0")] == [YEAR_9999]
    counts = await store.counts()
    assert (counts.pending, counts.scheduled) == (0, 3)


@pytest.mark.parametrize("priority", [-32768, -1, 0, 1, 32767])
async def test_bytes_have_the_order_of_priorities(store: RedisStore, priority: int) -> None:
    await enqueue(store, new_job("it", priority=priority))
    assert (await read(store, "it")).priority == priority
    lanes = [values.lane("q", "t", p) for p in sorted({-32768, 32767, priority, 0})]
    assert lanes == sorted(lanes, reverse=True)
