"""Thirty jobs, at least one in every phase that lasts, and how to read their state. The fake kubelet plays their pods
by annotations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from localcluster.kubelet.play import PREFIX

Json = dict[str, Any]
NAMESPACE = "upgrade"
AI = f"/apis/elasticdeeplearning.ai/v1/namespaces/{NAMESPACE}/aitrainingjobs"
EDL = f"/apis/paddlepaddle.org/v1/namespaces/{NAMESPACE}/trainingjobs"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
NO_NODE = {"no-node-has": "this-label"}
"""Not too many CPUs: the autoscaler would make room for them."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One job of the thirty."""

    path: str
    manifest: Json
    phases: tuple[str, ...]
    """It reaches one of these. A job that crashes again and again moves between several."""
    fails_once: bool = False
    """One of its pods is made to fail before the first change of version."""
    pods: int = 0
    """So many it has in the end; 0: it does not matter."""
    spec: Json = field(default_factory=dict)
    """An edit of its spec, made once it runs."""
    annotations: Json = field(default_factory=dict)
    """Put on it once it runs."""

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])

    @property
    def healthy(self) -> bool:
        """Its pods have no reason to go."""
        return len(self.phases) == 1


def make_aitj(
    name: str, replicas: int = 1, *, plays: Json | None = None, node: Json | None = None, **fields: Any
) -> Json:
    """`plays`: how its pods run, by the names of `localcluster.kubelet.play`. `fields` of the role; `spec` holds fields
    of the job."""
    spec = fields.pop("spec", {})
    container = {"name": "aitj-trainer", "image": "x:1", "resources": {"requests": {"cpu": "10m"}}}
    annotations = {f"{PREFIX}{key}": value for key, value in (plays or {}).items()}
    role = {
        "replicas": replicas,
        **fields,
        "template": {
            "metadata": {"annotations": annotations},
            "spec": {"containers": [container], "nodeSelector": node or {}},
        },
    }
    return {
        "apiVersion": "elasticdeeplearning.ai/v1",
        "kind": "AITrainingJob",
        "metadata": {"name": name},
        "spec": {"cleanPodPolicy": "None", "replicaSpecs": {"trainer": role}, **spec},
    }


def make_edl(name: str, least: int, most: int, **fields: Any) -> Json:
    trainer = {
        "entrypoint": "run",
        "min-instance": least,
        "max-instance": most,
        "resources": {"requests": {"cpu": "10m"}},
    }
    return {
        "apiVersion": "paddlepaddle.org/v1",
        "kind": "TrainingJob",
        "metadata": {"name": name, "annotations": {"paddlepaddle.org/etcd-image": "none"}},
        "spec": {"image": "x:1", "trainer": trainer, **fields},
    }


def replaced(scope: str = "Pod", limit: int = 50) -> Json:
    return {"restartPolicy": "OnFailure", "restartScope": scope, "restartLimit": limit}


def _samples() -> list[Sample]:
    elastic: Json = {"minReplicas": 1, "maxReplicas": 3, "edlPolicy": "Auto"}
    running = ("Running",)
    never: Json = {"restartPolicy": "Never"}
    server = {"entrypoint": "run", "min-instance": 1}
    crashing = {"run-seconds": "1", "exit-code": "1"}
    return [
        *(Sample(AI, make_aitj(f"run{n}", n + 1, **replaced()), running) for n in range(4)),
        *(Sample(AI, make_aitj(f"replaced{n}", 2, **replaced()), running, fails_once=True, pods=2) for n in range(2)),
        *(
            Sample(AI, make_aitj(f"restarted{n}", 2, **replaced("All")), running, fails_once=True, pods=2)
            for n in range(2)
        ),
        *(Sample(AI, make_aitj(f"auto{n}", 1, **elastic), running, pods=3) for n in range(3)),
        *(
            Sample(
                EDL, make_edl(f"elastic{n}", 1, 3, fault_tolerant=True, master={"entrypoint": "run"}), running, pods=5
            )
            for n in range(3)
        ),
        *(Sample(EDL, make_edl(f"plain{n}", 2, 2, pserver=server), running, pods=3) for n in range(2)),
        *(Sample(AI, make_aitj(f"pending{n}", node=NO_NODE), ("Pending",)) for n in range(2)),
        *(Sample(AI, make_aitj(f"creating{n}", plays={"start-seconds": "never"}), ("Creating",)) for n in range(2)),
        Sample(
            AI, make_aitj("crashing0", plays=crashing, **replaced()), ("Running", "Restarting", "Creating", "Pending")
        ),
        *(Sample(AI, make_aitj(f"succeeded{n}", plays={"run-seconds": "1"}), ("Succeed",)) for n in range(2)),
        *(Sample(AI, make_aitj(f"failed{n}", plays=crashing, **never), ("Failed",)) for n in range(2)),
        Sample(AI, make_aitj("late0", spec={"timeLimit": 1}), ("Timeout",)),
        Sample(AI, make_aitj("preempted0"), ("Preempted",), annotations={"Preempted": "for the test"}),
        *(Sample(AI, make_aitj(f"suspended{n}", 2), ("Suspended",), spec={"suspend": True}) for n in range(2)),
        Sample(AI, make_aitj("limited0", spec={"timeLimit": 3600}, **replaced()), running),
    ]


SAMPLES = _samples()
