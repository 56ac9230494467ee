"""What a worker and the process of a handler say to each other: each message its length, and then MessagePack."""

from __future__ import annotations

import struct

import msgspec

from dibs.domain.errors import DibsError, Invalid, InvalidRequest, LeaseLost, Problem, StoreUnavailable
from dibs.domain.job import Error, Job
from dibs.worker.finding import Imports, Where

_LENGTH = struct.Struct(">I")
HEAD = _LENGTH.size


# From the worker


class Hello(msgspec.Struct, frozen=True, tag=True):
    """Get ready."""

    imports: Imports
    max_result_bytes: int
    take_up: Where | None = None  # what takes up the context that a handler is to run in


class Run(msgspec.Struct, frozen=True, tag=True):
    """Call this function for this job."""

    where: Where
    job: Job
    context: dict[str, str] | None = None


class Told(msgspec.Struct, frozen=True, tag=True):
    """What you asked for was done, or was refused."""

    number: int
    code: str | None = None
    message: str = ""
    hint: str = ""
    problems: list[tuple[str, str]] = []

    @classmethod
    def refused(cls, number: int, error: Exception) -> Told:
        """Say why it was not done."""
        if not isinstance(error, DibsError):
            return cls(number, "error", f"{type(error).__name__}: {error}")
        problems = [(field, what) for field, what in error.problems] if isinstance(error, Invalid) else []
        return cls(number, error.code, error.message, error.hint, problems)

    def error(self) -> DibsError:
        """Make the error that was raised in the worker, as near as matters."""
        if self.problems:
            return InvalidRequest([Problem(*problem) for problem in self.problems])
        kind = LeaseLost if self.code == LeaseLost.code else StoreUnavailable
        return kind(self.message, hint=self.hint)


class Stop(msgspec.Struct, frozen=True, tag=True):
    """Leave off: the claim is no longer yours. Whatever you say now is not heard."""


# To the worker


class Ready(msgspec.Struct, frozen=True, tag=True):
    """Everything is imported."""


class Tell(msgspec.Struct, frozen=True, tag=True):
    """Extend the claim, and tell how far it has come."""

    number: int
    progress: float | None
    note: str


class Done(msgspec.Struct, frozen=True, tag=True):
    """The function has returned; what it returned, as JSON."""

    result: bytes
    memory: int = 0  # bytes that the process has


class Raised(msgspec.Struct, frozen=True, tag=True):
    """It has raised something, or could not be called: what is kept of that, and what shall become of the job."""

    error: Error
    retryable: bool = True
    delay: float | None = None
    meant: bool = False  # a Retry: no mishap
    snooze: bool = False  # given back until ``delay`` is over
    memory: int = 0  # as above


_down: msgspec.msgpack.Decoder[Hello | Run | Told | Stop] = msgspec.msgpack.Decoder(Hello | Run | Told | Stop)
_up: msgspec.msgpack.Decoder[Ready | Tell | Done | Raised] = msgspec.msgpack.Decoder(Ready | Tell | Done | Raised)


def pack(message: msgspec.Struct) -> bytes:
    """Make a message ready to be sent."""
    body = msgspec.msgpack.encode(message)
    return _LENGTH.pack(len(body)) + body


def size(head: bytes) -> int:
    """Read how long the message is that follows."""
    length: int = _LENGTH.unpack(head)[0]
    return length


def from_worker(body: bytes) -> Hello | Run | Told | Stop:
    """Read what the worker says."""
    return _down.decode(body)


def from_process(body: bytes) -> Ready | Tell | Done | Raised:
    """Read what the process of a handler says."""
    return _up.decode(body)
