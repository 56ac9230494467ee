"""Forks: no connection may be open while a process forks.

SQLite keeps a list of the files that a process has open, and which locks it holds on them. A child inherits the list
but not the locks: a connection that it opens itself would believe them to be its own, hold none, and go on writing to a
WAL that the parent removes when it closes. What it then commits is acknowledged and lost (test_a_child_loses_nothing).
So all connections are closed before a fork, and opened again when they are next needed.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dibs.stores.sqlite.connection import Link

_links: set[Link] = set()
_held: list[Link] = []


def register(links: Iterable[Link]) -> None:
    """Close these before a fork."""
    _links.update(links)


def forget(links: Iterable[Link]) -> None:
    """They are closed for good."""
    _links.difference_update(links)


def _before() -> None:
    for link in list(_links):
        link.lock.acquire()  # waits until the transaction under way has ended
        link.drop()
        _held.append(link)


def _after() -> None:
    while _held:
        _held.pop().lock.release()


def _after_in_child() -> None:
    _after()
    _links.clear()


os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after_in_child)
