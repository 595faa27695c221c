"""The benchmarks of size: what they feed the operator with. Those that need an API server are run by hand; memory in
Redis is measured here as well, since it is exact.
"""

from __future__ import annotations

from pathlib import Path

import orjson

from benchmarks import growth, memory
from benchmarks.support.valkey import Valkey
from tests.support.kinds import AITRAININGJOBS
from tests.support.memory_store import MemoryStore
from tjworker.api.kinds import parse
from tjworker.api.model import TrainingJob


def test_growth_queues_new_jobs_as_the_watcher_does() -> None:
    store = MemoryStore()
    store.projection.lead(1)
    keys = growth._queued(store, "bench", 3)
    assert keys == [f"aitrainingjobs.elasticdeeplearning.ai/default/bench-{n}" for n in range(3)]
    parsed = parse(AITRAININGJOBS, orjson.loads(store.projection.view(keys[0]).job or b""))
    assert isinstance(parsed, TrainingJob), "a job that is refused would be no pass worth the name"
    assert (parsed.uid, [role.replicas for role in parsed.roles]) == ("bench-0", [1])


def test_a_finished_job_costs_redis_less_than_a_kibibyte_and_a_running_one_of_four_pods_less_than_twenty(
    tmp_path: Path,
) -> None:
    """Docs/benchmarks.md promises it. Few jobs, so what each job needs of shared keys is counted at its dearest."""
    with Valkey(tmp_path) as server:
        found = memory.measure(server.url, jobs=8, replicas=4)
    assert found.finished < found.running
    assert 1024 < found.running < 20 * 1024
    assert 100 < found.suspended < 2 * 1024, "docs/security.md: less than 1 KiB, and its share of eight in common keys"
    assert 100 < found.later < 1024
