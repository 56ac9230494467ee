"""dibs: a job queue with one atomic claim, on any of several stores."""

from importlib.metadata import PackageNotFoundError, version

from dibs.app import App
from dibs.broker.protocol import Changes
from dibs.claim import Claim, current
from dibs.clock import Clock, FakeClock
from dibs.domain.audit import Report
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
from dibs.domain.signals import Fail, Retry, Snooze
from dibs.page import Page
from dibs.sync import SyncApp, SyncClaim, SyncTask
from dibs.task import Task, Tasks
from dibs.twin import SyncPage
from dibs.worker import Worker

try:
    __version__ = version("dibs-queue")
except PackageNotFoundError:  # run from a checkout that was not installed
    __version__ = "0+unknown"

__all__ = [
    "App",
    "Backoff",
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
    "SchemaOutdated",
    "Snooze",
    "Status",
    "StoreUnavailable",
    "SyncApp",
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
