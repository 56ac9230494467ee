"""What clients asked and were told: operations, kept in memory and, line by line, in a file.

An operation is put down when it is invoked, before anything is sent, and again when its reply came. So whatever a
process had asked when it was killed is in its file, without a reply: no one knows whether it took effect.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from dibs.domain.errors import DibsError, LeaseLost, StoreUnavailable
from dibs.domain.job import Counts, Draft
from dibs.store import Refusal, Written


class Answer(StrEnum):
    """Whether an operation was answered."""

    OK = "ok"  # the reply is the result
    REFUSED = "refused"  # an error that says that nothing was done; its code is the result
    UNKNOWN = "unknown"  # no reply came: it was done, will be done, or never was


class Operation(msgspec.Struct, gc=False):
    """One call of one client: what it asked, when, and what it was told. Times are nanoseconds of one steady clock."""

    kind: str
    process: str
    arguments: dict[str, Any]
    invoked: int
    returned: int | None = None
    answer: Answer = Answer.UNKNOWN
    result: Any = None
    number: int = 0  # in the order in which its history took it in


class _Line(msgspec.Struct, omit_defaults=True, gc=False):
    """A line of the file: an invocation if it has a kind, otherwise the reply to the last one of that number."""

    number: int
    kind: str | None = None
    process: str = ""
    arguments: dict[str, Any] = {}
    invoked: int = 0
    returned: int = 0
    answer: Answer = Answer.UNKNOWN
    result: Any = None


_encode: Final = msgspec.json.Encoder(enc_hook=str).encode
_decode: Final = msgspec.json.Decoder(_Line).decode


class History:
    """Operations in the order of their invocation. Any thread may record; each process needs a file of its own."""

    def __init__(self, path: str | Path | None = None, *, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self.operations: list[Operation] = []
        self._clock = clock
        self._lock = threading.Lock()
        self._file = None if path is None else _open(Path(path))

    def invoke(self, kind: str, process: str, arguments: dict[str, Any]) -> Operation:
        """Put down that something is about to be asked; call it before anything is sent."""
        with self._lock:
            number = len(self.operations)
            operation = Operation(kind, process, arguments, self._clock(), number=number)
            self.operations.append(operation)
            self._write(_Line(number, kind, process, arguments, operation.invoked))
        return operation

    def finish(self, operation: Operation, answer: Answer, result: Any = None) -> None:
        """Put down what was told; an answer that is not known is none, and the operation stays open for ever."""
        if answer is Answer.UNKNOWN:
            return
        with self._lock:
            operation.returned, operation.answer, operation.result = self._clock(), answer, result
            self._write(_Line(operation.number, returned=operation.returned, answer=answer, result=result))

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self.operations)

    def _write(self, line: _Line) -> None:
        # Straight to the kernel: what was written survives the process, if not the machine.
        if self._file is not None:
            os.write(self._file, _encode(line) + b"\n")

    @classmethod
    def load(cls, *paths: str | Path) -> History:
        """Read what several processes wrote. A last line that was torn by a kill counts as not written."""
        return cls.merge(*(_load(Path(path)) for path in paths))

    @classmethod
    def merge(cls, *histories: History | Iterable[Operation]) -> History:
        """Make one history of several."""
        merged = cls()
        for history in histories:
            merged.operations += history.operations if isinstance(history, History) else history
        merged.operations.sort(key=lambda operation: operation.invoked)
        for number, operation in enumerate(merged.operations):
            operation.number = number
        return merged


def _open(path: Path) -> int:
    """Open a file to append to; a line that its last writer did not finish is cut off, so that it stays readable."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    content = path.read_bytes()
    if content and not content.endswith(b"\n"):
        os.ftruncate(file, content.rfind(b"\n") + 1)
    return file


def _load(path: Path) -> list[Operation]:
    operations: list[Operation] = []
    latest: dict[int, Operation] = {}  # a process that was started again begins to count anew
    lines = path.read_bytes().split(b"\n")
    for index, text in enumerate(lines[:-1]):  # what follows the last newline is empty, or torn
        try:
            line = _decode(text)
        except msgspec.DecodeError as error:
            raise ValueError(f"{path}, line {index + 1}: {error}") from None
        if line.kind is None:
            if line.number not in latest:
                raise ValueError(f"{path}, line {index + 1}: a reply to what was never asked")
            operation = latest[line.number]
            operation.returned, operation.answer, operation.result = line.returned, line.answer, line.result
        else:
            operation = Operation(line.kind, line.process, line.arguments, line.invoked)
            latest[line.number] = operation
            operations.append(operation)
    return operations


class Recorder:
    """Records the calls of one client."""

    def __init__(self, history: History, process: str) -> None:
        self.history = history
        self.process = process

    def operation(self, kind: str, **arguments: Any) -> Call:
        """Record one call: ``with`` or ``async with`` around it, and ``returned(…)`` with what it answered."""
        return Call(self, kind, plain(arguments))


class Call:
    """One call that is being recorded.

    Left without an error, it was answered. An error of dibs that says that nothing was done is a refusal. After any
    other (a cancellation, a lost connection, a store that cannot be reached) no one knows.
    """

    def __init__(self, recorder: Recorder, kind: str, arguments: dict[str, Any]) -> None:
        self._recorder, self._kind, self._arguments = recorder, kind, arguments
        self._operation: Operation | None = None
        self._finished = False

    def returned(self, result: Any = None) -> None:
        """Put down the reply, as plain data; at once, so that its time is right."""
        self._finish(Answer.OK, plain(result))

    def _finish(self, answer: Answer, result: Any = None) -> None:
        if self._operation is not None and not self._finished:
            self._finished = True
            self._recorder.history.finish(self._operation, answer, result)

    def __enter__(self) -> Self:
        self._operation = self._recorder.history.invoke(self._kind, self._recorder.process, self._arguments)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self._finish(Answer.OK)
        else:
            self._finish(*judge(error))

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, traceback)


def judge(error: BaseException) -> tuple[Answer, str | None]:
    """Say what an error tells about what was asked."""
    if not isinstance(error, DibsError) or isinstance(error, StoreUnavailable) or type(error) is DibsError:
        return Answer.UNKNOWN, None
    if isinstance(error, LeaseLost) and error.in_doubt:
        return Answer.UNKNOWN, None
    return Answer.REFUSED, error.code


def plain(value: Any) -> Any:
    """Turn what a call takes or gives into plain data; of a job, a claim or the like what identifies it."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Written):
        return str(value.outcome)
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    return _plain_item(value)


def _plain_item(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return str(value) if isinstance(value, StrEnum) else value
    if isinstance(value, Counts):
        return msgspec.structs.asdict(value)
    if isinstance(value, Refusal):
        return "idempotency_mismatch"
    return _identify(value) if hasattr(value, "id") else str(value)


def _identify(thing: Any) -> dict[str, Any]:
    if isinstance(thing, Draft):
        told = {"id": thing.id, "idempotency_key": thing.idempotency_key, "unique_key": thing.unique_key}
    else:  # a job, or a claim that has one
        job = getattr(thing, "job", thing)
        told = {
            "id": thing.id,
            "fence": getattr(thing, "fence", None),
            "lease_expires_us": getattr(job, "lease_expires_us", None),
            "duplicate": getattr(job, "was_duplicate", None),
        }
    return {name: value for name, value in told.items() if value}
