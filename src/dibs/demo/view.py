"""What the demo shows: a live panel on a terminal, else a line now and then, and a summary at the end."""

from __future__ import annotations

import json
import signal
import tempfile
import time
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any

from rich.live import Live
from rich.panel import Panel
from rich.table import Table

from dibs.app import App
from dibs.demo.crew import PLACES, Crew
from dibs.demo.roles import LEASE

if TYPE_CHECKING:
    from dibs.domain.job import Counts
    from dibs.sync import SyncApp

KILL_EVERY = 5.0
_BARS = " ▁▂▃▄▅▆▇█"


def demo(seconds: float, *, kill: bool, terminal: bool, as_json: bool) -> int:
    """Run the demo for so long, or until Ctrl-C; the exit code says whether every promise was kept."""
    with tempfile.TemporaryDirectory(prefix="dibs-demo-") as folder:
        store = f"sqlite:///{folder}/demo.db"
        with App(store).sync as app:
            app.counts()  # makes the file before the others open it
            crew = Crew(store)
            crew.start()
            view = _View(app, crew)
            try:
                with suppress(KeyboardInterrupt):
                    view.watch(time.monotonic() + seconds, kill=kill, terminal=terminal, quiet=as_json)
            finally:
                signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C does not interrupt the tidying up
                crew.stop()
            return view.finish(as_json=as_json)


class _View:
    def __init__(self, app: SyncApp, crew: Crew) -> None:
        self._app = app
        self._crew = crew
        self._started = time.monotonic()

    def watch(self, end: float, *, kill: bool, terminal: bool, quiet: bool) -> None:
        every = min(KILL_EVERY, (end - time.monotonic()) / 3)
        next_kill = time.monotonic() + every
        if not quiet:
            print(f"dibs demo: a server, two producers and {sum(PLACES)} workers on a throw-away SQLite file")
            print(f"  browse  {self._crew.url}/")
            print(f"  or try  curl {self._crew.url}/api/workers", flush=True)
        with Live(auto_refresh=False, transient=True) if terminal else nullcontext() as live:
            while time.monotonic() < end:
                time.sleep(0.25 if terminal else 1.0)
                if kill and time.monotonic() >= next_kill:
                    next_kill = time.monotonic() + every
                    self._crew.kill_one()
                if live is not None:
                    live.update(self._panel(), refresh=True)
                elif not quiet:
                    print(self._line(), flush=True)

    def _line(self) -> str:
        counts, crew = self._app.counts(), self._crew
        p50, p95 = crew.pickup()
        return (
            f"{time.monotonic() - self._started:5.0f} s  {crew.rates()[-1]:5d} claims/s  "
            f"picked up after {p50:.1f} ms (p95 {p95:.1f})  pending {counts.pending + counts.scheduled}  "
            f"claimed {counts.claimed}  completed {at_least(counts)}  failed {counts.failed}  "
            f"workers killed {crew.killed}  double claims {crew.double_claims}"
        )

    def _panel(self) -> Panel:
        counts, crew = self._app.counts(), self._crew
        rates = crew.rates()
        p50, p95 = crew.pickup()
        top = max(*rates, 1)
        bars = "".join(_BARS[round(8 * rate / top)] for rate in rates)
        table = Table.grid(padding=(0, 3))
        table.add_column(justify="right", style="dim")
        table.add_column()
        table.add_row("claims a second", f"[bold]{rates[-1]}[/]  [cyan]{bars}[/]")
        table.add_row("picked up after", f"{p50:.1f} ms, p95 {p95:.1f} ms")
        table.add_row("pending", f"{counts.pending} due, {counts.scheduled} later")
        table.add_row("claimed", f"{counts.claimed}")
        table.add_row("completed", at_least(counts))
        table.add_row("failed", f"{counts.failed}")
        table.add_row("workers killed", f"{crew.killed} (SIGKILL; what they held is taken over in {LEASE:.0f} to 5 s)")
        double = crew.double_claims
        table.add_row("double claims", f"[bold {'red' if double else 'green'}]{double}[/]")
        table.add_row("browse", f"{crew.url}/")
        table.add_row("add one", _curl(crew.url))
        if crew.trouble:
            table.add_row("trouble", f"[red]{crew.trouble}[/]")
        seconds = time.monotonic() - self._started
        return Panel(table, title="dibs demo", subtitle=f"{seconds:.0f} s · Ctrl-C ends it", expand=False)

    def finish(self, *, as_json: bool) -> int:
        crew = self._crew
        seconds = round(time.monotonic() - self._started, 1)
        report = self._app.verify()
        missing = len(crew.enqueued - {job.id for job in self._app.find(limit=1000)})
        summary: dict[str, Any] = {
            "seconds": seconds,
            "enqueued": len(crew.enqueued),
            "claims": crew.claims,
            "double_claims": crew.double_claims,
            "lost_jobs": missing,
            "workers_killed": crew.killed,
            "verified": report.ok,
        }
        if as_json:
            print(json.dumps(summary))
        else:
            print(
                f"{crew.claims:,} claims of {len(crew.enqueued):,} jobs in {seconds} s, "
                f"{crew.killed} workers killed: {crew.double_claims} double claims, {missing} jobs lost"
            )
            print(f"the log replayed: {report}")
        return 0 if report.ok and not missing and not crew.double_claims else 1


def at_least(counts: Counts) -> str:
    """Tell how many were completed: very many are not counted anew each time, so there are more by now."""
    return f"{counts.completed:,}{'' if counts.exact else '+'}"


def _curl(url: str) -> str:
    return f'curl {url}/api/tasks --json \'{{"task_type": "thumbnail", "params": {{"picture": 7}}}}\''
