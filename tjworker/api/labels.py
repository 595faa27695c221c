"""Label, annotation and environment names: the fixed vocabulary between the operator, its pods and its users.

The labels are KubeDL's, the annotations that act are the trainingjob-operator's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tjworker.api.model import Ignored, TrainingJob

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
"""Holds a batch Job's pod until its controller has counted the end. A pod without it is never counted."""

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
JOBSET = "jobset.sigs.k8s.io/"
"""Prefix of JobSet's labels, by which users of Kubeflow Trainer find pods."""
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
"""Label and annotation that Kubernetes gives each pod of an Indexed batch Job."""
JOBSET_NAMES: Mapping[str, str] = {
    JOB_NAME: f"{JOBSET}jobset-name",
    REPLICA_INDEX: COMPLETION_INDEX,
    RESTART_ATTEMPT: f"{JOBSET}{RESTART_ATTEMPT}",
}
"""Labels of ours -> their names under JobSet."""
_KEPT = (
    frozenset(OURS) | {KUBEFLOW + name for name in (*_TOLD_TWICE, _OPERATOR_NAME)} | frozenset(JOBSET_NAMES.values())
)

ANNOTATION_PREEMPTED = "Preempted"
ANNOTATION_FAILED = "Failed"
ANNOTATION_NODE_FAIL = "NodeFail"

AUTOSCALE_POLICY = "elasticdeeplearning.ai/autoscale-policy"
"""Name of the autoscaling policy: an annotation of a job, or a label of its namespace."""

KUBEDL = "kubedl.io"
ANNOTATION_GIT_SYNC = f"{KUBEDL}/git-sync-config"
ANNOTATION_TENANCY = f"{KUBEDL}/tenancy"
ANNOTATION_NETWORK_MODE = f"{KUBEDL}/network-mode"
ANNOTATION_TENSORBOARD = f"{KUBEDL}/tensorboard-config"

KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"


def ignored_queue(told: Mapping[str, str]) -> tuple[Ignored, ...]:
    """The label for Kueue among the labels `told` of a job of a kind that Kueue does not know (ADR 36)."""
    why = "Kueue does not know this kind: the job does not wait for its queue"
    return (Ignored(KUEUE_QUEUE, why, "label"),) if KUEUE_QUEUE in told else ()


NOT_INHERITED: Mapping[str, str] = {
    ANNOTATION_PREEMPTED: "ends the job that has it",
    ANNOTATION_FAILED: "ends the job that has it",
    ANNOTATION_NODE_FAIL: "ends the job that has it",
    ANNOTATION_GIT_SYNC: "is read from the job alone",
    AUTOSCALE_POLICY: "is read from the job alone",
    ANNOTATION_NETWORK_MODE: "is read from the job alone",
    ANNOTATION_TENSORBOARD: "is read from the job alone",
    "kueue.x-k8s.io/": "Kueue would queue each pod by itself, and hold it back",
    "provreq.kueue.x-k8s.io/": "Kueue reads it from what it queues",
    "argocd.argoproj.io/": "Argo CD says with it which object of a repository this is, and when to apply it",
    "kustomize.toolkit.fluxcd.io/": "Flux says with it that the object is in a repository",
    "helm.toolkit.fluxcd.io/": "Flux says with it that the object is of a Helm release",
    "reconcile.fluxcd.io/": "Flux acts on it",
    "meta.helm.sh/": "Helm says with it that the object is of a release, and takes it over",
    "helm.sh/": "Helm acts on it (hooks, resource policy), or says with it which chart has the object",
    "app.kubernetes.io/managed-by": "the pods are not made by the tool that made the job",
    "applyset.kubernetes.io/": "kubectl apply --prune deletes what has it and is in no manifest",
    "config.k8s.io/": "kpt prunes by it",
    "config.kubernetes.io/": "kustomize says with it from which file the object comes",
    "internal.config.kubernetes.io/": "kustomize says with it from which file the object comes",
    "cli-utils.sigs.k8s.io/": "kpt prunes by it",
    "kapp.k14s.io/": "kapp deletes what has it and is in no manifest",
    "objectset.rio.cattle.io/": "Rancher's Fleet deletes what has it and is in no manifest",
    "kubectl.kubernetes.io/last-applied-configuration": "kubectl compares the job's manifest with it",
}
"""Keys of a job's labels and annotations that its pods and other children do not get, and why: each of them says
something of the job to one program, and would say the same of the pod. A key that ends in `/` stands for all that begin
so. Not among them is app.kubernetes.io/instance, by which people select pods: Argo CD, where it tracks by that label,
leaves alone what has an owner reference."""


def inherited(told: Mapping[str, str]) -> dict[str, str]:
    """Of the labels or annotations of a job: those that its children get."""
    return {key: value for key, value in told.items() if key not in NOT_INHERITED and _prefix(key) not in NOT_INHERITED}


def _prefix(key: str) -> str:
    return key[: key.find("/") + 1]


def labels_for_children(job: TrainingJob) -> dict[str, str]:
    """None, of a job of another operator's kind: training-operator, the MPI operator and KubeDL copy no label of a job
    (`createNewPod`, `newWorker`), and selectors of its users' pods were written for that."""
    return {} if job.is_guest else inherited(job.labels)


def annotations_for_children(job: TrainingJob) -> dict[str, str]:
    """As `labels_for_children`. But pods of every kind say whose they are (docs/addons.md)."""
    told = inherited(job.annotations)
    return {k: v for k, v in told.items() if k == ANNOTATION_TENANCY} if job.is_guest else told


COUNTED_PREFIX = "aitj-"
"""Containers and ports with this prefix count for exit codes, services and hosts, as in the trainingjob-operator."""


def of_guest(job: TrainingJob, ours: Mapping[str, str]) -> dict[str, str]:
    """These of our labels by the names that another operator gives them; none where they are the same."""
    guest = job.guest_labels
    if guest is None:
        return {}
    named = {theirs: ours[name] for name, theirs in guest.names.items() if name in ours}
    if not guest.prefix:
        return named
    told = named | {guest.prefix + name: ours[name] for name in _TOLD_TWICE if name in ours}
    if (role := guest.prefix + REPLICA_TYPE) in told:
        told[role] = told[role].lower()
        if guest.job_role_is_type:
            told[guest.prefix + JOB_ROLE] = told[role]
    return told | {guest.prefix + _OPERATOR_NAME: guest.operator}


def of_object(meta: Mapping[str, Any]) -> dict[str, str]:
    """Those that the projection keeps: whatever the operator sets and would set again."""
    return {name: value for name, value in (meta.get("labels") or {}).items() if name in _KEPT}
