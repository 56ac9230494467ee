"""How soon a worker asks again: within two polling intervals, so that work goes on when whatever was wrong is over."""

from collections import Counter

import pytest

from dibs import App
from dibs.worker.pace import LONGEST_RETRY, pause


@pytest.mark.parametrize(("poll", "longest"), [(1.0, 1.0), (0.5, 0.5), (60.0, LONGEST_RETRY), (0.001, 0.1)])
def test_a_pause_is_no_longer_than_a_polling_interval(poll: float, longest: float) -> None:
    runtime = App("memory://", poll_every=poll).runtime
    drawn = [pause(runtime, failures) for failures in range(1, 40) for _ in range(20)]

    assert max(drawn) <= longest
    assert max(drawn) > longest / 2
    assert min(drawn) > 0.04


def test_the_first_pauses_are_short_and_not_all_alike() -> None:
    runtime = App("memory://").runtime
    assert len({pause(runtime, 1) for _ in range(20)}) > 10
    assert max(pause(runtime, 1) for _ in range(20)) <= 0.2


def test_workers_that_fail_together_do_not_come_back_together() -> None:
    """Forty lose their server in the same moment: they ask anew at moments of their own, and ever more so."""
    runtimes = [App("memory://").runtime for _ in range(40)]
    asked = [pause(runtime, 1) for runtime in runtimes]
    for failures in range(2, 6):
        asked = [at + pause(runtime, failures) for at, runtime in zip(asked, runtimes, strict=True)]
        at_once = Counter(int(at / 0.05) for at in asked)
        assert max(at_once.values()) <= len(runtimes) / 2
