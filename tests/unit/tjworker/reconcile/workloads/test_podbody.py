"""Labels of ours on the pods that the operator makes itself: put back where they were taken off."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support.builders import make_job, make_pod, make_service, observe
from tests.unit.tjworker.reconcile.passes import decide, deleted
from tjworker.api import labels
from tjworker.api.resources import PODS
from tjworker.reconcile.plan import Patch
from tjworker.reconcile.workloads.environment import role_environment
from tjworker.reconcile.workloads.podbody import pod_body


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


def test_each_container_reads_its_own_ports() -> None:
    def port(number: int) -> dict[str, Any]:
        return {"name": f"aitj-{number}", "containerPort": number}

    containers = [
        {"name": "aitj-a", "image": "a", "ports": [port(7000), {"name": "metrics", "containerPort": 9000}]},
        {"name": "aitj-b", "image": "b", "ports": [port(7001), port(7002)]},
        {"name": "c", "image": "c"},
    ]
    spec = {"containers": containers, "initContainers": [{"name": "fetch", "image": "d"}]}
    job = make_job().role("Worker", template={"spec": spec}).build()
    made = pod_body(job, job.roles[0], 0, 0, role_environment(job))
    every = [*made["spec"]["containers"], *made["spec"]["initContainers"]]
    read = {c["name"]: {e["name"]: e["value"] for e in c["env"]} for c in every}
    assert {name: env["TRAININGJOB_PORTS"] for name, env in read.items()} == {
        "aitj-a": "7000",
        "aitj-b": "7001,7002",
        "c": "",
        "fetch": "",
    }
    assert read["c"]["WORKER_PORTS"] == "7000,7001,7002"
