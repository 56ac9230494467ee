"""Jobs with something of everything that a store keeps of one."""

from dibs.domain.job import Draft
from dibs.testing.conformance.builders import new_job


def varied(n: int) -> list[Draft]:
    """Make twenty that may go as soon as they have ended."""
    return [
        new_job(
            f"{n}-{m}",
            queue=f"q{m}",
            tags=("a", "b"),
            batch_id="b",
            unique_key=f"u{m}",
            idempotency_key=f"k{n}{m}",
            keep=1,
        )
        for m in range(20)
    ]
