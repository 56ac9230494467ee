"""A script that runs a worker: its tasks are in ``__main__``. Without ``GUARDED`` it forgets the guard."""

import os

import dibs
from tests.worker.process_work import hold_everything, sleep, tell

app = dibs.App(os.environ["DIBS_STORE"], reap_every=0.2)


@app.task(process=True)
def hold(file: str, seconds: float) -> str:
    hold_everything(file, seconds)
    app.sync.enqueue("after")
    return __name__


@app.task(process=True)
def wait(file: str, seconds: float) -> None:
    sleep(file, seconds)


@app.task
def after() -> None: ...


# As it is imported once more: made, but not run.
worker = dibs.Worker(app, tasks=["hold", "wait"], lease=1.0, handler_processes=2)

if __name__ == "__main__" or not os.environ.get("GUARDED"):
    tell(os.environ["TEST_PIDS"])
    worker.main(until_idle=bool(os.environ.get("UNTIL_IDLE")))
