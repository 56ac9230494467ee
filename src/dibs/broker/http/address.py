"""A server's URL, read."""

from __future__ import annotations

import ssl
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from dibs.domain.errors import InvalidRequest, Problem

_PORTS = {"http": 80, "https": 443}


class Address(NamedTuple):
    """Where a server is, and how it is talked to."""

    name: str  # for messages
    host: str
    port: int
    path: str  # before /api, without a slash at its end
    tls: ssl.SSLContext | None
    head: bytes  # the headers that every request has; among them the key, so it is never shown

    def __repr__(self) -> str:
        return f"<Address {self.name}>"

    def request(self, method: str, path: str, body: bytes | None) -> bytes:
        """Put a request together."""
        head = b"%s %s%s HTTP/1.1\r\n%s" % (method.encode(), self.path.encode(), path.encode(), self.head)
        if body is None:
            return head + b"\r\n"
        return b"%sContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (head, len(body), body)


def _is_key(text: object) -> bool:
    """Say whether a text can be sent as a key; whether it is one is the server's to say."""
    return isinstance(text, str) and text.isascii() and text.isprintable() and bool(text.strip())


def read(url: str, api_key: str | None) -> Address:
    """Read ``http://host:8642`` or ``https://host/path``."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or _PORTS.get(parts.scheme, 80)
        where = (host or "").encode("idna" if "xn--" not in (host or "") else "ascii").decode("ascii")
    except ValueError:  # whatever is wrong with it may be near a secret
        raise InvalidRequest([Problem("url", "cannot be read; it looks like http://host:8642")]) from None
    problems: list[Problem] = []
    if not where:
        problems.append(Problem("url", "names no host; it looks like http://host:8642"))
    if "@" in parts.netloc:
        problems.append(Problem("url", "must not contain a user or a password; a key goes in api_key, or DIBS_API_KEY"))
    if parts.query or parts.fragment:
        problems.append(Problem("url", "must end with the path, without ? and #"))
    if api_key is not None and not _is_key(api_key):
        problems.append(Problem("api_key", "is no API key; one looks like dibs_…_…"))
    if problems:
        raise InvalidRequest(problems)
    named = f"[{where}]" if ":" in where else where
    shown = named if port == _PORTS[parts.scheme] else f"{named}:{port}"
    path = quote(parts.path.rstrip("/"), safe="/%:@!$&'()*+,;=~-._")
    headers = [f"Host: {shown}", "Accept: application/json", "User-Agent: dibs"]
    if api_key is not None:
        headers.append(f"X-API-Key: {api_key.strip()}")
    return Address(
        f"{parts.scheme}://{shown}{path}",
        where,
        port,
        path,
        ssl.create_default_context() if parts.scheme == "https" else None,
        "".join(f"{line}\r\n" for line in headers).encode("ascii"),
    )
