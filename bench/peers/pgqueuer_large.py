"""PgQueuer with a thousand jobs to a batch, which keeps its rate when many wait: beside the usual hundred."""

from __future__ import annotations

from bench.peers import pgqueuer
from bench.peers.program import main

if __name__ == "__main__":
    pgqueuer.BATCH = 1000
    main(pgqueuer.PgQueuerQueue)
