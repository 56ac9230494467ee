"""A pytest plugin that plants the mistake named by the environment, for the whole of a run."""

from __future__ import annotations

import os

import pytest

from tests.mistakes.table import MISTAKES

_patch = pytest.MonkeyPatch()


def pytest_configure() -> None:
    """Plant it before anything is collected."""
    if name := os.environ.get("DIBS_MISTAKE"):
        MISTAKES[name].plant(_patch)


def pytest_unconfigure() -> None:
    """Undo it."""
    _patch.undo()
