"""The kind AITrainingJob (elasticdeeplearning.ai/v1): its spec as pydantic models, its CEL rules, its parser.

The models are the only source of the CRD's schema (`api.crd`) and of the reference (`api.reference`): a bound stands here
once. The parser holds a job to the same bounds again, because a job may be older than its CRD. Pure; `parse` never
raises, whatever the JSON. Sources: seed 002 and its operator's types, seed 004 (RunPolicy), spec 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from tjworker.api import naming
from tjworker.api.dialects.base import MAX_ERRORS, Dialect, Json, Parsed, field_errors, header, mapping, strings, text
from tjworker.api.model import (
    CleanPodPolicy,
    EdlPolicy,
    EndPolicy,
    FieldError,
    InvalidJob,
    JobEndPolicy,
    RestartPolicy,
    RestartScope,
    Role,
    TrainingJob,
)
from tjworker.api.podtemplate import LABEL_VALUE, PodTemplate

PLURAL = "aitrainingjobs"
KIND = "AITrainingJob"
GROUP = "elasticdeeplearning.ai"
SCALE_ROLE = "trainer"

MAX_ROLES = 16
MAX_REPLICAS = 10_000
MAX_PODS = 50_000
"""Of a job: its restarts by index must fit into one object of etcd (1.5 MiB), whatever happens to it."""
MAX_INT32 = 2**31 - 1
"""Also the bound of every duration: 68 years, so that no sum of times leaves the calendar."""
RESERVED_ROLES = ("trainingjob",)
"""Its variable TRAININGJOB_PORTS is already the pod's own."""

_ROLE_NAME = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"
_EXIT_CODE = r"(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_EXIT_CODES = rf"^ *{_EXIT_CODE} *(, *{_EXIT_CODE} *)*$"
_NAME_RULE = "must be a lower-case DNS label (letters, digits, -) that starts with a letter"
_CODES_RULE = 'must be a list of exit codes from 0 to 255, separated by commas, such as "137,128"'
_LENGTH_RULE = (
    f"(`<job>-<role>-<index>`) may have at most {naming.MAX_NAME_LENGTH} characters; "
    "shorten the name of the job or of its longest role"
)
_NO_REPLICAS = "at least one role must have replicas; set spec.suspend to true to let the job wait without pods"
_ALL_REPLICAS = "self.replicaSpecs.map(r, self.replicaSpecs[r].replicas).sum()"
_is_role_name = re.compile(_ROLE_NAME).fullmatch
_are_exit_codes = re.compile(_EXIT_CODES).fullmatch
_DEFAULT_RETRYABLE = frozenset(range(128, 256))

Rule = Mapping[str, Any]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", alias_generator=to_camel, populate_by_name=True)


def _rules(*rules: Rule) -> dict[str, Any]:
    return {"x-kubernetes-validations": list(rules)}


class SchedulingPolicy(_Model):
    """How the scheduler takes the pods of the job."""

    min_available: int | None = Field(
        None,
        ge=1,
        le=MAX_PODS,
        description="gang scheduling, which is to come: checked and not acted on yet. At most the sum of all replicas; "
        "default: all of them",
    )


class RunPolicy(_Model):
    """The job as a whole, in the words of the KubeDL job API."""

    clean_pod_policy: CleanPodPolicy | None = Field(
        None, description="as spec.cleanPodPolicy; a job that sets both sets them alike"
    )
    ttl_seconds_after_finished: int | None = Field(
        None,
        ge=0,
        le=MAX_INT32,
        description="seconds after its end when the job is deleted with all it owns; default: never",
    )
    active_deadline_seconds: int | None = Field(
        None,
        ge=1,
        le=MAX_INT32,
        description="seconds from the job's start (status.startTime) after which it fails with the reason "
        "DeadlineExceeded; time spent suspended does not count. Default: no limit",
    )
    backoff_limit: int | None = Field(
        None,
        ge=0,
        le=MAX_INT32,
        description="restarts of the whole job for its own failures; one more failure ends it. Eviction, preemption and "
        "lost nodes do not count. Default: no limit",
    )
    scheduling_policy: SchedulingPolicy | None = Field(None, description="how the scheduler takes the pods of the job")


