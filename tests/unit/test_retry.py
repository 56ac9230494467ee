"""Back-off stays in range, grows up to its cap, and never overflows."""

from __future__ import annotations

from datetime import timedelta
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dibs.domain.retry import SECOND, Backoff, micros
from tests.unit.strategies import backoffs

attempts = st.integers(1, 100) | st.sampled_from([1023, 1024, 1025, 10**6])


@given(backoffs, attempts, st.integers())
def test_a_delay_is_within_its_ceiling(backoff: Backoff, attempt: int, seed: int):
    assert 0 <= backoff.delay(attempt, Random(seed)) <= backoff.ceiling(attempt)


@given(backoffs, attempts)
def test_the_ceiling_grows_up_to_the_cap(backoff: Backoff, attempt: int):
    assert 0 <= backoff.ceiling(attempt) <= backoff.ceiling(attempt + 1) <= micros(backoff.cap) / SECOND


@pytest.mark.parametrize(
    ("attempt", "ceiling"), [(1, 1), (2, 2), (3, 4), (11, 1024), (12, 2048), (13, 3600), (10**6, 3600)]
)
def test_the_default_is_one_second_doubled_up_to_an_hour(attempt: int, ceiling: int):
    assert Backoff().ceiling(attempt) == ceiling


def test_an_attempt_that_was_none_waits_no_longer_than_the_first():
    assert Backoff().ceiling(0) == Backoff().ceiling(-5) == 1


def test_delays_are_spread_over_the_whole_range():
    random = Random(1)
    delays = [Backoff().delay(4, random) for _ in range(1000)]

    for part in range(8):
        assert any(part <= delay < part + 1 for delay in delays)
    assert 3.5 < sum(delays) / len(delays) < 4.5


def test_no_back_off_is_no_wait():
    assert {Backoff(0, 0).delay(n, Random(n)) for n in range(1, 50)} == {0}
    assert Backoff(5, 0).ceiling(3) == 0


def test_durations_may_be_timedeltas_and_are_stored_as_seconds():
    backoff = Backoff(timedelta(seconds=2), timedelta(minutes=1))

    assert [backoff.ceiling(n) for n in (1, 2, 9)] == [2, 4, 60]
    assert backoff.in_seconds() == Backoff(2, 60)
    assert msgspec.json.decode(msgspec.json.encode(backoff.in_seconds()), type=Backoff) == Backoff(2.0, 60.0)


@given(st.floats(0, 1e9))
def test_microseconds_are_whole(seconds: float):
    assert isinstance(micros(seconds), int)
    assert abs(micros(seconds) / SECOND - seconds) <= 1e-6
    assert micros(timedelta(seconds=5, microseconds=3)) == 5_000_003
