"""Tasks and a worker in one process. Run it: python examples/worker.py"""

import asyncio
import logging

import dibs

app = dibs.App("memory://")  # with "sqlite:///jobs.db" workers may be other processes: dibs worker worker:app


@app.task(max_attempts=5, retry=dibs.Backoff(base=0.01, cap=0.05))
async def fetch(url: str, *, depth: int = 1) -> int:
    """Async handlers run on the worker's loop."""
    claim = dibs.current()  # the claim that this handler runs under
    if claim.attempt < 3:
        raise dibs.Retry(f"{url} did not answer")  # as any exception would, but without a traceback in the log
    return depth


@app.task(timeout=30)
def thumbnail(path: str) -> str:
    """Plain functions run in threads."""
    if not path.endswith(".png"):
        raise dibs.Fail(f"{path} is no picture", code="not_a_picture")  # not tried again
    dibs.current().sync.progress(0.5, "half way")
    return f"small-{path}"


async def main() -> None:
    logging.getLogger("dibs").setLevel(logging.ERROR)  # failures are told below
    fetched = await fetch.enqueue("https://example.org", depth=2)  # typed by the function's signature
    small = await thumbnail.enqueue("cat.png")
    wrong = await thumbnail.options(priority="high").enqueue("cat.txt")

    worker = dibs.Worker(app, concurrency=20)
    running = asyncio.create_task(worker.run())  # or worker.main(), which also minds SIGTERM
    for job in (fetched, small, wrong):
        ended = await app.wait(job.id, timeout=30)
        outcome = ended.result if ended.error is None else ended.error.message
        print(f"{ended.task}: {ended.status} after {ended.attempts} attempts: {outcome}")
    worker.stop()  # what runs may finish, the rest is given back
    await running
    await app.close()


if __name__ == "__main__":
    asyncio.run(main())
