"""Help for tests of code that uses dibs, and the suites that hold a store to its promises.

``use`` puts memory and a fake clock in an app's place, ``drain`` runs what was enqueued, ``enqueued`` asserts what was;
the pytest plugin has them as a fixture. The suites are in ``dibs.testing.conformance``, the history checker in
``dibs.testing.history``, the simulator in ``dibs.testing.sim``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dibs.testing.draining import drain
    from dibs.testing.looking import enqueued
    from dibs.testing.using import use

__all__ = ["drain", "enqueued", "use"]

# pytest imports this package in every run, used or not: so a name is looked up when it is asked for.
_HOMES = {"drain": "draining", "enqueued": "looking", "use": "using"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
