from __future__ import annotations

import pytest

from tests.integration.store.worlds import MemoryWorld, RedisWorld, World


@pytest.fixture(params=["memory", "redis"])
def world(request: pytest.FixtureRequest) -> World:
    return MemoryWorld() if request.param == "memory" else RedisWorld(request.getfixturevalue("real_redis"))
