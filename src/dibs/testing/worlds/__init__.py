"""Small worlds, searched to the end: every order in which a few actors' calls can reach the store, and every crash.

``explore(world)`` runs the real broker and domain over a real store, one call at a time. At every step it tries each
call that is waiting, each crash before or after it that is still allowed, and the passing of time; states that were
seen before are not searched again. Wherever nothing is left to do, what clients saw and what the store logged is
checked, the rest is worked off, and checked again.
"""

from dibs.testing.worlds.explore import Exploration, explore
from dibs.testing.worlds.scripts import LARGE, WORLDS
from dibs.testing.worlds.world import Actor, World

__all__ = ["LARGE", "WORLDS", "Actor", "Exploration", "World", "explore"]
