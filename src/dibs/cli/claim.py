"""``dibs claim``: take a job, for a script."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from dibs.cli.options import Json, Link
from dibs.cli.output import clean, print_json
from dibs.cli.reading import no_such_job
from dibs.domain.errors import NotFound, NothingPending
from dibs.domain.job import Order
from dibs.wire.show import task_of


def claim(
    id: Annotated[str | None, Parameter(help="Just this job; else the next that is due.")] = None,
    /,
    *,
    worker_id: Annotated[str | None, Parameter(help="Who takes it; else made of the host and the process.")] = None,
    queue: Annotated[list[str] | None, Parameter(help="Only of this queue; may be repeated.", negative=())] = None,
    task: Annotated[list[str] | None, Parameter(help="Only of this task; may be repeated.", negative=())] = None,
    min_attempts_left: Annotated[int, Parameter(help="Only if it may be tried so often still.")] = 1,
    order: Annotated[Order, Parameter(help="Which comes first.")] = Order.PRIORITY,
    lease: Annotated[float | None, Parameter(help="Seconds that the claim lasts; else as the job says.")] = None,
    wait: Annotated[float, Parameter(help="Seconds to wait for one.")] = 0.0,
    json: Json = False,
    link: Link = Link(),
) -> int:
    """Take the next due job, for a script: its id, fence and lease token.

    End it with `dibs complete`, `dibs fail` or `dibs release` before the lease runs out. Exits with 3 if there is
    nothing to take. `dibs worker` does all that by itself.
    """
    with link.app() as app:
        try:
            taken = app.sync.claim(
                worker_id,
                id=id,
                queues=queue,
                tasks=task,
                min_attempts_left=min_attempts_left,
                order=order,
                lease=lease,
                wait=wait,
            )
        except NotFound:
            raise (NotFound() if id is None else no_such_job(app, id)) from None
    if taken is None:
        raise NothingPending("no job is due that matches", hint="`dibs queues` shows what waits; --wait waits for one.")
    if json:
        print_json(task_of(taken.job, token=True))
        return 0
    for name, value in (
        ("id", taken.id),
        ("task_type", taken.task),
        ("params", taken.job.params_json.decode()),
        ("fence", str(taken.fence)),
        ("lease_token", taken.lease_token),
    ):
        print(f"{name:<11}  {clean(value)}")
    return 0
