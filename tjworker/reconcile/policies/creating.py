"""Pods whose containers cannot be created: made again for a while, then, if so set, the end of the job. Pure.

A pod that has been creating for `creating_duration` is replaced (an image may be there on another node), for
`creating_restart_period` in all; after that it is left waiting, or with `enable_creating_failed` the job fails with the
container's reason. Replacements of this kind use up no limit: the application has not failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tjworker.api.indices import MAX_INDEX, format_indices, parse_indices
from tjworker.api.observed import ContainerRecord, PodRecord
from tjworker.api.status import Ending, JobStatus
from tjworker.api.timefmt import from_rfc3339, to_rfc3339
from tjworker.reconcile.attempts import Draft
from tjworker.reconcile.replicas import Replica, RoleView
from tjworker.settings import Settings

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
"""Waiting reasons of kubelet (seed 002; k8s.io/kubernetes/pkg/kubelet/images, .../kuberuntime)."""


@dataclass(frozen=True, slots=True)
class Creating:
    status: JobStatus
    end: Ending | None = None
    next_seconds: float | None = None
    decisions: tuple[str, ...] = ()


def decide_creating(status: JobStatus, views: Mapping[str, RoleView], now: float, settings: Settings) -> Creating:
    """Look at pods that cannot start. `status.creating_since` remembers since when a replica has been tried, over the pods
    that were made for it."""
    decisions: list[str] = []
    waits: list[float] = []
    tried_since = _read(status)
    since: dict[tuple[str, int], str] = {}
    end: Ending | None = None
    draft = Draft(status)
    for replica in (r for v in views.values() for r in v.replicas):
        stuck = stuck_container(replica.pod) if replica.pod is not None and replica.state == "scheduled" else None
        place = replica.role, replica.index
        if place in tried_since and replica.state not in ("running", "succeeded", "failed"):
            since[place] = tried_since[place]
        if stuck is None or replica.pod is None:
            continue
        left = settings.creating_duration_seconds - (now - (from_rfc3339(replica.pod.created_at) or now))
        if left > 0:
            waits.append(left)
            continue
        first = since.get(place) or replica.pod.created_at
        tried = now - (from_rfc3339(first) or now)
        if tried < settings.creating_restart_seconds:
            since[place] = first
            draft.raise_pod(replica)
            decisions.append(
                f"replace {replica.name}: {_words(replica, stuck)} for {settings.creating_duration_seconds:.0f} s"
            )
        elif settings.enable_creating_failed and end is None:
            message = f"{_words(replica, stuck)}, tried since {first}"
            end = Ending(phase="Failed", reason=stuck.reason, message=message[:1024], time=to_rfc3339(now))
    if decisions:
        status = draft.status()
    if since != tried_since:
        status = status.model_copy(update={"creating_since": _written(since)})
    return Creating(status, end, min(waits, default=None), tuple(decisions))


def _read(status: JobStatus) -> dict[tuple[str, int], str]:
    return {
        (role, index): time
        for role, times in status.creating_since.items()
        for time, text in times.items()
        for index in parse_indices(text, MAX_INDEX)
    }


def _written(since: Mapping[tuple[str, int], str]) -> dict[str, dict[str, str]]:
    """By role and time, the indices as ranges: 10,000 pods that wait for one image must not fill the status."""
    groups: dict[str, dict[str, set[int]]] = {}
    for (role, index), time in sorted(since.items()):
        groups.setdefault(role, {}).setdefault(time, set()).add(index)
    return {role: {time: format_indices(who) for time, who in sorted(times.items())} for role, times in groups.items()}


def stuck_container(pod: PodRecord) -> ContainerRecord | None:
    return next((c for c in pod.containers if c.state == "waiting" and c.reason in CREATING_FAILURES), None)


def _words(replica: Replica, container: ContainerRecord) -> str:
    node = replica.pod.node if replica.pod is not None else ""
    what = f"{container.reason} {container.message}".rstrip()
    return f"pod {replica.name} on node {node} cannot start container {container.name}: {what}"
