"""``dibs explain``: why is this job not running?"""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from dibs.cli.options import Json, Link
from dibs.cli.output import clean, print_json
from dibs.cli.reading import no_such_job
from dibs.domain.errors import NotFound
from dibs.wire.answered import Explained
from dibs.wire.show import task_of


def explain(
    id: Annotated[str, Parameter(help="The job.")],
    /,
    *,
    json: Json = False,
    link: Link = Link(),
) -> int:
    """Say why a job is not running now."""
    with link.app() as app:
        try:
            explained = app.sync.explain(id)
        except NotFound:
            raise no_such_job(app, id) from None
    if json:
        print_json(Explained(code=explained.code, message=explained.message, task=task_of(explained.job)))
    else:
        print(clean(explained.message))
    return 0
