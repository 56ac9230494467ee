"""The history checker: record what clients asked and were told, and prove the promises on it and on the audit log.

Each client records with a ``Recorder`` into a ``History``, in memory or in a file of its own; ``check`` takes the
histories of all of them and the store's audit log. ``recorded`` does the recording around a store.
"""

from dibs.testing.history.check import Report, check
from dibs.testing.history.record import Answer, Call, History, Operation, Recorder, plain
from dibs.testing.history.render import Violation
from dibs.testing.history.stores import read_audit, recorded

__all__ = [
    "Answer",
    "Call",
    "History",
    "Operation",
    "Recorder",
    "Report",
    "Violation",
    "check",
    "plain",
    "read_audit",
    "recorded",
]
