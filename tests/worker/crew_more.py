"""More tasks of the crew's app, defined away from it: brought in by --import."""

from crew_app import app  # type: ignore[import-not-found]  # it is beside it when the worker runs

import dibs

tasks = dibs.Tasks()


@tasks.task
async def elsewhere(a: int) -> int:
    return a + 1


app.include(tasks)
