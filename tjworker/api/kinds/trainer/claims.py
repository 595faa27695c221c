"""`volumeClaimPolicies` of a runtime, as in JobSet (pkg/controllers/volume_claim_policy.go): a PersistentVolumeClaim
`<template>-<job>` for each template, and a volume of the template's name in the pods of every replicated job that
mounts it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tjworker.api.kinds.base import strings
from tjworker.api.kinds.trainer.spec import VolumeClaimPolicy
from tjworker.api.kinds.trainer.steps import Step, json_of_any
from tjworker.api.labels import JOBSET
from tjworker.api.model import FieldError, JobClaim
from tjworker.api.podtemplate import DNS_LABEL
from tjworker.base import Json, mapping

_is_volume_name = re.compile(DNS_LABEL).fullmatch


def claims_of(job: str, policies: Sequence[VolumeClaimPolicy]) -> tuple[JobClaim, ...]:
    """The claims of the job with this name, in the order of the templates."""
    return tuple(
        JobClaim(
            name=_claim_name(_name(template), job),
            labels={**strings(_metadata(template).get("labels")), f"{JOBSET}jobset-name": job},
            annotations=strings(_metadata(template).get("annotations")),
            spec=mapping(template.get("spec")),
            stays=policy.retention_policy is not None and policy.retention_policy.when_deleted == "Retain",
        )
        for policy, template in _templates(policies)
    )


def with_claims(steps: Sequence[Step], job: str, policies: Sequence[VolumeClaimPolicy]) -> tuple[Step, ...]:
    """The steps with a volume for each template that one of their containers mounts. An existing volume of that name
    stays: Kubernetes refuses a pod with two volumes of the same name."""
    names = [_name(template) for _, template in _templates(policies)]
    return tuple(_with_volumes(step, [name for name in names if name in _mounted(step)], job) for step in steps)


def _with_volumes(step: Step, names: Sequence[str], job: str) -> Step:
    listed = mapping(step.template.get("spec")).get("volumes")
    there = list(listed) if isinstance(listed, list) else []
    known = {mapping(volume).get("name") for volume in there}
    added = [
        {"name": name, "persistentVolumeClaim": {"claimName": _claim_name(name, job)}}
        for name in names
        # The runtime's own volume of that name takes precedence.
        if name not in known
    ]
    return step.with_pod(volumes=[*there, *added]) if added else step


def claim_errors(of: str, policies: Sequence[VolumeClaimPolicy]) -> Iterator[FieldError]:
    """Check the templates of claims; the API server checks a claim's spec. `of`: the runtime, for messages."""
    seen: set[str] = set()
    for i, policy in enumerate(policies):
        for j, template in enumerate(policy.templates):
            where = f"{of}: spec.template.spec.volumeClaimPolicies[{i}].templates[{j}].metadata"
            name = _name(json_of_any(template))
            # The API server allows a claim's name of 253 characters; the volume in the pod, of the same name, only a
            # DNS label.
            if len(name) > 63 or not _is_volume_name(name):
                yield FieldError(f"{where}.name", f"{name[:80]!r}: pods mount it, so it must be a lower-case DNS label")
            elif name in seen:
                yield FieldError(f"{where}.name", f"{name}: another template has this name; use each once")
            if _metadata(json_of_any(template)).get("namespace"):
                yield FieldError(f"{where}.namespace", "the claim is in the job's namespace; remove this")
            seen.add(name)


def _templates(policies: Sequence[VolumeClaimPolicy]) -> Iterator[tuple[VolumeClaimPolicy, Json]]:
    for policy in policies:
        for template in policy.templates:
            yield policy, json_of_any(template)


def _metadata(template: Json) -> Json:
    return mapping(template.get("metadata"))


def _name(template: Json) -> str:
    return str(_metadata(template).get("name") or "")


# JobSet's name of the claim. Users find the claim by it, and the next job of this name uses a retained claim.
def _claim_name(template: str, job: str) -> str:
    return f"{template}-{job}"


def _mounted(step: Step) -> frozenset[str]:
    spec = mapping(step.template.get("spec"))
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    mounts = (mount for one in containers for mount in mapping(one).get("volumeMounts") or ())
    return frozenset(str(mapping(mount).get("name")) for mount in mounts)
