"""All mistakes, by name."""

from __future__ import annotations

from tests.mistakes.above import ABOVE
from tests.mistakes.domain import DOMAIN
from tests.mistakes.entrance import ENTRANCE
from tests.mistakes.planting import Mistake
from tests.mistakes.servers import SERVERS
from tests.mistakes.stores import STORES

MISTAKES: dict[str, Mistake] = {mistake.name: mistake for mistake in (*DOMAIN, *STORES, *SERVERS, *ABOVE, *ENTRANCE)}
