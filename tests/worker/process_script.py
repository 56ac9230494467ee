"""A script that runs a worker: its tasks are in ``__main__``. Without ``GUARDED`` it forgets the guard."""

import os

import dibs
from tests.worker.process_work import hold_everything, tell

app = dibs.App(os.environ["DIBS_STORE"], reap_every=0.2)


@app.task(process=True)
def hold(file: str, seconds: float) -> str:
    hold_everything(file, seconds)
    app.sync.enqueue("after")
    return __name__


@app.task
def after() -> None: ...


def main() -> None:
    tell(os.environ["TEST_PIDS"])
    dibs.Worker(app, tasks=["hold"], lease=1.0, handler_processes=2).main(until_idle=bool(os.environ.get("UNTIL_IDLE")))


if __name__ == "__main__" or not os.environ.get("GUARDED"):
    main()
