"""A later dibs that lays the keys out anew: this one leaves them alone, also where it was at work already."""

import pytest
import redis

from dibs.clock import Clock
from dibs.domain.errors import SchemaOutdated
from dibs.stores.redis import RedisStore
from dibs.testing.conformance.builders import claim_one, completed, enqueue, enqueue_and_claim, new_job, settle


def dump(own: redis.Redis) -> dict[bytes, bytes | None]:
    return {key: own.dump(key) for key in own.scan_iter()}


async def test_a_later_layout_is_left_alone(real: RedisStore, own: redis.Redis, url: str) -> None:
    job = await enqueue_and_claim(real)
    await enqueue(real, new_job())
    own.hset(real._shard.key("meta"), "time", "later")
    before = dump(own)

    newcomer = RedisStore(url, Clock())
    for call in (claim_one(real), settle(real, completed(job)), enqueue(real, new_job()), newcomer.open()):
        with pytest.raises(SchemaOutdated, match="by a later dibs") as caught:
            await call
        assert "Upgrade dibs here too" in caught.value.hint
    await newcomer.close()
    assert dump(own) == before
