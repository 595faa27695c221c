"""Writes an internal job as the AITrainingJob that parses to the same internal job. Pure.

Fields with the kind's default are left out. `tests/unit/tjworker/convert` parses the result and compares.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tjworker.api.kinds import aitrainingjob
from tjworker.api.kinds.aitrainingjob.spec import AITrainingJobSpec, ReplicaSpec
from tjworker.api.kinds.base import CamelModel
from tjworker.api.model import BatchSize, Role, TrainingJob
from tjworker.base import Json

_DEFAULT_RETRYABLE = frozenset(range(128, 256))
_OF_THE_SERVER = frozenset(
    {
        *("creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "managedFields"),
        *("resourceVersion", "selfLink", "uid"),
    }
)
"""The fields of metadata that the API server writes."""
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def manifest(job: TrainingJob, metadata: Json, order: tuple[str, ...]) -> dict[str, Any]:
    """The manifest with this `metadata`. `order`: names of roles, in the order in which they are written."""
    # The parser may add a role that the manifest lacks: it comes last.
    roles = sorted(job.roles, key=lambda role: order.index(role.name) if role.name in order else len(order))
    return {
        "apiVersion": aitrainingjob.JOB_KIND.api_versions[0],
        "kind": aitrainingjob.KIND,
        "metadata": dict(metadata),
        "spec": {**_spec(job), "replicaSpecs": {role.name: _role(role) for role in roles}},
    }


def _spec(job: TrainingJob) -> dict[str, Any]:
    gang = _given(
        {
            "minAvailable": job.min_available,
            "queue": job.gang.queue or None,
            "priorityClass": job.gang.priority_class or None,
            "minResources": dict(job.gang.min_resources) or None,
            "scheduleTimeoutSeconds": job.gang.schedule_timeout_seconds,
        }
    )
    run = _given(
        {
            "ttlSecondsAfterFinished": job.ttl_seconds_after_finished,
            "activeDeadlineSeconds": job.active_deadline_seconds,
            "backoffLimit": job.backoff_limit,
            "schedulingPolicy": gang or None,
        }
    )
    codes = ",".join(str(code) for code in sorted(job.retryable_exit_codes))
    return _without_defaults(
        AITrainingJobSpec,
        {
            "frameworkType": job.framework or None,
            "faultTolerant": job.fault_tolerant,
            "priority": job.priority or None,
            "schedulerName": job.scheduler_name or None,
            "timeLimit": job.time_limit_seconds,
            "restartingExitCode": None if job.retryable_exit_codes == _DEFAULT_RETRYABLE else codes,
            "cleanPodPolicy": None if job.clean_pod_policy == "All" else job.clean_pod_policy,
            "failPolicy": job.fail_policy,
            "completePolicy": job.complete_policy,
            "suspend": job.suspend,
            "runPolicy": run or None,
        },
    )


def _role(role: Role) -> dict[str, Any]:
    # A role whose bounds equal its number of replicas needs no bounds.
    bounded = role.min_replicas != role.replicas or role.max_replicas != role.replicas
    return {
        "replicas": role.replicas,
        **_without_defaults(
            ReplicaSpec,
            {
                "minReplicas": role.min_replicas if bounded else None,
                "maxReplicas": role.max_replicas if bounded else None,
                "edlPolicy": role.edl_policy,
                "batchSize": _batch_size(role.batch_size),
                "restartPolicy": role.restart_policy,
                "restartScope": role.restart_scope,
                "restartLimit": role.restart_limit,
                "failPolicy": role.fail_policy,
                "completePolicy": role.complete_policy,
            },
        ),
        "template": _template(role.template),
    }


def _batch_size(batch: BatchSize | None) -> dict[str, int] | None:
    if batch is None:
        return None
    return {
        "initial": batch.initial,
        "max": batch.max,
        "perReplicaMin": batch.per_replica_min,
        "perReplicaMax": batch.per_replica_max,
    }


def _template(template: Json) -> dict[str, Any]:
    """The template without its restartPolicy: that of the role replaces it."""
    spec = template.get("spec")
    if not isinstance(spec, Mapping):
        return dict(template)
    return {**template, "spec": {name: value for name, value in spec.items() if name != "restartPolicy"}}


def _without_defaults(model: type[CamelModel], fields: Json) -> dict[str, Any]:
    """The fields that are set and differ from the model's default."""
    defaults = {field.alias: field.default for field in model.model_fields.values()}
    return {name: value for name, value in fields.items() if value is not None and value != defaults[name]}


def _given(fields: Json) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def own_metadata(metadata: Json, acted_upon: frozenset[str] = frozenset()) -> dict[str, Any]:
    """The metadata without what the API server and kubectl have written. `acted_upon`: annotations whose content the
    spec has now."""
    # A finalizer of another operator would keep the new job from ever being deleted.
    kept = {name: value for name, value in metadata.items() if name not in _OF_THE_SERVER and name != "finalizers"}
    annotations = kept.get("annotations")
    if isinstance(annotations, Mapping):
        # With the old object in it, `kubectl apply` would compute a three-way merge against fields of another kind.
        gone = acted_upon | {LAST_APPLIED}
        kept["annotations"] = {name: value for name, value in annotations.items() if name not in gone}
        # An empty map would be noise in the user's manifest.
        if annotations and not kept["annotations"]:
            del kept["annotations"]
    return kept