class ReplicaSpec(_Model):
    """One role of the job: its pods, how many, and what happens when one of them ends."""

    model_config = ConfigDict(
        json_schema_extra=_rules(
            {
                "rule": "!has(self.minReplicas) || self.minReplicas <= self.replicas",
                "fieldPath": ".replicas",
                "message": "replicas must be at least minReplicas",
                "messageExpression": "'replicas is %d, it must be at least minReplicas (%d)'"
                ".format([self.replicas, self.minReplicas])",
            },
            {
                "rule": "!has(self.maxReplicas) || self.replicas <= self.maxReplicas",
                "fieldPath": ".replicas",
                "message": "replicas must be at most maxReplicas",
                "messageExpression": "'replicas is %d, it must be at most maxReplicas (%d)'"
                ".format([self.replicas, self.maxReplicas])",
            },
            {
                "rule": "!has(self.edlPolicy) || self.edlPolicy != 'Never' || !has(oldSelf.edlPolicy)"
                " || oldSelf.edlPolicy != 'Never' || self.replicas == oldSelf.replicas",
                "fieldPath": ".replicas",
                "message": "replicas cannot change while edlPolicy is Never; set edlPolicy to Manual to scale by hand, "
                "to Auto to leave it to the autoscaler",
            },
        )
    )

    replicas: int = Field(
        1,
        ge=0,
        le=MAX_REPLICAS,
        description="how many pods the role has, 0 to 10000. `kubectl scale` and the autoscaler change it",
    )
    min_replicas: int | None = Field(
        None, ge=0, le=MAX_REPLICAS, description="the fewest pods that the role can work with; default: replicas"
    )
    max_replicas: int | None = Field(
        None,
        ge=1,
        le=MAX_REPLICAS,
        description="the most pods that the role can use. The role is elastic when minReplicas < maxReplicas; "
        "default: replicas",
    )
    edl_policy: EdlPolicy = Field(
        "Manual",
        description="who changes replicas: `Auto` the autoscaler, between minReplicas and maxReplicas; `Manual` only "
        "people (kubectl scale); `Never` nobody",
    )
    restart_limit: int | None = Field(
        None,
        ge=0,
        le=MAX_INT32,
        description="restarts of the role for its own failures; one more failure is final. Eviction, preemption and lost "
        "nodes do not count. Default: no limit",
    )
    restart_policy: RestartPolicy = Field(
        "Never",
        description="which failed pods are replaced: `Never` none; `Always` all; `OnFailure` those that failed by "
        "themselves; `OnNodeFail` those whose node or GPU failed; `ExitCode` those that failed by themselves "
        "with retryable exit codes only (restartingExitCode); `OnNodeFailWithExitCode` the last two together",
    )
    restart_scope: RestartScope = Field(
        "All",
        description="what a restart replaces: `Pod` the failed pod, `Replica` all pods of its role, `All` all pods of "
        "the job",
    )
    fail_policy: EndPolicy = Field(
        "Any",
        description="the role has failed when `Any` pod, the `Rank0` pod (index 0) or `All` pods have failed for good; "
        "`None`: never",
    )
    complete_policy: EndPolicy = Field(
        "All",
        description="the role is complete when `All` pods, `Any` pod or the `Rank0` pod (index 0) has succeeded; "
        "`None`: never by itself",
    )
    template: PodTemplate = Field(description="pod template of the role's pods, with at least one container")


