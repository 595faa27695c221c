"""When a TrainingJob ends or is suspended, its ReplicaSets and batch Jobs are released, and their controllers take the
pods that live. What they do not take the operator takes: every state of a pod under every keeper, the rule once more.

A controller deletes with a grace, which only a kubelet confirms: on a lost node nobody does.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Literal

import pytest

from tests.unit.tjworker.reconcile.managed import UID, made_pod, observed_of, plain
from tests.unit.tjworker.reconcile.passes import NOW, NOW_TEXT, decide
from tests.unit.tjworker.reconcile.policies.test_controller_managed import SICK
from tjworker.api.model import TrainingJob
from tjworker.api.observed import Observed, PodRecord
from tjworker.api.resources import NODES
from tjworker.api.status import Ending, JobStatus
from tjworker.reconcile.plan import Delete

GRACE_SECONDS = 30
TOLD_TO_GO: dict[str, object] = {
    "deleted_at": int(NOW) + GRACE_SECONDS,
    "deletion_asked_at": int(NOW),
    "deletion_grace_seconds": GRACE_SECONDS,
    "was_told_to_go": True,
}
FORCED: dict[str, object] = {**TOLD_TO_GO, "deleted_at": int(NOW), "deletion_grace_seconds": 0}
STATES: dict[str, tuple[str, dict[str, object]]] = {
    "waits": ("pending", {}),
    "runs": ("running", {}),
    "has succeeded": ("succeeded", {}),
    "has failed": ("failed", {}),
    "was told to go": ("running", TOLD_TO_GO),
    "is on a lost node": ("lost", {}),
    "is on a lost node and was told to go": ("lost", TOLD_TO_GO),
    "is on a lost node and was forced out": ("lost", FORCED),
}
KEEPERS = ("a ReplicaSet", "a batch Job", "a batch Job that has seen a success", "the job itself")
ENDS: dict[str, Literal["All", "Running"]] = {"it ends, all pods go": "All", "it ends, what runs goes": "Running"}
WAYS = (*ENDS, "it is suspended")


def world(keeper: str, state: str, way: str) -> tuple[TrainingJob, Observed]:
    role = "pserver" if keeper == "a ReplicaSet" else "trainer"
    ending = Ending(phase="Failed", reason="X", message="x", time=NOW_TEXT)
    told = JobStatus(phase="Terminating", ending=ending) if way in ENDS else JobStatus(phase="Running")
    job = plain(pservers=1, status=told, **({"suspend": True} if way not in ENDS else {}))
    job = replace(job, clean_pod_policy=ENDS.get(way, "None"))
    made, more = STATES[state]
    pod: PodRecord = made_pod("p", 0, state=made, role=role, owner_uid=UID if keeper == "the job itself" else "")
    seen = observed_of(job, [replace(pod, **more)])  # type: ignore[arg-type]
    if keeper.endswith("success"):
        seen = replace(seen, jobs=tuple(replace(one, succeeded=1) for one in seen.jobs))
    return job, replace(seen, nodes={"node-b": SICK}, seen={NODES: 1})


def want(keeper: str, state: str, way: str) -> list[int | None]:
    """Grace periods of the deletes: None is the pod's own."""
    ended, lost = state.startswith("has "), "lost" in state
    stays = ended and ENDS.get(way) == "Running"
    on_its_way = "forced" in state or ("told" in state and not lost)
    controllers = keeper in ("a ReplicaSet", "a batch Job") and not ended and not lost
    return [] if stays or on_its_way or controllers else [0 if lost else None]


@pytest.mark.parametrize(("keeper", "state", "way"), list(product(KEEPERS, STATES, WAYS)))
def test_the_operator_takes_what_no_controller_takes(keeper: str, state: str, way: str) -> None:
    plan = decide(*world(keeper, state, way))
    assert [w.grace_seconds for w in plan.writes if isinstance(w, Delete) and w.name == "p"] == want(keeper, state, way)
