"""Small worlds to the end, and that the search finds what it is there to find."""

from typing import Any

import pytest

from dibs.broker.maintenance import Maintenance
from dibs.domain import transitions
from dibs.domain.job import Outcome
from dibs.testing.worlds import WORLDS, explore
from dibs.testing.worlds.world import path_of

NAMES = {world.name: world for world in WORLDS}


@pytest.mark.proof
@pytest.mark.timeout(240)  # as it computes all the time, a busy machine is slower in proportion
@pytest.mark.parametrize("name", list(NAMES))
def test_every_order_keeps_every_promise(name: str) -> None:
    found = explore(NAMES[name])
    print(found)
    assert found.ok, str(found)
    assert found.finished
    assert found.states > 1000


@pytest.mark.proof
def test_the_same_search_finds_the_same() -> None:
    [world] = [world for world in WORLDS if "give back" in world.name]
    assert explore(world, most_states=1500) == explore(world, most_states=1500)


def test_a_reaper_that_does_not_look_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = transitions.judge

    def careless(job: Any, write: Any, now: int) -> Outcome:
        expiry = write.event == "expired" and job.status == "claimed"
        return Outcome.APPLIED if expiry else judge(job, write, now)

    monkeypatch.setattr(transitions, "judge", careless)
    found = explore(WORLDS[0])
    assert not found.ok
    assert "is broken" in found.broken
    assert "time passes" in path_of(found.path)
    assert str(found).startswith("two workers, one job")


def test_a_reaper_that_loses_what_it_found_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def forgets(self: Maintenance) -> int:
        return len(await self._store.expired(500))

    async def finds_nothing(self: Maintenance) -> bool:
        return False

    monkeypatch.setattr(Maintenance, "reap", forgets)
    monkeypatch.setattr(Maintenance, "reap_any", finds_nothing)
    found = explore(WORLDS[0])
    assert "cannot be worked off" in found.broken
