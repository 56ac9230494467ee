"""Record at the boundary to a store: every client of it is then recorded, whatever stands above."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self, cast

from dibs.domain.audit import Item
from dibs.domain.job import ClaimRequest, Counts, Document, Draft, EventName, Extension, Job, Outcome
from dibs.domain.transitions import Write
from dibs.store import PAUSED, Refusal, Store, Written
from dibs.testing.history.record import Answer, Operation, Recorder, judge, plain
from dibs.testing.history.touches import KINDS


def recorded(store: Store, recorder: Recorder) -> Store:
    """Wrap a store so that what is asked of it, and what it answers, is recorded; reading is not, but for counts."""
    return cast("Store", _Recorded(store, recorder))


async def read_audit(store: Store, *, page: int = 1000) -> list[Item]:
    """Read all of a store's jobs with their logs. It must be at rest."""
    items: list[Item] = []
    cursor: str | None = None
    while True:
        audit = await store.audit(cursor, page)
        items += audit.items
        cursor = audit.cursor
        if cursor is None:
            return items


class _Batch:
    """Several operations that travel together: invoked at once, answered at once."""

    def __init__(self, recorder: Recorder, asked: Sequence[tuple[str, dict[str, Any]]]) -> None:
        self._history = recorder.history
        self._operations: list[Operation] = [
            self._history.invoke(kind, recorder.process, arguments) for kind, arguments in asked
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is not None:
            for operation in self._operations:
                self._history.finish(operation, *judge(error))

    def returned(self, results: Sequence[Any]) -> None:
        for operation, result in zip(self._operations, results, strict=True):
            answer = Answer.REFUSED if isinstance(result, Refusal) else Answer.OK
            self._history.finish(operation, answer, plain(result))


class _Recorded:
    def __init__(self, store: Store, recorder: Recorder) -> None:
        self._store, self._recorder = store, recorder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def insert(self, groups: Sequence[Sequence[Draft]], *, connection: Any = None) -> list[list[Job] | Refusal]:
        asked = [("enqueue", {"jobs": [plain(draft) for draft in group]}) for group in groups]
        with _Batch(self._recorder, asked) as batch:
            answers = await self._store.insert(groups, connection=connection)
            batch.returned(answers)
        return answers

    async def claim(self, requests: Sequence[ClaimRequest]) -> list[list[Job]]:
        asked = [("claim", {"worker_id": request.worker_id, "limit": request.limit}) for request in requests]
        with _Batch(self._recorder, asked) as batch:
            answers = await self._store.claim(requests)
            batch.returned(answers)
        return answers

    async def extend(self, extensions: Sequence[Extension]) -> list[Outcome]:
        asked = [("extend", {"id": each.ref.id, "fence": each.ref.fence}) for each in extensions]
        with _Batch(self._recorder, asked) as batch:
            answers = await self._store.extend(extensions)
            batch.returned(answers)
        return answers

    async def write(self, writes: Sequence[Write], *, connection: Any = None) -> list[Written]:
        with _Batch(self._recorder, [(KINDS[write.event], _arguments(write)) for write in writes]) as batch:
            answers = await self._store.write(writes, connection=connection)
            batch.returned(answers)
        return answers

    async def counts(self, queue: str | None = None) -> Counts:
        with self._recorder.operation("counts", queue=queue) as operation:
            counts = await self._store.counts(queue)
            operation.returned(counts)
        return counts

    async def put(
        self, name: str, value: bytes | None, *, expect: int | None = None, keep_us: int | None = None
    ) -> Document | None:
        if not name.startswith(PAUSED):
            return await self._store.put(name, value, expect=expect, keep_us=keep_us)
        kind = "resume" if value is None else "pause"
        with self._recorder.operation(kind, queue=name.removeprefix(PAUSED)) as operation:
            document = await self._store.put(name, value, expect=expect, keep_us=keep_us)
            operation.returned("lost" if document is None else "applied")
        return document


def _arguments(write: Write) -> dict[str, Any]:
    if write.ref is None:
        return {"id": write.id}
    arguments: dict[str, Any] = {"id": write.id, "fence": write.ref.fence}
    if write.event is EventName.RETRIED:
        arguments["delay_us"] = write.delay_us  # decided already: asked for by the handler, or drawn
    return arguments
