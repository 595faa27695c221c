"""A job of another operator's kind -> the internal model. What differs stands in a `Shape`. Pure; never raises,
whatever the JSON.

Pods are replaced by the operator and not by their kubelet, so that a restart has a cause, counts against backoffLimit
and leaves the end of its log in the status.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from tjworker.api import naming
from tjworker.api.kinds.aitrainingjob import rules
from tjworker.api.kinds.base import (
    MAX_ERRORS,
    MEMORY,
    Guest,
    Header,
    JobKind,
    Parsed,
    field_errors,
    header,
    mapping,
    strings,
    text,
    too_big_for_etcd,
)
from tjworker.api.kinds.batchsize import annotated_batch_size
from tjworker.api.kinds.guests import status
from tjworker.api.kinds.guests.shape import Dressed, Shape, Specs
from tjworker.api.kinds.guests.spec import AsWritten, ElasticBounds, ReplicaSpec, RunFields, elastic_bounds, replicas_of
from tjworker.api.kinds.runpolicy import MAX_PODS
from tjworker.api.labels import not_queued
from tjworker.api.model import BatchSize, FieldError, GangPolicy, InvalidJob, RestartPolicy, Role, TrainingJob
from tjworker.base import Json, with_article

ANNOTATION_AUTOSCALE = "elasticdeeplearning.ai/edl-policy"
"""On a job with an elasticPolicy: `Auto` lets the autoscaler move its workers."""

_RESTARTS: Mapping[str, RestartPolicy] = {
    # Their own operators make a pod that has failed again whatever the cause, a lost node included.
    "Always": "Always",
    "OnFailure": "Always",
    "ExitCode": "OnNodeFailWithExitCode",
    "Never": "Never",
}


def _restart_policy(shape: Shape, spec: Any, role: str, written: str) -> tuple[RestartPolicy, str]:
    """How the role's pods restart, and the policy as messages name it."""
    if role in shape.batch_roles(spec):
        # A batch Job makes its pod again until backoffLimit is used up: with Never a new pod, with OnFailure a new
        # container (`newLauncherJob` of mpi-operator).
        return "Always", written
    if written == "ExitCode" and role in shape.final:
        return "Never", f"ExitCode, which {shape.final[role]}"
    return _RESTARTS[written], written


@dataclass(frozen=True, slots=True)
class Reading:
    """A spec that the model has read."""

    job: str
    shape: Shape
    spec: Any
    specs: Specs
    """Roles by their canonical names."""
    written: Mapping[str, str]
    """Canonical name -> as the user wrote it."""

    def path(self, role: str) -> str:
        return f"{self.where}.{self.written.get(role, role)}"

    @property
    def where(self) -> str:
        return f"spec.{self.shape.specs_field}"

    @property
    def run(self) -> RunFields:
        return self.shape.family.run_policy(self.spec)

    def run_path(self, field: str) -> str:
        return ".".join((*self.shape.family.run_policy_path, field))


def job_kind(shape: Shape, description: str) -> JobKind:
    family, scaled = shape.family, "Worker" if "Worker" in shape.roles else ""
    return JobKind(
        plural=shape.plural,
        singular=shape.kind.lower(),
        kind=shape.kind,
        short_name="",
        description=description,
        group=family.group,
        versions=shape.versions or (family.version,),
        version_defaults=shape.version_defaults,
        scale_role=scaled,
        scale_spec_path=f".spec.{shape.specs_field}.{scaled}.replicas" if scaled else "",
        spec_model=shape.spec_model,
        root_rules=(rules.ROOT[0],),
        parse=lambda raw: parse(shape, raw),
        optional=True,
        role_patch=lambda role, n: {"spec": {shape.specs_field: {role: {"replicas": n}}}},
        run_policy_path=family.run_policy_path,
        suspend_path=(*family.run_policy_path, "suspend"),
        roles_field=shape.specs_field,
        guest=Guest(
            status_model=family.status_model,
            write_status=lambda job, seen: status.write_status(family.style, job, seen),
            columns=family.columns,
            scale_paths=family.scale_paths,
            is_for_another=family.is_for_another,
        ),
    )


def parse(shape: Shape, raw: Json) -> Parsed:
    raw = mapping(raw)
    # Only this operator writes the field MEMORY: a status without it may be another operator's.
    seen = status.of_another_operator(raw.get("status")) if MEMORY not in mapping(raw.get("status")) else ""
    head = _header(shape, raw, seen)
    spec_json = mapping(raw.get("spec"))
    if seen == "begun":
        return InvalidJob(**head, errors=(FieldError("status.conditions", _BEGUN),), for_good=True)
    try:
        spec: Any = shape.spec_model.model_validate(spec_json)
    except ValidationError as error:
        return InvalidJob(**head, errors=field_errors(error))
    names = {name.lower(): name for name in shape.roles}
    given = shape.specs(spec)
    # Role names may be written in any case, as their own operators take them.
    written = {names.get(name.lower(), name): name for name in given}
    read = Reading(head["name"].name, shape, spec, {name: given[key] for name, key in written.items()}, written)
    errors = tuple(_broken(read))
    if errors or len(written) < len(given):
        twice = FieldError(read.where, "two roles differ in the case of their letters only")
        return InvalidJob(**head, errors=(errors or (twice,))[:MAX_ERRORS])
    templates = {name: mapping(mapping(spec_json[shape.specs_field])[key])["template"] for name, key in written.items()}
    return _job(read, raw, head, templates)


