"""The benchmark believes no contender: each job was done exactly once, or there are no figures."""

from pathlib import Path

import pytest

from bench.cases.end_to_end import hold
from bench.contenders import OURS, PEERS, Contender, Drained, drain, introduce, prove_numbers
from bench.peers.program import PATIENCE, Seen
from bench.run import Broken, Run, best
from bench.view import View

FILES = Contender("files", "tests.bench.queue_of_files")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path, View(), quick=True)


async def test_a_contender_that_does_each_job_once_has_two_rates(run: Run) -> None:
    await introduce(run, [FILES])
    done = await drain(run, FILES, 20)
    assert done.starts > 0
    assert done.emptied > 0
    assert run.jobs_checked == 20
    assert run.contenders == {"files sqlite": "files"}


async def test_slow_contenders_get_fewer_jobs(run: Run) -> None:
    await drain(run, FILES._replace(share=0.5), 20)
    assert run.jobs_checked == 10


@pytest.mark.parametrize(
    ("fault", "noticed"),
    [
        ("lose", "20 jobs, 19 handled, 1 never, 0 again"),
        ("double", "20 jobs, 21 handled, 0 never, 1 again"),
        ("keep", "its store shows 1 left"),
    ],
)
async def test_a_fault_of_a_contender_breaks_the_run(
    run: Run, monkeypatch: pytest.MonkeyPatch, fault: str, noticed: str
) -> None:
    monkeypatch.setenv("FAULT", fault)
    with pytest.raises(Broken, match=noticed):
        await drain(run, FILES, 20)
    assert run.jobs_checked == 0


async def test_a_contender_that_fails_breaks_the_run(run: Run) -> None:
    with pytest.raises(Broken, match="ended without a word"):
        await drain(run, Contender("nothing", "tests.bench.no_such_program"), 20)


def test_a_lost_and_a_doubled_job_do_not_make_up_for_each_other(run: Run) -> None:
    with pytest.raises(Broken, match="4 jobs, 4 handled, 1 never, 1 again"):
        prove_numbers(run, FILES, [0, 1, 1, 3], 0, 4)


def test_a_worker_is_given_up_when_news_end_and_not_when_the_first_takes_long() -> None:
    seen = Seen(2)
    seen.news -= PATIENCE + 1  # the producer is still starting
    assert seen.hopeful()
    seen.handle(0)
    assert seen.hopeful()
    seen.news -= PATIENCE + 1
    assert not seen.hopeful()


def test_the_best_peer_is_best_in_the_median() -> None:
    assert best({"steady": [10.0, 10.0, 10.0], "lucky": [1.0, 99.0, 1.0]}) == "steady"


def test_the_bars_are_ratios_of_the_same_turn(run: Run) -> None:
    """A machine that is ten times slower in one turn changes none of them."""
    turns = (1.0, 0.1, 1.0)
    found = {OURS.subject: [Drained(999_999, 30_000 * pace) for pace in turns]}
    for number, peer in enumerate(PEERS):
        found[peer.subject] = [Drained(4_000 * pace / (number + 1), 3_000 * pace / (number + 1)) for pace in turns]
    hold(run, found, [60_000 * pace for pace in turns])
    peers, overhead = run.bars
    assert (peers.name, overhead.name) == ("end-to-end", "worker-overhead")
    assert peers.values == pytest.approx([7.5, 7.5, 7.5])  # until nothing is left, over the peer's better rate
    assert overhead.values == pytest.approx([0.5, 0.5, 0.5])
    assert PEERS[0].name in peers.about
    assert peers.held
    assert overhead.held


def test_the_bars_can_be_missed(run: Run) -> None:
    found = {OURS.subject: [Drained(20_000, 10_000)]} | {peer.subject: [Drained(2_000, 2_000)] for peer in PEERS}
    hold(run, found, [30_000])
    assert [bar.held for bar in run.bars] == [False, False]
