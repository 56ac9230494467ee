"""A client that holds every answer to the OpenAPI document."""

from __future__ import annotations

import json
from typing import Any

import httpx2

from tests.server import schemas

BASE = "http://localhost"


class Answer:
    def __init__(self, response: httpx2.Response) -> None:
        self.status = response.status_code
        self.headers = response.headers
        self.text = response.text
        self.json: Any = json.loads(response.text) if "json" in response.headers.get("content-type", "") else None

    def __getitem__(self, name: str) -> Any:
        return self.json[name]

    @property
    def fields(self) -> list[str]:
        """The fields at fault."""
        return [error["field"] for error in self.json.get("errors", [])]

    def __repr__(self) -> str:
        return f"<{self.status} {self.text}>"


class Client:
    def __init__(self, http: httpx2.AsyncClient, key: str | None = None) -> None:
        self.http = http
        self.key = key
        self._document: dict[str, Any] | None = None

    async def document(self) -> dict[str, Any]:
        if self._document is None:
            self._document = (await self.http.get("/openapi.json")).json()
        assert self._document is not None
        return self._document

    async def get(self, path: str, **options: Any) -> Answer:
        return await self.send("GET", path, **options)

    async def post(self, path: str, body: Any = None, **options: Any) -> Answer:
        headers = {**options.pop("headers", {})}
        if body is not None:  # not the client's own JSON: it refuses some of what we want to send
            options["content"] = json.dumps(body).replace("Infinity", "1e999").encode()
            headers.setdefault("Content-Type", "application/json")
        return await self.send("POST", path, headers=headers, **options)

    async def send(self, method: str, path: str, *, key: str | None = None, **options: Any) -> Answer:
        headers = dict(options.pop("headers", {}))
        key = self.key if key is None else key
        if key:
            headers["X-API-Key"] = key
        response = await self.http.request(method, path, headers=headers, **options)
        answer = Answer(response)
        await self.check(method, response.request.url.path, answer)
        return answer

    async def check(self, method: str, path: str, answer: Answer) -> None:
        """The answer is one that the document promises."""
        assert answer.status != 500, answer
        document = await self.document()
        media = answer.headers["content-type"].partition(";")[0]
        described = schemas.operation(document, method, path)
        if answer.status >= 400:
            problem = document["components"]["schemas"]["Problem"]
            assert media == "application/problem+json"
            assert schemas.faults(answer.json, problem, document) == []
            assert (answer["success"], answer["status"]) == (False, answer.status)
            if described is not None and answer.status != 405:
                assert str(answer.status) in described["responses"], (method, path, answer)
            return
        assert described is not None, (method, path)
        content = described["responses"][str(answer.status)]["content"]
        assert media in content
        if media == "application/json":
            assert schemas.faults(answer.json, content[media]["schema"], document) == []
            if path.startswith("/api"):
                assert answer["success"] is True
        assert answer.headers["x-content-type-options"] == "nosniff"

    # What tests do over and over

    async def enqueue(self, task_type: str = "t", params: Any = None, **fields: Any) -> dict[str, Any]:
        answer = await self.post("/api/tasks", {"task_type": task_type, "params": params, **fields})
        assert answer.status in {200, 201}, answer
        task: dict[str, Any] = answer["task"]
        return task

    async def claim(self, worker_id: str = "w", **fields: Any) -> dict[str, Any]:
        answer = await self.post("/api/tasks/claim", {"worker_id": worker_id, **fields})
        assert answer.status == 200, answer
        task: dict[str, Any] = answer["task"]
        return task

    async def take(self, worker_id: str = "w", **fields: Any) -> dict[str, Any]:
        """Enqueue a job and claim that very one."""
        id = (await self.enqueue(**fields))["id"]
        task: dict[str, Any] = (await self.post(f"/api/tasks/{id}/claim", {"worker_id": worker_id}))["task"]
        return task

    async def look(self, id: str) -> dict[str, Any]:
        task: dict[str, Any] = (await self.get(f"/api/tasks/{id}"))["task"]
        return task


def held(task: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The three that name a claim, as a list of claims takes them."""
    return {"id": task["id"], "fence": task["fence"], "lease_token": task["lease_token"], **more}


def proof(task: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The same for a call that has the id in its path."""
    return {"worker_id": task["worker_id"], "fence": task["fence"], "lease_token": task["lease_token"], **more}