class AITrainingJobSpec(_Model):
    """What the job is to do."""

    model_config = ConfigDict(
        json_schema_extra=_rules(
            {
                "rule": "!has(self.cleanPodPolicy) || !has(self.runPolicy) || !has(self.runPolicy.cleanPodPolicy)"
                " || self.cleanPodPolicy == self.runPolicy.cleanPodPolicy",
                "fieldPath": ".cleanPodPolicy",
                "message": "cleanPodPolicy and runPolicy.cleanPodPolicy must agree; set one of them",
                "messageExpression": "'cleanPodPolicy is %s and runPolicy.cleanPodPolicy is %s: they must agree; "
                "set one of them'.format([self.cleanPodPolicy, self.runPolicy.cleanPodPolicy])",
            },
            {
                "rule": "!has(self.runPolicy) || !has(self.runPolicy.schedulingPolicy)"
                " || !has(self.runPolicy.schedulingPolicy.minAvailable)"
                f" || self.runPolicy.schedulingPolicy.minAvailable <= {_ALL_REPLICAS}",
                "fieldPath": ".runPolicy.schedulingPolicy.minAvailable",
                "message": "minAvailable must be at most the sum of all replicas",
                "messageExpression": "'minAvailable is %d, it must be at most the sum of all replicas (%d)'"
                f".format([self.runPolicy.schedulingPolicy.minAvailable, {_ALL_REPLICAS}])",
            },
            {
                "rule": f"{_ALL_REPLICAS} <= {MAX_PODS}",
                "fieldPath": ".replicaSpecs",
                "message": f"all roles together must have at most {MAX_PODS} replicas; split the job",
                "messageExpression": f"'all roles together have %d replicas, they must have at most {MAX_PODS}; split the job'"
                f".format([{_ALL_REPLICAS}])",
            },
            {
                "rule": "!has(self.frameworkType) && !has(oldSelf.frameworkType)"
                " || has(self.frameworkType) && has(oldSelf.frameworkType) && self.frameworkType == oldSelf.frameworkType",
                "fieldPath": ".frameworkType",
                "message": "frameworkType cannot change: pods of two frameworks would not find each other; "
                "delete the job and create it again",
            },
        )
    )

    framework_type: str | None = Field(
        None,
        max_length=63,
        description="name of the training framework, such as pytorch; a note for people and tools. The operator does not act "
        "on it yet: every job has the variables TRAININGJOB_* and those of the roles",
    )
    fault_tolerant: bool = Field(
        False,
        description="the training program itself copes with pods that come and go; a note, restartPolicy and "
        "restartScope decide",
    )
    priority: str | None = Field(
        None,
        max_length=63,
        pattern=LABEL_VALUE,
        description="label `priority` of the pods, and their priorityClassName when the cluster has such a PriorityClass",
    )
    scheduler_name: str | None = Field(
        None, max_length=253, description="scheduler of the pods; default: that of the template, else the cluster's"
    )
    time_limit: int | None = Field(
        None,
        ge=1,
        le=MAX_INT32,
        description="seconds from when the job first ran (status.startRunningTime) to its end in the phase Timeout; time "
        "spent suspended does not count. Default: no limit",
    )
    restarting_exit_code: str | None = Field(
        None,
        max_length=2048,
        description='retryable exit codes, 0 to 255, separated by commas, such as "137,128". Default: 128 to 255',
        json_schema_extra=_rules(
            {"rule": f"self.matches('{_EXIT_CODES}')", "message": f"restartingExitCode {_CODES_RULE}"}
        ),
    )
    clean_pod_policy: CleanPodPolicy | None = Field(
        None,
        description="which pods go when the job has ended: `All`, those still `Running`, or `None`; services go with the "
        "pods. Default: All",
    )
    fail_policy: JobEndPolicy = Field(
        "Any", description="the job has failed when `Any` role or `All` roles have failed; `None`: never"
    )
    complete_policy: JobEndPolicy = Field(
        "All", description="the job has succeeded when `All` roles are complete or `Any` is; `None`: never by itself"
    )
    suspend: bool = Field(
        False, description="true: the pods go and the job waits; its time limits stand still. false: it goes on"
    )
    run_policy: RunPolicy | None = Field(None, description="the job as a whole, in the words of the KubeDL job API")
    replica_specs: dict[str, ReplicaSpec] = Field(
        min_length=1,
        max_length=MAX_ROLES,
        description="roles of the job by name, 1 to 16, such as `pserver` and `trainer`. `kubectl scale` moves the role "
        "`trainer`, `tj scale --role` any; their set is fixed while the job exists",
        json_schema_extra=_rules(
            {
                "rule": f"self.all(r, r.matches('{_ROLE_NAME}'))",
                "message": f"the name of a role {_NAME_RULE}, such as trainer or data-loader",
                "messageExpression": f"'%s: the name of a role {_NAME_RULE}, such as trainer or data-loader'"
                f".format([self.filter(r, !r.matches('{_ROLE_NAME}'))[0]])",
            },
            {
                "rule": f"self.all(r, !(r in {list(RESERVED_ROLES)}))",
                "message": f"the role name {RESERVED_ROLES[0]} is reserved: its environment variables would be the job's",
            },
            {"rule": "self.exists(r, self[r].replicas > 0)", "message": _NO_REPLICAS},
            {
                "rule": "self.all(r, r in oldSelf) && oldSelf.all(r, r in self)",
                "message": "roles cannot be added to a job or removed from it; delete the job and create it again, "
                "or set replicas of a role to 0",
            },
        ),
    )


