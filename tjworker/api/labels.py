"""Label, annotation and environment names: the fixed vocabulary between the operator, its pods and its users.

The labels are KubeDL's, the annotations that act are the trainingjob-operator's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tjworker.api.model import TrainingJob

GROUP_NAME = "group-name"
JOB_NAME = "job-name"
REPLICA_TYPE = "replica-type"
REPLICA_NAME = "replica-name"
REPLICA_INDEX = "replica-index"
JOB_ROLE = "job-role"
RESTART_ATTEMPT = "restart-attempt"
JOB_UID = "elasticdeeplearning.ai/job-uid"
"""UID of the job: children are told from those of an earlier job of the same name by it."""

JOB_KIND = "elasticdeeplearning.ai/job-kind"
"""Kind of the job, on pods that a ReplicaSet or batch Job keeps: their owner reference does not name the job, and an
API group may have several kinds."""

COUNTED_SINCE = "elasticdeeplearning.ai/counted-since"
"""Unix seconds, on a batch Job: since when it has its count of pods. A label, for the projection keeps those."""

TRACKING_FINALIZER = "batch.kubernetes.io/job-tracking"
"""Holds a batch Job's pod until its controller has counted the end. What has it not is never counted."""

TENSORBOARD_CONFIG = "elasticdeeplearning.ai/tensorboard-config"
"""On the pod and service of a TensorBoard alone: what it was made of. A label, for the projection keeps those."""

OURS = (
    GROUP_NAME,
    JOB_NAME,
    REPLICA_TYPE,
    REPLICA_NAME,
    REPLICA_INDEX,
    JOB_ROLE,
    RESTART_ATTEMPT,
    JOB_UID,
    COUNTED_SINCE,
    TENSORBOARD_CONFIG,
)
"""The label keys that the operator sets on a job's objects."""
KUBEFLOW = "training.kubeflow.org/"
"""Prefix of the labels by which Kubeflow's users find the pods of its kinds."""
_OPERATOR_NAME = "operator-name"
_TOLD_TWICE = (JOB_NAME, REPLICA_TYPE, REPLICA_INDEX, JOB_ROLE)
"""Those of ours that stand there by another operator's names, too."""
_KEPT = frozenset(OURS) | {KUBEFLOW + name for name in (*_TOLD_TWICE, _OPERATOR_NAME)}

ANNOTATION_PREEMPTED = "Preempted"
ANNOTATION_FAILED = "Failed"
ANNOTATION_NODE_FAIL = "NodeFail"

KUBEDL = "kubedl.io"
ANNOTATION_GIT_SYNC = f"{KUBEDL}/git-sync-config"
ANNOTATION_TENANCY = f"{KUBEDL}/tenancy"
ANNOTATION_NETWORK_MODE = f"{KUBEDL}/network-mode"
ANNOTATION_TENSORBOARD = f"{KUBEDL}/tensorboard-config"

KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"


def not_queued(told: Mapping[str, str]) -> tuple[str, ...]:
    """Of a job of a kind that Kueue does not know, with the labels `told`: what its condition Created says (ADR 36)."""
    why = "Kueue does not know this kind: the job does not wait for its queue"
    return (f"label {KUEUE_QUEUE} ({why})",) if KUEUE_QUEUE in told else ()


COUNTED_PREFIX = "aitj-"
"""Containers and ports with this prefix count for exit codes, services and hosts, as in the trainingjob-operator."""


def of_guest(job: TrainingJob, ours: Mapping[str, str]) -> dict[str, str]:
    """These of our labels by the names that another operator gives them; none where they are the same."""
    guest = job.guest_labels
    if guest is None or not guest.prefix:
        return {}
    told = {guest.prefix + name: ours[name] for name in _TOLD_TWICE if name in ours}
    if (role := guest.prefix + REPLICA_TYPE) in told:
        told[role] = told[role].lower()
        if guest.job_role_is_type:
            told[guest.prefix + JOB_ROLE] = told[role]
    return told | {guest.prefix + _OPERATOR_NAME: guest.operator}


def of_object(meta: Mapping[str, Any]) -> dict[str, str]:
    """Those that the projection keeps: whatever the operator sets and would set again."""
    return {name: value for name, value in (meta.get("labels") or {}).items() if name in _KEPT}
