"""What the hammers were told, compared with what the store says, once all is at rest."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from dibs.broker.connect import open_store
from dibs.clock import Clock
from dibs.testing.history import History, Report, check, read_audit


async def examine(url: str, folder: Path) -> tuple[Report, list[str], Counter[str], tuple[int, int]]:
    """Compare what was acknowledged and answered with what the store says."""
    store = open_store(url, Clock())
    await store.open()
    audit, now = await read_audit(store), await store.now()
    await store.close()
    return compare(folder, audit, now)


def compare(folder: Path, audit: list[Any], now: int) -> tuple[Report, list[str], Counter[str], tuple[int, int]]:
    there = {events[-1].job_id if job is None else job.id for job, events in audit}
    acknowledged = {id for file in folder.glob("*.acknowledged") for id in file.read_text().split()}
    history = History.load(*sorted(folder.glob("*.jsonl")))
    report = check(history, audit, final=True, now_us=now)
    ended = Counter(str(job.status) for job, _ in audit if job is not None)
    return report, sorted(acknowledged - there), ended, count_claims(history)


def count_claims(history: History) -> tuple[int, int]:
    """Count what was handed out, and what was handed out more than once: the same job under the same fence."""
    answers = (operation.result for operation in history.operations if operation.kind == "claim")
    handed = Counter((job["id"], job["fence"]) for answer in answers if isinstance(answer, list) for job in answer)
    return handed.total(), handed.total() - len(handed)
