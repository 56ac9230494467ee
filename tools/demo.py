"""The demo: a producer and ten workers' claim loops in four processes on a throw-away SQLite file.

Every few seconds a worker process is killed with SIGKILL in the middle of its work and another takes its place. Every
claim is reported to the viewer, which looks for what must not happen: one fence of a job handed out twice, or a job
that is lost. At the end the audit log is replayed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from contextlib import nullcontext, suppress
from statistics import quantiles

import dibs

LOOPS = (4, 3, 3)  # claim loops in each worker process: ten in all
LEASE = 2.0
KILL_EVERY = 5.0
BACKLOG = 20  # the producer rests while this many are waiting


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="./dev demo", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=float, help="how long (until Ctrl-C on a terminal, else 12)")
    parser.add_argument("--no-kill", action="store_true", help="let all worker processes live")
    parser.add_argument("--json", action="store_true", help="print only the summary, as JSON")
    parser.add_argument("--role", choices=["producer", "worker"], help=argparse.SUPPRESS)
    parser.add_argument("--store", help=argparse.SUPPRESS)
    parser.add_argument("--name", default="", help=argparse.SUPPRESS)
    parser.add_argument("--loops", type=int, default=1, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.role == "producer":
        return asyncio.run(produce(args.store))
    if args.role == "worker":
        return asyncio.run(work(args.store, args.name, args.loops))
    terminal = sys.stdout.isatty() and not args.json
    seconds = args.seconds or (float("inf") if terminal else 12.0)
    with tempfile.TemporaryDirectory(prefix="dibs-demo-") as folder:
        demo = Demo(f"sqlite:///{folder}/demo.db", kill=not args.no_kill)
        return demo.run(seconds, terminal=terminal, as_json=args.json)


# ------------------------------------------------------------------------------------------------ the other processes


def stop_event() -> asyncio.Event:
    """Set on SIGTERM; Ctrl-C reaches the viewer alone, which then tells everyone."""
    stop = asyncio.Event()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    return stop


def tell(**news: object) -> None:
    """One line, one write: lines of a process that is killed are whole or not there."""
    os.write(sys.stdout.fileno(), (json.dumps(news) + "\n").encode())


async def produce(store: str) -> int:
    stop = stop_event()
    async with dibs.App(store) as app:
        number = 0
        while not stop.is_set():
            jobs = []
            for _ in range(20):
                number += 1
                delay = 1.0 if number % 50 == 0 else None
                jobs.append(dibs.NewJob("thumbnail", {"picture": number}, priority=number % 3, delay=delay))
            tell(enqueued=[job.id for job in await app.enqueue_many(jobs)])
            while not stop.is_set() and (await app.counts()).pending > BACKLOG:  # noqa: ASYNC110 - no one would ring
                await asyncio.sleep(0.02)
    return 0


async def work(store: str, name: str, loops: int) -> int:
    stop = stop_event()
    async with dibs.App(store) as app:
        await asyncio.gather(*(claim_loop(app, f"{name}-{i}", stop) for i in range(loops)))
    return 0


async def claim_loop(app: dibs.App, name: str, stop: asyncio.Event) -> None:
    while not stop.is_set():
        claim = await app.claim(name, lease=LEASE, wait=0.5)
        if claim is None:
            continue
        pickup = (claim.job.claimed_us or 0) - claim.job.due_us
        tell(claimed=[claim.id, claim.fence, pickup])
        try:
            async with claim:
                await asyncio.sleep(random.uniform(0, 0.004))  # what a real handler would take
                if random.random() < 0.01:
                    raise dibs.Retry("the picture service hiccupped", delay=0.2)
        except dibs.LeaseLost:
            tell(lost=claim.id)
        else:
            tell(settled=[claim.id, claim.fence])


# ------------------------------------------------------------------------------------------------ the viewer


class Demo:
    def __init__(self, store: str, *, kill: bool) -> None:
        self.store = store
        self.kill = kill
        self.app = dibs.App(store)
        self.lock = threading.Lock()
        self.workers: list[subprocess.Popen[bytes]] = []
        self.readers: list[threading.Thread] = []
        self.started = time.monotonic()
        self.enqueued: set[str] = set()
        self.claims: Counter[tuple[str, int]] = Counter()
        self.recent: deque[tuple[float, int]] = deque(maxlen=20_000)
        self.lost = 0
        self.killed = 0

    def run(self, seconds: float, *, terminal: bool, as_json: bool) -> int:
        self.app.sync.counts()  # makes the file before the others open it
        self.producer = self.spawn("producer", "--name", "producer")
        self.workers = [self.spawn_worker(i) for i in range(len(LOOPS))]
        with suppress(KeyboardInterrupt):
            self.watch(self.started + seconds, terminal=terminal, quiet=as_json)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C does not interrupt the tidying up
        return self.finish(as_json=as_json)

    def spawn(self, role: str, *more: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, __file__, "--role", role, "--store", self.store, *more]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        reader = threading.Thread(target=self.read, args=(process,), daemon=True)
        reader.start()
        self.readers.append(reader)
        return process

    def spawn_worker(self, index: int) -> subprocess.Popen[bytes]:
        name = f"worker{index}-{self.killed}"
        return self.spawn("worker", "--name", name, "--loops", str(LOOPS[index]))

    def read(self, process: subprocess.Popen[bytes]) -> None:
        for line in process.stdout or ():
            news = json.loads(line)
            with self.lock:
                self.enqueued.update(news.get("enqueued", ()))
                self.lost += "lost" in news
                if "claimed" in news:
                    id, fence, pickup = news["claimed"]
                    self.claims[id, fence] += 1
                    self.recent.append((time.monotonic(), pickup))

    def watch(self, end: float, *, terminal: bool, quiet: bool) -> None:
        from rich.live import Live

        next_kill = time.monotonic() + KILL_EVERY
        if not quiet:
            workers = f"{sum(LOOPS)} claim loops in {len(LOOPS)} processes"
            print(f"dibs demo: a producer and {workers} on a throw-away SQLite file; Ctrl-C ends it", flush=True)
        with Live(auto_refresh=False, transient=True) if terminal else nullcontext() as live:
            while time.monotonic() < end:
                time.sleep(0.25 if terminal else 1.0)
                if self.kill and time.monotonic() >= next_kill:
                    next_kill = time.monotonic() + KILL_EVERY
                    self.kill_one()
                if live is not None:
                    live.update(self.panel(), refresh=True)
                elif not quiet:
                    print(self.line(), flush=True)

    def kill_one(self) -> None:
        index = self.killed % len(LOOPS)
        self.workers[index].kill()
        self.workers[index].wait()
        self.killed += 1
        self.workers[index] = self.spawn_worker(index)

    # What is shown

    @property
    def double_claims(self) -> int:
        with self.lock:
            return sum(count - 1 for count in self.claims.values())

    def rate(self) -> tuple[int, list[int]]:
        now = time.monotonic()
        with self.lock:
            buckets = Counter(int(now - at) for at, _ in self.recent)
        return buckets[1] or buckets[0], [buckets[age] for age in range(30, 0, -1)]

    def pickup(self) -> tuple[float, float]:
        now = time.monotonic()
        with self.lock:
            recent = [pickup / 1000 for at, pickup in self.recent if now - at < 5]
        if len(recent) < 2:
            return 0.0, 0.0
        cuts = quantiles(recent, n=20)
        return cuts[9], cuts[18]

    def line(self) -> str:
        counts = self.app.sync.counts()
        p50, p95 = self.pickup()
        return (
            f"{time.monotonic() - self.started:5.0f} s  {self.rate()[0]:5d} claims/s  "
            f"picked up after {p50:.1f} ms (p95 {p95:.1f})  pending {counts.pending + counts.scheduled}  "
            f"claimed {counts.claimed}  completed {counts.completed}  failed {counts.failed}  "
            f"workers killed {self.killed}  double claims {self.double_claims}"
        )

    def panel(self) -> object:
        from rich.panel import Panel
        from rich.table import Table

        counts = self.app.sync.counts()
        rate, history = self.rate()
        p50, p95 = self.pickup()
        top = max(*history, 1)
        bars = "".join(" ▁▂▃▄▅▆▇█"[round(8 * value / top)] for value in history)
        table = Table.grid(padding=(0, 3))
        table.add_column(justify="right", style="dim")
        table.add_column()
        table.add_row("claims a second", f"[bold]{rate}[/]  [cyan]{bars}[/]")
        table.add_row("picked up after", f"{p50:.1f} ms, p95 {p95:.1f} ms")
        table.add_row("pending", f"{counts.pending} due, {counts.scheduled} later")
        table.add_row("claimed", f"{counts.claimed}")
        table.add_row("completed", f"{counts.completed:,}{'' if counts.exact else '+'}")
        table.add_row("failed", f"{counts.failed}")
        table.add_row("workers killed", f"{self.killed} (SIGKILL; what they held is taken over in {LEASE:.0f} to 5 s)")
        double = self.double_claims
        table.add_row("double claims", f"[bold {'red' if double else 'green'}]{double}[/]")
        seconds = time.monotonic() - self.started
        return Panel(table, title="dibs demo", subtitle=f"{seconds:.0f} s · Ctrl-C ends it", expand=False)

    # The end

    def finish(self, *, as_json: bool) -> int:
        self.stop([self.producer])
        self.stop(self.workers)
        for reader in self.readers:
            reader.join()
        report = self.app.sync.verify()
        known = len(self.enqueued)
        missing = sum(1 for id in self.enqueued if self.app.sync.get(id) is None)
        self.app.sync.close()
        summary = {
            "seconds": round(time.monotonic() - self.started, 1),
            "enqueued": known,
            "claims": sum(self.claims.values()),
            "double_claims": self.double_claims,
            "lost_jobs": missing,
            "workers_killed": self.killed,
            "verified": report.ok,
        }
        if as_json:
            print(json.dumps(summary))
        else:
            print(
                f"{summary['claims']:,} claims of {known:,} jobs in {summary['seconds']} s, "
                f"{self.killed} workers killed: {summary['double_claims']} double claims, {missing} jobs lost"
            )
            print(f"the log replayed: {report}")
        return 0 if report.ok and not missing and not summary["double_claims"] else 1

    def stop(self, processes: list[subprocess.Popen[bytes]]) -> None:
        for process in processes:
            process.terminate()
        for process in processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


if __name__ == "__main__":
    sys.exit(main())
