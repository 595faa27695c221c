"""The contract as tables: those of docs/lifecycle.md, in its words, and the times that it promises."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from tjworker.api.model import EndPolicy, JobEndPolicy, RestartPolicy

Cause = Literal["application", "node", "preemption", "user"]
Loss = Literal["retryable", "permanent", "evicted", "preempted", "node lost", "gpu fault", "deleted"]
"""A column of the table of restarts, and: a user has deleted the pod."""

RESTARTS: Mapping[RestartPolicy, frozenset[Loss]] = {
    "Never": frozenset({"deleted"}),
    "Always": frozenset({"retryable", "permanent", "evicted", "preempted", "node lost", "gpu fault", "deleted"}),
    "OnFailure": frozenset({"retryable", "permanent", "evicted", "preempted", "deleted"}),
    "OnNodeFail": frozenset({"evicted", "preempted", "node lost", "gpu fault", "deleted"}),
    "ExitCode": frozenset({"retryable", "evicted", "preempted", "deleted"}),
    "OnNodeFailWithExitCode": frozenset({"retryable", "evicted", "preempted", "node lost", "gpu fault", "deleted"}),
}
"""What a restart policy replaces."""
COUNTED_AS: Mapping[Loss, Cause] = {
    "retryable": "application",
    "permanent": "application",
    "evicted": "node",
    "preempted": "preemption",
    "node lost": "node",
    "gpu fault": "node",
    "deleted": "user",
}
FAILURES: frozenset[Loss] = frozenset({"retryable", "permanent", "evicted", "preempted", "node lost"})
"""A pod that is lost so and not replaced has failed. One with a GPU fault runs on; one that is deleted has not
failed."""

WAYS: Mapping[str, str] = {
    "Completed": "Succeed",
    "ReplicaFailed": "Failed",
    "RestartLimitReached": "Failed",
    "BackoffLimitExceeded": "Failed",
    "NodeLost": "NodeFail",
    "TimeLimitExceeded": "Timeout",
    "DeadlineExceeded": "Failed",
    "AnnotationPreempted": "Preempted",
    "AnnotationFailed": "Failed",
    "AnnotationNodeFail": "NodeFail",
}
"""Ways to an end: reason -> phase."""
ANNOTATIONS: Mapping[str, str] = {
    "AnnotationPreempted": "Preempted",
    "AnnotationFailed": "Failed",
    "AnnotationNodeFail": "NodeFail",
}
ENDS = frozenset({"Succeed", "Failed", "Timeout", "Preempted", "NodeFail"})

NODE_GRACE_SECONDS = 30.0
CREATING_SECONDS = 900.0
GRACE_SECONDS = 30.0
"""A pod's own, from the request to delete it to its end."""
FREE_RESTARTS = 2
FIRST_REST_SECONDS = 10.0
MOST_REST_SECONDS = 300.0
RUN_TO_FORGET_SECONDS = 600.0
"""A program that fails again and again: so many restarts come at once, then it rests, twice as long each time, until it
has run for so long."""
GPU_REST_SECONDS = 20.0
"""The first, of a pod that has taken another's place on a GPU at fault; then twice as long, and so on."""
SERVER_RESTARTS = 5
"""TJ_RESTART_LIMIT."""
LAUNCHER = "launcher"
"""The role that waits for its workers, in any case of its letters."""
GPU_CONDITIONS = frozenset({"GPUFault", "GPUUnhealthy", "NvidiaGPUFault"})
GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")
ROUNDING_SECONDS = 2.0
"""Times of Kubernetes have whole seconds."""
SEEN_SECONDS = 90.0
"""So old may the view be that a pass decides on: a watch that is silent is opened again after as long."""
DUE_SECONDS = 200.0
"""So long may take what is due at once, whatever else goes wrong: a lost task is found within 30 s, a watcher that died
is replaced within 15, a silent watch within 90, Redis and the API server are away for 20 at a time."""

End = Literal["complete", "failed", "-"]
Replica = Literal["runs", "succeeded", "failed"]


def role_ends(complete: EndPolicy, fail: EndPolicy, replicas: Mapping[int, Replica]) -> End:
    """The table of a role's ends. `replicas`: those that are wanted, by index; of none, the role is open."""
    states = list(replicas.values())
    if not states:
        return "-"
    if _met(complete, replicas, "succeeded"):
        return "complete"
    if _met(fail, replicas, "failed"):
        return "failed"
    nothing_can_change = "runs" not in states and "failed" in states
    return "failed" if nothing_can_change and "None" not in (complete, fail) else "-"


def _met(policy: EndPolicy, replicas: Mapping[int, Replica], state: Replica) -> bool:
    if policy == "None":
        return False
    if policy == "Rank0":
        return replicas.get(0) == state
    return (any if policy == "Any" else all)(one == state for one in replicas.values())


def job_ends(policy: JobEndPolicy, ends: Iterable[End], which: End) -> bool:
    """The table of a job's ends, of the roles that are waited for."""
    ends = list(ends)
    if policy == "None" or not ends:
        return False
    return any(end == which for end in ends) if policy == "Any" else all(end == which for end in ends)