_LONGEST_INDEX = (
    "size(string([self.spec.replicaSpecs[r].replicas, has(self.spec.replicaSpecs[r].maxReplicas)"
    " ? self.spec.replicaSpecs[r].maxReplicas : 1, 1].max() - 1))"
)
ROOT_RULES: tuple[Rule, ...] = (
    {
        "rule": f"self.metadata.name.matches('{_ROLE_NAME}')",
        "fieldPath": ".metadata.name",
        "message": f"the name of a job {_NAME_RULE}: its services are named after it",
        "messageExpression": f"'%s: the name of a job {_NAME_RULE}: its services are named after it'"
        ".format([self.metadata.name])",
    },
    {
        "rule": "self.spec.replicaSpecs.all(r,"
        f" size(self.metadata.name) + size(r) + 2 + {_LONGEST_INDEX} <= {naming.MAX_NAME_LENGTH})",
        "fieldPath": ".metadata.name",
        "message": f"the longest pod name {_LENGTH_RULE}",
        "messageExpression": f"'%s: the longest pod name {_LENGTH_RULE}'.format([self.metadata.name])",
    },
)


def parse(raw: Json) -> Parsed:
    """The job, or what is wrong with its spec. Never raises."""
    raw = mapping(raw)
    head = header(raw, PLURAL, KIND, f"{GROUP}/v1")
    spec_json = mapping(raw.get("spec"))
    try:
        spec = AITrainingJobSpec.model_validate(spec_json)
    except ValidationError as error:
        return InvalidJob(**head, errors=field_errors(error))
    errors = tuple(_beyond_bounds(head["name"].name, spec))
    if errors:
        return InvalidJob(**head, errors=errors[:MAX_ERRORS])
    metadata = mapping(raw.get("metadata"))
    run = spec.run_policy or RunPolicy()
    return TrainingJob(
        **head,
        roles=tuple(_role(name, spec.replica_specs[name], spec_json) for name in sorted(spec.replica_specs)),
        labels=strings(metadata.get("labels")),
        annotations=strings(metadata.get("annotations")),
        created_at=text(metadata.get("creationTimestamp")),
        framework=spec.framework_type or "",
        fault_tolerant=spec.fault_tolerant,
        priority=spec.priority or "",
        scheduler_name=spec.scheduler_name or "",
        time_limit_seconds=spec.time_limit,
        active_deadline_seconds=run.active_deadline_seconds,
        ttl_seconds_after_finished=run.ttl_seconds_after_finished,
        backoff_limit=run.backoff_limit,
        min_available=run.scheduling_policy.min_available if run.scheduling_policy else None,
        retryable_exit_codes=_exit_codes(spec.restarting_exit_code),
        clean_pod_policy=spec.clean_pod_policy or run.clean_pod_policy or "All",
        fail_policy=spec.fail_policy,
        complete_policy=spec.complete_policy,
        suspend=spec.suspend,
        scale_role=SCALE_ROLE if SCALE_ROLE in spec.replica_specs else None,
    )


def _role(name: str, spec: ReplicaSpec, spec_json: Json) -> Role:
    return Role(
        name=name,
        workload="Pod",
        replicas=spec.replicas,
        template=spec_json["replicaSpecs"][name]["template"],
        min_replicas=spec.min_replicas,
        max_replicas=spec.max_replicas,
        edl_policy=spec.edl_policy,
        restart_policy=spec.restart_policy,
        restart_scope=spec.restart_scope,
        restart_limit=spec.restart_limit,
        fail_policy=spec.fail_policy,
        complete_policy=spec.complete_policy,
        spec_path=f"spec.replicaSpecs.{name}.replicas",
    )