_BEGUN = (
    "another operator has begun this job, and its pods may still run; let it end there, or delete the job and create it"
    " again"
)


def _header(shape: Shape, raw: Json, seen: str) -> Header:
    """`seen`: how the job stands by the word of another operator: what has ended there is not run again."""
    own: Json = mapping(mapping(raw.get("status")).get(MEMORY))
    if seen in ("Succeeded", "Failed"):
        completed = mapping(raw["status"]).get("completionTime")
        own = {"phase": "Succeed" if seen == "Succeeded" else "Failed"} | (
            {"completionTime": completed} if isinstance(completed, str) else {}
        )
    return header({**raw, "status": own}, shape.resource, shape.kind, shape.api_version)


def _broken(read: Reading) -> Iterator[FieldError]:
    shape, specs = read.shape, read.specs
    if not rules.is_job_name(read.job):
        yield FieldError("metadata.name", f"{read.job[:80]!r}: the name of a job {rules.NAME_RULE}")
    if not specs:
        yield FieldError(read.where, f"has no role; {with_article(shape.kind)} has {' or '.join(shape.roles)}")
    for name in shape.needed:
        if specs and name not in specs:
            yield FieldError(read.path(name), f"required value: {with_article(shape.kind)} has a {name}")
    for name, role in specs.items():
        yield from _role_errors(read, name, role)
    total = sum(replicas_of(role) for role in specs.values())
    if specs and not 0 < total <= MAX_PODS:
        yield FieldError(read.where, f"{total} replicas of all roles together: they must be 1 to {MAX_PODS}")
    yield from shape.broken(read.job, read.spec, specs)
    elastic = shape.elastic(read.spec)
    if elastic is not None:
        yield from _elastic_errors(read, elastic)


def _role_errors(read: Reading, name: str, role: ReplicaSpec) -> Iterator[FieldError]:
    shape, path, replicas = read.shape, read.path(name), replicas_of(role)
    if name not in shape.roles:
        yield FieldError(path, f"is no role of {with_article(shape.kind)}: use {', '.join(shape.roles)}")
    if name in shape.lone and replicas != 1:
        yield FieldError(f"{path}.replicas", f"{replicas}: must be 1")
    containers = [container.name for container in role.template.spec.containers]
    if len(set(containers)) < len(containers):
        yield FieldError(f"{path}.template.spec.containers", "two containers have one name")
    # Refused here, where the name is at fault: the API server would refuse the last pods of the job.
    longest = naming.longest_pod_name(read.job, name, replicas)
    if len(longest) > naming.MAX_NAME_LENGTH:
        yield FieldError("metadata.name", f"{longest[:80]}: the longest pod name {rules.LENGTH_RULE}")


def _elastic_errors(read: Reading, elastic: ElasticBounds) -> Iterator[FieldError]:
    worker = read.specs.get("Worker")
    if worker is None:
        yield FieldError(read.path("Worker"), "must be there when spec.elasticPolicy is")
        return
    # Whether `replicas` lies between them is not judged, as their own operators do not: there an HPA brings it back.
    least, most = elastic_bounds(elastic, worker)
    if least > most:
        yield FieldError("spec.elasticPolicy.minReplicas", f"{least}: must be at most maxReplicas ({most})")


