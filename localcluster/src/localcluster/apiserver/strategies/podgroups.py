"""PodGroups of Kubernetes' own scheduler (`scheduling.k8s.io/v1alpha2`, from 1.36 on), as the feature gates
GenericWorkload and GangScheduling alone make them: no topology, no priority of a group. Pure."""

from __future__ import annotations

from localcluster.apiserver.errors import Causes
from localcluster.wire import Json

PROTECTION = "scheduling.k8s.io/podgroup-protection"
"""Keeps a group that is deleted until none of its pods lives."""
_DROPPED = ("priority", "priorityClassName", "schedulingConstraints", "resourceClaims")
"""Fields that other feature gates enable; the API server drops them."""
_POLICIES = ("basic", "gang")


def default(group: Json) -> None:
    group.setdefault("spec", {}).setdefault("disruptionMode", "Pod")


def prepare_create(group: Json) -> None:
    group["status"] = {}
    for name in _DROPPED:
        group["spec"].pop(name, None)
    finalizers = group["metadata"].setdefault("finalizers", [])
    if PROTECTION not in finalizers:
        finalizers.append(PROTECTION)


def validate(group: Json, causes: Causes) -> None:
    policy = group["spec"].get("schedulingPolicy") or {}
    chosen = [name for name in _POLICIES if policy.get(name) is not None]
    if not chosen:
        causes.invalid("spec.schedulingPolicy", "", "must specify one of: `basic`, `gang`")
    elif len(chosen) > 1:
        both = f"{{{', '.join(chosen)}}}"
        causes.invalid("spec.schedulingPolicy", both, "must specify exactly one of: `basic`, `gang`")
    if "gang" in chosen:
        path, least = "spec.schedulingPolicy.gang.minCount", policy["gang"].get("minCount")
        if not least:
            causes.required(path)
        elif least < 1:
            causes.invalid(path, least, "must be greater than or equal to 1")


def validate_update(new: Json, old: Json, causes: Causes) -> None:
    for name in ("podGroupTemplateRef", "schedulingPolicy"):
        if new["spec"].get(name) != old["spec"].get(name):
            causes.invalid(f"spec.{name}", None, "field is immutable")
