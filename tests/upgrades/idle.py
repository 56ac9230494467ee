"""An app whose worker has nothing to do."""

import os

import dibs

app = dibs.App(os.environ["DIBS_STORE"])


@app.task(queue="nowhere")
async def nothing() -> None:
    """Never enqueued."""