def _exit_codes(listed: str | None) -> frozenset[int]:
    return _DEFAULT_RETRYABLE if listed is None else frozenset(int(code) for code in listed.split(","))


def _beyond_bounds(job: str, spec: AITrainingJobSpec) -> Iterator[FieldError]:
    """What the CRD says in CEL, in the same words."""
    specs = spec.replica_specs
    if not _is_role_name(job):
        yield FieldError(
            "metadata.name", f"{job[:80]!r}: the name of a job {_NAME_RULE}: its services are named after it"
        )
    codes = spec.restarting_exit_code
    if codes is not None and not _are_exit_codes(codes):
        yield FieldError("spec.restartingExitCode", f"{codes[:80]!r}: {_CODES_RULE}")
    yield from _disagreement(spec)
    if not any(role.replicas for role in specs.values()):
        yield FieldError("spec.replicaSpecs", _NO_REPLICAS)
    total = sum(role.replicas for role in specs.values())
    if total > MAX_PODS:
        yield FieldError(
            "spec.replicaSpecs",
            f"{total} replicas of all roles together: they must be at most {MAX_PODS}; split the job",
        )
    for name in sorted(specs):
        yield from _role_errors(job, name, specs[name])


def _disagreement(spec: AITrainingJobSpec) -> Iterator[FieldError]:
    run = spec.run_policy
    if run is None:
        return
    ours, theirs = spec.clean_pod_policy, run.clean_pod_policy
    if ours and theirs and ours != theirs:
        yield FieldError(
            "spec.cleanPodPolicy",
            f"{ours} here and {theirs} in runPolicy.cleanPodPolicy: they must agree; set one of them",
        )
    wanted = run.scheduling_policy.min_available if run.scheduling_policy else None
    total = sum(role.replicas for role in spec.replica_specs.values())
    if wanted is not None and wanted > total:
        yield FieldError(
            "spec.runPolicy.schedulingPolicy.minAvailable",
            f"{wanted}: must be at most the sum of all replicas ({total})",
        )


def _role_errors(job: str, name: str, role: ReplicaSpec) -> Iterator[FieldError]:
    path = f"spec.replicaSpecs.{name}"
    if not _is_role_name(name):
        yield FieldError(path, f"the name of a role {_NAME_RULE}, such as trainer or data-loader")
    if name in RESERVED_ROLES:
        yield FieldError(path, f"the role name {name} is reserved: its environment variables would be the job's")
    if role.min_replicas is not None and role.min_replicas > role.replicas:
        yield FieldError(f"{path}.replicas", f"{role.replicas}: must be at least minReplicas ({role.min_replicas})")
    if role.max_replicas is not None and role.max_replicas < role.replicas:
        yield FieldError(f"{path}.replicas", f"{role.replicas}: must be at most maxReplicas ({role.max_replicas})")
    containers = role.template.spec.containers
    if len({c.name for c in containers}) < len(containers):
        yield FieldError(f"{path}.template.spec.containers", "two containers have one name")
    longest = naming.longest_pod_name(job, name, max(role.replicas, role.max_replicas or 0))
    if len(longest) > naming.MAX_NAME_LENGTH:
        yield FieldError(
            "metadata.name", f"{longest[:80]} has {len(longest)} characters: the longest pod name {_LENGTH_RULE}"
        )


DIALECT = Dialect(
    plural=PLURAL,
    singular="aitrainingjob",
    kind=KIND,
    short_name="aitj",
    description="A training job of any framework: roles of pods that are kept, restarted and scaled by index.",
    group=GROUP,
    versions=("v1",),
    scale_role=SCALE_ROLE,
    scale_spec_path=f".spec.replicaSpecs.{SCALE_ROLE}.replicas",
    spec_model=AITrainingJobSpec,
    root_rules=ROOT_RULES,
    parse=parse,
    role_patch=lambda role, replicas: {"spec": {"replicaSpecs": {role: {"replicas": replicas}}}},
)
