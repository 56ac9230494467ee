"""The broker over a dibs server: intentions go there, and are decided there."""

from dibs.broker.http.broker import HttpBroker
from dibs.broker.http.remote import Remote

__all__ = ["HttpBroker", "Remote"]
