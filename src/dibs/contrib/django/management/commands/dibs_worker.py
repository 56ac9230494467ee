"""``manage.py dibs_worker``: run the tasks of the project."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from dibs.contrib.django.backend import DibsBackend
from dibs.contrib.django.interface import task_backends
from dibs.contrib.django.registry import registry
from dibs.domain.errors import DibsError
from dibs.worker import Worker


class Command(BaseCommand):  # type: ignore[misc]  # Django has no types
    """Runs tasks until SIGTERM or Ctrl-C; then it claims nothing more, and lets running ones finish."""

    help = "Runs the tasks of a dibs backend of TASKS until SIGTERM or Ctrl-C."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Say what can be given."""
        parser.add_argument("--backend", default="default", help="Which backend of TASKS.")
        parser.add_argument("--concurrency", type=int, default=10, help="How many tasks run at once.")
        parser.add_argument("--queue", action="append", help="Only jobs of this queue; may be repeated.")
        parser.add_argument("--lease", type=float, help="Seconds; else each job's own.")
        parser.add_argument(
            "--grace", type=float, default=30.0, help="Seconds that running tasks may go on after SIGTERM."
        )
        parser.add_argument("--worker-id", help="Its name; else made of the host and the process.")
        parser.add_argument("--until-idle", action="store_true", help="End when there is nothing left to do.")

    def handle(self, *, backend: str, until_idle: bool, **options: Any) -> None:
        """Run a worker."""
        chosen = task_backends[backend]
        if not isinstance(chosen, DibsBackend):
            raise CommandError(f"TASKS[{backend!r}] is a {type(chosen).__name__}, not a DibsBackend.")
        registry.discover(chosen.read_options.imports)
        if not chosen.app.tasks:
            raise CommandError("There are no tasks: define some in the module tasks of an installed app.")
        wanted = {name: options[name] for name in ("concurrency", "lease", "grace", "worker_id")}
        try:
            worker = Worker(chosen.app, queues=options["queue"], **wanted)
            queues = ", ".join(options["queue"] or ["all queues"])
            self.stdout.write(f"worker {worker.worker_id} runs {', '.join(worker.tasks)} from {queues}")
            self.stdout.flush()
            worker.main(until_idle=until_idle)
        except DibsError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"worker {worker.worker_id} has stopped; {worker.given_back} given back")
