"""Who is measured: dibs and its peers, each by a program of ``bench/peers`` in a process of its own."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bench.children import Child, started
from bench.run import Broken, Run
from bench.subjects import opened, prove_log
from bench.venvs import clean_environment, python_of


class Contender(NamedTuple):
    """One queue on one kind of store."""

    name: str
    module: str
    pins: str | None = None  # of its own environment; without, it runs in ours
    share: float = 1.0  # of the jobs that the others get
    batch: bool = True  # it can enqueue many in one call
    follows: bool = True  # its worker hears of what another process enqueues
    store: str = "sqlite"

    @property
    def subject(self) -> str:
        return f"{self.name} {self.store}"

    def program(self, mode: str, folder: Path, jobs: int) -> AbstractAsyncContextManager[Child]:
        python, env = sys.executable, None
        if self.pins is not None:
            python, env = str(python_of(self.pins)), clean_environment()
        command = (python, "-m", self.module, mode, str(folder), str(jobs))
        return started(f"{self.name} ({mode})", *command, env=env)

    async def ask(self, mode: str, folder: Path, jobs: int) -> dict[str, Any]:
        """Run the program in this mode, and hear the one thing that it says."""
        async with self.program(mode, folder, jobs) as child:
            return await child.line()


OURS = Contender("dibs worker,", "bench.peers.dibs_worker")
PEERS = (
    Contender("huey", "bench.peers.huey", "huey", batch=False),
    Contender("litequeue", "bench.peers.litequeue", "litequeue", share=0.25),  # its cost grows with what waits
    Contender("persist-queue", "bench.peers.persist_queue", "persist-queue", batch=False, follows=False),
)


OURS_POSTGRES = OURS._replace(store="postgres")
POSTGRES_PEERS = (
    Contender("pgqueuer", "bench.peers.pgqueuer", "pgqueuer", store="postgres"),
    Contender("awa-pg", "bench.peers.awa", "awa-pg", store="postgres"),
    # These three are slow, and as fast with a thousand as with twenty.
    Contender("chancy", "bench.peers.chancy", "chancy", store="postgres", share=0.25),
    Contender("saq", "bench.peers.saq", "saq", store="postgres", share=0.1),
    Contender("procrastinate", "bench.peers.procrastinate", "procrastinate", store="postgres", share=0.05),
)

OURS_REDIS = OURS._replace(store="redis")
REDIS_PEERS = (
    Contender("huey", "bench.peers.huey_redis", "huey", store="redis", batch=False),
    Contender("taskiq", "bench.peers.taskiq", "taskiq", store="redis"),
    # These are slower, and as fast with some thousands as with twenty.
    Contender("dramatiq", "bench.peers.dramatiq", "dramatiq", store="redis", batch=False, share=0.5),
    Contender("saq", "bench.peers.saq_redis", "saq", store="redis", share=0.5),
    Contender("arq", "bench.peers.arq", "arq", store="redis", share=0.5),
    Contender("streaq", "bench.peers.streaq", "streaq", store="redis", share=0.25),
    Contender("celery", "bench.peers.celery", "celery", store="redis", batch=False, share=0.25),
    Contender("rq", "bench.peers.rq", "rq", store="redis", share=0.05),
)


class Field(NamedTuple):
    """Who is measured beside whom, on one kind of store."""

    title: str
    ours: Contender
    peers: tuple[Contender, ...]

    @property
    def everyone(self) -> tuple[Contender, ...]:
        return (self.ours, *self.peers)


ON_SQLITE = Field("SQLite", OURS, PEERS)
ON_POSTGRES = Field("PostgreSQL", OURS_POSTGRES, POSTGRES_PEERS)
ON_REDIS = Field("Redis", OURS_REDIS, REDIS_PEERS)

Home = Callable[[Run], AbstractAsyncContextManager[Path]]


@asynccontextmanager
async def files(run: Run) -> AsyncIterator[Path]:
    """A folder for files, which is all that a queue on SQLite needs."""
    with run.fresh() as folder:
        yield folder


async def introduce(run: Run, contenders: Sequence[Contender], home: Home = files) -> None:
    """Have each ready and said what it is, before anything is timed."""
    for contender in contenders:
        if contender.subject not in run.contenders:
            async with home(run) as folder:
                run.contenders[contender.subject] = (await contender.ask("about", folder, 0))["about"]


class Drained(NamedTuple):
    """What one worker process did with what was waiting for it, in jobs a second."""

    starts: float  # from the first job's start to the last one's
    emptied: float  # from the first job's start until the store showed nothing left
    for_cpu: float = 0.0  # for each second of its processes' CPU, its start and end with it: a busy machine spares that

    @property
    def better(self) -> float:
        return max(self.starts, self.emptied)


async def drain(run: Run, contender: Contender, jobs: int, home: Home = files) -> Drained:
    """Enqueue so many, then let one worker process do them; each has to be run exactly once."""
    jobs = int(jobs * contender.share)
    async with home(run) as folder:
        await contender.ask("batch" if contender.batch else "single", folder, jobs)
        done = await contender.ask("work", folder, jobs)
        prove_numbers(run, contender, done["numbers"], done["left"], jobs)
        await prove_own(run, contender, folder, jobs)
    starts, emptied = (jobs - 1) / (done["last"] - done["first"]), jobs / (done["emptied"] - done["first"])
    return Drained(starts, emptied, jobs / done["cpu"])


async def prove_own(run: Run, contender: Contender, folder: Path, jobs: int) -> None:
    """If it is dibs, its log tells the same."""
    if contender.module == OURS.module:
        async with opened(contender.store, folder) as store:
            await prove_log(run, store, contender.name, jobs)


def prove_numbers(run: Run, contender: Contender, numbers: list[int], left: int, jobs: int) -> None:
    """Every job was handled, none of them twice, and the store agrees."""
    if sorted(numbers) != list(range(jobs)):
        missing, different = jobs - len(set(numbers)), len(set(numbers))
        raise Broken(
            f"{contender.name}: {jobs} jobs, {len(numbers)} handled, {missing} never, {len(numbers) - different} again"
        )
    if left:
        raise Broken(f"{contender.name}: all {jobs} jobs were handled, but its store shows {left} left")
    run.jobs_checked += jobs
