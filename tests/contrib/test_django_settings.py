"""What ``manage.py check`` says of TASKS, and which worker it makes."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.db import connections
from django.test import override_settings

from dibs.contrib.django.interface import task_backends
from dibs.contrib.django.options import read, url_of
from tests.contrib.conftest import tasks
from tests.contrib.work import add, seen


def told(setting: dict[str, Any], *, of: str = "dibs.E") -> list[tuple[str, str]]:
    """What is said of a setting; what is wrong alone, unless more is asked for."""
    with override_settings(TASKS=setting):
        messages = task_backends["default"].check()
        return [(message.id, message.msg) for message in messages if message.id.startswith(of)]


def test_nothing_is_wrong_with_what_is_right(tmp_path: Path) -> None:
    assert told(tasks()) == []
    assert told(tasks(store=f"sqlite:///{tmp_path}/jobs.db", max_attempts=5, imports=["tests.contrib.work"])) == []
    assert told(tasks(store="http://localhost:8642", api_key="dibs_a_b")) == []
    assert list(tmp_path.iterdir()) == []  # to look is not to open


@pytest.mark.parametrize(
    ("options", "at", "what"),
    [
        ({"url": "memory://"}, "url", "is not an option; there are store, database, api_key, imports"),
        ({"priority": 5}, "priority", "is not an option"),
        ({"store": 5}, "store", "must be a text"),
        ({"store": ""}, "store", "must be a text of 1"),
        ({"imports": "shop.jobs"}, "imports", "must be a list of modules"),
        ({"max_attempts": 0}, "max_attempts", "must be"),
        ({"store": "memory://", "api_key": "x"}, "api_key", "is for a server"),
        ({"store": "mongodb://x"}, "store", "names no store that is built in"),
        ({"database": "none"}, "database", "there is no 'none' in DATABASES"),
    ],
)
def test_what_is_wrong_is_named(options: dict[str, Any], at: str, what: str) -> None:
    [(_, message)] = told(tasks(**options))
    assert message.startswith(f"TASKS['default']['OPTIONS']['{at}']: ")
    assert what in message
    if "mongodb" not in message:
        with override_settings(TASKS=tasks(**options)), pytest.raises(ImproperlyConfigured, match=at):
            add.enqueue(1)


def test_all_that_is_wrong_is_named_at_once() -> None:
    assert len(told(tasks(store=5, imports=5, speed=5))) == 3
    odd = {"default": {**tasks()["default"], "QUEUES": ["default", "to the moon"]}}
    [(id, message)] = told(odd)
    assert id == "dibs.E001"
    assert message.startswith("TASKS['default']['QUEUES'] has 'to the moon', which must be 1 to 128 of A-Z a-z 0-9")


def test_the_file_of_django_s_own_database_is_not_for_jobs(tmp_path: Path) -> None:
    file = {"ENGINE": "django.db.backends.sqlite3", "NAME": tmp_path / "db.sqlite3"}
    connections.settings["file"] = connections.configure_settings({"default": file})["default"]
    try:
        assert told(tasks(store=f"sqlite:///{tmp_path}/db.sqlite3")) == [
            ("dibs.E004", "TASKS['default'] has its jobs in the SQLite file of DATABASES['file'].")
        ]
        assert told(tasks(store=f"sqlite:///{tmp_path}/jobs.db")) == []
        [(_, message)] = told(tasks(database="file"))
        assert "only transactions of PostgreSQL can be shared" in message
    finally:
        del connections["file"], connections.settings["file"]


def test_tasks_that_no_worker_would_import_are_named() -> None:
    [(id, message), *_] = told(tasks(), of="dibs.W")
    assert (id, message) == ("dibs.W001", "Workers do not import tests.contrib.work, which defines the task add.")
    assert told(tasks(imports=["tests.contrib.work"]), of="dibs.W") == []


@pytest.mark.parametrize(
    ("said", "url"),
    [
        ({"NAME": "shop"}, "postgresql:///shop"),
        (
            {"NAME": "shop", "USER": "ada", "PASSWORD": "p@ss/w:rd", "HOST": "db", "PORT": 5433},
            "postgresql://ada:p%40ss%2Fw%3Ard@db:5433/shop",
        ),
        (
            {"NAME": "shop", "USER": "ada", "HOST": "/run/pg", "PORT": "5433"},
            "postgresql://ada@/shop?host=%2Frun%2Fpg&port=5433",
        ),
        (
            {"NAME": "shop", "HOST": "::1", "OPTIONS": {"sslmode": "require", "pool": True}},
            "postgresql://[::1]/shop?sslmode=require",
        ),
    ],
)
def test_the_address_of_a_database(said: dict[str, Any], url: str) -> None:
    engine = {"ENGINE": "django.db.backends.postgresql"}
    connections.settings["shop"] = connections.configure_settings({"default": engine | said})["default"]
    try:
        assert url_of("shop") == url
        assert read({"database": "shop"}).store == url
        assert read({"database": "shop", "store": "postgresql://pooler/shop"}).store == "postgresql://pooler/shop"
        assert told(tasks(database="shop")) == []
        connections["shop"].settings_dict["OPTIONS"] = {"service": "shop"}
        [(_, message)] = told(tasks(database="shop"))
        assert "'service'" in message
    finally:
        del connections["shop"], connections.settings["shop"]


def test_the_worker_command() -> None:
    out = io.StringIO()
    with override_settings(TASKS=tasks(store="memory://")):
        seen.clear()
        add.using(queue_name="a").enqueue(1)
        add.using(queue_name="b").enqueue(2)
        call_command("dibs_worker", "--until-idle", "--queue", "b", "--worker-id", "w", stdout=out, skip_checks=True)
        assert seen == [("add", 2, 0)]
        assert out.getvalue().startswith("worker w runs ")
        assert "tests.contrib.work.add" in out.getvalue()
        assert "worker w has stopped; 0 given back" in out.getvalue()
        with pytest.raises(CommandError, match="concurrency"):
            call_command("dibs_worker", "--concurrency", "0", stdout=out)
    dummy = {"default": {"BACKEND": f"{type(task_backends).__module__}.backends.dummy.DummyBackend"}}
    with override_settings(TASKS=dummy), pytest.raises(CommandError, match="a DummyBackend, not a DibsBackend"):
        call_command("dibs_worker", stdout=out)
