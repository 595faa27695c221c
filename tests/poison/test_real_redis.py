"""The same over a real Redis: no lie that Redis' own types, scripts and errors would let through and the memory store
would not."""

from __future__ import annotations

import os
import random
import sys
from typing import Any

import orjson
import pytest

from tests.conftest import RealRedis
from tests.poison.real_redis import JOBS, attacks, begin
from tests.poison.world import COUNTED, ENDS, FOREIGN, KEY, NOT_ASKED
from tests.support.seeds import the_seed
from tjworker.store.seal import Seal

SHARE = 4
"""So many attacks are played in each run of the fast suite; TJ_TEST_POISON=all (`make poison`) plays every one."""


def test_nothing_that_is_written_into_a_real_redis_moves_a_job(real_redis: RealRedis) -> None:
    whole = os.environ.get("TJ_TEST_POISON") == "all"
    rng = random.Random(the_seed())
    world, earlier = begin(real_redis)
    uids, every = world.uids(), list(attacks(world, earlier))
    assert len(every) > 400
    for what, attack in every if whole else rng.sample(every, SHARE):
        attack(world.redis)
        world.judge.watching, world.judge.now = True, what
        world.kick()
        world.judge.watching = False
        world.heal()
        world.until(f"{what}: both run", lambda: {world.phase(), world.phase("beside")} == {"Running"})
        assert world.uids() == uids, what
    counts = {what: world.judge.breaches[what] for what in (FOREIGN, NOT_ASKED, ENDS, COUNTED)}
    sys.stdout.write(
        f"seed {the_seed()}: real Redis: {len(every)} attacks, {'all' if whole else SHARE} played, {counts}\n"
    )
    assert not world.judge.told, "\n".join(world.judge.told[:20])


def test_who_has_the_record_key_too_is_seen_by_the_judge(real_redis: RealRedis) -> None:
    """Else the test above could not fail."""
    world, _ = begin(real_redis)
    seal = Seal([KEY], real_redis.prefix)
    key, place = f"{real_redis.prefix}:job:{JOBS[0]}", ("job", JOBS[0], "job")
    stored: Any = world.redis.hget(key, "job")
    *plain, sealed = stored.split(b" ", 4)
    told = orjson.loads(seal.open(sealed, *place) or b"")
    told["spec"]["replicaSpecs"]["trainer"]["replicas"] = 1
    world.redis.hset(key, "job", b" ".join((*plain, seal.seal(orjson.dumps(told), *place))))
    world.judge.watching = True
    world.kick()
    assert world.judge.breaches[FOREIGN], "a pod was taken that the true spec asks for"


SPOILED = {
    "no record at all": (b"job", b"\xff\x00"),
    "a version that is no number": (b"job", b"x 0 {}"),
    "a child of a name that is no UTF-8": (b"pods/\xff", b"1 {}"),
}


@pytest.mark.parametrize("field", SPOILED.values(), ids=list(SPOILED))
def test_a_spoiled_entry_is_taken_out_and_its_job_goes_on(field: tuple[bytes, bytes], real_redis: RealRedis) -> None:
    """A pass that dies of it would hold the job up for as long as it stands there, whoever has gone by then; and the
    autoscaler reads every job."""
    world, _ = begin(real_redis)
    name = f"{real_redis.prefix}:job:{JOBS[0]}"
    world.redis.hset(name, *field)
    world.kick()
    assert world.redis.hget(name, field[0]) != field[1]
    assert JOBS[1] in world.store.projection.unfinished()
    world.patch_job("digits", {"spec": {"replicaSpecs": {"trainer": {"replicas": 3}}}})
    world.until("it grows", lambda: len(world.pods()) == 4)
