"""Several processes hammer one SQLite file for a while; then everything that was said and done is checked.

Each process produces, works, gives orders and looks, all at once, and records what it asked of the store and was told.
At the end what is left is worked off, and then: no call may have found the file locked or the store unavailable, the
WAL must have stayed small, nothing that was acknowledged may be missing, the audit log must replay, and what all of
them were told must fit it.

    python tools/hammer.py --processes 8 --seconds 60
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import dibs
import dibs.runtime
from dibs.clock import Clock
from dibs.stores.sqlite import SqliteStore
from dibs.testing.history import History, Recorder, Report, check, read_audit, recorded

MIB = 2**20
MOST_WAL = 64 * MIB
LEASE = 1.0
BACKLOG = 1500  # a producer rests while so many are unfinished
QUEUES = ("default", "mail", "flaky")  # the last is paused again and again
TASKS = ("resize", "send", "sum")
RETRY = dibs.Backoff(base=0.05, cap=0.5)
EXPECTED = (
    dibs.LeaseLost,  # others were faster, or we were late on purpose
    dibs.WrongState,
    dibs.NotFound,
    dibs.NotClaimable,
    dibs.UniqueConflict,
    dibs.IdempotencyMismatch,
)
STARTING = 3.0  # seconds that processes are given to start, so that all of them hammer for all of the time


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=None, help="what each process does, if not when (random)")
    parser.add_argument(
        "--folder", type=Path, help="where the file and the histories are kept (thrown away if not given)"
    )
    parser.add_argument("--json", action="store_true", help="print only the summary, as JSON")
    parser.add_argument("--hammer", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--from", type=float, dest="begin", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.seed = random.randrange(2**32) if args.seed is None else args.seed
    if args.hammer is not None:
        return asyncio.run(Hammer(args.folder, args.hammer, args.seed).run(args.begin, args.seconds))
    if args.folder is not None:
        args.folder.mkdir(parents=True, exist_ok=True)
        return asyncio.run(oversee(args.folder, args))
    with tempfile.TemporaryDirectory(prefix="dibs-hammer-") as folder:
        return asyncio.run(oversee(Path(folder), args))


def open_app(folder: Path, name: str) -> dibs.App:
    """Open the file, with all that is asked of it recorded."""
    recorder = Recorder(History(folder / f"{name}.jsonl"), name)
    plain = dibs.runtime.open_store
    dibs.runtime.open_store = lambda url, clock: recorded(plain(url, clock), recorder)
    return dibs.App(f"sqlite:///{folder}/jobs.db", retry=RETRY)


# ------------------------------------------------------------------------------------------------ one of the processes


class Complaints(logging.Handler):
    """Keeps what dibs warns of, but for what is the normal course of things here."""

    def __init__(self, trouble: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._trouble = trouble

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if not message.startswith("took over"):
            self._trouble.append(f"logged: {message}")


class Hammer:
    """One process: everything that can be done to a queue, as fast as it goes."""

    def __init__(self, folder: Path, index: int, seed: int) -> None:
        self.name = f"hammer-{index}"
        self.random = random.Random(f"{seed}-{index}")
        self.folder = folder
        self.app = open_app(folder, self.name)
        self.known: deque[str] = deque(maxlen=500)
        self.done: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.trouble: list[str] = []
        self.number = 0
        self.end = 0.0
        self.acknowledged = (folder / f"{self.name}.acknowledged").open("w")

    async def run(self, begin: float, seconds: float) -> int:
        logging.getLogger("dibs").addHandler(Complaints(self.trouble))
        await asyncio.sleep(begin - time.monotonic())
        self.end = begin + seconds
        roles = [self.produce, self.work, self.work, self.work, self.give_orders, self.pause, self.look]
        await asyncio.gather(*(self.repeat(role) for role in roles), self.report())
        await self.app.close()
        self.acknowledged.close()
        tell(done=self.done, refused=self.refused, trouble=self.trouble)
        return 0

    async def repeat(self, role: Callable[[], Awaitable[None]]) -> None:
        while time.monotonic() < self.end:
            try:
                await role()
            except EXPECTED as error:
                self.refused[error.code] += 1
            except Exception as error:  # noqa: BLE001 - whatever it is, the run has failed, and it is told
                self.trouble.append(f"{role.__name__}: {error!r}")
                await asyncio.sleep(0.1)

    async def report(self) -> None:
        while time.monotonic() < self.end:
            await asyncio.sleep(1.0)
            tell(done=self.done)

    # Producers

    def new_job(self) -> dibs.NewJob:
        self.number += 1
        draw = self.random.random()
        options: dict[str, Any] = {"queue": self.random.choice(QUEUES), "priority": self.random.randrange(3)}
        task = self.random.choice(TASKS)
        params: Any = {"by": self.name, "number": self.number}
        if draw < 0.15:
            # The same few keys for all processes at about the same time, now and then with another job.
            key = f"{int(time.time() * 5)}-{self.random.randrange(4)}"
            params = {"key": key, "other": self.random.random() < 0.01}
            options |= {"idempotency_key": key, "queue": QUEUES[0]}
            task = TASKS[0]
        elif draw < 0.25:
            options |= {"unique_key": f"unique-{self.random.randrange(20)}"}
        elif draw < 0.30:
            options |= {"delay": self.random.uniform(0.0, 0.5)}
        elif draw < 0.35:
            options |= {"retention": 0}
        options["max_attempts"] = self.random.choice((1, 3, 3, 5))
        return dibs.NewJob(task, params, **options)

    async def produce(self) -> None:
        if (await self.app.counts()).unfinished > BACKLOG:
            await asyncio.sleep(0.05)
            return
        many = self.random.choice((1, 1, 1, 2, 10, 50))
        jobs = await self.app.enqueue_many([self.new_job() for _ in range(many)])
        self.done["enqueue"] += len(jobs)
        for job in jobs:
            self.known.append(job.id)
            self.acknowledged.write(job.id + "\n")

    # Workers

    async def work(self) -> None:
        worker_id = f"{self.name}-{self.random.randrange(3)}"
        order = self.random.choice(("priority", "priority", "priority", "created_at", "random"))
        tasks = None if self.random.random() < 0.7 else [self.random.choice(TASKS)]
        wait = self.random.choice((0, 0.1))
        if self.random.random() < 0.03:
            await self.give_up_claiming(worker_id)
            return
        limit = self.random.choice((1, 1, 1, 5, 20))
        claims = await self.app.claim_many(worker_id, limit=limit, tasks=tasks, order=order, lease=LEASE, wait=wait)
        self.done["claim"] += len(claims)
        await asyncio.gather(*(self.end_claim(claim) for claim in claims))

    async def give_up_claiming(self, worker_id: str) -> None:
        """Cancel a claim on its way: it must be given back."""
        task = asyncio.create_task(self.app.claim(worker_id, lease=LEASE, wait=0.2))
        await asyncio.sleep(self.random.uniform(0.0, 0.02))
        task.cancel()
        [claim] = await asyncio.gather(task, return_exceptions=True)
        if isinstance(claim, dibs.Claim):
            await self.end_claim(claim)
        elif isinstance(claim, Exception):
            raise claim

    async def end_claim(self, claim: dibs.Claim) -> None:
        ways = {
            self.complete: 50,
            self.complete_inside: 15,
            self.extend_and_complete: 10,
            self.fail: 8,
            self.fail_for_good: 3,
            self.release: 6,
            self.settle_twice: 4,
            self.settle_late: 2,
            self.abandon: 2,
        }
        [way] = self.random.choices(list(ways), list(ways.values()))
        try:
            await way(claim)
            self.done[way.__name__] += 1
        except EXPECTED as error:
            self.refused[error.code] += 1

    async def complete(self, claim: dibs.Claim) -> None:
        await claim.complete({"fence": claim.fence})

    async def complete_inside(self, claim: dibs.Claim) -> None:
        async with claim:
            await asyncio.sleep(self.random.uniform(0.0, 0.05))
            if self.random.random() < 0.1:
                raise dibs.Retry(delay=self.random.uniform(0.0, 0.1))

    async def extend_and_complete(self, claim: dibs.Claim) -> None:
        for _ in range(self.random.randrange(1, 4)):
            await claim.progress(self.random.random(), "on the way")
        await claim.complete()

    async def fail(self, claim: dibs.Claim) -> None:
        await claim.fail("it did not work", delay=self.random.choice((None, None, 0, 0.1)))

    async def fail_for_good(self, claim: dibs.Claim) -> None:
        await claim.fail(ValueError("it never will"), retryable=False)

    async def release(self, claim: dibs.Claim) -> None:
        await claim.release(delay=self.random.choice((None, 0.1)))

    async def settle_twice(self, claim: dibs.Claim) -> None:
        again = self.app.claimed(claim.id, fence=claim.fence, lease_token=claim.lease_token)
        await asyncio.gather(claim.complete(), again.complete())

    async def settle_late(self, claim: dibs.Claim) -> None:
        await asyncio.sleep(LEASE * self.random.uniform(0.9, 1.3))
        await claim.complete()

    async def abandon(self, claim: dibs.Claim) -> None:
        del claim  # its lease will run out

    # Operators and onlookers

    async def give_orders(self) -> None:
        await asyncio.sleep(self.random.uniform(0.0, 0.1))
        if not self.known:
            return
        id = self.random.choice(self.known)
        draw = self.random.random()
        if draw < 0.4:
            await self.app.cancel(id, by=self.name)
        elif draw < 0.8:
            await self.app.redrive(id, by=self.name)
        elif draw < 0.9:
            await self.app.redrive(where=dibs.Filter(status="failed", task=self.random.choice(TASKS)), by=self.name)
        elif draw < 0.95:
            await self.app.cancel(*self.random.sample(self.known, min(5, len(self.known))), by=self.name)
        else:
            await self.app.purge(id, by=self.name)
        self.done["order"] += 1

    async def pause(self) -> None:
        await self.app.pause("flaky", by=self.name)
        try:
            await asyncio.sleep(self.random.uniform(0.0, 0.1))
        finally:
            await self.app.resume("flaky", by=self.name)
        await asyncio.sleep(self.random.uniform(0.0, 1.0))
        self.done["pause"] += 1

    async def look(self) -> None:
        await asyncio.sleep(self.random.uniform(0.0, 0.05))
        draw = self.random.random()
        if draw < 0.4:
            page = self.app.find(
                status=self.random.choice(("pending", "claimed", "completed", "failed", None)),
                queue=self.random.choice((*QUEUES, None)),
                limit=self.random.choice((10, 100)),
            )
            self.known.extend(job.id for job in (await page).items)
        elif draw < 0.6:
            await self.app.counts(self.random.choice((*QUEUES, None)))
        elif draw < 0.8 and self.known:
            id = self.random.choice(self.known)
            await asyncio.gather(self.app.get(id), self.app.log(id))
            await self.app.explain(id)
        else:
            await asyncio.gather(self.app.queues(), self.app.workers())
        self.done["look"] += 1


def tell(**news: object) -> None:
    """One line, one write."""
    os.write(sys.stdout.fileno(), json.dumps(news).encode() + b"\n")


# ------------------------------------------------------------------------------------------------ the overseer


class Gauge(threading.Thread):
    """Measures the WAL, twenty times a second."""

    def __init__(self, path: Path) -> None:
        super().__init__(daemon=True)
        self.path = path
        self.largest = 0
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.05):
            try:
                self.largest = max(self.largest, self.path.stat().st_size)
            except FileNotFoundError:
                continue


class Hammers:
    """The processes, as the overseer sees them."""

    def __init__(self, folder: Path, args: argparse.Namespace) -> None:
        self.begin = time.monotonic() + STARTING
        self.seconds = args.seconds
        command = [sys.executable, __file__, "--folder", str(folder), "--seed", str(args.seed)]
        command += ["--from", str(self.begin), "--seconds", str(args.seconds)]
        self.processes = [
            subprocess.Popen([*command, "--hammer", str(index)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
            for index in range(args.processes)
        ]
        self.news: list[dict[str, Any]] = [{} for _ in self.processes]
        self.readers = [threading.Thread(target=self.read, args=(index,)) for index in range(args.processes)]
        for reader in self.readers:
            reader.start()

    def read(self, index: int) -> None:
        for line in self.processes[index].stdout or ():
            self.news[index].update(json.loads(line))

    def total(self, what: str = "done") -> Counter[str]:
        total: Counter[str] = Counter()
        for news in self.news:
            total.update(news.get(what, {}))
        return total

    def join(self) -> list[str]:
        """Wait for all, and say what went wrong with any."""
        trouble = []
        for process, reader, news in zip(self.processes, self.readers, self.news, strict=True):
            reader.join()
            if process.wait() != 0:
                trouble.append(f"a process ended with {process.returncode}")
            trouble += news.get("trouble", [])
        return trouble

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


async def oversee(folder: Path, args: argparse.Namespace) -> int:
    say: Callable[..., None] = (lambda *_, **__: None) if args.json else print
    gauge = Gauge(folder / "jobs.db-wal")
    gauge.start()
    hammers = Hammers(folder, args)
    try:
        await show(hammers, gauge, say)
        trouble = await asyncio.to_thread(hammers.join)
    finally:
        hammers.end()
    say("working off what is left …", flush=True)
    app = open_app(folder, "closer")
    left = await work_off(app)
    say("replaying the log …", flush=True)
    verified = await app.verify()
    await app.close()
    gauge.over.set()
    say("checking the histories …", flush=True)
    histories, missing, ended = await examine(folder)
    done = hammers.total()
    checks = {
        "never locked, never unavailable": not trouble,
        "WAL under 64 MiB": gauge.largest < MOST_WAL,
        "nothing lost": not missing and not left,
        "log replays": verified.ok,
        "histories clean": histories.ok,
    }
    summary = {
        "processes": args.processes,
        "seconds": args.seconds,
        "seed": args.seed,
        "done": dict(done),
        "claims_per_second": round(done["claim"] / args.seconds, 1),
        "enqueues_per_second": round(done["enqueue"] / args.seconds, 1),
        "refused": dict(hammers.total("refused")),
        "largest_wal_mib": round(gauge.largest / MIB, 2),
        "jobs": histories.jobs,
        "events": histories.events,
        "pruned": histories.pruned,
        "operations": histories.operations,
        "ended": dict(ended),
        "trouble": trouble[:20],
        "missing": missing[:20],
        "left": left,
        "verify": str(verified),
        "histories": str(histories),
        "checks": checks,
        "ok": all(checks.values()),
    }
    if args.json:
        print(json.dumps(summary, indent=2))
    else:
        tell_people(summary)
    return 0 if summary["ok"] else 1


async def show(hammers: Hammers, gauge: Gauge, say: Callable[..., None]) -> None:
    """Tell how it goes, until the time is over."""
    terminal = sys.stdout.isatty()
    say(f"{len(hammers.processes)} processes hammer one file for {hammers.seconds:g} seconds", flush=True)
    while (left := hammers.begin + hammers.seconds - time.monotonic()) > 0:
        await asyncio.sleep(min(left, 1.0 if terminal else 5.0))
        done = hammers.total()
        part = min(1.0, max(0.0, (time.monotonic() - hammers.begin) / hammers.seconds))
        bar = f"[{'#' * round(30 * part):<30}] {part:4.0%}" if terminal else f"{part:4.0%}"
        line = f"{bar}  {done['enqueue']:,} enqueued, {done['claim']:,} claimed, WAL {gauge.largest / MIB:.1f} MiB"
        say(f"\r{line}\x1b[K" if terminal else line, end="" if terminal else "\n", flush=True)
    say(flush=True)


async def work_off(app: dibs.App) -> int:
    """Work until nothing is left to do; say how much was left when that took too long."""
    for queue in QUEUES:
        await app.resume(queue)
    deadline = time.monotonic() + 60.0
    while left := (await app.counts()).unfinished:
        if time.monotonic() > deadline:
            return left
        claims = await app.claim_many("closer", limit=200, lease=60.0, wait=0.5)
        await asyncio.gather(*(claim.complete() for claim in claims))
    return 0


async def examine(folder: Path) -> tuple[Report, list[str], Counter[str]]:
    """Compare what was acknowledged and answered with what the file says."""
    store = SqliteStore(folder / "jobs.db", Clock())
    await store.open()
    audit, now = await read_audit(store), await store.now()
    await store.close()
    return compare(folder, audit, now)


def compare(folder: Path, audit: list[Any], now: int) -> tuple[Report, list[str], Counter[str]]:
    there = {events[-1].job_id if job is None else job.id for job, events in audit}
    acknowledged = {id for file in folder.glob("*.acknowledged") for id in file.read_text().split()}
    report = check(History.load(*sorted(folder.glob("*.jsonl"))), audit, final=True, now_us=now)
    ended = Counter(str(job.status) for job, _ in audit if job is not None)
    return report, sorted(acknowledged - there), ended


def tell_people(summary: dict[str, Any]) -> None:
    for name in ("claims_per_second", "enqueues_per_second", "largest_wal_mib", "seed"):
        print(f"  {name.replace('_', ' '):<22} {summary[name]:,}")
    for name in ("done", "refused", "ended"):
        print(f"  {name:<22} {', '.join(f'{key} {value:,}' for key, value in sorted(summary[name].items()))}")
    print(f"  {'log':<22} {summary['verify']}")
    print(f"  {'histories':<22} {summary['histories']}")
    for line in summary["trouble"] + summary["missing"]:
        print(f"  ! {line}")
    for name, kept in summary["checks"].items():
        print(f"  {'ok' if kept else 'BROKEN':<6} {name}")


if __name__ == "__main__":
    sys.exit(main())
