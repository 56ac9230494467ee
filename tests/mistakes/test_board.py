"""Every planted mistake is noticed; without one, nothing is; and no mistake is left behind."""

import inspect
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from dibs.domain.audit import PROMISES
from tests.mistakes.catchers import CATCHERS, Effort, fitting, look
from tests.mistakes.planting import Edit, Mistake, planted
from tests.mistakes.table import MISTAKES

BUDGET = 200.0
"""Seconds after which a catcher gives up, on the slowest and busiest machine; the board says how quick they are."""

SEEDS = {"simulator, memory": 200, "simulator, sqlite": 300}
"""Worlds in which mistakes must be noticed, and in which without one nothing is."""

USED = sorted({mistake.caught_by for mistake in MISTAKES.values()})


SERVERS = ("postgres", "mysql", "redis", "cluster")
EACH = 2
"""Mistakes of each server that are planted each time: it is started for each of them. The others are `long`."""


def _cases() -> Iterator[Any]:
    seen = Counter[str]()
    for name, mistake in MISTAKES.items():
        seen[mistake.where] += 1
        rare = mistake.where in SERVERS and seen[mistake.where] > EACH
        yield pytest.param(name, marks=[pytest.mark.long] if rare else [])


@pytest.mark.proof
@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", list(_cases()))
def test_a_mistake_is_noticed(name: str) -> None:
    mistake = MISTAKES[name]
    catch = look(mistake.caught_by, mistake, Effort(SEEDS.get(mistake.caught_by, 0), BUDGET, narrowly=True))
    assert catch.noticed is not None, f"{mistake.caught_by} noticed nothing in {catch.seconds} s"
    print(f"{name}: {catch.by}, {catch.noticed}, after {catch.seconds} s")


@pytest.mark.proof
@pytest.mark.long  # without a mistake they are the suites, worlds and seeds that run by themselves elsewhere
@pytest.mark.timeout(240)
@pytest.mark.parametrize("catcher", USED)
def test_without_a_mistake_nothing_is_noticed(catcher: str) -> None:
    assert look(catcher, None, Effort(seeds=SEEDS.get(catcher, 0), seconds=BUDGET)).noticed is None


def test_there_are_many_and_of_every_kind() -> None:
    assert len(MISTAKES) >= 25
    assert {mistake.where for mistake in MISTAKES.values()} == {
        *("domain", "memory", "sqlite", "postgres", "mysql", "redis", "cluster", "broker", "keeper", "worker", "server")
    }
    promises = {mistake.promise for mistake in MISTAKES.values()}
    assert promises >= {*PROMISES, 14}
    assert all(mistake.caught_by in fitting(mistake) for mistake in MISTAKES.values())
    assert set(CATCHERS) >= {catcher for mistake in MISTAKES.values() for catcher in fitting(mistake)}


def code() -> dict[str, Any]:
    """Everything that a mistake could have been left in."""
    found: dict[str, Any] = {}
    for module in [module for name, module in sorted(sys.modules.items()) if name.partition(".")[0] == "dibs"]:
        for name, value in vars(module).items():
            found[f"{module.__name__}:{name}"] = value
            if inspect.isclass(value) and value.__module__ == module.__name__:
                found |= {f"{module.__name__}:{name}.{part}": each for part, each in vars(value).items()}
    return found


@pytest.mark.parametrize("name", list(MISTAKES))
def test_planting_is_undone(name: str) -> None:
    with planted(MISTAKES[name]):
        pass  # whatever it imports is there from now on
    before = code()
    with planted(MISTAKES[name]):
        changed = {place for place, value in code().items() if value is not before.get(place)}
        assert changed >= {edit.place for edit in MISTAKES[name].edits}
    assert {place for place, value in code().items() if value is not before.get(place)} == set()


def test_a_mistake_whose_line_has_changed_says_so() -> None:
    edit = Edit("dibs.domain.transitions:judge", "what was never there", "")
    with pytest.raises(LookupError, match="must be renewed"), planted(Mistake("old", 1, "", "domain", (edit,), "")):
        raise AssertionError("it was planted")
