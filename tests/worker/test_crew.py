"""Whoever looks after several processes, by itself: its members here are no workers."""

import asyncio
import signal
from pathlib import Path

import pytest

from dibs.clock import Clock
from dibs.worker import crew
from dibs.worker.crew import Crew
from tests.worker.conftest import until


def starts(order: Path) -> list[str]:
    """The places in which one was started, in turn."""
    return [line.split()[0] for line in order.read_text().splitlines()] if order.exists() else []


@pytest.mark.parametrize(("member", "warnings"), [("dies", 2), ("spent", 0)])
async def test_one_that_ends_is_replaced_in_its_place(
    member: str, warnings: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    order, gone = tmp_path / "order", list[int]()
    made = Crew(
        f"tests.worker.crew_members:{member}",
        str(order),
        1,
        Clock(),
        grace=0,
        until_idle=True,
        on_gone=gone.append,
    )
    await asyncio.wait_for(made.run(), 30)
    assert starts(order) == ["0", "0", "0"]
    assert gone == [0, 0, 0]
    told = [record.getMessage() for record in caplog.records if "another takes its place in" in record.getMessage()]
    assert [text.rpartition(" in ")[2] for text in told] == ["0.1 s", "0.2 s"][:warnings]


async def test_those_that_do_not_stop_are_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(crew, "PATIENCE", 0.2)
    order = tmp_path / "order"
    made = Crew("tests.worker.crew_members:deaf", str(order), 2, Clock(), grace=0)
    running = asyncio.create_task(made.run())
    await until(lambda: sorted(starts(order)) == ["0", "1"])
    made._signalled(signal.SIGTERM)
    await asyncio.wait_for(running, 30)
    assert caplog.text.count("did not stop in time, and is killed") == 2
    assert len(starts(order)) == 2, "they are not replaced any more"


async def test_what_cannot_be_started_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    order, start, refused = tmp_path / "order", asyncio.create_subprocess_exec, list[str]()

    async def refuse_once(*command: str, **how: object) -> asyncio.subprocess.Process:
        if not refused:
            refused.append(command[0])
            raise BlockingIOError("no room")
        return await start(*command, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", refuse_once)
    made = Crew("tests.worker.crew_members:spent", str(order), 1, Clock(), grace=0, until_idle=True)
    await asyncio.wait_for(made.run(), 30)
    assert (len(refused), len(starts(order))) == (1, 3)
    assert "cannot be started: no room" in caplog.text
