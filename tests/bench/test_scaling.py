"""How far a store carries: the line through what was measured, and the simulated server."""

from pathlib import Path

import pytest

from bench.scaling import world
from bench.scaling.__main__ import PAGE, Profile, main, paper
from bench.scaling.costs import Costs, Line
from bench.scaling.world import Crowd, Found, Place

COSTS = Costs(
    store="one",
    server={"enqueue": Line(0.0001, 0.00001), "claim": Line(0.0005, 0.0001), "complete": Line(0.0005, 0.0001)},
    client={name: Line(0.0, 0.0) for name in ("enqueue", "claim", "complete")},
    worker=0.0,
    measured={},
    crowd={1: 100.0, 8: 100.0, 32: 100.0},
)


def simulate(place: Place, crowd: Crowd) -> Found:
    return world.simulate(place, crowd, backlog=2_000)


NOOP = Profile("no-op", 10, 0.0, 1, 10)


def test_a_line_goes_through_what_lies_on_one() -> None:
    line = Line.through({1: 100 + 7, 10: 100 + 70, 100: 100 + 700})
    assert (line.call, line.job) == pytest.approx((100, 7))


def test_a_line_is_never_negative() -> None:
    assert Line.through({1: 100, 10: 90, 100: 80}).job == 0
    assert Line.through({1: 1, 10: 30, 100: 1000}).call >= 0


def test_a_crowd_is_dearer_by_what_was_measured_and_between_by_the_line() -> None:
    costs = COSTS._replace(crowd={1: 100.0, 8: 170.0, 32: 200.0})
    assert [costs.crowded(calls) for calls in (1, 2, 8, 20, 32, 500)] == pytest.approx([1.0, 1.1, 1.7, 1.85, 2.0, 2.0])


def test_many_workers_get_what_the_server_has_and_few_what_they_can() -> None:
    place = Place(COSTS, processors=4)
    most = paper(place, NOOP)
    one, many = (simulate(place, NOOP.crowd(workers)) for workers in (1, 12))
    assert one.rate < 0.6 * most  # it waits for its own calls
    assert many.rate == pytest.approx(most, rel=0.1)
    assert many.busy > 0.95
    assert many.claimed > 9


def test_a_server_that_is_twice_as_large_carries_twice_as_much() -> None:
    small, large = (simulate(Place(COSTS, number), NOOP.crowd(8)).rate for number in (1, 2))
    apart = simulate(Place(COSTS, 1, servers=2), NOOP.crowd(8)).rate
    assert large == pytest.approx(2 * small, rel=0.15)
    assert apart == pytest.approx(2 * small, rel=0.15)


def test_a_server_that_is_not_full_keeps_every_worker_at_work() -> None:
    found = simulate(Place(COSTS, 4), Crowd(workers=5, concurrency=10, handler=0.1))
    assert found.rate == pytest.approx(5 * 10 / 0.1, rel=0.1)
    assert found.busy < 0.5


def test_the_page_says_what_was_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.argv", ["scaling", "--check"])
    assert main() == 0
    changed = tmp_path / "scaling.md"
    changed.write_text(PAGE.read_text().replace(" jobs/s", " jobs"))
    monkeypatch.setattr("bench.scaling.__main__.PAGE", changed)
    assert main() == 1
