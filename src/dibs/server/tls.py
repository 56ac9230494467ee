"""The certificate that a server shows."""

from __future__ import annotations

import ssl
from typing import NamedTuple

from dibs.domain.errors import InvalidRequest, Problem


class Certificate(NamedTuple):
    """Where a certificate is, with those that vouch for it, and its key; both may be in one file."""

    certfile: str
    keyfile: str | None

    def load(self) -> ssl.SSLContext:
        """Read both. TLS 1.2 and 1.3, with Python's choice of ciphers."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            context.load_cert_chain(self.certfile, self.keyfile, password=_no_password)
        except ssl.SSLError as error:
            raise InvalidRequest([Problem("certfile", _reason(error))]) from None
        except OSError as error:
            files = self.certfile if self.keyfile is None else f"{self.certfile} or {self.keyfile}"
            raise InvalidRequest([Problem("certfile", f"{files} cannot be read: {error.strerror}")]) from None
        return context


def certificate_of(certfile: str | None, keyfile: str | None) -> Certificate | None:
    """Say which certificate is meant; none: no TLS."""
    if certfile is None:
        if keyfile is not None:
            raise InvalidRequest([Problem("keyfile", "is of no use without --certfile")])
        return None
    return Certificate(certfile, keyfile)


class _Locked(ssl.SSLError):
    """The key is encrypted, and no one is there to ask for its password."""


def _no_password() -> str:
    raise _Locked


def _reason(error: ssl.SSLError) -> str:
    if isinstance(error, _Locked):
        return "its key is encrypted; give one that is not, which only its owner can read"
    if error.reason == "KEY_VALUES_MISMATCH":
        return "its key is another one's; --keyfile must be the key that the certificate was made for"
    return f"is no certificate with its key, in PEM ({error.reason or error}); the key may be in --keyfile"
