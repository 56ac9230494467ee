"""Claim and settle on MariaDB, by 100 beside the bare driver; and ten who claim one job at a time."""

from __future__ import annotations

from statistics import median

from bench import bare_mysql
from bench.bare import syncs
from bench.cases.beside import beside
from bench.mariadb import serving
from bench.run import Run, ratios

CASE = "mariadb"
SHARE = 0.4


async def mariadb(run: Run) -> None:
    with run.fresh() as folder:
        disk = [syncs(folder / "page", 50) for _ in range(run.size(7, 3))]
    run.figure(CASE, "this disk", "page written and synced", "/s", disk)
    async with serving() as server:
        found = await beside(run, CASE, server, "bare asyncmy", bare_mysql.drain)
    run.bar(
        "mariadb-100",
        "claim+settle of 100 through the broker on MariaDB, one after the other, over the bare asyncmy loop",
        "×",
        ratios(found["dibs broker, mariadb, one after the other"], found["bare asyncmy"]),
        at_least=SHARE,
    )
    run.notes.append(f"MariaDB: a commit waits for the disk, which synced {median(disk):,.0f} pages a second")
