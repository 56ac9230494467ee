"""Text that means something to a database, a script, a terminal or a browser is text, on every store."""

from typing import Any
from unicodedata import category

import pytest

import dibs
from tests.failures.conftest import SHARED

HOSTILE = [
    "'; DROP TABLE dibs_job; --",
    "\\'); DELETE FROM dibs_job -- \\",
    "$1 %s {0} :name ? \\0 \\x00",
    "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "]] redis.call('FLUSHALL') --[[",
    "*1\r\n$8\r\nFLUSHALL\r\n",
    "\x1b[2J\x1b]0;owned\x07",
    "a\r\nSet-Cookie: owned=1\r\n\r\n",
    "\u202eevil\u2066\u200b\ufeff",
    "{a}{b}:{c}",
    "../../etc/passwd",
    "{{7*7}}${7*7}#{7*7}",
    "__import__('os').system('true')",
    "\U0001f4a3" * 60,
]
NAMES = [
    "{a}{b}",
    "../a",
    "a/../b",
    "a\nb",
    "a b",
    "a'b",
    "a;b",
    "a\x00b",
    "a\ud800",
    "\u202ea",
    "x" * 10_000,
    "<b>",
    "*",
    "",
]


@pytest.mark.parametrize("url", ["memory", *SHARED], indirect=True)
async def test_hostile_text_is_kept_as_it_is_and_does_nothing(app: dibs.App) -> None:
    other = await app.enqueue("other", queue="other")
    for number, text in enumerate(HOSTILE):
        line = "".join(letter for letter in text if category(letter) != "Cc")  # what a key or a tag may have
        key: dict[str, Any] = {"unique_key": line} if number % 2 else {"idempotency_key": line}
        params = {text: [text, "\x00"]}
        job = await app.enqueue("t", params, tags=[line], **key)
        again = await app.enqueue("t", params, **key)
        assert (again.id, again.was_duplicate) == (job.id, True)
        claim = await app.claim(f"w{number}", queues=["default"], lease=60)
        assert claim is not None
        assert (claim.id, claim.params) == (job.id, params)
        await claim.progress(0.5, line)
        if number % 2:
            await claim.complete(params)
        else:
            await claim.fail(RuntimeError(text), retryable=False)
        after = await app.get(job.id)
        assert after is not None
        assert list(after.tags) == [line]
        if number % 2:
            assert after.result == params
        else:
            assert after.error is not None
            assert after.error.message == text
        assert [each.id async for each in app.find(tag=line)] == [job.id]
        await app.redrive(job.id, by=line)
        await app.cancel(job.id, by=line)
        assert [event.actor for event in await app.log(job.id)][-2:] == [line, line]

    counts = await app.counts()
    assert (counts.pending, counts.cancelled) == (1, len(HOSTILE))
    assert await app.get(other.id) is not None
    assert (await app.verify()).ok


@pytest.mark.parametrize("url", ["memory", *SHARED], indirect=True)
async def test_names_that_could_be_more_than_names_are_refused(app: dibs.App) -> None:
    """What is part of a key, a path or a channel somewhere: ids, tasks, queues, workers; by the field that is wrong."""
    for name in NAMES:
        for field, call in {
            "task": app.enqueue(name),
            "queue": app.enqueue("t", queue=name),
            "id": app.enqueue("t", id=name),
            "worker_id": app.claim(name),
            "queues": app.claim("w", queues=[name]),
        }.items():
            with pytest.raises((dibs.InvalidJob, dibs.InvalidRequest), match=field):
                await call
    assert (await app.counts()).unfinished == 0
