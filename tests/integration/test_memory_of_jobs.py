"""What a job that does nothing costs a real Redis with the shipped options: at most 1 KiB, with every key of it, also
those that lapse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.support.valkey import Valkey
from tests.integration.store.worlds import SEAL
from tests.support import fast_yaml as yaml
from tests.support.kinds import AITRAININGJOBS
from tests.support.paths import ROOT
from tests.support.queueing import finish_one
from tjstack.redis_server import config_text
from tjworker.api.labels import JOB_UID
from tjworker.base import JobKey
from tjworker.store.connect import client, open_store
from tjworker.store.projection import Change
from tjworker.store.sealed_store import SealedStore, sealed
from tjworker.store.work_queue import Written
from watcher.projection import project

COUNT, TOGETHER = 1_000, 100
MOST_BYTES = 1_024
NAMESPACE, NAME = "team-of-computer-vision", "resnet-152-on-imagenet-of-november-{}"
"""57 characters. The name of a job stands in each of its keys."""
MEMORY_OPTIONS = "hash-max-listpack-"


def shipped() -> tuple[str, ...]:
    """The options of `k8s/` that say how Redis keeps a small hash."""
    (workload,) = (
        one
        for one in yaml.safe_load_all((ROOT / "k8s/base/redis.yaml").read_text())
        if one["kind"] in ("Deployment", "StatefulSet")
    )
    return _of_memory(workload["spec"]["template"]["spec"]["containers"][0]["args"])


def _of_memory(words: list[str]) -> tuple[str, ...]:
    words = [str(word) for word in words]
    places = [n for n, word in enumerate(words) if word.startswith(f"--{MEMORY_OPTIONS}")]
    return tuple(text for n in places for text in words[n : n + 2])


def test_every_installation_has_the_same_options() -> None:
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]["redis"]["command"]
    lines = config_text(port=1, data_dir=Path("d"), acl=[]).splitlines()
    local = [text for line in lines if line.startswith(MEMORY_OPTIONS) for text in f"--{line}".split()]
    assert shipped()
    assert sorted(shipped()) == sorted(_of_memory(compose)) == sorted(local)


class Jobs:
    """A thousand jobs that come to rest, and what the operator does to each."""

    def __init__(self, url: str, spec: dict[str, Any], status: dict[str, Any]) -> None:
        self.url = url
        self.store: SealedStore = sealed(open_store(url, "tj"), SEAL)
        self.store.projection.lead(1)
        self.store.projection.mark_synced(1)
        self.rv = 100_000
        self.versions: dict[str, int] = {}
        self._spec, self._status = spec, status
        # Redis keeps the scripts that it has run once.
        self.names = ["first"]
        self.begin()
        self.rest()
        self.names = [NAME.format(n) for n in range(COUNT)]
        self._before = self._used()

    def _show(self, status: dict[str, Any]) -> None:
        """The watcher sees each job at its next version."""
        changes: list[Change] = []
        for name in self.names:
            self.rv += 1
            self.versions[name] = self.rv
            found = project(AITRAININGJOBS, self._raw(name, status))
            assert found is not None
            changes.append(found.change)
        for first in range(0, COUNT, TOGETHER):
            self.store.projection.apply(1, changes[first : first + TOGETHER])

    def _raw(self, name: str, status: dict[str, Any]) -> dict[str, Any]:
        number = self.names.index(name)
        container = {"name": "aitj-main", "image": "registry.example.com/train:1", "args": ["--steps", "100000"]}
        return {
            "apiVersion": "elasticdeeplearning.ai/v1",
            "kind": "AITrainingJob",
            "metadata": {
                "name": name,
                "namespace": NAMESPACE,
                "uid": f"0067dba8-5898-4008-aa17-{number * 7919:012x}",
                "resourceVersion": str(self.versions[name]),
                "generation": 1,
                "creationTimestamp": "2026-11-24T22:18:37Z",
                "labels": {JOB_UID: "x", "team": "vision"},
            },
            "spec": {"replicaSpecs": {"trainer": {"replicas": 4, "template": {"spec": {"containers": [container]}}}}}
            | self._spec,
            "status": status,
        }

    def begin(self) -> None:
        """The first pass over each writes its status, and the watcher sees it."""
        self._show({})
        claims = [self._take(name) for name in self.names]
        for number, claim in enumerate(claims):
            finish_one(self.store.queue, claim, Written(((AITRAININGJOBS, self.rv + 1 + number),)))
        self._show(self._status)

    def rest(self) -> None:
        """A later pass finds that there is nothing to do. There is none over a job that has ended."""
        if self._status is ENDED:
            return
        self.store.queue.resync(lost_after_seconds=0, everything=True)
        for name in self.names:
            claim = self._take(name)
            self.store.queue.note_rest(claim.key, str(self.versions[name]))
            finish_one(self.store.queue, claim)

    def _take(self, name: str) -> Any:
        ((claim, _),) = self.store.queue.acquire_views(_key(name), "worker-1", 60, 1).views
        return claim

    def bytes_each(self) -> float:
        return (self._used() - self._before) / COUNT

    def _used(self) -> int:
        """Without what each client costs."""
        with client(self.url) as redis:
            found: Any = redis.info("memory")
            return int(found["used_memory"]) - int(found["mem_clients_normal"])


def _key(name: str) -> JobKey:
    return JobKey(f"{AITRAININGJOBS}/{NAMESPACE}/{name}")


def _condition(of: str, reason: str) -> dict[str, Any]:
    return {"type": of, "status": "True", "reason": reason, "message": "as its user asks", "lastTransitionTime": "T"}


SUSPENDED = {"phase": "Suspended", "observedGeneration": 1, "conditions": [_condition("Suspended", "Suspended")]}
REFUSED = {"phase": "Failed", "refused": "Create", "observedGeneration": 1, "conditions": [_condition("Failed", "No")]}
ENDED = {"phase": "Succeed", "observedGeneration": 1, "conditions": [_condition("Succeeded", "Completed")]}
RESTING: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a suspended job": ({"suspend": True}, SUSPENDED),
    "a refused job": ({}, REFUSED),
    "a job that has ended": ({}, ENDED),
}


@pytest.mark.long
@pytest.mark.parametrize("sentence", RESTING)
def test_a_job_that_does_nothing_costs_a_kilobyte(tmp_path: Path, sentence: str) -> None:
    with Valkey(tmp_path, options=shipped()) as server:
        jobs = Jobs(server.url, *RESTING[sentence])
        jobs.begin()
        costs = {"its status is written": jobs.bytes_each()}
        jobs.rest()
        costs["a later pass has found nothing to do"] = jobs.bytes_each()
    assert all(100 < cost <= MOST_BYTES for cost in costs.values()), costs