def _job(read: Reading, raw: Json, head: Header, templates: Mapping[str, Json]) -> Parsed:
    metadata, shape, run = mapping(raw.get("metadata")), read.shape, read.run
    annotations = strings(metadata.get("annotations"))
    autoscaled = annotations.get(ANNOTATION_AUTOSCALE) == "Auto"
    dressed = {
        name: shape.dress(Dressed(read.spec, name, head["uid"]), template) for name, template in templates.items()
    }
    batch_size, wrong_size = annotated_batch_size(annotations)
    roles = tuple(_role(read, name, dressed[name], autoscaled, batch_size) for name in sorted(read.specs))
    if errors := (*wrong_size, *too_big_for_etcd(roles)):
        return InvalidJob(**head, errors=errors)
    job = TrainingJob(
        **head,
        roles=roles,
        labels=strings(metadata.get("labels")),
        annotations=annotations,
        created_at=text(metadata.get("creationTimestamp")),
        framework=shape.framework,
        active_deadline_seconds=run.active_deadline_seconds,
        ttl_seconds_after_finished=run.ttl_seconds_after_finished,
        backoff_limit=shape.backoff_limit if run.backoff_limit is None else run.backoff_limit,
        min_available=run.scheduling_policy.min_available if run.scheduling_policy else None,
        gang=_gang_policy(read),
        clean_pod_policy=run.clean_pod_policy or shape.clean_pod_policy,
        suspend=bool(run.suspend),
        suspend_field=read.run_path("suspend"),
        limit_clean_policy=None if shape.batch_roles(read.spec) else shape.family.limit_clean_policy,
        batch_roles=shape.batch_roles(read.spec),
        # `ReconcileJobs` of both operators: `jobExceedsLimit` fails the job before anything else is asked.
        backoff_ends=True,
        main_container=shape.container,
        retries_unknown_exit=shape.family.retries_unknown_exit,
        scale_role="Worker" if "Worker" in read.specs else None,
        enough=shape.enough(read.spec, read.specs),
        runs=shape.runs(read.spec, read.specs),
        roles_path=read.where,
        guest_labels=shape.family.labels(shape.kind),
        ignored=(
            *_ignored(read, annotations),
            *(() if shape.family.known_to_kueue else not_queued(strings(metadata.get("labels")))),
        ),
    )
    return shape.finish(job, read.spec)


_OF_A_GANG = frozenset(
    {"minAvailable", "queue", "priorityClass", "priorityClassName", "minResources", "scheduleTimeoutSeconds"}
)
"""Fields of a scheduling policy that a gang scheduler may act on."""


def _said(read: Reading) -> Json:
    policy = read.run.scheduling_policy
    return {} if policy is None else policy.model_dump(by_alias=True, exclude_none=True)


def _gang_policy(read: Reading) -> GangPolicy:
    said = _said(read)
    # KubeDL has the one name, training-operator the other.
    priority = "priorityClassName" if "priorityClassName" in said else "priorityClass"
    return GangPolicy(
        queue=said.get("queue", ""),
        priority_class=said.get(priority, ""),
        min_resources=said.get("minResources", {}),
        schedule_timeout_seconds=said.get("scheduleTimeoutSeconds"),
        path=read.run_path("schedulingPolicy"),
        priority_class_field=priority,
    )


def _ignored(read: Reading, annotations: Mapping[str, str]) -> Iterator[str]:
    acting = (name for name, value in sorted(_said(read).items()) if value not in ("", {}) and name not in _OF_A_GANG)
    yield from (read.run_path(f"schedulingPolicy.{name}") for name in acting)
    told = tuple(read.shape.ignored(read.spec))
    # A kind may say more of a field than its path.
    better = {one.partition(" ")[0] for one in told}
    yield from (path for path in _all_inert(read) if path not in better)
    yield from told
    yield from (f"annotation {name}" for name in read.shape.family.ignored_annotations if name in annotations)


def _all_inert(read: Reading) -> Iterator[str]:
    yield from _inert("spec", read.spec)
    if read.run is not read.spec:
        yield from _inert(".".join(read.shape.family.run_policy_path), read.run)
    for name, role in read.specs.items():
        yield from _inert(read.path(name), role)


def _inert(path: str, model: BaseModel) -> Iterator[str]:
    """What is only kept."""
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        if isinstance(value, AsWritten) and value.model_extra:
            yield f"{path}.{field.alias}"


def _role(read: Reading, name: str, template: Json, autoscaled: bool, batch_size: BatchSize | None) -> Role:
    shape, spec, role = read.shape, read.spec, read.specs[name]
    elastic = shape.elastic(spec) if name == "Worker" else None
    free = (0, rules.MAX_REPLICAS) if name in shape.freely_scaled(spec) else (None, None)
    least, most = elastic_bounds(elastic, role) if elastic else free
    unset = shape.restart(spec, name) if shape.restart else shape.default_restart
    written = role.restart_policy or unset
    restart_policy, restart_words = _restart_policy(shape, spec, name, written)
    return Role(
        name=name,
        workload="Pod",
        replicas=replicas_of(role),
        template=template,
        min_replicas=least,
        max_replicas=most,
        edl_policy="Auto" if autoscaled and elastic else "Manual",
        restart_policy=restart_policy,
        restart_words=restart_words,
        # Under their own operators, OnFailure and Always let the kubelet restart a container while others run.
        fails_in_part=written in ("Always", "OnFailure")
        or (written == "ExitCode" and shape.family.exit_code_of_running),
        restart_scope="Pod",
        fail_policy="None" if name in shape.never_fails(spec) else "Any",
        fails_when_evicted=name in shape.fails_when_evicted,
        complete_policy=shape.complete(spec, read.specs).get(name, "None"),
        spec_path=f"{read.path(name)}.replicas",
        batch_size=batch_size if elastic else None,
    )
