"""Make the tables of docs/explanation/guarantees.md: which tests prove each promise, which provoke each failure that
users of other queues reported, on which stores; and the figures of the last runs.

python tools/guarantees.py            write them
python tools/guarantees.py --check    fail if the page is not what would be written
python tools/guarantees.py --soak FILE.json ...    keep what soaks have written, as one, and write them
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
from pathlib import Path
from typing import Any

from figures import record

from dibs.domain.audit import PROMISES

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from bench.scaling.page import put  # noqa: E402 - found only now
from tests.failures.collecting import collect  # noqa: E402 - found only now
from tests.failures.table import table as table_of_failures  # noqa: E402 - likewise

PAGE = ROOT / "docs" / "explanation" / "guarantees.md"
FIGURES = ROOT / "docs" / "explanation" / "figures.json"

ALL = {**PROMISES, 14: "tables, WAL, memory and idle queries stay bounded"}

# The tests to read first; the suites, the simulator and the worlds check all promises at once.
TESTS: dict[int, list[str]] = {
    1: ["test_claim_never_hands_out_a_job_twice", "test_claim_by_ten_workers_of_one_job", "test_kill_under_load"],
    2: ["test_claim_raises_the_fence_each_time", "test_killed_again_and_again"],
    3: ["test_a_stale_holder_changes_nothing", "test_a_stopped_process_is_taken_over_and_refused"],
    4: ["test_killed_in_the_middle_of_many_enqueues", "test_rolling_restart_under_load"],
    5: ["test_every_job_ends_where_workers_settle", "test_a_waiting_claim_takes_over_by_itself"],
    6: ["test_crash_again_and_again_ends_in_the_dead_letter", "test_poison"],
    7: ["test_settle_from_every_other_state"],
    8: ["test_claim_not_before_the_job_is_due"],
    9: ["test_enqueues_with_one_key_from_eight_processes_make_one_job", "test_insert_with_one_key_makes_one_job"],
    10: ["test_concurrent_processing", "test_every_order_keeps_every_promise"],
    11: ["test_extend_never_shortens", "test_extend_only_moves_the_lease_end_later"],
    12: ["test_log_replayed_gives_the_state"],
    13: ["test_counts_are_derived_from_the_jobs", "test_counts_beyond_ten_thousand_are_kept_for_a_minute"],
    14: ["test_a_pinned_reader_does_not_make_the_wal_grow_for_ever", "test_prune_leaves_nothing_behind"],
    15: ["test_fail_backs_off_within_a_range_that_doubles_up_to_a_cap"],
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--soak", type=Path, nargs="+", default=[], metavar="FILE")
    args = parser.parse_args()
    if args.soak:
        record("soak", soaked(args.soak))
    page = PAGE.read_text()
    made = put(put(put(page, "table", table()), "failures", failures()), "figures", figures())
    if args.check:
        if made != page:
            print(f"{PAGE.relative_to(ROOT)} is not up to date: run tools/guarantees.py", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(made)
    return 0


def soaked(files: list[Path]) -> dict[str, Any]:
    """Add soaks up; one that has found something is no figure."""
    soaks = [soak for file in files for soak in json.loads(file.read_text())["soaks"]]
    if broken := [soak["stage"] for soak in soaks if not soak["ok"] or not soak["prompt"]]:
        sys.exit(f"a promise was broken on {', '.join(broken)}")
    return {
        "stages": [soak["stage"] for soak in soaks],
        "seconds": round(sum(soak["seconds"] for soak in soaks)),
        "faults": sum(len(soak["happened"]) for soak in soaks),
        "jobs": sum(soak["verdict"]["jobs"] for soak in soaks),
        "operations": sum(soak["verdict"]["operations"] for soak in soaks),
    }


def table() -> str:
    places = _places()
    missing = sorted({name for names in TESTS.values() for name in names} - set(places))
    if missing or set(TESTS) != set(ALL):
        sys.exit(f"no such tests any more: {', '.join(missing)}")
    planted = _figures().get("board", {}).get("mistakes", [])
    lines = ["| | promise | tests to begin with | planted mistakes caught |", "|---|---|---|---|"]
    for number in sorted(ALL):
        tests = "<br>".join(f"[`{name}`](../../{places[name]})" for name in TESTS[number])
        mistakes = [each for each in planted if each["promise"] == number]
        caught = sum(each["caught"] for each in mistakes)
        lines.append(f"| {number} | {ALL[number]} | {tests} | {f'{caught} of {len(mistakes)}' if mistakes else ''} |")
    return "\n".join(lines)


def failures() -> str:
    found = collect()
    if holes := found.holes():
        sys.exit("\n".join(holes))
    return table_of_failures(found)


def figures() -> str:
    known = _figures()
    lines = ["| | |", "|---|---|"]
    if sim := known.get("sim"):
        faults = sum(sim["faults"].values())
        lines.append(
            f"| simulator | {sim['worlds']:,} worlds, {sim['steps']:,} steps, {faults:,} faults, in "
            f"{_time(sim['seconds'])} ({sim['steps_per_second']:,} steps a second): every promise kept |"
        )
    if worlds := known.get("worlds"):
        lines.append(
            f"| small worlds | {len(worlds['worlds'])} worlds, {worlds['states']:,} states, to the end, in "
            f"{_time(worlds['seconds'])}: every promise kept |"
        )
    if soak := known.get("soak"):
        lines.append(
            f"| soak | {_time(soak['seconds'])} in all, on {', '.join(soak['stages'])}: {soak['faults']:,} faults, "
            f"{soak['jobs']:,} jobs, {soak['operations']:,} operations: nothing lost, nothing double, every history "
            f"clean ([on PostgreSQL](soak.svg)) |"
        )
    if board := known.get("board"):
        mistakes = board["mistakes"]
        quick = sum(each["caught"] and each["seconds"] < 60 for each in mistakes)
        lines.append(
            f"| planted mistakes | {sum(each['caught'] for each in mistakes)} of {len(mistakes)} caught, "
            f"{quick} of them in under a minute |"
        )
    return "\n".join(lines)


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _figures() -> dict[str, Any]:
    return json.loads(FIGURES.read_text()) if FIGURES.exists() else {}


def _places() -> dict[str, str]:
    """Where each test is defined."""
    found: dict[str, str] = {}
    for folder in ("tests", "src/dibs/testing"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                    found.setdefault(node.name, str(file.relative_to(ROOT)))
    return found


if __name__ == "__main__":
    sys.exit(main())
