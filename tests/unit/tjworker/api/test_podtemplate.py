"""In the template of a pod null is as if it were left out."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.guests import GUESTS, guest_job
from tests.support.kinds import AITRAININGJOBS
from tests.unit.tjworker.reconcile.passes import decide
from tjworker.api.kinds import KNOWN_KINDS, parse
from tjworker.api.model import TrainingJob
from tjworker.base import GroupResource

ANNOTATIONS = {
    "kubedl.io/git-sync-config": '{"source": "https://example.com/digits.git"}',
    "kubedl.io/tensorboard-config": '{"logDir": "/logs"}',
}
MAIN = "containers[0]."
POD: dict[str, tuple[dict[str, Any], str]] = {
    "volumes that are no list": ({"volumes": 5}, "volumes: 5"),
    "a volume that is a text": ({"volumes": ["x"]}, "volumes[0]: 'x'"),
    "a volume without a name": ({"volumes": [{"emptyDir": {}}]}, "volumes[0].name: required value"),
    "a volume whose name is an object": ({"volumes": [{"name": {}}]}, "volumes[0].name: an object"),
    "a securityContext that is a text": ({"securityContext": "x"}, "securityContext: 'x'"),
    "a dnsConfig that is a list": ({"dnsConfig": []}, "dnsConfig: a list"),
    "searches that are no list": ({"dnsConfig": {"searches": 5}}, "dnsConfig.searches: 5"),
    "a search that is a number": ({"dnsConfig": {"searches": [5]}}, "dnsConfig.searches[0]: 5"),
}
CONTAINER: dict[str, tuple[dict[str, Any], str]] = {
    "mounts that are no list": ({"volumeMounts": 5}, f"{MAIN}volumeMounts: 5"),
    "a mount that is a text": ({"volumeMounts": ["x"]}, f"{MAIN}volumeMounts[0]: 'x'"),
    "a mount without a name": ({"volumeMounts": [{"mountPath": "/e"}]}, f"{MAIN}volumeMounts[0].name: required value"),
    "a command that is a number": ({"command": 5}, f"{MAIN}command: 5"),
    "a command of numbers": ({"command": [5]}, f"{MAIN}command[0]: 5"),
    "args that are a text": ({"args": "train"}, f"{MAIN}args: 'train'"),
    "a container's securityContext that is a text": ({"securityContext": "x"}, f"{MAIN}securityContext: 'x'"),
}
SENTENCES = {**POD, **CONTAINER}
EVERY_KIND = (AITRAININGJOBS, *sorted(GUESTS))


def made(resource: GroupResource, sentence: str, version: str = "") -> tuple[Any, str]:
    """The job whose first role has this, and the path of that role's pods."""
    if resource == AITRAININGJOBS:
        template = {"spec": {"containers": [{"name": "main", "image": "i"}]}}
        field, api = "replicaSpecs", "elasticdeeplearning.ai/v1"
        raw: Any = {"apiVersion": api, "spec": {"replicaSpecs": {"trainer": {"replicas": 1, "template": template}}}}
    else:
        raw, field = guest_job(resource), KNOWN_KINDS[resource].roles_field
    raw["metadata"] = {"name": "digits", "namespace": "default", "uid": "u", "annotations": ANNOTATIONS}
    role, spec = next(iter(raw["spec"][field].items()))
    more, _ = SENTENCES.get(sentence, ({}, ""))
    pod = spec["template"]["spec"]
    (pod["containers"][0] if sentence in CONTAINER else pod).update(more)
    if version:
        raw["spec"]["manifestVersion"] = version
    return raw, f"spec.{field}.{role}.template.spec"


@pytest.mark.parametrize("resource", EVERY_KIND)
def test_null_is_as_if_it_were_left_out(resource: GroupResource) -> None:
    raw, _ = made(resource, "")
    kind = KNOWN_KINDS[resource]
    for role in raw["spec"][kind.roles_field].values():
        pod = role["template"]["spec"]
        pod |= dict.fromkeys(("volumes", "dnsConfig", "securityContext"))
        pod["containers"][0] |= dict.fromkeys(("command", "args", "volumeMounts", "securityContext"))
    job = parse(resource, raw)
    assert isinstance(job, TrainingJob), job.errors
    assert decide(job).writes
