"""`make(resource, seed)`: one hostile object, the same for the same seed. PURE.

A third of them have every field with an ordinary or a hostile value, a third have next to none, and in a third each
field is absent, null, ordinary or hostile by chance. Some belong to a job: to the healthy one's neighbour, never to the
healthy one.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from tests.hostile.schema import GUEST_TREES, TREES, Tree
from tests.hostile.values import many_labels, nested, value
from tjworker.api import labels
from tjworker.api.kinds import KINDS, KNOWN_KINDS
from tjworker.api.resources import BATCH_JOBS, NODES, PODS, REPLICASETS, SERVICES
from tjworker.base import GroupResource
from tjworker.kube.resources import RESOURCES

Json = dict[str, Any]
NAMESPACE = "default"
VICTIM = "victim"
"""The job to which some of them belong."""
VICTIM_UID = "00000000-0000-0000-0000-00000000beef"
HUGE = ("labels", "bytes")
MOST_LABELS = 10_000
OBJECT_BYTES = 1_400 * 1024
"""etcd takes 1.5 MiB, with what the API server adds."""
ANNOTATIONS_BYTES = 250_000
"""All of one object: 256 KiB at most."""
_ABSENT = object()


def make(resource: GroupResource, seed: int, *, namespace: str = NAMESPACE, owner_uid: str = VICTIM_UID) -> Json:
    rng = random.Random(f"{resource} {seed}")
    row = RESOURCES[resource]
    filled = _object({**TREES, **GUEST_TREES}[resource], rng, rng.choice(("full", "sparse", "mixed", "mixed")))
    meta: Json = {**(filled.get("metadata") or {}), "name": f"hostile-{row.kind.lower()}-{seed}"}
    if row.namespaced:
        meta["namespace"] = namespace
    if resource in (PODS, SERVICES, REPLICASETS, BATCH_JOBS) and rng.random() < 0.5:
        meta |= _owned(meta, owner_uid, rng)
    if rng.random() < 0.02:
        meta["annotations"] = {"big": "x" * 250_000}
    if rng.random() < 0.02:
        meta["labels"] = {**(meta.get("labels") or {}), **many_labels(rng, 1_000)}
    obj = {**filled, "apiVersion": row.api_version, "kind": row.kind, "metadata": meta}
    _complete(resource, obj, rng)
    return obj


def huge(resource: GroupResource, how: str, *, namespace: str = NAMESPACE, owner_uid: str = VICTIM_UID) -> Json:
    """One of the biggest that there can be, in one of the ways of `HUGE`."""
    made = make(resource, 0, namespace=namespace, owner_uid=owner_uid)
    meta = made["metadata"] | {"name": f"hostile-{RESOURCES[resource].kind.lower()}-{how}"}
    if how == "labels":
        meta["labels"] = {f"l{n:05}": "v" * 40 for n in range(MOST_LABELS)}
    else:
        meta["annotations"] = {"big": "x" * ANNOTATIONS_BYTES}
        meta["labels"] = {"a": "b"}
        # An API server keeps the name of each label a second time, in managedFields, but no text of a command.
        rest = OBJECT_BYTES - ANNOTATIONS_BYTES
        if containers := _commands(made):
            containers[0]["args"] = ["x" * rest]
        else:
            meta["labels"] |= {f"l{n:05}": "v" * 63 for n in range(rest // 75)}
    return {**made, "metadata": meta}


def _commands(value: Any) -> list[Json]:
    """The first that there are in it."""
    if isinstance(value, dict):
        if isinstance(found := value.get("containers"), list) and found:
            return found
        return next((found for inner in value.values() if (found := _commands(inner))), [])
    return []


def _object(tree: Tree, rng: random.Random, how: str) -> Json:
    found: Json = {}
    for name, inner in tree.items():
        if name == "*":
            return {f"k{n}": _value(inner, rng, how) for n in range(rng.choice((1, 1, 3)))}
        field, needed = name.removesuffix("!"), name.endswith("!")
        filled = _value(inner, rng, how) if needed else _optional(inner, rng, how)
        if filled is not _ABSENT:
            found[field] = filled
    return found


def _optional(inner: Any, rng: random.Random, how: str) -> Any:
    roll = rng.random()
    if how == "sparse":
        return _value(inner, rng, how) if roll < 0.1 else _ABSENT
    if how == "full":
        return _value(inner, rng, how)
    return _ABSENT if roll < 0.3 else None if roll < 0.4 else _value(inner, rng, how)


def _value(inner: Any, rng: random.Random, how: str) -> Any:
    if isinstance(inner, Mapping):
        return _object(inner, rng, how)
    if isinstance(inner, list):
        items = [_value(inner[0], rng, how) for _ in range(rng.choice((1, 1, 2)))]
        for n, item in enumerate(items):  # names within a list differ
            if isinstance(item, dict) and isinstance(item.get("name"), str):
                item["name"] = item["name"][:40] + (f"-{n}" if n else "")
        return items
    return value(inner, rng, hostile=rng.random() < 0.6)


def _owned(meta: Json, owner_uid: str, rng: random.Random) -> Json:
    kind = next(iter(KINDS.values()))
    reference = {
        "apiVersion": kind.api_versions[0],
        "kind": kind.kind,
        "name": VICTIM,
        "uid": owner_uid,
        "controller": True,
    }
    told = {
        labels.GROUP_NAME: kind.group,
        labels.JOB_NAME: VICTIM,
        labels.JOB_UID: owner_uid,
        labels.REPLICA_NAME: rng.choice(("trainer", "nobody")),
        labels.REPLICA_INDEX: rng.choice(("0", "1", "99999999", "x")),
        labels.RESTART_ATTEMPT: rng.choice(("0", "1", "99999999999999999999", "x")),
    }
    return {"ownerReferences": [reference], "labels": {**(meta.get("labels") or {}), **told}}


def _complete(resource: GroupResource, obj: Json, rng: random.Random) -> None:
    """What the API server asks for beyond single fields."""
    spec = obj["spec"] = obj.get("spec") or {}
    template = {"spec": {"containers": [{"name": "a", "image": "x"}], "restartPolicy": "Never"}}
    if resource == PODS:
        spec.setdefault("containers", template["spec"]["containers"])
    elif resource == SERVICES:
        spec["clusterIP"] = "None"
    elif resource == REPLICASETS:
        spec["replicas"] = rng.choice((0, 0, 1))  # its controller works on both clusters
        spec["selector"] = {"matchLabels": {"of": obj["metadata"]["name"]}}
        restarts = {**template["spec"], "restartPolicy": "Always"}
        spec["template"] = {"metadata": {"labels": {"of": obj["metadata"]["name"]}}, "spec": restarts}
    elif resource == BATCH_JOBS:
        spec |= {"template": template, "suspend": True}
    elif resource == NODES:
        spec["unschedulable"] = True  # else the healthy job's pods would be sent there
    else:
        for role in (spec.get(KNOWN_KINDS[resource].roles_field) or {}).values():
            _containers(role["template"]["spec"])
            if rng.random() < 0.05:
                role["template"]["spec"]["zzz"] = nested(2_000)
    if resource == PODS:
        _containers(spec)


def _containers(spec: Json) -> None:
    """Names differ, and what is requested is no more than the limit."""
    for kind in ("containers", "initContainers"):
        for n, container in enumerate(spec.get(kind) or ()):
            container["name"] = f"{kind[:4]}-{n}".lower()
            resources = container.get("resources") or {}
            if resources.get("limits") and resources.get("requests"):
                del resources["requests"]
            elif resources.get("requests"):
                resources["requests"].pop("example.com/gpu", None)
