"""Mistakes of the server, at its entrance: who is let in, and with what."""

from __future__ import annotations

from tests.mistakes.planting import Edit, Mistake

_AUTH = "dibs.server.auth"
_READING = "dibs.server.reading"

ENTRANCE = [
    Mistake(
        "a key may do what it is not for",
        "§9",
        "unsafe input",
        "server",
        (Edit(f"{_AUTH}:Caller.need", 'if scope not in self.scopes and "admin" not in self.scopes:', "if not scope:"),),
        "the server's tests",
        "scopes",
    ),
    Mistake(
        "a key is known by its id alone",
        "§9",
        "unsafe input",
        "server",
        (Edit("dibs.server.keys:proves", "compare_digest(key.hash, _hash(secret))", "bool(key.hash and secret)"),),
        "the server's tests",
        "without_a_valid_key",
    ),
    Mistake(
        "a key sees jobs of other queues",
        "§9",
        "unsafe input",
        "server",
        (Edit(f"{_AUTH}:Caller.own", "if job is None or not self.sees(job.queue):", "if job is None:"),),
        "the server's tests",
        "a_key_for",
    ),
    Mistake(
        "pages of other sites may call a server without keys",
        "§9",
        "unsafe input",
        "server",
        (Edit(f"{_AUTH}:check_browser", "if origin is not None and not", "if origin is not None and"),),
        "the server's tests",
        "web_pages_elsewhere",
    ),
    Mistake(
        "a foreign name of this machine is taken for its own",
        "§9",
        "unsafe input",
        "server",
        (Edit(f"{_AUTH}:check_browser", 'headers.get(b"host", b"localhost")', 'b"localhost"'),),
        "the server's tests",
        "web_pages_elsewhere",
    ),
    Mistake(
        "a form is taken for JSON",
        "§9",
        "unsafe input",
        "server",
        (Edit(f"{_READING}:parse", 'if kind != b"application/json":', "if not kind:"),),
        "the server's tests",
        "forms_of_other_sites",
    ),
    Mistake(
        "a name may lead out of its place",
        "§2",
        "unsafe input",
        "server",
        (Edit("dibs.domain.checks:check_name", 'and not {"", ".", ".."} & set(value.split("/"))', ""),),
        "the server's tests",
        "test_enqueue",
    ),
    Mistake(
        "a body that comes in parts may be of any size",
        "§9",
        "unsafe input",
        "server",
        (Edit(f"{_READING}:_read_on", "if len(body) > MAX_BODY:", "if not MAX_BODY:"),),
        "the server's tests",
        "body_too_large",
    ),
]
