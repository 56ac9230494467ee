"""The worker: claims jobs in batches, runs their handlers, and settles them in batches."""

from dibs.worker.worker import Worker

__all__ = ["Worker"]
