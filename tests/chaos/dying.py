"""How a process of a test ends in the middle of its work, and the leases that leave it the time for that."""

import os
import signal
import time

LEASE = 1.0
LONG_LEASE = 60.0
"""One that is not extended before its claim is settled, on however slow a machine: a trap would take that for it."""


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)  # the signal may be delivered on another thread, a moment later: nothing more happens on this one
