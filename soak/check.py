"""The verdict, once all is at rest: what was told and done, compared with what the store says."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import dibs
from soak.seen import Seen
from tests.chaos.histories import report_on


@dataclass
class Verdict:
    """What was looked at, and what is wrong."""

    jobs: int = 0
    operations: int = 0
    unanswered: int = 0
    problems: list[str] = field(default_factory=list)

    def demand(self, holds: bool, otherwise: str) -> None:
        if not holds:
            self.problems.append(otherwise)


async def judge(url: str, folder: Path, seen: Seen) -> Verdict:
    """Judge a store by its own URL; no one else uses it any more."""
    verdict = Verdict()
    twice = [run for run, times in seen.runs.items() if times > 1]
    verdict.demand(not twice, f"run to the end twice under one fence: {_some(twice)}")
    never = seen.acknowledged.keys() - seen.ended.keys()
    verdict.demand(not never, f"acknowledged, and no handler ever ran to its end: {_some(never)}")
    async with dibs.App(url) as app:
        found = {job.id: job async for job in app.find()}
        report = await app.verify()
    verdict.demand(report.ok, f"verify: {report}")
    lost = seen.acknowledged.keys() - found.keys()
    verdict.demand(not lost, f"acknowledged and lost: {_some(lost)}")
    keys = Counter(job.idempotency_key for job in found.values())
    several = [key for key, times in keys.items() if times > 1]
    verdict.demand(not several, f"more than one job for one key: {_some(several)}")
    open_still = [f"{job.id} ({job.status})" for job in found.values() if str(job.status) != "completed"]
    verdict.demand(not open_still, f"not completed: {_some(open_still)}")
    verdict.jobs = len(found)
    await _check_histories(url, folder, verdict)
    return verdict


async def _check_histories(url: str, folder: Path, verdict: Verdict) -> None:
    report = await report_on(url, folder)
    verdict.operations, verdict.unanswered = report.operations, report.unknown
    verdict.demand(report.ok, f"the histories: {report}")
    verdict.demand(report.operations > 0, "nothing was recorded")


def _some(things: object) -> str:
    assert isinstance(things, (list, set))
    shown = ", ".join(map(str, sorted(things, key=str)[:5]))
    return f"{len(things):,}: {shown}{', …' if len(things) > 5 else ''}"
