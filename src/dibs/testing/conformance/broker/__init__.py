"""The broker suite: what every broker promises, whatever is behind it: a store, or a server far away.

class TestMyBroker(BrokerSuite):
    @pytest_asyncio.fixture
    async def broker(self, clock: FakeClock, config: Config) -> AsyncIterator[Broker]:
        store = MyStore(clock)
        yield LocalBroker(store, clock, config)
        await store.close()
"""

from dibs.testing.conformance.broker.batch import BatchSuite
from dibs.testing.conformance.broker.claim import ClaimSuite
from dibs.testing.conformance.broker.crash import CrashSuite
from dibs.testing.conformance.broker.documents import DocumentSuite
from dibs.testing.conformance.broker.enqueue import EnqueueSuite
from dibs.testing.conformance.broker.explain import ExplainSuite
from dibs.testing.conformance.broker.extend import ExtendSuite
from dibs.testing.conformance.broker.fail import FailSuite
from dibs.testing.conformance.broker.identity import IdentitySuite
from dibs.testing.conformance.broker.limits import LimitSuite
from dibs.testing.conformance.broker.look import LookSuite
from dibs.testing.conformance.broker.maintain import MaintainSuite
from dibs.testing.conformance.broker.named import NamedSuite
from dibs.testing.conformance.broker.operate import OperateSuite
from dibs.testing.conformance.broker.order import OrderSuite
from dibs.testing.conformance.broker.pause import PauseSuite
from dibs.testing.conformance.broker.redrive import RedriveSuite
from dibs.testing.conformance.broker.roster import RosterSuite
from dibs.testing.conformance.broker.schedule import ScheduleSuite
from dibs.testing.conformance.broker.schema import SchemaSuite
from dibs.testing.conformance.broker.seeds import SeedSuite
from dibs.testing.conformance.broker.settle import SettleSuite
from dibs.testing.conformance.broker.wait import WaitSuite
from dibs.testing.conformance.broker.walk import WalkSuite

__all__ = ["BrokerSuite"]


class BrokerSuite(
    EnqueueSuite,
    IdentitySuite,
    LimitSuite,
    ClaimSuite,
    OrderSuite,
    NamedSuite,
    WaitSuite,
    ExtendSuite,
    SettleSuite,
    FailSuite,
    CrashSuite,
    OperateSuite,
    RedriveSuite,
    PauseSuite,
    MaintainSuite,
    LookSuite,
    RosterSuite,
    ExplainSuite,
    DocumentSuite,
    ScheduleSuite,
    SchemaSuite,
    BatchSuite,
    WalkSuite,
    SeedSuite,
):
    """Subclass it under a name that begins with ``Test``, and give ``broker``: see above."""
