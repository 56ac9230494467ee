"""The example site: asked over HTTP, its tasks run by a worker process of its own, and told of over HTTP."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client, override_settings

from dibs.contrib.django.interface import task_backends
from tests.contrib.conftest import SITE


@pytest.fixture
def browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.setenv("DIBS_STORE", f"sqlite:///{tmp_path}/jobs.db")
    with override_settings(TASKS=settings.TASKS):  # a backend that has not read another one yet
        yield Client()
        task_backends["default"].app.sync.close()


def test_the_site(browser: Client, tmp_path: Path) -> None:
    """As one would use it: the pages here, and the worker beside them."""
    ids = [
        _post(browser, "/orders/7/receipt", {"to": "ada@example.org"}),
        _post(browser, "/orders/8/receipt", {"to": "nobody"}),
        _post(browser, "/shelves/a1/recount", {}),
    ]
    worker = [sys.executable, "-W", "error", str(SITE / "manage.py"), "dibs_worker", "--until-idle"]
    ran = subprocess.run(worker, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "runs shop.tasks.send_receipt, shop.tasks.recount from all queues" in ran.stdout
    pages = [(browser.get(f"/jobs/{id}")).json() for id in ids]
    assert [(page["status"], page["returned"], page["errors"]) for page in pages] == [
        ("SUCCESSFUL", "receipt 7 was sent to ada@example.org", []),
        ("FAILED", None, ["dibs.Fail"]),
        ("SUCCESSFUL", {"shelf": "a1", "attempt": 1, "fence": 1}, []),
    ]
    assert (browser.get("/jobs/none")).status_code == 404


def _post(browser: Client, path: str, body: dict[str, str]) -> str:
    answer = browser.post(path, json.dumps(body), content_type="application/json")
    assert answer.status_code == 202
    id: str = answer.json()["id"]
    return id
