"""Names and keys are compared by their bytes: the traps of collations, padding and character sets."""

from typing import Any

import pytest

from dibs.domain.job import Query
from dibs.stores.mysql import MysqlStore
from dibs.stores.mysql.literals import literal
from dibs.testing.conformance.builders import claim, completed, enqueue, ids, new_job, read, settle
from tests.servers.databases import connect_mysql

# Alike to one collation or another: case, padding, accents, composition, width, beyond the first plane, NUL.
ALIKE = [
    "a", "A", "a ", "a  ", " a", "á", "a\u0301", "\uff41", "ß", "ss", "😀", "😁", "a\x00", "a'b", 'a"b', "a\\b", "a%sb",
]  # fmt: skip


@pytest.mark.parametrize("field", ["idempotency_key", "unique_key", "batch_id"])
async def test_keys_that_look_alike_are_different(store: MysqlStore, field: str) -> None:
    named = [new_job(**dict[str, Any]({field: key})) for key in ALIKE]
    jobs = await enqueue(store, *named)
    assert not [job for job in jobs if job.was_duplicate]

    assert [getattr(await read(store, id), field) for id in ids(jobs)] == ALIKE
    if field == "batch_id":
        found = [(await store.find(Query(batch_id=key)))[0] for key in ALIKE]
        assert [ids(page) for page in found] == [[id] for id in ids(jobs)]
    else:
        again = [new_job(**dict[str, Any]({field: key})) for key in ALIKE]
        assert all(job.was_duplicate for job in await enqueue(store, *again))


async def test_ids_queues_tasks_and_tags_that_look_alike_are_different(store: MysqlStore) -> None:
    await enqueue(store, *(new_job(name, queue=name, task=name, tags=(name,)) for name in ALIKE))

    for name in ALIKE:
        assert ids((await store.find(Query(tag=name)))[0]) == ids((await store.find(Query(queue=name)))[0]) == [name]
        assert ids((await store.find(Query(task=name, q=name)))[0]) == [name]
        [job] = await claim(store, queues=(name,), tasks=(name,))
        assert job.id == name
        await settle(store, completed(job))
    assert sorted(queue.queue for queue in await store.queues()) == sorted(ALIKE)


async def test_documents_that_look_alike_are_different(store: MysqlStore) -> None:
    for name in ALIKE:
        await store.put(name, name.encode(), expect=0)

    assert [document.name for document in await store.documents("")] == sorted(ALIKE, key=str.encode)
    assert {document.value for document in await store.documents("a")} == {
        name.encode() for name in ALIKE if name.startswith("a")
    }


@pytest.mark.parametrize("mode", ["NO_BACKSLASH_ESCAPES", "ANSI_QUOTES", "PIPES_AS_CONCAT", ""])
@pytest.mark.parametrize("charset", ["utf8mb4", "latin1", "gbk"])
def test_a_literal_means_the_same_everywhere(url: str, mode: str, charset: str) -> None:
    """In a user's transaction the mode and the character set are theirs."""
    with connect_mysql(url, charset=charset, sql_mode=mode) as connection, connection.cursor() as cursor:
        for value in [*ALIKE, "\x1a\n\r\t", "", "; DROP TABLE dibs_job; --"]:
            cursor.execute(f"SELECT HEX({literal(value)}), HEX({literal(value.encode())})")
            assert cursor.fetchall() == ((value.encode().hex().upper(),) * 2,)
        for number in (0, -1, 2**62, 0.1, 1e-9, 1e300, -0.5, True, None):
            cursor.execute(f"SELECT {literal(number)}")
            assert cursor.fetchall() == ((number,),)


async def test_payloads_of_any_bytes_come_back_as_they_were(store: MysqlStore) -> None:
    payloads = [b'"' + text.replace("\\", "\\\\").replace('"', '\\"').encode() + b'"' for text in ALIKE[:12]]
    jobs = await enqueue(store, *(new_job(params=params) for params in payloads))
    claimed = {job.id: job for job in await claim(store, limit=100)}
    assert [claimed[id].params_json for id in ids(jobs)] == payloads

    await settle(store, *(completed(claimed[id], claimed[id].params_json) for id in ids(jobs)))
    assert [(await read(store, id)).result_json for id in ids(jobs)] == payloads


async def test_a_batch_larger_than_a_packet_is_taken(store: MysqlStore, url: str) -> None:
    """Sixteen jobs of a megabyte: more than the server takes at once."""
    drafts = [new_job(params=b'"' + b"\\u00e9" * 170_000 + b'"') for _ in range(16)]
    assert [job.was_duplicate for job in await enqueue(store, *drafts)] == [False] * 16
    jobs = await claim(store, limit=16)

    assert {job.params_json for job in jobs} == {drafts[0].params_json}
    assert set(await settle(store, *(completed(job, job.params_json) for job in jobs))) == {"applied"}
