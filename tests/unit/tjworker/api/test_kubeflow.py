"""Kubeflow's kinds, from the manifest to the internal job: what training-operator 1.9 defaults and validates
(`pkg/apis/kubeflow.org/v1/*_defaults.go`, `pkg/webhooks`), and what is refused.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.tjworker.api.guest_cases import Case, Refusal, manifest, refusal_of, role
from tjworker.api.kinds import GUEST_KINDS
from tjworker.api.model import InvalidJob
from tjworker.base import GroupResource

XGB, JAX = GroupResource("xgboostjobs.kubeflow.org"), GroupResource("jaxjobs.kubeflow.org")
PYTORCH, TF = GroupResource("pytorchjobs.kubeflow.org"), GroupResource("tfjobs.kubeflow.org")


CASES: dict[str, Case] = {
    "defaults of a PyTorchJob": Case(
        PYTORCH,
        {"Master": role(None), "Worker": role(None)},
        want={
            "framework": "pytorch",
            "clean_pod_policy": "None",
            "Worker.replicas": 1,
            "Worker.restart_policy": "Always",
            "Worker.restart_scope": "Pod",
            "Master.complete_policy": "All",
            "Worker.complete_policy": "None",
            "Worker.elastic": False,
            "scale_role": "Worker",
        },
    ),
    "defaults of a TFJob": Case(
        TF,
        {"Worker": role(2), "PS": role(1)},
        want={
            "framework": "tensorflow",
            "Worker.restart_policy": "Never",
            "Worker.complete_policy": "Rank0",
            "PS.complete_policy": "None",
        },
    ),
    "empty strings, as Go clients write them": Case(
        TF,
        {"Worker": role(1, restartPolicy="")},
        {"successPolicy": "", "runPolicy": {"cleanPodPolicy": ""}},
        {"clean_pod_policy": "None", "Worker.restart_policy": "Never"},
    ),
    "a chief decides alone": Case(
        TF,
        {"chief": role(1), "worker": role(1)},
        want={"Chief.complete_policy": "All", "Worker.complete_policy": "None"},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_what_a_manifest_becomes(case: Case) -> None:
    assert case.found() == case.want


REFUSED: dict[str, Refusal] = {
    "two masters": (
        PYTORCH,
        manifest(PYTORCH, {"Master": role(2)}),
        "spec.pytorchReplicaSpecs.Master.replicas: 2: must",
    ),
    "a role of another kind": (PYTORCH, manifest(PYTORCH, {"PS": role(1)}), "is no role of a PyTorchJob: use Master"),
    "one role twice": (TF, manifest(TF, {"PS": role(1), "ps": role(1)}), "differ in the case of their letters"),
    "no role": (TF, manifest(TF, {}), "spec.tfReplicaSpecs"),
    "a name that no service can have": (TF, manifest(TF, {"PS": role(1)}, name="9"), "metadata.name: '9'"),
    "a name that is too long": (TF, manifest(TF, {"PS": role(1)}, name="a" * 60), "the longest pod name"),
    "elastic without workers": (
        PYTORCH,
        manifest(PYTORCH, {"Master": role(1)}, elasticPolicy={"minReplicas": 1}),
        "spec.pytorchReplicaSpecs.Worker: must be there",
    ),
    "an XGBoostJob without a master": (
        XGB,
        manifest(XGB, {"Worker": role(1)}),
        "Master: required value: an XGBoostJob",
    ),
    "a JAXJob with a master": (JAX, manifest(JAX, {"Master": role(1)}), "is no role of a JAXJob: use Worker"),
    "an unknown policy": (TF, manifest(TF, {"PS": role(1, restartPolicy="Sometimes")}), "restartPolicy"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    kind, raw, want = REFUSED[name]
    assert want in refusal_of(kind, raw), name


@pytest.mark.parametrize("odd", [None, 7, "x", [], {"spec": None}, {"spec": {"tfReplicaSpecs": {"PS": None}}}])
@pytest.mark.parametrize("kind", GUEST_KINDS, ids=lambda kind: kind.resource)
def test_parse_never_raises(kind: Any, odd: Any) -> None:
    assert isinstance(kind.parse(odd), InvalidJob)
    assert isinstance(kind.parse({"status": odd, **(odd if isinstance(odd, dict) else {})}), InvalidJob)
    assert isinstance(kind.parse({"status": {"conditions": [odd], "operator": odd}}), InvalidJob)
