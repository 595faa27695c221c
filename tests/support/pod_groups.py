"""CRDs of the PodGroups of Volcano and of the scheduler-plugins, with the fields and types of their Go sources
(volcano.sh/apis pkg/apis/scheduling/v1beta1, sigs.k8s.io/scheduler-plugins apis/scheduling/v1alpha1), and closed: an
API server that is asked to refuse unknown fields refuses a PodGroup that has others."""

from __future__ import annotations

from typing import Any

from tests.support.builders import make_job
from tjworker.api.observed import Observed
from tjworker.controllers.jobs import reconcile_rules
from tjworker.reconcile import reconcile
from tjworker.reconcile.plan import Create
from tjworker.settings import Settings

Json = dict[str, Any]
_INT32: Json = {"type": "integer", "format": "int32"}
_TEXT: Json = {"type": "string"}
_QUANTITIES: Json = {
    "type": "object",
    "additionalProperties": {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True},
}
_VOLCANO: Json = {
    "minMember": _INT32,
    "minTaskMember": {"type": "object", "additionalProperties": _INT32},
    "queue": _TEXT,
    "priorityClassName": _TEXT,
    "minResources": _QUANTITIES,
}
_COSCHEDULING: Json = {"minMember": _INT32, "minResources": _QUANTITIES, "scheduleTimeoutSeconds": _INT32}
_STATUS: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _crd(group: str, version: str, spec: Json) -> Json:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}, "status": _STATUS}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"podgroups.{group}",
            # The API server asks for it where a group ends in k8s.io.
            "annotations": {
                "api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/scheduler-plugins/pull/50"
            },
        },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "podgroups", "singular": "podgroup", "kind": "PodGroup", "listKind": "PodGroupList"},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


POD_GROUP_CRDS: dict[str, Json] = {
    "volcano": _crd("scheduling.volcano.sh", "v1beta1", _VOLCANO),
    "scheduler-plugins": _crd("scheduling.x-k8s.io", "v1alpha1", _COSCHEDULING),
}
"""By gang scheduler."""


def full_pod_group(gang: str) -> Json:
    """What the operator makes of a job that asks for everything, for this gang scheduler."""
    policy = {
        "queue": "research",
        "priorityClass": "urgent",
        "minResources": {"cpu": "12", "nvidia.com/gpu": 3},
        "scheduleTimeoutSeconds": 60,
    }
    job = make_job().role("trainer", 3).run_policy(schedulingPolicy=policy).build()
    rules = reconcile_rules(Settings(gang_scheduler=gang))
    (made,) = [w for w in reconcile(job, Observed(), 1767229200.0, rules).writes if isinstance(w, Create)]
    return dict(made.body)
