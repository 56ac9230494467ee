"""What the state machine draws from: jobs, requests and queries that meet each other often."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from dibs.domain.job import ClaimRequest, Draft, Keep, Order, Query, Status, Terms
from dibs.domain.retry import SECOND, Backoff

QUEUES = ["a", "b", "c"]
TASKS = ["x", "y"]
TIMES = [0, SECOND // 2, SECOND, 10 * SECOND]
LONG = Keep(60 * SECOND, 60 * SECOND, 60 * SECOND)

some = st.sampled_from
keys = some([None] * 8 + ["k1", "k2", "é", "e\u0301"])


def draft(number: int, *fields: Any, **options: Any) -> Draft:
    """Make a job whose number decides about its queue and task, so that it can come again as a duplicate."""
    return Draft(f"job-{number}", QUEUES[number % 3], TASKS[number % 2], *fields, **options)


def drafts(numbers: range, params: list[bytes]) -> st.SearchStrategy[Draft]:
    """Draw jobs; most of them are due, and have no key."""
    return st.builds(
        draft,
        some(numbers),
        some(params),
        some([0, 0, -1, 1]),
        some([3, 2, 1]),
        some([Terms(lease_us=10 * SECOND, retry=Backoff(base=2)), Terms(lease_us=2 * SECOND, tags=("t",))]),
        some([LONG, LONG, LONG, Keep(5 * SECOND, 10 * SECOND, 0), Keep(0, 0, 0)]),
        delay_us=some([0, 0, 0, 0, *TIMES, None]),
        idempotency_key=keys,
        unique_key=keys,
        batch_id=some([None, "batch"]),
    )


groups = st.lists(st.lists(drafts(range(18), [b"1", b"1", b"1", b"2"]), min_size=1, max_size=3), min_size=1, max_size=3)
several_new = st.lists(drafts(range(100, 120), [b"1"]), min_size=5, max_size=8)


def several(names: list[str]) -> st.SearchStrategy[tuple[str, ...] | None]:
    """Draw what a claim names: mostly nothing, or some, one of which may not exist."""
    return some([None] * 8 + [(names[0],), tuple(names[:2]), (*names[::-1], "none"), ("none",)])


requests = st.builds(
    ClaimRequest,
    some(["w1", "w2"]),
    st.just("the machine gives each its own"),
    limit=some([1, 1, 1, 2, 100]),
    queues=several(QUEUES),
    tasks=several(TASKS),
    min_attempts_left=some([1, 1, 1, 2, 3]),
    order=some([order for order in Order if order is not Order.RANDOM]),
    lease_us=some([None, *TIMES[1:]]),
)
queries = st.builds(
    Query,
    status=st.lists(some(list(Status)), max_size=2).map(tuple),
    queue=some([None, *QUEUES]),
    task=some([None, *TASKS]),
    worker_id=some([None, None, "w1"]),
    batch_id=some([None, None, "batch"]),
    tag=some([None, None, "t"]),
    q=some([None, None, "job-1", "2"]),
    priority_min=some([None, None, 0]),
    priority_max=some([None, None, 0]),
    oldest_first=st.booleans(),
    limit=some([1, 2, 5]),
)
