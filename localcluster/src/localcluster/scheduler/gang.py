"""Which PodGroup a pod belongs to, how many of its pods must fit at once, and what is said to the others. Pure.

Known: Kubernetes' own (`scheduling.k8s.io/v1alpha2`, the pod's `schedulingGroup`), which every local cluster serves;
where their CRD is installed Volcano's (`scheduling.volcano.sh/v1beta1`, annotation `scheduling.k8s.io/group-name`) and
the scheduler-plugins' coscheduling (`scheduling.x-k8s.io/v1alpha1`, label `scheduling.x-k8s.io/pod-group`).
"""

from __future__ import annotations

from localcluster.wire import Json

OWN = "/apis/scheduling.k8s.io/v1alpha2/podgroups"
_VOLCANO = "/apis/scheduling.volcano.sh/v1beta1/podgroups"
_COSCHEDULING = "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"
POD_GROUP_CRDS = {"podgroups.scheduling.volcano.sh": _VOLCANO, "podgroups.scheduling.x-k8s.io": _COSCHEDULING}
_ANNOTATIONS = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
_LABELS = ("scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io")
ENOUGH_THERE = "waiting for minCount pods from a gang to be scheduled"
"""To a pod of Kubernetes' own that has found room, and whose gang has not."""


def group_of(pod: Json) -> str:
    """The path of the list of such groups, a blank, and namespace/name of the pod's; empty for none."""
    meta = pod["metadata"]
    annotations, labels = meta.get("annotations") or {}, meta.get("labels") or {}
    own = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName")
    names = [(OWN, own)] if own else []
    names += [(_VOLCANO, annotations[k]) for k in _ANNOTATIONS if annotations.get(k)]
    names += [(_COSCHEDULING, labels[k]) for k in _LABELS if labels.get(k)]
    return f"{names[0][0]} {meta['namespace']}/{names[0][1]}" if names else ""


def split_group(group: str) -> tuple[str, str]:
    """(path of the list, namespace/name)."""
    path, _, key = group.partition(" ")
    return path, key


def is_own(group: str) -> bool:
    return group.startswith(OWN)


def min_member(group: Json) -> int:
    """1 where pods are scheduled each by itself."""
    spec = group.get("spec") or {}
    if "schedulingPolicy" in spec:
        return int((spec["schedulingPolicy"].get("gang") or {}).get("minCount") or 1)
    return int(spec.get("minMember") or 1)


def too_few(key: str, there: int, minimum: int) -> str:
    return (
        f"pre-filter pod {key} cannot find enough sibling pods, current pods number: {there}, "
        f"minMember of group: {minimum}"
    )


def not_together(name: str, fitting: int, minimum: int) -> str:
    return f"pod group {name} is not ready: {fitting} of minMember {minimum} pods fit at once"
