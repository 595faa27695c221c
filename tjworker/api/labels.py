"""Label, annotation and environment names: the fixed vocabulary between the operator, its pods and its users.

The labels are KubeDL's, the annotations that act are the trainingjob-operator's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tjworker.api.ignored import Ignored

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
"""UID of the job. It distinguishes the job's children from those of an earlier job of the same name."""

JOB_KIND = "elasticdeeplearning.ai/job-kind"
"""Kind of the job, on the pods of a ReplicaSet or batch Job: their owner reference does not name the job, and an API
group may have several kinds."""

COUNTED_SINCE = "elasticdeeplearning.ai/counted-since"
"""On a batch Job: the Unix seconds since which it has its number of pods. A label, as the projection keeps labels."""

TRACKING_FINALIZER = "batch.kubernetes.io/job-tracking"
"""Holds a batch Job's pod until the Job controller has counted its end. A pod without it is never counted."""

TENSORBOARD_CONFIG = "elasticdeeplearning.ai/tensorboard-config"
"""Only on the pod and service of a TensorBoard: a hash of its configuration. A label, since the projection keeps
labels."""

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
"""The operator's labels that pods of a guest kind also have under the other operator's name."""
JOBSET = "jobset.sigs.k8s.io/"
"""Prefix of JobSet's labels, by which users of Kubeflow Trainer find pods."""
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
"""Label and annotation that Kubernetes gives each pod of an Indexed batch Job."""
JOBSET_NAMES: Mapping[str, str] = {
    JOB_NAME: f"{JOBSET}jobset-name",
    REPLICA_INDEX: COMPLETION_INDEX,
    RESTART_ATTEMPT: f"{JOBSET}{RESTART_ATTEMPT}",
}
"""The operator's label -> its name under JobSet."""
# A job may have 10,000 pods, and Redis holds a record of each: no decision reads another label.
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

# Kueue reads it from the kinds that it integrates. On any other object it has no effect.
KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"


def ignored_queue(labels: Mapping[str, str]) -> tuple[Ignored, ...]:
    """The label for Kueue, if a job with these labels is of a kind that Kueue does not know (ADR 36)."""
    why = "Kueue does not know this kind: the job does not wait for its queue"
    return (Ignored(KUEUE_QUEUE, why, "label"),) if KUEUE_QUEUE in labels else ()


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
"""Key of a label or annotation of a job that its children do not get -> the reason: a program acts on it, and would act
on the pods in the same way. A key that ends in `/` is a prefix. Children do get app.kubernetes.io/instance, by which
users select pods: Argo CD, if it tracks by that label, ignores objects with an owner reference."""


def inherited(given: Mapping[str, str]) -> dict[str, str]:
    """The labels or annotations of a job that its children get."""
    return {k: value for k, value in given.items() if k not in NOT_INHERITED and _prefix(k) not in NOT_INHERITED}


def _prefix(key: str) -> str:
    return key[: key.find("/") + 1]


def labels_for_children(job: TrainingJob) -> dict[str, str]:
    """The job's labels that its children get. {} for a guest kind: training-operator, the MPI operator and KubeDL copy
    no label of a job (`createNewPod`, `newWorker`), and users wrote their selectors for that."""
    return {} if job.is_guest else inherited(job.labels)


def annotations_for_children(job: TrainingJob) -> dict[str, str]:
    """The job's annotations that its children get. For a guest kind only the tenancy, which every pod has
    (docs/addons.md)."""
    given = inherited(job.annotations)
    return {k: v for k, v in given.items() if k == ANNOTATION_TENANCY} if job.is_guest else given


COUNTED_PREFIX = "aitj-"
"""Containers and ports with this prefix count for exit codes, services and hosts, as in the trainingjob-operator."""


def of_guest(job: TrainingJob, ours: Mapping[str, str]) -> dict[str, str]:
    """The operator's labels `ours` under the names of the guest kind's operator; {} if the names are the same."""
    guest = job.guest_labels
    if guest is None:
        return {}
    named = {other: ours[name] for name, other in guest.names.items() if name in ours}
    if not guest.prefix:
        return named
    theirs = named | {guest.prefix + name: ours[name] for name in _TOLD_TWICE if name in ours}
    if (role := guest.prefix + REPLICA_TYPE) in theirs:
        # training-operator writes the type in lower case, and users of `kubectl -l` write it so.
        theirs[role] = theirs[role].lower()
        if guest.job_role_is_type:
            theirs[guest.prefix + JOB_ROLE] = theirs[role]
    return theirs | {guest.prefix + _OPERATOR_NAME: guest.operator}


def of_object(meta: Mapping[str, Any]) -> dict[str, str]:
    """The labels that the projection keeps: those that the operator sets."""
    return {name: value for name, value in (meta.get("labels") or {}).items() if name in _KEPT}
