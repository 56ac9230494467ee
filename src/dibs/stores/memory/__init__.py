"""The memory store, and the oracle for all the others."""

from dibs.stores.memory.store import MemoryStore

__all__ = ["MemoryStore"]
