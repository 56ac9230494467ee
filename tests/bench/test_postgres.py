"""The cases on PostgreSQL: their bars, and a contender driven through a server of the bench's own."""

from pathlib import Path

import pytest

from bench.cases.flat import SHAPES, Stock
from bench.cases.pickup import Turn
from bench.cases.pickup import hold as hold_pickup
from bench.cases.postgres.end_to_end import hold, named
from bench.cases.postgres.flat import fill
from bench.contenders import ON_POSTGRES, POSTGRES_PEERS, Drained, drain
from bench.contenders import OURS_POSTGRES as OURS
from bench.places import at
from bench.postgres import serving
from bench.run import Run
from bench.subjects import broker_over, claim, opened_at
from bench.view import View


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path, View())


def test_the_bars_are_ratios_of_the_same_turn_until_nothing_is_left(run: Run) -> None:
    turns = (1.0, 0.1, 1.0)  # a machine that is ten times slower in one turn changes none of them
    found = {named(OURS, jobs): [Drained(9e9, 20_000 * pace) for pace in turns] for jobs in (20_000, 60_000, 200_000)}
    for jobs, rate in ((20_000, 10_000), (60_000, 5_000)):
        for peer in POSTGRES_PEERS:
            found[named(peer, jobs)] = [Drained(9e9, rate * pace) for pace in turns]
    hold(run, found, 20_000, 60_000, 200_000)
    bars = {bar.name: bar for bar in run.bars}
    assert bars["postgres-pgqueuer"].values == pytest.approx([2, 2, 2])
    assert bars["postgres-pgqueuer"].held
    assert not bars["postgres-awa-pg"].held
    assert bars["postgres-pgqueuer-60k"].values == pytest.approx([4, 4, 4])
    assert bars["postgres-steady"].values == pytest.approx([1, 1, 1])


def test_pickup_is_held_against_the_best_peer(run: Run) -> None:
    found = {peer.subject: [Turn([0.0], [10.0 + n])] for n, peer in enumerate(POSTGRES_PEERS)}
    for ours in (9.0, 11.0):
        hold_pickup(run, "pickup", ON_POSTGRES, found | {OURS.subject: [Turn([0.0], [ours])]}, at_most=1.0)
    assert [bar.held for bar in run.bars] == [True, False]
    assert POSTGRES_PEERS[0].subject in run.bars[0].about


@pytest.mark.slow
async def test_a_worker_process_drains_a_server_that_keeps_its_promises(run: Run) -> None:
    async with serving(run) as server:
        done = await drain(run, OURS, 300, at(server))
        assert done.emptied > 0
        assert run.jobs_checked == 300
        for shape in SHAPES:
            async with server.database(migrated=True) as url, opened_at(url) as store:
                await fill(run, store, url, Stock(shape, 200, 10))
                assert len(await claim(broker_over(store), 5, shape.tasks)) == 5
                assert (await broker_over(store).verify()).ok
