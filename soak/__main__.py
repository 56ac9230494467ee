"""``python -m soak``: hurt a store, or all of them, and see that every promise is kept."""

import argparse
import asyncio
import random
import signal
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from rich.console import Console

from soak import report
from soak.faults import faults_of
from soak.plot import write_plot
from soak.run import PROMPT, Soak, Soaked
from soak.stages import NAMES, Stage, enter

BROKEN, UNKNOWN = 1, 2


def main() -> int:
    args = _arguments()
    # Told to end, it still stops its servers and removes its files.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console = Console() if sys.stdout.isatty() else Console(width=150)
    found: list[Soaked] = []
    try:
        for name in NAMES if args.store == "all" else [args.store]:
            if (soaked := _soak(name, args, console)) is not None:
                found.append(soaked)
                report.show(soaked, console)  # at once: the next may take long
    except KeyboardInterrupt:
        return 130
    if args.json:
        report.write_json(found, args.json)
    if args.plot and found:
        write_plot(found, args.plot)
    return 0 if all(each.ok and (each.prompt or not args.check) for each in found) else BROKEN


def _soak(name: str, args: argparse.Namespace, console: Console) -> Soaked | None:
    with tempfile.TemporaryDirectory(prefix="dibs-soak-", ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary) if args.folder is None else args.folder / f"{name}-{int(time.time())}"
        folder.mkdir(parents=True, exist_ok=True)
        with enter(name, folder) as stage:
            if args.list:
                report.show_faults(stage.name, faults_of(stage), console)
                return None
            _refuse_unknown(stage, args)
            return asyncio.run(_run(stage, folder, args))


def _refuse_unknown(stage: Stage, args: argparse.Namespace) -> None:
    """With one store every fault must be possible; with all of them, one on each."""
    known = {fault.name for fault in faults_of(stage)}
    wanted = set(args.faults or known)
    if not (wanted & known if args.store == "all" else wanted <= known):
        unknown = ", ".join(sorted(wanted - known))
        print(f"soak: {unknown} cannot happen on {stage.name}; --list tells what can", file=sys.stderr)
        sys.exit(UNKNOWN)


async def _run(stage: Stage, folder: Path, args: argparse.Namespace) -> Soaked:
    began = time.monotonic()
    known = {fault.name for fault in faults_of(stage)}

    def say(text: str) -> None:
        print(f"soak: {stage.name}: {time.monotonic() - began:5.0f} s: {text}", file=sys.stderr, flush=True)

    say(f"seed {args.seed}, {len(known)} kinds of faults")
    soak = Soak(stage, folder, rate=args.rate, seed=args.seed, quiet=args.quiet, say=say)
    return await soak.run(args.seconds, args.rounds, args.faults)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./dev soak",
        description="Real producers, workers and API servers at work on a real store, which is hurt in every way there "
        "is; then all that anyone was told is checked.",
        epilog=f"exit status: 0, or {BROKEN} if a promise was broken (with --check also if throughput was not back to "
        f"90%% within {PROMPT:g} s of a restart, a killed API server or a failover)",
    )
    parser.add_argument("--store", default="sqlite", choices=[*NAMES, "all"], help="(sqlite) http: over PostgreSQL")
    parser.add_argument("--seconds", type=_positive, default=120.0, help="for how long faults happen, on each (120)")
    parser.add_argument("--rounds", type=_count, metavar="N", help="each fault N times, for as long as it takes")
    parser.add_argument("--rate", type=_positive, default=60.0, help="jobs a second that are enqueued (60)")
    parser.add_argument("--quiet", type=_positive, default=5.0, help="seconds between two faults, at least (5)")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32), help="decides what happens when (random)")
    parser.add_argument("--faults", nargs="+", metavar="NAME", help="these only")
    parser.add_argument("--list", action="store_true", help="tell what can happen, and do nothing")
    parser.add_argument("--check", action="store_true", help="exit 1 also if throughput was too long in coming back")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw throughput and latency through the faults")
    parser.add_argument("--folder", type=Path, help="where histories and logs are kept (thrown away if not given)")
    return parser.parse_args()


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: must be a whole number, 1 or more")
    return int(text)


def _positive(text: str) -> float:
    with suppress(ValueError):
        if 0 < float(text) < 1e6:
            return float(text)
    raise argparse.ArgumentTypeError(f"{text}: must be a number above 0, and below a million")


if __name__ == "__main__":
    sys.exit(main())
