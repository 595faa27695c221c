"""Labels of ours on the pods that the operator makes itself: put back where they were taken off."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from tests.support.builders import make_job, make_pod, make_service, observe
from tests.unit.tjworker.reconcile.passes import decide, deleted
from tjworker.api import labels
from tjworker.api.resources import PODS
from tjworker.reconcile.plan import Patch


@dataclass(frozen=True, slots=True)
class Case:
    gone: tuple[str, ...] = ()
    changed: dict[str, str] = field(default_factory=dict)
    state: str = "running"
    want: dict[str, str] = field(default_factory=dict)


CASES: dict[str, Case] = {
    "as it should be": Case(),
    "one taken off": Case(gone=(labels.REPLICA_INDEX,), want={labels.REPLICA_INDEX: "0"}),
    "several": Case(
        gone=(labels.JOB_NAME, labels.REPLICA_NAME, labels.RESTART_ATTEMPT),
        want={labels.JOB_NAME: "digits", labels.REPLICA_NAME: "trainer", labels.RESTART_ATTEMPT: "0"},
    ),
    "of a pod that waits for its node": Case(
        gone=(labels.JOB_NAME,), state="pending", want={labels.JOB_NAME: "digits"}
    ),
    "of a pod that has ended: no controller selects it": Case(gone=(labels.JOB_NAME,), state="succeeded"),
    "of a pod that goes": Case(gone=(labels.JOB_NAME,), state="deleting"),
}


@pytest.mark.parametrize("sentence", CASES)
def test_what_is_put_back(sentence: str) -> None:
    case = CASES[sentence]
    job = make_job().role("trainer", 1).build()
    pod = make_pod(job, "trainer", 0)
    pod = pod if case.state == "pending" else getattr(pod, case.state)()
    marks = {k: v for k, v in pod.record.labels.items() if k not in case.gone} | case.changed
    plan = decide(job, observe(pod.but(labels=marks), make_service(job, "trainer", 0)))
    patches = [w for w in plan.writes if isinstance(w, Patch)]
    if not case.want:
        assert patches == []
        return
    assert deleted(plan) == [], "no pod is restarted for a label"
    (patch,) = patches
    assert (patch.resource, patch.name) == (PODS, "digits-trainer-0")
    assert patch.body == {
        "metadata": {"uid": pod.record.uid, "resourceVersion": str(pod.record.rv), "labels": case.want}
    }
