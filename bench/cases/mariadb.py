"""Claim and settle in batches of 100 on MariaDB: the broker, the store under it, and the bare engine, in turns."""

from __future__ import annotations

import time
from contextlib import contextmanager
from functools import partial
from itertools import count
from statistics import median
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

import pymysql

from bench.bare import syncs
from bench.bare_mysql import Bare
from bench.cases.batch import Drain, ahead, through_broker, through_store
from bench.run import Broken, Run, in_turns, ratios
from bench.subjects import PARAMS_JSON, draft, insert, prove_log, prove_once
from dibs.clock import Clock
from dibs.stores.mysql import MysqlStore
from dibs.stores.mysql.address import read
from tests.servers import mariadb as server

if TYPE_CHECKING:
    from collections.abc import Iterator

BATCH = 100
SHARE = 0.4
_numbers = count()


async def mariadb(run: Run) -> None:
    """Measure on a server of our own, which confirms what is on the disk."""
    jobs = run.size(20_000, 3_000)
    with server.private() as own:
        values = await in_turns(
            run.view,
            "batches of 100 on MariaDB",
            run.size(7, 3),
            {
                "dibs broker, mariadb": partial(_ours, run, own.url, ahead, jobs),
                "dibs broker, mariadb, one after the other": partial(_ours, run, own.url, through_broker, jobs),
                "dibs store, mariadb": partial(_ours, run, own.url, through_store, jobs),
                "bare asyncmy": partial(_bare, own.url, jobs),
                "this disk": partial(_disk, run),
            },
        )
    disk = values.pop("this disk")
    run.figure("mariadb", "this disk", "page written and synced", "/s", disk)
    for subject, rates in values.items():
        run.figure("mariadb", subject, f"claim+settle by {BATCH}", "/s", rates)
    run.bar(
        "mariadb-100",
        "claim+settle of 100 through the broker on MariaDB, one after the other, over the bare asyncmy loop",
        "×",
        ratios(values["dibs broker, mariadb, one after the other"], values["bare asyncmy"]),
        at_least=SHARE,
    )
    run.notes.append(f"MariaDB: a commit waits for the disk, which synced {median(disk):,.0f} pages a second")


@contextmanager
def _database(url: str) -> Iterator[str]:
    """A new database that is gone afterwards."""
    name, address = f"bench_{next(_numbers)}", read(url)
    connection = pymysql.connect(host=address.host, port=address.port, user=address.user, password=address.password)
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
        try:
            yield urlunsplit(urlsplit(url)._replace(path=f"/{name}"))
        finally:
            cursor.execute(f"DROP DATABASE {name}")
            connection.close()


async def _ours(run: Run, url: str, drain: Drain, jobs: int) -> float:
    with _database(url) as own:
        store = MysqlStore(own, Clock())
        await store.migrate()
        clock = Clock()
        await insert(store, (draft(clock) for _ in range(jobs)))
        claimed: list[str] = []
        began = time.perf_counter()
        await drain(store, BATCH, claimed)
        seconds = time.perf_counter() - began
        prove_once(run, claimed, jobs)
        await prove_log(run, store, "batches on MariaDB", jobs)
        await store.close()
    return jobs / seconds


async def _bare(url: str, jobs: int) -> float:
    with _database(url) as own:
        bare = await Bare.filled(read(own), jobs, PARAMS_JSON)
        seconds, claimed = await bare.drain(BATCH)
        await bare.close()
    if len(claimed) != jobs or len(set(claimed)) != jobs:
        raise Broken(f"the bare loop claimed {len(claimed)} of {jobs} jobs")
    return jobs / seconds


async def _disk(run: Run) -> float:
    with run.fresh() as folder:
        return syncs(folder / "page", 50)
