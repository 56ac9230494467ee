"""What a script is told of new jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dibs.stores.common.rows import TermsWriter
from dibs.stores.redis import values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.domain.job import Draft

STEP = 300
"""Jobs that one script is told of."""

KEY, UNIQUE, INDEX = b"k", b"u", b"i"  # kinds of names


class Words:
    """What is said of new jobs; what several in a row have in common is said once."""

    def __init__(self, drafts: Sequence[Draft]) -> None:
        terms = TermsWriter()
        last: tuple[Any, ...] | None = None
        runs: list[list[Any]] = []
        jobs: list[Any] = []
        names: list[tuple[int, bytes, Any]] = []
        for number, draft in enumerate(drafts, 1):
            sort = (draft.queue, draft.task, draft.priority, draft.max_attempts, draft.delay_us, draft.scheduled_us)
            if sort != last:
                last = sort
                lane, left = values.lane(draft.queue, draft.task, draft.priority), values.left(draft.max_attempts)
                runs.append([lane, left, draft.delay_us or 0, values.due(draft), 0])
            runs[-1][-1] += 1
            jobs += (draft.id, values.settled(draft, terms))
            if draft.idempotency_key is not None:
                names.append((number, KEY, draft.idempotency_key))
            if draft.unique_key is not None:
                names.append((number, UNIQUE, draft.unique_key))
            if draft.batch_id is not None or draft.terms.tags:
                names += [(number, INDEX, index) for index in values.indexed(draft.batch_id, draft.terms.tags)]
        self.runs = [len(runs), *(word for run in runs for word in run)]
        self.jobs = jobs
        """Ids and bodies, one after the other."""
        self.names = names
        """Of which job, what it is, the name."""
