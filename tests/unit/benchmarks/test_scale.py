"""The benchmarks of size: what they feed the operator with, and the tables that they print. Those that need an API
server are run by hand; memory in Redis is measured here as well, since it is exact."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from benchmarks import finished, growth, memory, neighbours
from benchmarks.__main__ import CRDS
from benchmarks.growth import Grown
from benchmarks.loads import job
from benchmarks.slow_api import SlowTransport
from benchmarks.support.valkey import Valkey
from tests.support import fast_yaml as yaml
from tests.support.kinds import AITRAININGJOBS
from tests.support.memory_store import MemoryStore
from tjworker.api.kinds import parse
from tjworker.api.model import TrainingJob
from tjworker.api.resources import PODS
from tjworker.kube.client import KubeClient
from watcher.projection.jobs import project_job


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_growth_is_told_beside_what_the_cores_allow() -> None:
    rows = [
        Grown(1, passes=100, seconds=1, cpu_seconds=0.5),
        Grown(2, passes=200, seconds=1.25, cpu_seconds=1.0),
        Grown(8, passes=800, seconds=4, cpu_seconds=4.0),
    ]
    table = [cells(line) for line in growth.render(rows, cores=2)][2:]
    assert [row[:3] for row in table] == [["1", "100", "1.00"], ["2", "160", "0.80"], ["8", "200", "0.25"]]
    # 5 ms a pass: two cores allow 400 a second, which two workers' 200 do not reach and eight workers' 800 pass.
    assert [row[3:] for row in table] == [["5.0", "0.5", "1.00"], ["5.0", "0.8", "0.80"], ["5.0", "1.0", "0.50"]]


def test_growth_queues_new_jobs_as_the_watcher_does() -> None:
    store = MemoryStore()
    store.projection.lead(1)
    keys = growth._queued(store, "bench", 3)
    assert keys == [f"aitrainingjobs.elasticdeeplearning.ai/default/bench-{n}" for n in range(3)]
    parsed = parse(AITRAININGJOBS, orjson.loads(store.projection.view(keys[0]).job or b""))
    assert isinstance(parsed, TrainingJob), "a job that is refused would be no pass worth the name"
    assert (parsed.uid, [role.replicas for role in parsed.roles]) == ("bench-0", [1])


def test_the_api_server_that_is_not_there_answers_each_write_with_a_newer_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("benchmarks.slow_api.time.sleep", slept.append)
    client = KubeClient(SlowTransport())
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "default"}}
    made = client.create(PODS, "default", body)
    told = client.update_status(
        AITRAININGJOBS, "default", "a", {"metadata": {"name": "a"}, "status": {"phase": "Pending"}}
    )
    assert int(told["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    assert (made["metadata"]["name"], told["status"], slept) == ("a", {"phase": "Pending"}, [0.005, 0.005])


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


def test_memory_is_told_in_kibibytes() -> None:
    table = [
        cells(line)
        for line in memory.render([memory.Memory(1, 900, 3072, 1024, 512), memory.Memory(4, 1024, 8192, 1024, 0)])
    ]
    assert table[2:] == [["1 pod", "0.9", "3.0", "1.0", "0.5"], ["4 pods", "1.0", "8.0", "1.0", "0.0"]]


def test_without_its_status_subresource_the_kind_is_the_same_in_all_else() -> None:
    crd = yaml.safe_load(CRDS.read_text())
    bare = finished.without_status(crd)
    assert all("status" in version["subresources"] for version in crd["spec"]["versions"]), (
        "the original is left as it is"
    )
    for version in crd["spec"]["versions"]:
        del version["subresources"]
    assert bare == crd


def test_a_finished_job_is_one_to_the_watcher_too() -> None:
    raw = {**job("old", 1), "status": finished.ENDED}
    raw["metadata"] |= {"uid": "old", "resourceVersion": "1", "generation": 1}
    assert project_job(AITRAININGJOBS, raw).change.finished


def test_what_small_jobs_waited_is_told_by_nearest_rank() -> None:
    row = cells(list(neighbours.render([neighbours.Waited("a big one", [n / 1000 for n in range(1, 101)])]))[2])
    assert row == ["a big one", "100", "50", "99", "100"]


def test_what_finished_jobs_cost_is_one_row_a_count_at_the_start_at_the_loss_of_redis_and_at_the_restart() -> None:
    emptied = finished.Emptied(1.26, 30.04)
    again = finished.Restart(1.14, 1.5, [0.04, 0.05, 0.8], 61.04)
    whole = finished.Restart(1.24, 1.8, [0.04, 0.05, 0.8], 62.04)
    lines = list(
        finished.render(
            [finished.Found(50_000, 12.34, 0.5, [0.03, 0.02, 0.9], 4.26, 170.4, 40.6, emptied, again, whole)]
        )
    )
    assert cells(lines[2]) == ["50,000", "12.3", "0.50", "30", "900", "4.3", "170", "41"]
    assert cells(lines[6]) == ["50,000", "1.3", "30.0"]
    assert cells(lines[10]) == ["50,000", "the watcher", "1.1", "1.50", "50", "800", "61.0"]
    assert cells(lines[11]) == ["50,000", "every process", "1.2", "1.80", "50", "800", "62.0"]
