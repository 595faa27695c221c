"""Pods whose containers cannot be created: replaced for a while; then they wait, or fail the job. Pure.

A pod that is still creating `creating_duration_seconds` after it got its node is replaced: another node may have the
image. After `creating_restart_seconds` of such replacements the pod waits. With `enable_creating_failed` the job fails
instead, with the container's reason. These replacements count for no limit: the application has not failed.
"""

from __future__ import annotations

from collections.abc import Mapping

from tjworker.api.indices import MAX_INDEX, format_indices, parse_indices
from tjworker.api.observed import ContainerRecord, PodRecord
from tjworker.api.status import JobStatus
from tjworker.api.timefmt import to_rfc3339, unix_seconds
from tjworker.reconcile.attempts import Draft
from tjworker.reconcile.one_pass import Pass

CREATING_FAILURES = frozenset(
    {
        "CreateContainerConfigError",
        "CreateContainerError",
        "ImagePullBackOff",
        "ImageInspectError",
        "ErrImagePull",
        "ErrImageNeverPull",
        "RegistryUnavailable",
        "InvalidImageName",
    }
)
"""Waiting reasons of the kubelet (k8s.io/kubernetes/pkg/kubelet/images, .../kuberuntime)."""
Place = tuple[str, int]
"""(role, index)"""


def replace_stuck_creating(p: Pass) -> Pass:
    """Replace pods that are creating for too long. `status.creating_since` holds when a replica's first one began."""
    before, rules = _read(p.status), p.rules
    since: dict[Place, int] = {}
    draft, decisions = Draft(p.status), []
    for replica in (r for view in p.roles.values() for r in view.replicas):
        pod = replica.pod
        if pod is None and not before:
            # Quick exit for most replicas of a big job that begins.
            continue
        place = (replica.role, replica.index)
        if place in before and replica.state not in ("running", "succeeded", "failed"):
            since[place] = before[place]
        stuck = stuck_container(pod) if pod is not None and replica.state == "scheduled" else None
        if stuck is None or pod is None:
            continue
        # Waiting for a node does not count.
        began = int(p.now) if pod.placed_at is None else pod.placed_at
        tried_seconds = p.now - began
        seconds_left = rules.creating_duration_seconds - tried_seconds
        first = since.get(place, began)
        if seconds_left > 0:
            p = p.wake_within(seconds_left)
        elif p.now - first < rules.creating_restart_seconds:
            since[place] = first
            draft.raise_pod(replica)
            decisions.append(f"replace {pod.name}: {_describe_cause(pod, stuck)} for {tried_seconds:.0f} s")
        elif rules.enable_creating_failed:
            message = f"{_describe_cause(pod, stuck)}, tried since {to_rfc3339(first)}"
            p = p.end_unless_failed(stuck.reason, message)
    status = draft.status()
    if since != before:
        status = status.model_copy(update={"creating_since": _written(since)})
    return p.with_new_attempts(status).log_decisions(*decisions).log_restarts(decisions)


def _read(status: JobStatus) -> dict[Place, int]:
    return {
        (role, index): since
        for role, times in status.creating_since.items()
        for time, text in times.items()
        if (since := unix_seconds(time)) is not None
        for index in parse_indices(text, MAX_INDEX)
    }


def _written(since: Mapping[Place, int]) -> dict[str, dict[str, str]]:
    """Role -> time -> indices as ranges."""
    # As ranges, so that 10,000 pods that wait for one image do not fill the status.
    groups: dict[str, dict[int, set[int]]] = {}
    for (role, index), time in sorted(since.items()):
        groups.setdefault(role, {}).setdefault(time, set()).add(index)
    return {
        role: {to_rfc3339(time): format_indices(indices) for time, indices in sorted(times.items())}
        for role, times in groups.items()
    }


def stuck_container(pod: PodRecord) -> ContainerRecord | None:
    """The first container that cannot be created; None if there is none."""
    return next((c for c in pod.containers if c.state == "waiting" and c.reason in CREATING_FAILURES), None)


def _describe_cause(pod: PodRecord, container: ContainerRecord) -> str:
    what = f"{container.reason} {container.message}".rstrip()
    return f"pod {pod.name} on node {pod.node} cannot start container {container.name}: {what}"
