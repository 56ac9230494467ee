"""``python -m bench.scaling``: see the package."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import bench.scaling
from bench.scaling.costs import Costs, read
from bench.scaling.page import carried_table, costs_table, crowds_table, draw, powers, put
from bench.scaling.world import GROUP, Crowd, Place, simulate
from bench.view import View

DOCS = Path(__file__).parents[2] / "docs" / "explanation"
PAGE, KEPT, PICTURE = DOCS / "scaling.md", DOCS / "scaling.json", DOCS / "scaling.svg"
DISK = 0.001
"""Seconds that a commit takes to be on the disk: what a network disk takes, more than one in the machine does."""
PROCESSORS = 4
MASTERS = (3, 6)


class Profile(NamedTuple):
    name: str
    concurrency: int
    handler: float
    most: int  # workers that are tried
    claimed: float  # jobs in a claim, on paper

    def crowd(self, workers: int) -> Crowd:
        return Crowd(workers, self.concurrency, self.handler)


PROFILES = (
    Profile("no-op jobs, 100 at once", 100, 0.0, 16, 100),
    Profile("jobs of 100 ms, 10 at once", 10, 0.1, 512, 1),
)


def main() -> int:
    args = _arguments()
    if args.check:
        return _check()
    kept = {"costs": [_plain(each) for each in read(args.costs)], "simulated": _simulated(read(args.costs))}
    if not args.write:
        tables = costs_table(kept["costs"]), crowds_table(kept["costs"]), carried_table(kept["simulated"])
        print(*tables, sep="\n\n")
        return 0
    KEPT.write_text(json.dumps(kept, indent=1) + "\n")
    PAGE.write_text(_page(kept))
    draw(kept["simulated"], PICTURE)
    return 0


def _check() -> int:
    kept = json.loads(KEPT.read_text())
    if _page(kept) != PAGE.read_text():
        print(f"{PAGE.name} is not what {KEPT.name} says: run python -m bench.scaling", file=sys.stderr)
        return 1
    return 0


def _page(kept: dict[str, Any]) -> str:
    page = put(PAGE.read_text(), "costs", costs_table(kept["costs"]))
    return put(put(page, "crowds", crowds_table(kept["costs"])), "carried", carried_table(kept["simulated"]))


def _plain(costs: Costs) -> dict[str, Any]:
    return {
        **costs._asdict(),
        "server": {operation: line._asdict() for operation, line in costs.server.items()},
        "client": {operation: line._asdict() for operation, line in costs.client.items()},
    }


def places(costs: list[Costs]) -> dict[str, Place]:
    by_store = {each.store: each for each in costs}
    found = {
        f"PostgreSQL, {PROCESSORS} processors": Place(by_store["postgres"], PROCESSORS, disk=DISK),
        f"MariaDB, {PROCESSORS} processors": Place(by_store["mariadb"], PROCESSORS, disk=DISK),
        "Redis": Place(by_store["redis"], 1),
    }
    return found | {f"Cluster of {number}": Place(by_store["redis"], 1, number) for number in MASTERS}


def paper(place: Place, profile: Profile) -> float:
    """The server's time, over what a job takes of it: enqueued by the hundred, claimed and completed as it is told."""
    server, size = place.costs.server, profile.claimed
    job = server["enqueue"].of(GROUP) / GROUP + (server["claim"].of(size) + server["complete"].of(size)) / size
    return place.processors * place.servers / job


def _simulated(costs: list[Costs]) -> list[dict[str, Any]]:
    tried = [(name, place, profile) for profile in PROFILES for name, place in places(costs).items()]
    found = []
    with View() as view, view.step("simulated", sum(len(powers(profile.most)) for *_, profile in tried)) as step:
        for name, place, profile in tried:
            points = []
            for workers in powers(profile.most):
                points.append({"workers": workers, **simulate(place, profile.crowd(workers))._asdict()})
                step.advance()
            found.append({"place": name, "profile": profile.name, "paper": paper(place, profile), "points": points})
    return found


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.scaling",
        description=bench.scaling.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("costs", type=Path, nargs="?", help="what ./dev bench costs --json has written")
    parser.add_argument("--write", action="store_true", help="put it into the page")
    parser.add_argument("--check", action="store_true", help="fail if the page is not what was kept")
    args = parser.parse_args()
    if not args.check and args.costs is None:
        parser.error("COSTS.json: run ./dev bench costs --json COSTS.json first")
    return args


if __name__ == "__main__":
    sys.exit(main())
