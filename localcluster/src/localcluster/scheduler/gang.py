"""Which PodGroup a pod belongs to, and how many of its pods must fit at once. Pure.

Known: Volcano (`scheduling.volcano.sh/v1beta1`, annotation `scheduling.k8s.io/group-name`) and the scheduler-plugins'
coscheduling (`scheduling.x-k8s.io/v1alpha1`, label `scheduling.x-k8s.io/pod-group`).
"""

from __future__ import annotations

from localcluster.wire import Json

POD_GROUP_PATHS = ("/apis/scheduling.volcano.sh/v1beta1/podgroups", "/apis/scheduling.x-k8s.io/v1alpha1/podgroups")
POD_GROUP_CRDS = {
    "podgroups.scheduling.volcano.sh": POD_GROUP_PATHS[0],
    "podgroups.scheduling.x-k8s.io": POD_GROUP_PATHS[1],
}
_ANNOTATIONS = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
_LABELS = ("scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io")


def group_of(pod: Json) -> str:
    """namespace/name of the pod's group, empty for none."""
    meta = pod["metadata"]
    annotations, labels = meta.get("annotations") or {}, meta.get("labels") or {}
    names = [annotations[k] for k in _ANNOTATIONS if annotations.get(k)] + [labels[k] for k in _LABELS if labels.get(k)]
    return f"{meta['namespace']}/{names[0]}" if names else ""


def min_member(group: Json) -> int:
    return int((group.get("spec") or {}).get("minMember") or 1)


def too_few(key: str, there: int, minimum: int) -> str:
    return (
        f"pre-filter pod {key} cannot find enough sibling pods, current pods number: {there}, "
        f"minMember of group: {minimum}"
    )


def not_together(name: str, fitting: int, minimum: int) -> str:
    return f"pod group {name} is not ready: {fitting} of minMember {minimum} pods fit at once"
