"""Run many simulated worlds, one for each seed, and stop at the first that breaks a promise.

A failing one is made as small as it will go, drawn as a timeline, and printed with the two lines that repeat it.
Ctrl-C ends it, and what was done by then is told.

    python tools/sim.py --seeds 1000
    python tools/sim.py --first 4711 --seeds 1 --store sqlite --draw
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from multiprocessing import get_context

from figures import record
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from dibs.testing.sim import Plan, Result, draw, shrink, simulate

CHUNK = 20
SHARE_OF_SQLITE = (
    5  # one seed in so many, where both stores are asked for: it is slower, and the code above is the same
)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="./dev sim", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=1000, help="how many worlds")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--steps", type=int, default=500, help="calls to the store in each, before it is worked off")
    parser.add_argument("--store", choices=["memory", "sqlite", "both"], default="both")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--draw", action="store_true", help="draw the worlds, whatever became of them")
    parser.add_argument("--json", action="store_true", help="print only the summary, as JSON")
    parser.add_argument("--record", action="store_true", help="keep the figures for docs/explanation/guarantees.md")
    args = parser.parse_args()
    plans = [
        Plan(seed=seed, steps=args.steps, store=store_of(args.store, seed))
        for seed in range(args.first, args.first + args.seeds)
    ]
    if args.draw:
        for plan in plans:
            print(draw(simulate(plan), most=10_000))
    began = time.monotonic()
    worlds = steps = 0
    faults: Counter[str] = Counter()
    failing: Plan | None = None
    stopped = False
    try:
        if not args.json:
            print(f"{len(plans):,} worlds in {args.processes} processes; Ctrl-C ends it", file=sys.stderr, flush=True)
        for number, walked, met, failed in watched(plans, args.processes, quiet=args.json):
            worlds += number
            steps += walked
            faults.update(met)
            if failed is not None:
                failing = failed
                break
    except KeyboardInterrupt:  # what was done by then was done
        stopped = True
    seconds = time.monotonic() - began
    summary = {
        "worlds": worlds,
        "steps": steps,
        "seconds": round(seconds, 1),
        "steps_per_second": round(steps / max(seconds, 1e-9)),
        "faults": dict(sorted(faults.items())),
        "stopped": stopped,
        "failing": None if failing is None else str(failing),
    }
    if args.record and failing is None:
        record("sim", summary)
    if args.json:
        print(json.dumps(summary))
    else:
        told = ", ".join(f"{count:,} {name}" for name, count in sorted(faults.items()))
        print(f"{worlds:,} worlds, {steps:,} steps in {seconds:.0f} s ({summary['steps_per_second']:,} a second)")
        print(f"what went wrong on purpose: {told or 'nothing'}")
        print(f"every promise kept{', until it was stopped' if stopped else ''}" if failing is None else "")
    if failing is not None:
        show(failing)
        return 1
    return 0


def store_of(store: str, seed: int) -> str:
    if store == "both":
        return "sqlite" if seed % SHARE_OF_SQLITE == 0 else "memory"
    return store


def watched(plans: list[Plan], processes: int, *, quiet: bool) -> Iterator[tuple[int, int, Counter[str], Plan | None]]:
    """Run all, in several processes, with a bar where there is a terminal."""
    chunks = [plans[start : start + CHUNK] for start in range(0, len(plans), CHUNK)]
    columns = (TextColumn("worlds"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    disable = quiet or not sys.stderr.isatty()
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=disable) as bar:
        task = bar.add_task("worlds", total=len(plans))
        if processes == 1:
            for chunk in chunks:
                done = run(chunk)
                bar.advance(task, done[0])
                yield done
            return
        ignored = (signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for this process, which ends the others
        with get_context("spawn").Pool(processes, signal.signal, ignored) as pool:
            for done in pool.imap_unordered(run, chunks):
                bar.advance(task, done[0])
                yield done


def run(plans: list[Plan]) -> tuple[int, int, Counter[str], Plan | None]:
    """Run some; give how many, their steps and faults, and the first that failed."""
    steps = 0
    faults: Counter[str] = Counter()
    gc.collect()
    gc.disable()  # a world leaves some megabytes: to look for them all the time costs more than to wait
    for number, plan in enumerate(plans, 1):
        result = simulate(plan)
        steps += result.steps
        faults.update({fault.value: count for fault, count in result.faults.items()})
        if not result.ok:
            return number, steps, faults, plan
    return len(plans), steps, faults, None


def show(plan: Plan) -> None:
    print(f"{plan} breaks a promise; looking for a smaller world that does ...", file=sys.stderr)

    def told(smaller: Result) -> None:
        print(f"  {smaller.plan}: {smaller.steps} steps", file=sys.stderr)

    print(draw(shrink(simulate(plan), told)))


if __name__ == "__main__":
    sys.exit(main())
