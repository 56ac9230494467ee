"""What every test needs."""

import os
import signal

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A run in the background has Ctrl-C ignored, and so would the processes that tests start and interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)

MEASURED = {"cli"}
"""Folders whose tests start processes that measure their coverage. All others' run as they would for a user, and
begin sooner. What only ever runs in a process of its own is measured by these."""
_SWITCHES = {name: value for name, value in os.environ.items() if name.startswith("COVERAGE")}


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.path.parent.name in MEASURED:
        os.environ.update(_SWITCHES)
    else:
        for name in _SWITCHES:
            os.environ.pop(name, None)
