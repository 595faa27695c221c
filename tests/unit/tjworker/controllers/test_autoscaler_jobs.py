"""Which jobs a run of the autoscaler plans with: each version of a job is parsed once, and none is older than what the
projection has."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from tests.support.builders import make_job
from tests.support.kinds import AITRAININGJOBS
from tjworker.base import MOST_KEPT_OF_A_JOB, JobKey
from tjworker.clock import ClusterClock
from tjworker.controllers.autoscaler import Autoscaler
from tjworker.settings import Settings
from watcher.projection import project


class Desk:
    def __init__(self) -> None:
        self.unfinished: dict[JobKey, tuple[int, bytes]] = {}
        store: Any = SimpleNamespace(projection=SimpleNamespace(unfinished=lambda: self.unfinished))
        self.served: dict[str, Any] = {}
        """What the API server has: name -> object."""
        self.asked: list[str] = []
        kube: Any = SimpleNamespace(get=self._get)
        self.autoscaler = Autoscaler(store, kube, Settings(), clock=ClusterClock())

    def put(self, name: str, version: int, replicas: int, edl: str = "Auto") -> None:
        job = make_job(name).role("trainer", replicas, least=1, most=9, edl=edl)
        record = job.metadata(resourceVersion=str(version)).object()
        self.unfinished[job.build().name.key] = version, orjson.dumps(record)

    def put_without_spec(self, name: str, version: int, replicas: int, phase: str = "Running") -> None:
        """A record as the watcher writes it of a job with more than 64 KiB, or of one that rests."""
        job = make_job(name).role("trainer", replicas, least=1, most=9, edl="Auto")
        manifest = job.metadata(resourceVersion=str(version), generation=1).object()
        manifest["metadata"]["annotations"] = {"notes": "x" * (MOST_KEPT_OF_A_JOB + 1)}
        manifest["status"] = {**manifest.get("status", {}), "phase": phase, "observedGeneration": 1}
        projected = project(AITRAININGJOBS, manifest)
        assert projected is not None
        assert projected.change.record is not None
        self.served[name] = manifest
        self.unfinished[job.build().name.key] = version, projected.change.record

    def _get(self, resource: str, namespace: str, name: str) -> Any:
        self.asked.append(name)
        return self.served.get(name)

    def found(self) -> dict[str, int]:
        return {job.name.name: job.role("trainer").replicas for job in self.autoscaler._elastic_jobs()}


@pytest.mark.parametrize("by", [1, 2, 1000])
def test_a_job_that_has_changed_is_read_anew_by_however_little(by: int) -> None:
    desk = Desk()
    desk.put("a", 100, 2)
    assert desk.found() == {"a": 2}
    desk.put("a", 100 + by, 3)
    assert desk.found() == {"a": 3}


def test_what_is_gone_or_no_more_autoscaled_is_not_planned_with() -> None:
    desk = Desk()
    desk.put("a", 1, 2)
    desk.put("b", 2, 2)
    desk.put("c", 3, 2, edl="Manual")
    assert desk.found() == {"a": 2, "b": 2}
    desk.put("a", 4, 2, edl="Manual")
    del desk.unfinished[make_job("b").role("trainer", 1).build().name.key]
    assert desk.found() == {}


def test_a_job_that_redis_keeps_without_its_spec_is_read_from_the_api_server_once_a_version() -> None:
    desk = Desk()
    desk.put_without_spec("a", 1, 2)
    assert [desk.found() for _ in range(2)] == [{"a": 2}] * 2
    assert desk.asked == ["a"]
    desk.put_without_spec("a", 2, 5)
    assert desk.found() == {"a": 5}
    assert desk.asked == ["a", "a"]


@pytest.mark.parametrize("phase", ["Suspended", "Failed"])
def test_a_job_that_rests_is_not_read(phase: str) -> None:
    desk = Desk()
    desk.put_without_spec("a", 1, 2, phase)
    desk.served["a"]["status"]["phase"] = phase
    assert desk.found() == {}
    assert desk.asked == []


def test_a_large_job_that_is_gone_meanwhile_is_not_planned_with() -> None:
    desk = Desk()
    desk.put_without_spec("a", 1, 2)
    del desk.served["a"]
    assert desk.found() == {}
