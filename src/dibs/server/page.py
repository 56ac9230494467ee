"""The page at ``/``: plain, without anything from outside, until there is a dashboard."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 40rem; margin: 4rem auto; padding: 0 1rem; }
code { background: #8882; padding: .1em .3em; border-radius: .2em; }
"""

PAGE = f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>dibs</title>
<style>{_STYLE}</style>
<h1>dibs</h1>
<p>A job queue is served here. Its calls are described in <a href="openapi.json">openapi.json</a>;
each needs an API key in <code>X-API-Key</code>, which <code>dibs keys create</code> makes.</p>
<p>Whether it is <a href="health">alive</a>, and whether its <a href="ready">store answers</a>.</p>
</html>
""".encode()

_HASH = b64encode(sha256(_STYLE.encode()).digest())

HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'none'; style-src 'sha256-%s'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
        % _HASH,
    ),
    (b"referrer-policy", b"no-referrer"),
)
