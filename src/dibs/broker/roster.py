"""Who works here: a document for each worker that beats, and what the claims themselves tell of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from dibs.broker.intake import MAX_PAGE, query_of
from dibs.domain.checks import check_worker_id
from dibs.domain.errors import InvalidRequest, Problem
from dibs.domain.job import DAY, Document, Filter, Status, WorkerInfo
from dibs.domain.retry import micros
from dibs.domain.validate import encode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dibs.domain.job import ClaimRequest, Job, Json
    from dibs.store import Store

WORKERS = "worker/"
"""Documents of this prefix name the workers: ``worker/mail-1`` is that of ``mail-1``."""

MISSED = 2
"""Beats that a worker may miss before it is called stale."""

MAX_METADATA = 16 * 1024
"""Bytes of JSON."""

_KEPT = micros(DAY)


class _Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is kept of a worker; when it was last seen is told by the document's own time."""

    every_us: int
    active: bool = True
    metadata: msgspec.Raw = msgspec.Raw(b"{}")


_decoder = msgspec.json.Decoder(_Record)


class Roster:
    """Keeps the list of workers. It decides nothing about claims: a worker that is called stale may yet hold some."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def beat(self, worker_id: str, metadata: Mapping[str, Json] | None, every_us: int) -> None:
        """Note that a worker is alive, and how often it says so."""
        data = encode("metadata", metadata or {}, MAX_METADATA, InvalidRequest)
        await self._put(worker_id, _Record(every_us, metadata=msgspec.Raw(data)))

    async def retire(self, worker_id: str) -> None:
        """Note that a worker has left."""
        found = await self._store.read(WORKERS + worker_id)
        known = _Record(0) if found is None else _decoder.decode(found.value)
        await self._put(worker_id, msgspec.structs.replace(known, active=False))

    async def _put(self, worker_id: str, record: _Record) -> None:
        await self._store.put(WORKERS + worker_id, msgspec.json.encode(record), keep_us=_KEPT)

    async def all(self) -> list[WorkerInfo]:
        """List the workers that beat within the last day, and those that hold a claim without ever having done so."""
        held = await self._held()
        now = await self._store.now()
        known = [_info(document, held, now) for document in await self._store.documents(WORKERS)]
        named = {worker.worker_id for worker in known}
        others = [
            WorkerInfo(name, "active", max(job.updated_us for job in jobs), len(jobs))
            for name, jobs in held.items()
            if name not in named
        ]
        return sorted([*known, *others], key=lambda worker: worker.worker_id)

    async def takers(self, task: str, queue: str) -> list[str]:
        """Name the workers that are active and take jobs of this task and queue, or do not say which they take."""
        now = await self._store.now()
        known = [_info(document, {}, now) for document in await self._store.documents(WORKERS)]
        return [
            worker.worker_id
            for worker in known
            if worker.status == "active"
            and _among(task, worker.metadata.get("tasks"))
            and _among(queue, worker.metadata.get("queues"))
        ]

    async def rivals(self, request: ClaimRequest) -> int:
        """Count the workers that are active and may take some of what this request wants."""
        documents = await self._store.documents(WORKERS)
        now = max((document.updated_us for document in documents), default=0)  # of many, one has beaten just now
        known = [_info(document, {}, now) for document in documents]
        return sum(
            worker.status == "active"
            and _overlaps(request.queues, worker.metadata.get("queues"))
            and _overlaps(request.tasks, worker.metadata.get("tasks"))
            for worker in known
        )

    async def _held(self) -> dict[str, list[Job]]:
        held: dict[str, list[Job]] = {}
        query = query_of(Filter(status=Status.CLAIMED), limit=MAX_PAGE, cursor=None)
        while True:
            jobs, cursor = await self._store.find(query)
            for job in jobs:
                held.setdefault(job.worker_id or "", []).append(job)
            if cursor is None:
                return held
            query = msgspec.structs.replace(query, cursor=cursor)


def _info(document: Document, held: dict[str, list[Job]], now: int) -> WorkerInfo:
    name = document.name.removeprefix(WORKERS)
    record = _decoder.decode(document.value)
    jobs = held.get(name, [])
    seen = max([document.updated_us, *(job.updated_us for job in jobs)])
    late = now - seen > MISSED * record.every_us
    status = "inactive" if not record.active else "stale" if late else "active"
    return WorkerInfo(name, status, seen, len(jobs), msgspec.json.decode(record.metadata))


def _among(name: str, told: Any) -> bool:
    """Say whether a worker may take this, by what it told of itself, which can be anything."""
    return not isinstance(told, list) or name in told


def _overlaps(names: Sequence[str] | None, told: Any) -> bool:
    """Say whether a worker may take any of these; none: of all."""
    return names is None or any(_among(name, told) for name in names)


def check_beat(worker_id: str, metadata: Any) -> None:
    """Check who beats and what it tells of itself."""
    problems = check_worker_id(worker_id)
    if metadata is not None and not isinstance(metadata, dict):
        problems.append(Problem("metadata", "must be an object"))
    if problems:
        raise InvalidRequest(problems)
