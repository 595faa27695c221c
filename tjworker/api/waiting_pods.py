"""Pods that wait for a node, grouped by equal requests, priority and constraints. Pure.

The watcher stores the groups with the sums of the nodes (`api.node_requests`). The autoscaler asks for each whether it
could ever get a node. A worker that knows only sums takes a group for a node that does not exist, and ignores it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import orjson

from tjworker.api import labels
from tjworker.api.labels import of_object
from tjworker.api.node_requests import VALUES, WAITING, NodeRequests, amounts
from tjworker.api.placement import constraints_of
from tjworker.api.quantity import saturated
from tjworker.base import Json, Terminal

NOWHERE: Mapping[str, Any] = {"terms": []}
"""No node fits."""
MAX_CONSTRAINTS_BYTES = 4096
"""The constraints of a pod with more than this are not projected."""
_MORE = ""
"""The name under which an entry keeps what a sum of requests lacks; no resource has this name."""


@dataclass(frozen=True, slots=True)
class WaitingPods:
    requests: NodeRequests
    """The requests of one pod."""
    pods: int
    example: str
    """`namespace/name` of one of the pods."""
    priority: int = 0
    job_uid: str = ""
    """UID of the job to which the pods belong; '' if they belong to no job."""
    role: str = ""
    constraints: Mapping[str, Any] = field(default_factory=dict)
    """See `api.placement`."""


def waiting_pod(name: str, pod: Json, requests: NodeRequests) -> WaitingPods:
    """The entry of one pod; `name`: `namespace/name`."""
    spec = pod.get("spec") or {}
    ours = of_object(pod["metadata"])
    uid = ours.get(labels.JOB_UID, "")
    constraints = constraints_of(spec)
    # Redis is no place for affinities of any size; no room is kept for a pod of which this much is unknown.
    if len(orjson.dumps(constraints)) > MAX_CONSTRAINTS_BYTES:
        constraints = dict(NOWHERE)
    return WaitingPods(
        requests,
        1,
        name,
        saturated(spec.get("priority") or 0),
        uid,
        # Other programs use the key `replica-name`, too: without the UID it names no role.
        ours.get(labels.REPLICA_NAME, "") if uid else "",
        constraints,
    )


def waiting_name(pods: WaitingPods) -> str:
    """Their name in the projection, the same for equal pods. No node can have this name."""
    namespace = pods.example.partition("/")[0]
    alike = (namespace, pods.job_uid, pods.role, pods.priority, pods.constraints, amounts(pods.requests))
    return f"{WAITING}{blake2b(orjson.dumps(alike, option=orjson.OPT_SORT_KEYS), digest_size=9).hexdigest()}"


def is_waiting_name(name: str) -> bool:
    return name.startswith(WAITING) and name != WAITING


def encode_waiting_pods(pods: WaitingPods) -> bytes:
    *sums, extended = amounts(pods.requests)
    more = [pods.pods, pods.example, pods.priority, pods.job_uid, pods.role, pods.constraints]
    return orjson.dumps([*sums, {**extended, _MORE: more}])


def decode_waiting_pods(data: bytes) -> WaitingPods:
    """Raises Terminal for anything that `encode_waiting_pods` did not make. A later version may append values, which
    are passed over."""
    try:
        *sums, extended = orjson.loads(data)[:VALUES]
        pods, example, priority, uid, role, constraints = extended.pop(_MORE)[:6]
        cpu, memory, cpu_limit, memory_limit, one = (int(n) for n in sums)
        requests = NodeRequests(cpu, memory, cpu_limit, memory_limit, one, tuple(sorted(extended.items())))
        return WaitingPods(requests, int(pods), str(example), int(priority), str(uid), str(role), dict(constraints))
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise Terminal(f"the projection of waiting pods cannot be read: {error} in {data[:80]!r}") from error
