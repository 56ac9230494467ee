"""The simulator: the real app, worker, broker and store code in one thread, with virtual time and seeded misfortune.

``simulate(Plan(seed))`` runs one world to its end and proves the promises on what its clients saw. A seed always gives
the same run, to the byte. ``shrink`` makes a failing plan smaller; ``draw`` shows it as a picture.
"""

from dibs.testing.sim.plan import Fault, Plan
from dibs.testing.sim.result import Result
from dibs.testing.sim.run import simulate
from dibs.testing.sim.shrink import shrink
from dibs.testing.sim.timeline import draw

__all__ = ["Fault", "Plan", "Result", "draw", "shrink", "simulate"]
