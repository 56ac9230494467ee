"""Django, set up once for each process, by the settings of the example; and a backend for each test."""

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import django
import pytest
from django.db import connections
from django.test import override_settings

SITE = Path(__file__).resolve().parents[2] / "examples" / "django_site"

sys.path.append(str(SITE))
os.environ["DJANGO_SETTINGS_MODULE"] = "settings"
django.setup()
del os.environ["DJANGO_SETTINGS_MODULE"]  # the processes that other tests start are none of Django's

from dibs import Worker  # noqa: E402 - what follows needs Django's settings
from dibs.contrib.django import DibsBackend  # noqa: E402
from dibs.contrib.django.interface import task_backends  # noqa: E402
from tests.broker.serving import Process  # noqa: E402
from tests.servers.databases import bare_postgres  # noqa: E402


def tasks(**options: Any) -> dict[str, Any]:
    """The setting TASKS, with one backend."""
    return {"default": {"BACKEND": "dibs.contrib.django.DibsBackend", "QUEUES": [], "OPTIONS": options}}


@pytest.fixture(scope="session")
def process() -> Iterator[Process]:
    with Process() as process:
        yield process


@pytest.fixture(params=["memory", "served"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "memory":
        yield "memory://"
        return
    process: Process = request.getfixturevalue("process")
    process.tell("begin_openly", url=f"sqlite:///{tmp_path / 'jobs.db'}")
    yield process.url
    process.tell("end")


@pytest.fixture
def backend(url: str) -> Iterator[DibsBackend]:
    with override_settings(TASKS=tasks(store=url, reap_every=0.1)):
        yield task_backends["default"]
        task_backends["default"].app.sync.close()


@pytest.fixture
def work(backend: DibsBackend) -> Callable[[], None]:
    """Run a worker until there is nothing left to do."""
    return lambda: asyncio.run(Worker(backend.app, worker_id="w").run(until_idle=True))


@pytest.fixture
def database() -> Iterator[str]:
    """The alias of a PostgreSQL database of Django's that has never been migrated."""
    at = urlsplit(bare_postgres("django"))
    said = {"ENGINE": "django.db.backends.postgresql", "NAME": at.path[1:], "USER": at.username or ""}
    said |= {"PASSWORD": at.password or "", "HOST": at.hostname or "", "PORT": str(at.port or "")}
    connections.settings["shared"] = connections.configure_settings({"default": said})["default"]
    try:
        yield "shared"
    finally:
        connections["shared"].close()
        del connections["shared"], connections.settings["shared"]
