"""Several processes hammer one store for a while; then everything that was said and done is checked.

Each process produces, works, gives orders and looks, all at once, and records what it asked of the store and was told.
At the end what is left is worked off, and then: no call may have found the store locked or unavailable (a deadlock that
was retried is no one's to know), no claim was handed out twice, nothing that was acknowledged may be missing, the audit
log must replay, and what all of them were told must fit it. An SQLite file's WAL must have stayed small.

    python tools/hammer.py --processes 8 --seconds 60
    python tools/hammer.py --store postgresql --processes 10 --claims 200000
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

from arenas import Arena, enter
from verdict import examine

import dibs
import dibs.runtime
from dibs.testing.history import History, Recorder, recorded

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
    parser.add_argument("--seconds", type=float, default=None, help="(60; with --claims: as long as it takes)")
    parser.add_argument("--claims", type=int, default=None, help="go on until so many claims were made")
    parser.add_argument(
        "--store", default="sqlite", help="sqlite, postgresql, mariadb, redis, cluster, or the URL of an empty database"
    )
    parser.add_argument("--seed", type=int, default=None, help="what each process does, if not when (random)")
    parser.add_argument(
        "--folder", type=Path, help="where the file and the histories are kept (thrown away if not given)"
    )
    parser.add_argument("--json", action="store_true", help="print only the summary, as JSON")
    parser.add_argument("--hammer", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--from", type=float, dest="begin", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.seed = random.randrange(2**32) if args.seed is None else args.seed
    if args.seconds is None:
        args.seconds = 60.0 if args.claims is None else 24 * 3600.0
    if args.hammer is not None:
        hammer = Hammer(args.store, args.folder, args.hammer, args.seed)
        return asyncio.run(hammer.run(args.begin, args.seconds, args.claims))
    with tempfile.TemporaryDirectory(prefix="dibs-hammer-") as temporary:
        folder = Path(temporary) if args.folder is None else args.folder
        folder.mkdir(parents=True, exist_ok=True)
        with enter(args.store, folder) as arena:
            return asyncio.run(oversee(arena, folder, args))


def open_app(url: str, folder: Path, name: str) -> dibs.App:
    """Open the store, with all that is asked of it recorded."""
    recorder = Recorder(History(folder / f"{name}.jsonl"), name)
    plain = dibs.runtime.open_store
    dibs.runtime.open_store = lambda url, clock: recorded(plain(url, clock), recorder)
    return dibs.App(url, retry=RETRY)


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

    def __init__(self, url: str, folder: Path, index: int, seed: int) -> None:
        self.name = f"hammer-{index}"
        self.random = random.Random(f"{seed}-{index}")
        self.folder = folder
        self.app = open_app(url, folder, self.name)
        self.known: deque[str] = deque(maxlen=500)
        self.done: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.trouble: list[str] = []
        self.number = 0
        self.end = 0.0
        self.share: int | None = None  # of the claims
        self.acknowledged = (folder / f"{self.name}.acknowledged").open("w")

    @property
    def over(self) -> bool:
        return time.monotonic() >= self.end or (self.share is not None and self.done["claim"] >= self.share)

    async def run(self, begin: float, seconds: float, share: int | None) -> int:
        logging.getLogger("dibs").addHandler(Complaints(self.trouble))
        await asyncio.sleep(begin - time.monotonic())
        self.end, self.share = begin + seconds, share
        roles = [self.produce, self.work, self.work, self.work, self.give_orders, self.pause, self.look]
        await asyncio.gather(*(self.repeat(role) for role in roles), self.report())
        await self.app.close()
        self.acknowledged.close()
        tell(done=self.done, refused=self.refused, trouble=self.trouble)
        return 0

    async def repeat(self, role: Callable[[], Awaitable[None]]) -> None:
        while not self.over:
            try:
                await role()
            except EXPECTED as error:
                self.refused[error.code] += 1
            except Exception as error:  # noqa: BLE001 - whatever it is, the run has failed, and it is told
                self.trouble.append(f"{role.__name__}: {error!r}")
                await asyncio.sleep(0.1)

    async def report(self) -> None:
        while not self.over:
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


class Hammers:
    """The processes, as the overseer sees them."""

    def __init__(self, url: str, folder: Path, args: argparse.Namespace) -> None:
        self.begin = time.monotonic() + STARTING
        self.seconds = args.seconds
        self.claims = args.claims
        command = [sys.executable, __file__, "--folder", str(folder), "--seed", str(args.seed), "--store", url]
        command += ["--from", str(self.begin), "--seconds", str(args.seconds)]
        if args.claims is not None:
            command += ["--claims", str(-(-args.claims // args.processes))]
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

    @property
    def part(self) -> float:
        """How much of it is over, from 0 to 1."""
        if all(process.poll() is not None for process in self.processes):
            return 1.0
        past = (time.monotonic() - self.begin) / self.seconds
        return max(0.0, past, 0.0 if self.claims is None else min(0.999, self.total()["claim"] / self.claims))

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


async def oversee(arena: Arena, folder: Path, args: argparse.Namespace) -> int:
    say: Callable[..., None] = (lambda *_, **__: None) if args.json else print
    hammers = Hammers(arena.url, folder, args)
    try:
        await show(hammers, arena, say)
        trouble = await asyncio.to_thread(hammers.join)
    finally:
        hammers.end()
    seconds = time.monotonic() - hammers.begin
    say("working off what is left …", flush=True)
    app = open_app(arena.url, folder, "closer")
    left = await work_off(app)
    say("replaying the log …", flush=True)
    verified = await app.verify()
    await app.close()
    say("checking the histories …", flush=True)
    histories, missing, ended, (claims, twice) = await examine(arena.url, folder)
    done = hammers.total()
    figures, kept = await asyncio.to_thread(arena.end)
    checks = {
        "never locked, never unavailable": not trouble,
        **kept,
        "no claim handed out twice": not twice,
        "nothing lost": not missing and not left,
        "log replays": verified.ok,
        "histories clean": histories.ok,
    }
    summary = {
        "processes": args.processes,
        "seconds": round(seconds, 1),
        "seed": args.seed,
        "done": dict(done),
        "claims": claims,
        "claimed_twice": twice,
        "claims_per_second": round(done["claim"] / seconds, 1),
        "enqueues_per_second": round(done["enqueue"] / seconds, 1),
        "refused": dict(hammers.total("refused")),
        **figures,
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
        tell_people(summary, figures)
    return 0 if summary["ok"] else 1


async def show(hammers: Hammers, arena: Arena, say: Callable[..., None]) -> None:
    """Tell how it goes, until it is over."""
    terminal = sys.stdout.isatty()
    until = (
        f"for {hammers.seconds:g} seconds" if hammers.claims is None else f"until {hammers.claims:,} claims were made"
    )
    say(f"{len(hammers.processes)} processes hammer {arena.name} {until}", flush=True)
    while (part := hammers.part) < 1.0:
        left = hammers.begin + hammers.seconds - time.monotonic()
        await asyncio.sleep(max(0.0, min(left, 1.0 if terminal else 5.0)))
        done = hammers.total()
        bar = f"[{'#' * round(30 * part):<30}] {part:4.0%}" if terminal else f"{part:4.0%}"
        how = await asyncio.to_thread(arena.now)
        line = f"{bar}  {done['enqueue']:,} enqueued, {done['claim']:,} claimed, {how}"
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


def tell_people(summary: dict[str, Any], figures: dict[str, Any]) -> None:
    for name in ("seconds", "claims", "claims_per_second", "enqueues_per_second", *figures, "seed"):
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
