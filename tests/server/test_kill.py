"""The server is killed again and again, under load: nothing acknowledged is lost, and no claim counts twice."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest

import dibs
from tests.server.process import Serving

PRODUCERS, WORKERS = 2, 6
LEASE = 2.0
"""Seconds: a claim whose answer died with the server comes back after that."""


class Load:
    """Producers and workers, and what they were told."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.sent: set[str] = set()
        self.acknowledged: set[str] = set()
        self.claims: list[tuple[str, int]] = []
        self.completed: list[tuple[str, int]] = []
        self.settled = asyncio.Event()
        self.producing = True
        self.working = True

    @asynccontextmanager
    async def client(self) -> AsyncIterator[httpx2.AsyncClient]:
        async with httpx2.AsyncClient(base_url=self.url, timeout=20, trust_env=False) as client:
            yield client

    async def post(self, client: httpx2.AsyncClient, path: str, body: Any) -> httpx2.Response | None:
        """Send it; none if no one knows what became of it."""
        try:
            response = await client.post(path, json=body)
        except httpx2.TransportError:
            await asyncio.sleep(random.uniform(0.005, 0.02))
            return None
        return None if response.status_code == 503 else response

    async def produce(self, name: str) -> None:
        async with self.client() as client:
            number = 0
            while self.producing:
                ids = [f"{name}-{number + place}" for place in range(random.choice([1, 1, 3]))]
                number += len(ids)
                self.sent.update(ids)
                tasks = [
                    {"task_type": "t", "id": id, "params": id, "max_attempts": 100, "retry": {"base": 0}} for id in ids
                ]
                body = tasks[0] if len(tasks) == 1 else {"tasks": tasks}
                # The same again until it is answered: an id is one job, however often it is sent.
                while (response := await self.post(client, "/api/tasks", body)) is None:
                    pass
                assert response.status_code in {200, 201}, response.text
                self.acknowledged.update(ids)

    async def work(self, name: str) -> None:
        async with self.client() as client:
            while self.working:
                wish = {"worker_id": name, "lease_seconds": LEASE, "wait_seconds": 1, "limit": random.choice([1, 2])}
                response = await self.post(client, "/api/tasks/claim", wish)
                if response is None or response.status_code == 404:
                    continue
                assert response.status_code == 200, response.text
                for task in response.json()["tasks"]:
                    self.claims.append((task["id"], task["fence"]))
                    await self.settle(client, task)

    async def settle(self, client: httpx2.AsyncClient, task: dict[str, Any]) -> None:
        body = {"fence": task["fence"], "lease_token": task["lease_token"], "result": task["fence"]}
        while (response := await self.post(client, f"/api/tasks/{task['id']}/complete", body)) is None:
            pass
        if response.status_code == 200:
            self.completed.append((task["id"], task["fence"]))
        else:
            assert (response.status_code, response.json()["code"]) == (409, "lease_lost")
        self.settled.set()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kills", [10, pytest.param(20, marks=pytest.mark.long)])
def test_the_server_is_killed_under_load(tmp_path: Path, kills: int) -> None:
    with Serving(tmp_path, "--no-auth") as serving:
        load = Load(serving.url)
        asyncio.run(drive(load, serving, kills))
        assert serving.end() == 0

    told = dict(load.completed)
    assert len(load.acknowledged) > 100
    assert len(load.claims) == len(set(load.claims)), "a fence was handed out twice"
    assert len(set(load.completed)) == len(told), "a job was completed under two fences"
    with dibs.App(serving.store).sync as queue:
        kept = {job.id: job for job in queue.find(limit=1000)}
    assert load.acknowledged <= set(kept) <= load.sent
    assert {job.status for job in kept.values()} == {dibs.Status.COMPLETED}
    for id, fence in told.items():
        assert (kept[id].fence, kept[id].result) == (fence, fence)
    verified = subprocess.run(
        [sys.executable, "-c", "from dibs.cli import main; main()", "verify", "--json", "--store", serving.store],
        check=False,
        capture_output=True,
        text=True,
    )
    assert verified.returncode == 0, verified.stdout
    assert json.loads(verified.stdout)["jobs"] == len(kept)


async def drive(load: Load, serving: Serving, kills: int) -> None:
    async with asyncio.TaskGroup() as group:
        for number in range(PRODUCERS):
            group.create_task(load.produce(f"p{number}"))
        for number in range(WORKERS):
            group.create_task(load.work(f"w{number}"))
        for _ in range(kills):
            await asyncio.sleep(random.uniform(0.2, 0.6))  # when it hits them is the point
            await asyncio.to_thread(serving.end, signal.SIGKILL)
            await asyncio.to_thread(serving.start)
            load.settled.clear()
            await load.settled.wait()  # it works again
        load.producing = False
        async with load.client() as client:
            while await unfinished(client):
                load.settled.clear()
                with suppress(TimeoutError):  # Race: the last one was settled while we asked
                    await asyncio.wait_for(load.settled.wait(), 0.5)
        load.working = False


async def unfinished(client: httpx2.AsyncClient) -> bool:
    response = await client.get("/api/tasks", params={"status": ["pending", "claimed"], "limit": 1})
    return bool(response.json()["tasks"])
