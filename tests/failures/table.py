"""The table of failures for docs/explanation/guarantees.md, made from what pytest has collected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container

from tests.failures.classes import FAILURES, Failure
from tests.failures.collecting import Found
from tests.failures.stores import STORES
from tests.mistakes.table import MISTAKES

_HERE, _NOWHERE = "●", "−"


def table(found: Found) -> str:
    """Make it; each class is followed by its tests, a mark for each store on which they run."""
    planted = Counter(mistake.kind for mistake in MISTAKES.values())
    lines = [
        f"| failure, and the tests that provoke it | {' | '.join(STORES.values())} |",
        "|---|" + ":-:|" * len(STORES),
    ]
    for failure in FAILURES:
        lines.append(_row(_title(failure, planted[failure.name]), failure.nowhere, _NOWHERE))
        for test in failure.tests:
            name = test.partition("::")[2]
            lines.append(_row(f"[`{name}`](../../{found.defined(test)})", found.stores(test), _HERE))
    return "\n".join(lines)


def _title(failure: Failure, mistakes: int) -> str:
    planted = f"{mistakes} planted mistake{'s' * (mistakes > 1)}" if mistakes else "no mistake planted"
    title = f"**{failure.name}** ({failure.reports}); promises: {failure.promises}; {planted}"
    stores: dict[str, list[str]] = {}
    for store, why in failure.nowhere.items():
        stores.setdefault(why, []).append(STORES[store])
    return "<br>".join([title, *(f"not on {_and(names)}: {why}" for why, names in stores.items())])


def _and(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _row(first: str, stores: Container[str], mark: str) -> str:
    return f"| {first} | {' | '.join(mark if store in stores else '' for store in STORES)} |"
