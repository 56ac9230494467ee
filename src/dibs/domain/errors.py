"""Every error that dibs raises.

DibsError
├── Invalid                 bad input, all problems at once, each with its field
│   ├── InvalidJob
│   └── InvalidRequest
├── TooLarge
├── Unauthorized
├── Forbidden
├── NotFound
├── NothingPending
├── NotClaimable            reason: claimed, not_due, paused, limited, finished
├── LeaseLost
├── WrongState              not in a state where that can be done
├── UniqueConflict
├── IdempotencyMismatch
├── RateLimited
├── NotSupported
└── StoreUnavailable
    └── SchemaOutdated

``code`` is stable and goes over the wire, ``http_status`` and ``exit_code`` are what the surfaces answer with, and
``hint`` says what to do next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class Problem(NamedTuple):
    """One thing wrong with what was given: where, and what to do about it."""

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class DibsError(Exception):
    """The root of them all."""

    code: ClassVar[str] = "error"
    http_status: ClassVar[int] = 500
    exit_code: ClassVar[int] = 1
    hint: str = ""

    def __init__(self, message: str = "", *, hint: str | None = None) -> None:
        self.message = message or (type(self).__doc__ or type(self).__name__).splitlines()[0]
        if hint is not None:
            self.hint = hint
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class Invalid(DibsError):
    """What was given cannot be used."""

    code = "invalid"
    http_status = 400
    exit_code = 2

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(map(str, self.problems)))

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields at fault, in the order they were found."""
        return tuple(problem.field for problem in self.problems)


class InvalidJob(Invalid):
    """The job cannot be enqueued as it is."""


class InvalidRequest(Invalid):
    """The call's arguments cannot be used."""


class TooLarge(DibsError):
    """A value is larger than what is kept."""

    code = "too_large"
    http_status = 413
    exit_code = 2
    hint = "Keep the data elsewhere and send a reference to it, or raise the limit in the settings."

    def __init__(self, field: str, size: int, limit: int) -> None:
        self.field, self.size, self.limit = field, size, limit
        super().__init__(f"{field}: {size:,} bytes, {limit:,} at most")


class Unauthorized(DibsError):
    """No valid API key was given."""

    code = "unauthorized"
    http_status = 401
    exit_code = 6
    hint = (
        "Send a key: --api-key or DIBS_API_KEY, App(api_key=…), or the header X-API-Key. `dibs keys create` makes one."
    )


class Forbidden(DibsError):
    """The API key does not allow this."""

    code = "forbidden"
    http_status = 403
    exit_code = 6
    hint = "Use a key with the scope that this call needs."


class NotFound(DibsError):
    """There is no such job."""

    code = "not_found"
    http_status = 404
    exit_code = 5
    hint = "It may have been pruned after its retention time, or never enqueued on this store."


class NothingPending(DibsError):
    """No pending tasks available."""

    code = "nothing_pending"
    http_status = 404
    exit_code = 3


class NotClaimable(DibsError):
    """The job cannot be claimed now."""

    code = "not_claimable"
    http_status = 409
    exit_code = 3

    def __init__(self, reason: str, message: str) -> None:
        self.code = reason  # type: ignore[misc]  # each reason is a code of its own on the wire
        self.reason = reason
        super().__init__(message)


class LeaseLost(DibsError):
    """Fence and token do not name the job's current claim: it was taken over, or has ended. Stop working on it."""

    code = "lease_lost"
    http_status = 409
    exit_code = 4
    hint = "Lengthen the lease, or extend it more often than it runs out."
    in_doubt: bool = False
    """Whether what was asked may have been done all the same: it was sent more than once, as no answer came."""


class WrongState(DibsError):
    """The job is not in a state where that can be done."""

    code = "wrong_state"
    http_status = 409
    exit_code = 1


class UniqueConflict(DibsError):
    """A newer unfinished job has this job's unique key."""

    code = "unique_conflict"
    http_status = 409
    exit_code = 1
    hint = "Wait until that job has ended, or cancel it."


class IdempotencyMismatch(DibsError):
    """The id or idempotency key belongs to a job with another task, queue or params."""

    code = "idempotency_mismatch"
    http_status = 422
    exit_code = 1
    hint = "Use a new key for a new job, or send exactly what was sent before."

    def __init__(self, field: str, message: str, index: int | None = None) -> None:
        self.field, self.index = field, index
        super().__init__(message if index is None else f"jobs[{index}]: {message}")


class RateLimited(DibsError):
    """Too many requests for this key."""

    code = "rate_limited"
    http_status = 429
    exit_code = 7
    hint = "Wait as long as Retry-After says, or raise the key's rate."


class NotSupported(DibsError):
    """This store cannot do that."""

    code = "not_supported"
    http_status = 400
    exit_code = 2


class StoreUnavailable(DibsError):
    """The store cannot be reached, or is too busy to answer."""

    code = "store_unavailable"
    http_status = 503
    exit_code = 8
    hint = "Check that it is running and reachable, then try again."


class SchemaOutdated(StoreUnavailable):
    """The store's schema is not the one that this version of dibs needs."""

    code = "schema_outdated"
    hint = "Run `dibs migrate`."
