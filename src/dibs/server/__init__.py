"""dibs over HTTP: an ASGI app to mount in your own, or to serve with ``dibs serve``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dibs.app import App
    from dibs.server.api import Api

__all__ = ["asgi"]


def asgi(app: App, *, auth: bool = True, check_params: bool = True) -> Api:
    """Make an ASGI app that serves this queue: by itself, or mounted in an app of your own.

    Callers need an API key, as ``dibs keys create`` makes them. With ``auth=False`` everyone who reaches it may do
    everything, and only calls to localhost are taken: put nothing in front of it that lets others through.
    With ``check_params=False`` params are taken as they come, whatever workers have published.
    """
    from dibs.server.api import make  # the packages of the extra ``server`` are needed from here on

    return make(app, auth=auth, check_params=check_params)
