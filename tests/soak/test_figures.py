"""Figures of a soak: half seconds, and how long until work went on as before."""

import pytest

from soak.figures import back_after, percentile, rate, through_time


def steady(begin: float, end: float, rate: int) -> list[float]:
    return [begin + number / rate for number in range(round((end - begin) * rate))]


def test_jobs_are_sorted_into_half_seconds() -> None:
    acknowledged = {"a": 10.0, "b": 10.1, "c": 10.2}
    ended = {"a": 10.2, "b": 10.6, "c": 10.9, "enqueued, and its producer was never told": 10.95}
    first, second = through_time(acknowledged, ended, [10.1, 10.2, 10.7], began=10.0, over=11.0)

    assert (first.at, first.ended, first.refused) == (0.0, 1, 2)
    assert (second.at, second.ended, second.refused) == (0.5, 3, 1)
    assert first.p50 == pytest.approx(0.2)
    assert second.p50 == pytest.approx(0.6)


def test_what_ended_outside_is_not_counted() -> None:
    [only] = through_time({}, {"early": 9.9, "in time": 10.0, "late": 10.5}, [9.0, 11.0], began=10.0, over=10.5)
    assert (only.ended, only.refused, only.p50) == (1, 0, None)


def test_a_handler_that_is_quicker_than_the_answer_took_no_time() -> None:
    [only] = through_time({"a": 10.3}, {"a": 10.2}, [], began=10.0, over=10.5)
    assert (only.p50, only.p95) == (0.0, 0.0)


def test_percentiles() -> None:
    assert percentile([], 95) is None
    assert percentile([3.0], 95) == 3.0
    assert percentile([float(number) for number in range(101)], 95) == 95.0


def test_rates_are_between_two_moments() -> None:
    assert rate(steady(0, 10, 20), 2, 4) == pytest.approx(20)
    assert rate([], 2, 4) == 0


def test_throughput_that_never_fell_was_back_at_once() -> None:
    assert back_after(steady(0, 20, 40), hit=5.0, usual=40, now=20) == 0.0


def test_throughput_is_back_when_a_whole_second_has_nine_tenths_of_it() -> None:
    times = steady(0, 5, 40) + steady(8, 20, 40)
    assert back_after(times, hit=5.0, usual=40, now=20) == 3.0


def test_a_burst_is_not_throughput() -> None:
    """A few jobs that were in hand end, and then nothing does."""
    times = steady(0, 5, 40) + steady(5, 5.3, 40) + steady(9, 20, 40)
    assert back_after(times, hit=5.0, usual=40, now=20) == 4.0


def test_a_backlog_that_is_worked_off_at_once_does_not_count_before_it_is() -> None:
    times = [*steady(0, 5, 40), *steady(8.4, 8.5, 1000), *steady(8.5, 20, 40)]
    assert back_after(times, hit=5.0, usual=40, now=20) == 3.4


def test_it_is_not_back_before_a_second_has_passed() -> None:
    assert back_after(steady(0, 6, 40), hit=5.5, usual=40, now=6.0) is None


def test_half_of_it_is_not_enough() -> None:
    assert back_after(steady(0, 5, 40) + steady(5, 20, 20), hit=5.0, usual=40, now=20) is None
