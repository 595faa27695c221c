"""Objects that jobs name, such as runtimes: the watcher stores the version of the last change, and wakes the jobs that
wait for what has changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.trainer import RESOURCE, RUNTIMES, train_job
from tests.unit.watcher.writing import Bench, settle
from tjworker.api.kinds import KNOWN_KINDS
from tjworker.base import JobKey
from watcher.event_queue import ProjectedPage
from watcher.projection import Projected, project

OWN, CLUSTER = (companion.resource for companion in KNOWN_KINDS[RESOURCE].companions)
JOB = JobKey(f"{RESOURCE}/default/digits")


def runtime(rv: int, name: str = "torch-distributed", namespace: str = "") -> Projected:
    metadata = {"name": name, "resourceVersion": str(rv), **({"namespace": namespace} if namespace else {})}
    projected = project(OWN if namespace else CLUSTER, {**RUNTIMES["plain"], "metadata": metadata})
    assert projected is not None
    return projected


def job(kind: str = "ClusterTrainingRuntime", **status: Any) -> Projected:
    made = train_job()
    made["metadata"] |= {"uid": "u", "resourceVersion": "55"}
    made["spec"]["runtimeRef"]["kind"] = kind
    projected = project(RESOURCE, {**made, "status": {"operator": status}} if status else made)
    assert projected is not None
    return projected


@dataclass(frozen=True)
class Case:
    job: Projected
    change: Projected
    want: bool = True


BEGUN: dict[str, Any] = {"phase": "Running", "snapshot": {"name": "torch-distributed"}}
CASES: dict[str, Case] = {
    "A runtime that comes wakes the job that waits for it.": Case(job(), runtime(60)),
    "Another runtime wakes nobody.": Case(job(), runtime(60, "other"), want=False),
    "A runtime of another namespace does not.": Case(
        job("TrainingRuntime"), runtime(60, namespace="kube-public"), want=False
    ),
    "A job that has begun keeps its snapshot, and sleeps on.": Case(job(**BEGUN), runtime(60), want=False),
    "A refused job looks again, as its runtime may be mended.": Case(
        job(**{**BEGUN, "phase": "Failed", "refused": "Spec"}), runtime(60)
    ),
    "A job that has ended sleeps on.": Case(job(phase="Failed"), runtime(60), want=False),
}


@pytest.mark.parametrize("sentence", CASES)
def test_who_is_woken(sentence: str) -> None:
    case = CASES[sentence]
    bench = Bench()
    bench.sync()
    bench.put(RESOURCE, case.job, position=55)
    settle(bench)
    bench.put(case.change.change.resource, case.change, position=60)
    assert bench.published == ([JOB] if case.want else [])
    assert bench.store.projection.view(JOB).seen.get(case.change.change.resource) == 60, "before the job is woken"


def test_before_a_page_of_a_list_wakes_a_job_what_was_read_is_outdated() -> None:
    """The end of the list may be some pages away, and nothing wakes the job then."""
    bench = Bench()
    bench.sync()
    bench.put(RESOURCE, job(), position=55)
    bench.put(CLUSTER, position=50, listed=True)
    settle(bench)
    bench.events.put(ProjectedPage(CLUSTER, [runtime(60)], 70))
    bench.step()
    assert bench.published == [JOB]
    assert bench.store.projection.view(JOB).seen[CLUSTER] == 70
