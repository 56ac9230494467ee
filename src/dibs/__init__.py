"""dibs: a job queue with one atomic claim, on any of several stores."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dibs.app import App
    from dibs.batches import Batch
    from dibs.broker.protocol import Changes
    from dibs.claim import Claim, current
    from dibs.clock import Clock, FakeClock
    from dibs.domain.audit import Report
    from dibs.domain.batch import BatchInfo
    from dibs.domain.errors import (
        DibsError,
        Forbidden,
        IdempotencyMismatch,
        Invalid,
        InvalidJob,
        InvalidRequest,
        LeaseLost,
        NotClaimable,
        NotFound,
        NothingPending,
        NotSupported,
        Problem,
        RateLimited,
        SchemaOutdated,
        StoreUnavailable,
        TooLarge,
        Unauthorized,
        UniqueConflict,
        WrongState,
    )
    from dibs.domain.job import (
        Counts,
        Error,
        Event,
        EventName,
        Explanation,
        Filter,
        Job,
        Json,
        Order,
        QueueInfo,
        Retention,
        Status,
        WorkerInfo,
    )
    from dibs.domain.newjob import EnqueueOptions, NewJob
    from dibs.domain.retry import Backoff, Duration
    from dibs.domain.schedule import ScheduleInfo
    from dibs.domain.schema import SchemaInfo
    from dibs.domain.signals import Fail, Retry, Snooze
    from dibs.middleware import Call, Middleware
    from dibs.page import Page
    from dibs.sync import SyncApp, SyncBatch, SyncClaim, SyncTask
    from dibs.task import Task, Tasks
    from dibs.twin import SyncPage
    from dibs.worker import Worker

    __version__: str

# The same once more, for the program: a name is looked up when it is first asked for, so that `dibs --help` need not
# load what it does not use (test_each_name_has_a_home, test_help_loads_next_to_nothing).
_HOMES = {
    "dibs.app": "App",
    "dibs.batches": "Batch",
    "dibs.broker.protocol": "Changes",
    "dibs.claim": "Claim current",
    "dibs.clock": "Clock FakeClock",
    "dibs.domain.audit": "Report",
    "dibs.domain.batch": "BatchInfo",
    "dibs.domain.errors": (
        "DibsError Forbidden IdempotencyMismatch Invalid InvalidJob InvalidRequest LeaseLost NotClaimable "
        "NotFound NothingPending NotSupported Problem RateLimited SchemaOutdated StoreUnavailable "
        "TooLarge Unauthorized UniqueConflict WrongState"
    ),
    "dibs.domain.job": (
        "Counts Error Event EventName Explanation Filter Job Json Order QueueInfo Retention Status WorkerInfo"
    ),
    "dibs.domain.newjob": "EnqueueOptions NewJob",
    "dibs.domain.retry": "Backoff Duration",
    "dibs.domain.schedule": "ScheduleInfo",
    "dibs.domain.schema": "SchemaInfo",
    "dibs.domain.signals": "Fail Retry Snooze",
    "dibs.middleware": "Call Middleware",
    "dibs.page": "Page",
    "dibs.sync": "SyncApp SyncBatch SyncClaim SyncTask",
    "dibs.task": "Task Tasks",
    "dibs.twin": "SyncPage",
    "dibs.worker": "Worker",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value: Any = _version()
    elif name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("dibs-queue")
    except PackageNotFoundError:  # run from a checkout that was not installed
        return "0+unknown"


__all__ = [
    "App",
    "Backoff",
    "Batch",
    "BatchInfo",
    "Call",
    "Changes",
    "Claim",
    "Clock",
    "Counts",
    "DibsError",
    "Duration",
    "EnqueueOptions",
    "Error",
    "Event",
    "EventName",
    "Explanation",
    "Fail",
    "FakeClock",
    "Filter",
    "Forbidden",
    "IdempotencyMismatch",
    "Invalid",
    "InvalidJob",
    "InvalidRequest",
    "Job",
    "Json",
    "LeaseLost",
    "Middleware",
    "NewJob",
    "NotClaimable",
    "NotFound",
    "NotSupported",
    "NothingPending",
    "Order",
    "Page",
    "Problem",
    "QueueInfo",
    "RateLimited",
    "Report",
    "Retention",
    "Retry",
    "ScheduleInfo",
    "SchemaInfo",
    "SchemaOutdated",
    "Snooze",
    "Status",
    "StoreUnavailable",
    "SyncApp",
    "SyncBatch",
    "SyncClaim",
    "SyncPage",
    "SyncTask",
    "Task",
    "Tasks",
    "TooLarge",
    "Unauthorized",
    "UniqueConflict",
    "Worker",
    "WorkerInfo",
    "WrongState",
    "__version__",
    "current",
]
