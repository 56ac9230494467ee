"""The pytest plugin: an app in memory for each test that asks for it.

Say which app in ``pyproject.toml`` (``[tool.pytest.ini_options]``, ``dibs_app = "shop.jobs:app"``), or by a fixture of
your own that is named ``dibs_app``. Then ``dibs_use`` is that app within ``use``: with ``dibs_use.clock``,
``await dibs_use.drain()`` and ``await dibs_use.enqueued(task, …)``.
"""

from __future__ import annotations

from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dibs.app import App
    from dibs.clock import FakeClock
    from dibs.domain.job import Job
    from dibs.task import Task

OPTION = "dibs_app"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Make the option known."""
    parser.addini(OPTION, 'the app that the fixture dibs_use is for, such as "shop.jobs:app"')


class Used(NamedTuple):
    """An app in memory, and its clock."""

    app: App
    clock: FakeClock

    async def drain(self, *, queues: Sequence[str] | None = None, later: bool = False) -> list[Job]:
        """Run what was enqueued: see ``dibs.testing.drain``."""
        from dibs.testing import drain

        return await drain(self.app, queues=queues, later=later)

    async def enqueued(self, task: Task[..., Any] | str, /, *, times: int | None = None, **params: Any) -> list[Job]:
        """Assert what was enqueued: see ``dibs.testing.enqueued``."""
        from dibs.testing import enqueued

        return await enqueued(self.app, task, times=times, **params)


@pytest.fixture
def dibs_app(request: pytest.FixtureRequest) -> App:
    """The app that is tested: the one that the option names, unless you define this fixture yourself."""
    name = request.config.getini(OPTION)
    if not name:
        pytest.fail(f"which app? Set {OPTION} = 'package.module:app' in pytest's options, or make a fixture dibs_app")
    app: App = resolve_name(name)
    return app


@pytest.fixture
def dibs_use(dibs_app: App) -> Iterator[Used]:
    """The app, in memory and by a clock that stands still, for one test."""
    from dibs.testing import use

    with use(dibs_app) as clock:
        yield Used(dibs_app, clock)
