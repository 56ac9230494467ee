"""What the server, the driver and the network complain about, in dibs's words: once, here."""

from __future__ import annotations

from redis import exceptions as driver

from dibs.domain.errors import DibsError, SchemaOutdated, StoreUnavailable

FAILURES = (driver.RedisError, OSError, TimeoutError, EOFError)
"""All that the driver or a network may raise."""

_HINTS: list[tuple[tuple[str, ...], str, str]] = [
    (
        ("WRONGPASS", "NOAUTH", "invalid username-password", "Authentication required"),
        "the user or the password is wrong",
        "Check the URL: redis://user:password@host:6379/0.",
    ),
    (("NOPERM",), "the user may not do that", "Let it: ACL SETUSER name ~dibs:* &dibs:* +@all -@dangerous."),
    (("READONLY",), "the server is a replica, and takes no writes", "Give the URL of the master."),
    (("LOADING",), "the server is still reading its data", "Wait; dibs goes on by itself then."),
    (
        ("OOM",),
        "the server's memory is full",
        "Raise maxmemory, or shorten the retention; and keep maxmemory-policy at noeviction.",
    ),
    (
        ("MISCONF",),
        "the server cannot save to its disk, and takes no writes",
        "Free some space on its disk; dibs goes on by itself then.",
    ),
    (
        ("NOREPLICAS",),
        "too few replicas answer (min-replicas-to-write)",
        "Bring a replica back; dibs goes on by itself then.",
    ),
    (("BUSY",), "another script has been running for too long", "SCRIPT KILL ends it, if it is not one of dibs's."),
    (("Unknown Redis command", "unknown command"), "the server is too old", "dibs needs Redis 7.0, or Valkey."),
    (("invalid DB index", "DB index is out of range"), "there is no such database", "Give a number that it has."),
    (
        ("max number of clients",),
        "the server has no free connection",
        "Raise maxclients, or give ?pool= a smaller number.",
    ),
    (("MOVED", "CROSSSLOT"), "the server is one of a cluster", "Begin the URL with redis+cluster://."),
    (
        ("TRYAGAIN",),
        "keys are on their way from one node to another",
        "Wait until they have been moved; dibs goes on by itself then.",
    ),
    (
        ("CLUSTERDOWN", "MASTERDOWN"),
        "the cluster has no master for some of its slots",
        "Bring a node back, or let a replica take over; dibs goes on by itself then.",
    ),
    (
        ("cluster support disabled",),
        "the server is not one of a cluster",
        "Begin the URL with redis://.",
    ),
]

_LATER = "LATER "  # as lua/parts/clock.lua says it


def is_sound(error: Exception) -> bool:
    """Say whether a connection is well though a call on it failed: the server has answered."""
    return isinstance(error, driver.ResponseError) and not isinstance(error, driver.ConnectionError)


def translate(error: BaseException, name: str) -> DibsError:
    """Say what happened, and what to do about it."""
    said = str(error)
    kind = type(error).__name__
    if isinstance(error, TimeoutError | driver.TimeoutError):
        return StoreUnavailable(
            f"{name} did not answer in time",
            hint="Look at the server and the network; ?timeout= in the URL says how long.",
        )
    if said.startswith(_LATER):
        hint = "Upgrade dibs here too: older ones cannot read what is there now."
        return SchemaOutdated(f"{name} was laid out anew by a later dibs", hint=hint)
    for signs, what, hint in _HINTS:
        if any(sign in said for sign in signs) or kind in _KINDS.get(signs[0], ()):
            return StoreUnavailable(f"{name}: {what}: {said}", hint=hint)
    return StoreUnavailable(f"{name}: {kind}: {said}")


# The driver makes some answers errors of their own, and takes the server's first word away.
_KINDS: dict[str, tuple[str, ...]] = {
    "WRONGPASS": ("AuthenticationError", "AuthenticationWrongNumberOfArgsError"),
    "NOPERM": ("NoPermissionError",),
    "READONLY": ("ReadOnlyError",),
    "LOADING": ("BusyLoadingError",),
    "OOM": ("OutOfMemoryError",),
    "MOVED": ("MovedError", "AskError"),
    "TRYAGAIN": ("TryAgainError",),
    "CLUSTERDOWN": ("ClusterDownError", "MasterDownError"),
}
