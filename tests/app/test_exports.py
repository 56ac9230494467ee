"""What ``import dibs`` gives, and what it does not load."""

import subprocess
import sys

import dibs
from dibs.domain import errors

PUBLIC = {
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
}


def test_the_public_names_are_these() -> None:
    assert set(dibs.__all__) == PUBLIC
    assert [name for name in PUBLIC if not hasattr(dibs, name)] == []
    assert dibs.__version__


def test_every_error_is_exported() -> None:
    def tree(error: type[dibs.DibsError]) -> set[str]:
        return {error.__name__}.union(*map(tree, error.__subclasses__()))

    assert {name for name in tree(dibs.DibsError) if hasattr(errors, name)} <= PUBLIC


def test_importing_dibs_loads_no_store() -> None:
    script = (
        "import dibs, sys; print([name for name in sys.modules if 'apsw' in name or name.startswith('dibs.stores')])"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
