"""Jobs that a later version has had: its status says what this version does not know. Nothing begins anew, and nothing
is lost."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.scenarios.world import Json, World, job, play, role, training_job

NOTE = {"from-the-future": {"a": [1, {"b": "c"}]}}


def later(crds: Any) -> list[Json]:
    """The CRDs of a version whose status may hold anything."""
    found = copy.deepcopy(list(crds))
    for crd in found:
        for version in crd["spec"]["versions"]:
            properties = version["schema"]["openAPIV3Schema"]["properties"]
            properties["status"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return found


class LaterWorld(World):
    crds = later(World.crds)


@dataclass(frozen=True)
class Case:
    """`job` has come to `phase`; then a later version writes `status` into its status, and this version is back."""

    phase: str
    status: Json
    want_phase: str
    job: Json = field(default_factory=lambda: job({"trainer": role(2, restartPolicy="OnFailure")}))
    want_kept: tuple[str, ...] = ()
    """Fields that still hold what the later version wrote."""


ENDED = job({"trainer": role(1, annotations=play(run_seconds=1))}, cleanPodPolicy="All")
CASES: dict[str, Case] = {
    "A phase that is not known is found out anew, and the pods stay.": Case("Running", {"phase": "Warm"}, "Running"),
    "So it is with a TrainingJob.": Case("Running", {"phase": "Warm"}, "Running", training_job(pservers=1)),
    "Fields that are not known stay.": Case("Running", {"note": NOTE}, "Running", want_kept=("note",)),
    "Fields of a TrainingJob that are not known stay.": Case(
        "Running", {"note": NOTE}, "Running", training_job(pservers=1), want_kept=("note",)
    ),
    "An end that is not known stays an end: the job does not run again.": Case(
        "Succeed", {"phase": "Stopped"}, "Stopped", ENDED
    ),
}


@pytest.mark.parametrize("sentence", CASES)
def test_a_job_of_a_later_version_goes_on_as_it_is(sentence: str) -> None:
    case = CASES[sentence]
    w = LaterWorld(nodes=1)
    w.apply(case.job)
    w.until("its phase", lambda: w.phase() == case.phase)
    w.run()
    before, uids = w.status(), w.uids()
    path = f"{w._job('digits')}/status"
    w.cluster.client.patch(path, {"status": case.status}, "application/merge-patch+json")
    w.start_watcher()
    w.run().advance(120)
    after = w.status()
    assert (w.uids(), after["phase"]) == (uids, case.want_phase)
    kept = {"startTime", "startRunningTime", "restartCounts", "attempts", "targets", "completionTime"} & before.keys()
    assert {name: after.get(name) for name in kept} == {name: before[name] for name in kept}
    assert {name: after.get(name) for name in case.want_kept} == {name: case.status[name] for name in case.want_kept}
