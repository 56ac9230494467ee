"""The search: depth first, by running a world anew up to each branch, and never twice through the same state."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import msgspec

from dibs.testing.worlds.world import Choice, Run, World, path_of

if TYPE_CHECKING:
    from collections.abc import Callable


class Exploration(msgspec.Struct, frozen=True):
    """What a search found."""

    world: str
    states: int
    steps: int  # calls, crashes and ticks that were tried
    ends: int  # different states in which nothing is left to do
    finished: bool  # whether all of it was searched
    broken: str = ""
    path: tuple[Choice, ...] = ()  # that leads to it

    @property
    def ok(self) -> bool:
        """Say whether every promise is kept in every state that was reached."""
        return not self.broken

    def __str__(self) -> str:
        looked = f"{self.world}: {self.states:,} states, {self.steps:,} steps, {self.ends:,} ends"
        if self.ok:
            return f"{looked}: every promise kept" + ("" if self.finished else " (not searched to the end)")
        return f"{looked}\n{path_of(self.path)}\n{self.broken}"


def explore(
    world: World, *, most_states: int | None = None, told: Callable[[int], None] = lambda _: None
) -> Exploration:
    """Search all of a world, or until a promise is broken, or until so many states were seen."""
    seen: set[bytes] = set()
    ends = steps = 0
    todo: list[tuple[Choice, ...]] = [()]
    while todo:
        path = todo.pop()
        run = Run(world)
        try:
            for choice in path:
                run.choose(choice)
            while True:
                state = hashlib.blake2b(run.state(), digest_size=16).digest()
                if state in seen:
                    break
                seen.add(state)
                if len(seen) % 1000 == 0:
                    told(len(seen))
                if most_states is not None and len(seen) > most_states:
                    return Exploration(world.name, len(seen), steps, ends, finished=False)
                choices = run.choices()
                steps += len(choices)
                if not choices:
                    ends += 1
                    if broken := run.verdict():
                        return Exploration(world.name, len(seen), steps, ends, finished=False, broken=broken, path=path)
                    break
                todo += [(*path, other) for other in choices[1:]]
                path = (*path, choices[0])
                run.choose(choices[0])
        finally:
            run.close()
    return Exploration(world.name, len(seen), steps, ends, finished=True)
