"""How soon ``dibs --help`` answers, beside a Python that does nothing: both as processes, in turns."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from functools import partial
from statistics import median

from bench.run import Run, in_turns, ratios

BARE = ("-c", "pass")
COMMANDS = {"dibs --help": ("-m", "dibs", "--help"), "dibs jobs --help": ("-m", "dibs", "jobs", "--help")}
MOST = 5.0
"""Times bare Python, which takes 20 to 30 ms where 150 ms are promised."""


async def start(run: Run) -> None:
    each = run.size(10, 3)
    values = await in_turns(
        run.view,
        "start",
        run.size(7, 3),
        {name: partial(turn, arguments, each) for name, arguments in {"python": BARE, **COMMANDS}.items()},
    )
    for name, seconds in values.items():
        run.figure("start", name, "until it has ended", "ms", [1000 * value for value in seconds])
    run.bar(
        "start",
        "`dibs --help`, times a Python that does nothing",
        "×",
        ratios(values["dibs --help"], values["python"]),
        at_most=MOST,
    )


async def turn(arguments: tuple[str, ...], number: int) -> float:
    """The median of some runs, in seconds."""
    return await asyncio.to_thread(_median, arguments, number)


def _median(arguments: tuple[str, ...], number: int) -> float:
    taken = []
    for _ in range(number):
        began = time.perf_counter()
        subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)
        taken.append(time.perf_counter() - began)
    return median(taken)
