"""``python -m bench``: measure, tell, and with ``--check`` hold the bars."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from bench import report
from bench.cases import CASES, Case
from bench.plot import write_plot
from bench.run import WORKERS, Broken, Run
from bench.venvs import NoPeer
from bench.view import View

MISSED, BROKEN, UNREADY = 1, 3, 4


def main() -> int:
    args = _arguments()
    # Told to end, it still stops its servers and removes its files.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    cases = [case for case in CASES if not args.cases or case.name in args.cases]
    try:
        with tempfile.TemporaryDirectory(prefix="dibs-bench-", dir=args.dir) as folder, View() as view:
            run = Run(Path(folder), view, args.dir, quick=args.quick, profile=args.profile, workers=args.workers)
            asyncio.run(_measure(run, cases))
    except Broken as broken:
        print(f"bench: BROKEN: {broken}", file=sys.stderr)
        return BROKEN
    except NoPeer as problem:
        print(f"bench: {problem}", file=sys.stderr)
        return UNREADY
    except KeyboardInterrupt:
        return 130
    console = Console() if sys.stdout.isatty() else Console(width=150)
    report.show(run, console)
    if args.json:
        report.write_json(run, args.json)
    if args.plot and (run.curves or run.rates):
        write_plot(run.curves, run.rates, args.plot)
    missed = [bar.name for bar in run.bars if not bar.held]
    if args.check and missed:
        print(f"bench: missed: {', '.join(missed)}", file=sys.stderr)
        return MISSED
    return 0


async def _measure(run: Run, cases: list[Case]) -> None:
    for case in cases:
        await case.measure(run)


def _arguments() -> argparse.Namespace:
    width = max(len(case.name) for case in CASES)
    described = "\n".join(f"  {case.name:<{width}}  {case.about}" for case in CASES)
    parser = argparse.ArgumentParser(
        prog="./dev bench",
        description="Measure dibs beside the bare engine, and hold its bars.",
        epilog=f"cases (all of them, if none is named):\n{described}\n\n"
        f"exit status: 0, or with --check {MISSED} if a bar was missed; {BROKEN} if a job was lost or claimed twice; "
        f"{UNREADY} if a peer could not be installed",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("cases", nargs="*", metavar="CASE", help="which to measure")
    parser.add_argument("--check", action="store_true", help="exit 1 if a bar is missed")
    parser.add_argument(
        "--quick", action="store_true", help="fewer turns and a tenth of the backlog: a look, not a proof"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure, turn by turn")
    parser.add_argument(
        "--plot", type=Path, metavar="FILE.svg", help="draw end-to-end rates, and claim cost against backlog"
    )
    parser.add_argument("--profile", action="store_true", help="show where the time of a batch of 100 goes")
    parser.add_argument("--workers", type=int, default=WORKERS, metavar="N", help=f"how many a herd has ({WORKERS:,})")
    parser.add_argument("--dir", type=Path, help="where the files are kept meanwhile: on the disk that matters to you")
    args = parser.parse_args()
    if args.workers < 1:
        parser.error(f"--workers {args.workers}: there must be one at least")
    unknown = sorted(set(args.cases) - {case.name for case in CASES})
    if unknown:
        parser.error(f"there is no case {', '.join(unknown)}; there are {', '.join(case.name for case in CASES)}")
    return args


if __name__ == "__main__":
    sys.exit(main())
