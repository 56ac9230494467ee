"""The fake clock moves only when it is told to, and repeats; the bell wakes whoever listens."""

from __future__ import annotations

import asyncio
import threading
from uuid import UUID

import pytest

from dibs.clock import Bell, Clock, FakeClock


def test_the_fake_clock_stands_still_until_it_is_moved():
    clock = FakeClock(start=1_000_000)
    assert (clock.now(), clock.monotonic()) == (1_000_000, 1.0)
    clock.advance(2.5)
    assert (clock.now(), clock.monotonic()) == (3_500_000, 3.5)
    clock.advance(-1)
    assert clock.now() == 2_500_000


def test_the_fake_clock_repeats():
    one, two, other = FakeClock(1), FakeClock(1), FakeClock(2)

    assert [one.token(), one.new_id(), one.random.random()] == [two.token(), two.new_id(), two.random.random()]
    assert other.token() != FakeClock(1).token()


async def test_the_fake_clock_wakes_sleepers_in_order_of_time():
    clock = FakeClock()
    woken: list[float] = []

    async def sleep(seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(seconds)

    tasks = [asyncio.create_task(sleep(seconds)) for seconds in (3, 1, 2, 0)]
    for expected in ([0], [0, 1], [0, 1, 2], [0, 1, 2, 3]):
        for _ in range(5):
            await asyncio.sleep(0)
        assert woken == expected
        clock.advance(1)
    await asyncio.gather(*tasks)


async def test_a_call_that_was_called_off_is_not_made():
    clock = FakeClock()
    called: list[int] = []
    call_off = clock.call_later(1, lambda: called.append(1))
    clock.call_later(1, lambda: called.append(2))
    call_off()
    clock.advance(1)
    await asyncio.sleep(0)

    assert called == [2]


async def test_a_cancelled_sleeper_is_not_waited_for():
    clock = FakeClock()
    task = asyncio.create_task(clock.sleep(1))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})
    clock.advance(5)
    await asyncio.sleep(0)

    assert task.cancelled()


def test_a_loop_that_is_closed_is_not_woken():
    clock = FakeClock()

    async def main() -> None:
        clock.call_later(1, lambda: None)

    asyncio.run(main())
    clock.advance(2)


@pytest.mark.parametrize("clock", [Clock(), FakeClock()])
def test_ids_are_uuid7_and_tokens_differ(clock: Clock):
    made = [UUID(clock.new_id()) for _ in range(100)]

    assert {id.version for id in made} == {7}
    assert {id.variant for id in made} == {"specified in RFC 4122"}
    assert len(set(made)) == 100
    assert abs((made[0].int >> 80) - clock.now() // 1000) < 10_000
    assert len({clock.token() for _ in range(100)}) == 100
    assert all(len(clock.token()) == 24 for _ in range(10))


async def test_the_real_clock_sleeps_and_spawns():
    clock = Clock()
    began = clock.monotonic()
    await clock.sleep(0.01)
    assert clock.monotonic() - began >= 0.009
    done = threading.Event()
    clock.spawn("test", done.set).join(5)
    assert done.is_set()


async def test_a_ring_is_not_missed_between_listening_and_waiting():
    clock = FakeClock()
    bell = Bell(clock)
    listener = bell.listen()
    bell.ring()

    await asyncio.wait_for(listener.wait(3600), 5)
    assert len(bell) == 0


async def test_a_ring_wakes_all_and_only_those_who_listen():
    clock = FakeClock()
    bell = Bell(clock)
    tasks = [asyncio.create_task(bell.listen().wait(3600)) for _ in range(5)]
    await asyncio.sleep(0)
    assert len(bell) == 5
    threading.Thread(target=bell.ring).start()
    await asyncio.wait_for(asyncio.gather(*tasks), 5)

    late = asyncio.create_task(bell.listen().wait(3600))
    await asyncio.sleep(0)
    assert not late.done()
    late.cancel()
    await asyncio.wait({late})
    assert len(bell) == 0


async def test_listening_ends_with_its_time():
    clock = FakeClock()
    bell = Bell(clock)
    task = asyncio.create_task(bell.listen().wait(2))
    await asyncio.sleep(0)
    clock.advance(2)
    await asyncio.wait_for(task, 5)

    assert len(bell) == 0


def test_a_bell_rings_into_a_closed_loop_without_harm():
    bell = Bell(FakeClock())

    async def main() -> None:
        bell.listen()

    asyncio.run(main())
    bell.ring()
    assert len(bell) == 0
