"""Recording what a test and its processes asked of a store, and the verdict on all of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from dibs.broker.connect import open_store
from dibs.clock import Clock
from dibs.testing.history import History, Recorder, Report, check, read_audit, recorded


@contextmanager
def recording(path: Path, name: str) -> Iterator[None]:
    """Record what apps that are opened in this block ask of their stores."""
    with History(path) as history:
        recorder = Recorder(history, name)
        with patch("dibs.runtime.open_store", lambda url, clock: recorded(open_store(url, clock), recorder)):
            yield


def load(folder: Path) -> History:
    return History.load(*sorted(folder.glob("*.jsonl")))


async def report_on(url: str, folder: Path, *, final: bool = True) -> Report:
    """Compare every history of a folder with the log of the store, once all is at rest."""
    store = open_store(url, Clock())
    await store.open()
    try:
        audit, now = await read_audit(store), await store.now()
    finally:
        await store.close()
    return check(load(folder), audit, final=final, now_us=now)


async def assert_clean(url: str, folder: Path, *, final: bool = True) -> Report:
    """See that they fit."""
    report = await report_on(url, folder, final=final)
    assert report.ok, str(report)
    assert report.operations
    return report
