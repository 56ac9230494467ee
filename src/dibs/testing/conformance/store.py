"""The store suite: everything that a store promises."""

from __future__ import annotations

from dibs.testing.conformance.claim import ClaimSuite
from dibs.testing.conformance.clock import ClockSuite
from dibs.testing.conformance.concurrency import ConcurrencySuite
from dibs.testing.conformance.documents import DocumentSuite
from dibs.testing.conformance.extend import ExtendSuite
from dibs.testing.conformance.identity import IdentitySuite
from dibs.testing.conformance.insert import InsertSuite
from dibs.testing.conformance.log import LogSuite
from dibs.testing.conformance.matrix import MatrixSuite
from dibs.testing.conformance.operator import OperatorSuite
from dibs.testing.conformance.order import OrderSuite
from dibs.testing.conformance.read import ReadSuite
from dibs.testing.conformance.reap import ReapSuite
from dibs.testing.conformance.restore import RestoreSuite
from dibs.testing.conformance.retention import RetentionSuite
from dibs.testing.conformance.seeds import SeedSuite
from dibs.testing.conformance.settle import SettleSuite
from dibs.testing.conformance.wait import WaitSuite


class StoreSuite(
    InsertSuite,
    IdentitySuite,
    ClaimSuite,
    OrderSuite,
    ExtendSuite,
    SettleSuite,
    MatrixSuite,
    ReapSuite,
    OperatorSuite,
    RetentionSuite,
    RestoreSuite,
    ReadSuite,
    LogSuite,
    DocumentSuite,
    WaitSuite,
    ClockSuite,
    ConcurrencySuite,
    SeedSuite,
):
    """Subclass it under a name that begins with ``Test``, and give ``subject``: a new, empty store on ``clock``."""
