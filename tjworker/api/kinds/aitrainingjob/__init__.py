"""The kind AITrainingJob (elasticdeeplearning.ai/v1): roles of pods of any framework.

`spec` has the models with the bounds of single fields. `rules` has the CEL rules on several fields, `checks` the same
for the parser: a job may be older than its CRD. Pure; `parse` never raises, whatever the JSON.
"""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from tjworker.api.kinds.aitrainingjob import rules
from tjworker.api.kinds.aitrainingjob.checks import least, most, port_errors, rule_errors, scale_role
from tjworker.api.kinds.aitrainingjob.spec import AITrainingJobSpec, ReplicaSpec
from tjworker.api.kinds.base import MAX_ERRORS, JobKind, Parsed, field_errors, header, strings, text, too_big_for_etcd
from tjworker.api.kinds.runpolicy import RunPolicy, gang_policy
from tjworker.api.labels import ignored_queue
from tjworker.api.model import InvalidJob, Role, TrainingJob
from tjworker.api.timefmt import unix_seconds
from tjworker.base import GroupResource, Json, mapping

PLURAL = "aitrainingjobs"
KIND = "AITrainingJob"
GROUP = "elasticdeeplearning.ai"
RESOURCE = GroupResource(f"{PLURAL}.{GROUP}")
# KubeDL's ExitCode: 1 to 127 are permanent errors; from 128 on a signal has ended the program.
_DEFAULT_RETRYABLE = frozenset(range(128, 256))


def parse(raw: Json) -> Parsed:
    """Parse the job, or return the errors of its spec. Never raises."""
    raw = mapping(raw)
    head = header(raw, RESOURCE, KIND, f"{GROUP}/v1")
    spec_json = mapping(raw.get("spec"))
    try:
        spec = AITrainingJobSpec.model_validate(spec_json)
    except ValidationError as error:
        return InvalidJob(**head, errors=field_errors(error))
    errors = tuple(rule_errors(head["name"].name, spec))
    scaled = scale_role(spec.replica_specs)
    roles = tuple(
        _role(name, spec.replica_specs[name], spec_json, spec.replicas if name == scaled else None)
        # A JSON object has no order, and two passes over the same job must plan the same writes.
        for name in sorted(spec.replica_specs)
    )
    errors = errors or tuple(e for r in roles for e in port_errors(r.name, r.template)) or too_big_for_etcd(roles)
    if errors:
        return InvalidJob(**head, errors=errors[:MAX_ERRORS])
    metadata = mapping(raw.get("metadata"))
    own_labels = strings(metadata.get("labels"))
    run = spec.run_policy or RunPolicy()
    return TrainingJob(
        **head,
        roles=roles,
        labels=own_labels,
        annotations=strings(metadata.get("annotations")),
        created_at=unix_seconds(text(metadata.get("creationTimestamp"))),
        framework=spec.framework_type or "",
        fault_tolerant=spec.fault_tolerant,
        priority=spec.priority or "",
        scheduler_name=spec.scheduler_name or "",
        time_limit_seconds=spec.time_limit,
        active_deadline_seconds=run.active_deadline_seconds,
        ttl_seconds_after_finished=run.ttl_seconds_after_finished,
        backoff_limit=run.backoff_limit,
        min_available=run.scheduling_policy.min_available if run.scheduling_policy else None,
        gang=gang_policy(run.scheduling_policy),
        retryable_exit_codes=_exit_codes(spec.restarting_exit_code),
        # All is the trainingjob-operator's default. KubeDL's default, None or Running by kind, is not this kind's.
        clean_pod_policy=spec.clean_pod_policy or run.clean_pod_policy or "All",
        fail_policy=spec.fail_policy,
        complete_policy=spec.complete_policy,
        suspend=spec.suspend,
        scale_role=scaled,
        # Kueue has no integration for this kind, so that its label does not hold the job back (ADR 36).
        ignored=ignored_queue(own_labels),
    )


def _role(name: str, spec: ReplicaSpec, spec_json: Json, asked: int | None) -> Role:
    """`asked`: the number of replicas that spec.replicas sets for this role, if it does."""
    bounded = spec.min_replicas is not None or spec.max_replicas is not None
    return Role(
        name=name,
        workload="Pod",
        replicas=spec.replicas if asked is None else asked,
        # Keep the raw template: the model has only the fields that the operator reads, and a pod needs all of them.
        template=spec_json["replicaSpecs"][name]["template"],
        # Without either bound the role has none: `kubectl scale` may then set any number.
        min_replicas=least(spec) if bounded else None,
        max_replicas=most(spec) if bounded else None,
        edl_policy=spec.edl_policy,
        restart_policy=spec.restart_policy,
        restart_scope=spec.restart_scope,
        restart_limit=spec.restart_limit,
        fail_policy=spec.fail_policy,
        complete_policy=spec.complete_policy,
        spec_path=f"spec.replicaSpecs.{name}.replicas" if asked is None else "spec.replicas",
        overruled=None if asked is None else spec.replicas,
        batch_size=None if spec.batch_size is None else spec.batch_size.value(),
    )


def _exit_codes(listed: str | None) -> frozenset[int]:
    return _DEFAULT_RETRYABLE if listed is None else frozenset(int(code) for code in listed.split(","))


class AITrainingJob(JobKind):
    plural = PLURAL
    kind = KIND
    short_name = "aitj"
    description = "A training job of any framework: roles of pods that are kept, restarted and scaled by index."
    group = GROUP
    versions = ("v1",)
    scale_role = rules.SCALE_ROLE
    # The API server accepts a single fixed path under .spec, but the elastic role may have any name. So spec.replicas
    # is a field of its own, which overrules the number of that role.
    scale_spec_path = ".spec.replicas"
    spec_model = AITrainingJobSpec
    root_rules = rules.ROOT

    def parse(self, raw: Json) -> Parsed:
        return parse(raw)

    def role_patch(self, role: str, replicas: int) -> dict[str, Any]:
        # A JSON merge patch replaces lists whole, but merges objects: the other roles and the template stay.
        return {"spec": {"replicaSpecs": {role: {"replicas": replicas}}}}


JOB_KIND = AITrainingJob()
