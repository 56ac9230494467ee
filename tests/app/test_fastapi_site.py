"""The example site on FastAPI: asked over HTTP, with a worker process beside it that bills the orders."""

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ORDER = {"customer": "ada", "lines": [{"article": "pen", "pieces": 3, "price": 150}]}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    monkeypatch.setenv("DIBS_STORE", f"sqlite:///{tmp_path}/jobs.db")
    monkeypatch.syspath_prepend(EXAMPLES)
    main = importlib.import_module("fastapi_site.main")
    with TestClient(main.web) as site:
        yield site
    for name in [name for name in sys.modules if name.startswith("fastapi_site")]:
        del sys.modules[name]  # the next one has a store of its own


def test_an_order_is_taken_once_billed_by_a_worker_and_followed_to_its_end(site: TestClient) -> None:
    key = {"Idempotency-Key": "order-7"}
    taken = site.post("/orders", json=ORDER, headers=key)
    assert (taken.status_code, taken.json()["status"]) == (202, "pending")
    id, place = taken.json()["id"], taken.headers["Location"]
    assert site.post("/orders", json=ORDER, headers=key).json()["id"] == id
    assert site.post("/orders", json=ORDER).json()["id"] != id
    other = site.post("/orders", json={**ORDER, "customer": "bob"}, headers=key)
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_mismatch")
    assert site.get(place, params={"wait": 0.01}).json() == site.get(place).json() == taken.json()

    worker = [sys.executable, "-W", "error", "-m", "dibs", "worker", "fastapi_site.jobs:app"]
    with subprocess.Popen(worker, cwd=EXAMPLES, stderr=subprocess.PIPE, text=True) as running:
        try:
            events = site.get(f"{place}/events")
        finally:
            running.terminate()
            _, log = running.communicate()
    assert running.returncode == 0, log
    assert events.headers["content-type"].startswith("text/event-stream")
    told = [json.loads(line.removeprefix("data: ")) for line in events.text.splitlines() if line]
    assert told[0]["status"] == "pending"
    assert (told[-1]["status"], told[-1]["result"]) == ("completed", {"customer": "ada", "total": 450})
    assert site.get(place, params={"wait": 5}).json() == told[-1]


def test_what_is_wrong_is_told(site: TestClient) -> None:
    refused = site.post("/orders", json={"customer": "ada", "lines": [{"article": "pen", "pieces": 0, "price": 1}]})
    assert refused.status_code == 422
    assert refused.json()["detail"][0]["loc"] == ["body", "lines", 0, "pieces"]
    assert site.post("/orders", json=ORDER, headers={"Idempotency-Key": "x" * 300}).status_code == 422
    odd = site.get("/orders/no id")
    assert (odd.status_code, odd.json()["code"]) == (400, "invalid")  # as the error itself says
    assert site.get("/orders/none").status_code == 404
    assert site.get("/orders/none/events").status_code == 404
