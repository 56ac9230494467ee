"""Which commands there are: where each is kept, and what it does, in a line.

``dibs --help`` is made of this alone, and nothing else is loaded for it. That the commands say so themselves
is tested (test_the_table_says_what_the_commands_say).
"""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    """One command."""

    name: str
    home: str
    summary: str


GROUPS: dict[str, tuple[Entry, ...]] = {
    "Look": (
        Entry("jobs", "dibs.cli.jobs:jobs", "List jobs, newest first, or show the ones that are named"),
        Entry("dead", "dibs.cli.dead:dead", "Show the dead letters, grouped by what went wrong"),
        Entry("queues", "dibs.cli.queues:queues", "List the queues"),
        Entry("workers", "dibs.cli.workers:workers", "List the workers"),
        Entry("batches", "dibs.cli.batches:batches", "Say how far batches have come"),
        Entry("schedules", "dibs.cli.schedules:schedules", "List, pause, resume and run schedules"),
        Entry("log", "dibs.cli.log:log", "Show what has happened to a job"),
        Entry("explain", "dibs.cli.explain:explain", "Say why a job is not running now"),
        Entry("top", "dibs.cli.top:top", "Watch queues and workers, live"),
    ),
    "Act": (
        Entry("enqueue", "dibs.cli.enqueue:enqueue", "Add a job, or many"),
        Entry("cancel", "dibs.cli.cancel:cancel", "Stop jobs that have not ended, whoever holds them"),
        Entry("redrive", "dibs.cli.redrive:redrive", "Run finished jobs again"),
        Entry("purge", "dibs.cli.purge:purge", "Remove finished jobs now"),
        Entry("pause", "dibs.cli.queues:pause", "Let queues hand out nothing until they are resumed"),
        Entry("resume", "dibs.cli.queues:resume", "Let queues hand out jobs again"),
    ),
    "Work": (
        Entry("worker", "dibs.cli.worker:worker", "Run the tasks of an app until SIGTERM or Ctrl-C"),
        Entry("exec", "dibs.cli.exec:exec_", "Run a program for each job of a task, until SIGTERM or Ctrl-C"),
        Entry("claim", "dibs.cli.claim:claim", "Take the next due job, for a script"),
        Entry("complete", "dibs.cli.settle:complete", "End a claim well"),
        Entry("fail", "dibs.cli.settle:fail", "End a claim badly"),
        Entry("release", "dibs.cli.settle:release", "Give a claim back; no attempt is counted"),
    ),
    "Serve and look after": (
        Entry("serve", "dibs.cli.serve:serve", "Serve the queue over HTTP, until SIGTERM or Ctrl-C"),
        Entry("keys", "dibs.cli.keys:keys", "Make, list and revoke API keys"),
        Entry(
            "migrate",
            "dibs.cli.migrate:migrate",
            "Bring the store's schema up to date",
        ),
        Entry(
            "copy",
            "dibs.cli.copy:copy",
            "Copy everything that one store has to another, which takes over from it",
        ),
        Entry(
            "bench",
            "dibs.cli.bench:bench",
            "Measure a store",
        ),
        Entry(
            "verify",
            "dibs.cli.verify:verify",
            "Replay the store's log and prove on it",
        ),
        Entry(
            "doctor",
            "dibs.cli.doctor:doctor",
            "Look for what is wrong with a store, or will hurt",
        ),
        Entry(
            "demo",
            "dibs.cli.demo:demo",
            "Run a server, two producers and ten workers on a throw-away SQLite file, and watch them",
        ),
        Entry("completion", "dibs.cli.completion:completion", "Print what a shell needs to complete dibs commands"),
    ),
}

COMMANDS = tuple(entry for group in GROUPS.values() for entry in group)

OTHER_WORDS = {
    "retry": "redrive",
    "requeue": "redrive",
    "list": "jobs",
    "ls": "jobs",
    "show": "jobs",
    "get": "jobs",
    "find": "jobs",
    "add": "enqueue",
    "push": "enqueue",
    "delete": "purge",
    "remove": "purge",
    "stop": "cancel",
    "kill": "cancel",
    "why": "explain",
    "history": "log",
    "dlq": "dead",
    "stats": "queues",
    "watch": "top",
    "run": "worker",
    "server": "serve",
    "move": "copy",
    "cp": "copy",
}
"""What others call it: a word that is no command is answered with ours."""

ABOUT = "A job queue whose claims are proven."
WHERE = """\
The store comes from --store, from DIBS_STORE, or is sqlite:///dibs.db. http://host:8642 names a server, whose key comes
from --api-key or DIBS_API_KEY. `dibs COMMAND --help` says more of each."""


def overview() -> str:
    """Say what ``dibs --help`` says."""
    widest = max(len(entry.name) for entry in COMMANDS)
    lines = [f"usage: dibs COMMAND [ARGUMENTS]\n\n{ABOUT}"]
    for title, entries in GROUPS.items():
        lines.append(f"\n{title}:")
        lines += [f"  {entry.name:<{widest}}  {entry.summary}" for entry in entries]
    return "\n".join([*lines, "", WHERE])
