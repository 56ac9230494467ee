"""Search small worlds to the end: every order in which a few actors' calls can reach the store, with a crash anywhere.

python tools/worlds.py
python tools/worlds.py --large
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from functools import partial

from figures import record
from rich.console import Console
from rich.progress import Progress, TaskID

from dibs.testing.worlds import LARGE, WORLDS, Exploration, explore


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="./dev worlds", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--large", action="store_true", help="the large ones too: some minutes")
    parser.add_argument("--json", action="store_true", help="print what was found as JSON")
    parser.add_argument("--record", action="store_true", help="keep the figures for docs/explanation/guarantees.md")
    args = parser.parse_args()
    found: list[Exploration] = []
    began = time.monotonic()
    for world in (*WORLDS, *LARGE) if args.large else WORLDS:
        disable = args.json or not sys.stderr.isatty()
        with Progress(console=Console(stderr=True), transient=True, disable=disable) as bar:
            found.append(explore(world, told=partial(told, bar, bar.add_task(world.name, total=None))))
        if not args.json:
            print(found[-1], flush=True)
    summary = {
        "states": sum(each.states for each in found),
        "steps": sum(each.steps for each in found),
        "seconds": round(time.monotonic() - began, 1),
        "ok": all(each.ok for each in found),
    }
    worlds = [{"world": each.world, "states": each.states, "ok": each.ok} for each in found]
    if args.record and summary["ok"]:
        record("worlds", {**summary, "worlds": worlds})
    if args.json:
        print(json.dumps({**summary, "worlds": worlds}))
    else:
        print(f"{summary['states']:,} states, {summary['steps']:,} steps in {summary['seconds']} s")
    return 0 if summary["ok"] else 1


def told(bar: Progress, task: TaskID, states: int) -> None:
    bar.update(task, completed=states)


if __name__ == "__main__":
    sys.exit(main())
