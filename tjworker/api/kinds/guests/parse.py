"""Parses a job of another operator's kind into the internal model. `GuestKind` has the differences between kinds. Pure;
never raises, whatever the JSON.

The operator replaces failed pods instead of letting the kubelet restart containers. So each restart has a cause, counts
against backoffLimit and leaves the end of its log in the status.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Generic

from pydantic import BaseModel, ValidationError

from tjworker.api import naming
from tjworker.api.ignored import Ignored
from tjworker.api.kinds.aitrainingjob import rules
from tjworker.api.kinds.base import (
    MAX_ERRORS,
    MEMORY,
    Header,
    Parsed,
    field_errors,
    header,
    strings,
    text,
    too_big_for_etcd,
)
from tjworker.api.kinds.batchsize import annotated_batch_size
from tjworker.api.kinds.guests import status
from tjworker.api.kinds.guests.kind import GuestKind, S, Specs
from tjworker.api.kinds.guests.spec import AsWritten, ElasticBounds, ReplicaSpec, RunFields, elastic_bounds, replicas_of
from tjworker.api.kinds.runpolicy import MAX_PODS
from tjworker.api.labels import ignored_queue
from tjworker.api.model import BatchSize, FieldError, GangPolicy, InvalidJob, RestartPolicy, Role, TrainingJob
from tjworker.api.timefmt import unix_seconds
from tjworker.base import Json, mapping, with_article

ANNOTATION_AUTOSCALE = "elasticdeeplearning.ai/edl-policy"
"""Annotation of a job with an elasticPolicy: with `Auto` the autoscaler scales its workers."""

_RESTARTS: Mapping[str, RestartPolicy] = {
    # Their own operators replace a failed pod whatever the cause, including a lost node.
    "Always": "Always",
    "OnFailure": "Always",
    "ExitCode": "OnNodeFailWithExitCode",
    "Never": "Never",
}


def _restart_policy(kind: GuestKind[S], spec: S, role: str, written: str) -> tuple[RestartPolicy, str]:
    """The restart policy of a role, and its name for messages."""
    if role in kind.batch_roles(spec):
        # A batch Job retries until backoffLimit is used up: with Never by a new pod, with OnFailure by a new container
        # (`newLauncherJob` of mpi-operator).
        return "Always", written
    if written == "ExitCode" and role in kind.final:
        return "Never", f"ExitCode, which {kind.final[role]}"
    return _RESTARTS[written], written


@dataclass(frozen=True, slots=True)
class ReadSpec(Generic[S]):
    """A spec that its model accepts."""

    job: str
    kind: GuestKind[S]
    spec: S
    specs: Specs
    """Roles by their canonical names."""
    written: Mapping[str, str]
    """Canonical name -> name as the user wrote it."""

    def path(self, role: str) -> str:
        return f"{self.where}.{self.written.get(role, role)}"

    @property
    def where(self) -> str:
        return f"spec.{self.kind.roles_field}"

    @property
    def run(self) -> RunFields:
        return self.kind.run_fields(self.spec)

    def run_path(self, field: str) -> str:
        return ".".join((*self.kind.run_policy_path, field))


def parse(kind: GuestKind[S], raw: Json) -> Parsed:
    raw = mapping(raw)
    # Only this operator writes the field MEMORY: a status without it may be another operator's.
    seen = status.state_elsewhere(raw.get("status")) if MEMORY not in mapping(raw.get("status")) else ""
    head = _header(kind, raw, seen)
    spec_json = mapping(raw.get("spec"))
    if seen == "begun":
        # For good, as no edit helps: the other operator's pods have the very names that this job's pods would get.
        return InvalidJob(**head, errors=(FieldError("status.conditions", _BEGUN),), for_good=True)
    try:
        spec = kind.spec_model.model_validate(spec_json)
    except ValidationError as error:
        return InvalidJob(**head, errors=field_errors(error))
    names = {name.lower(): name for name in kind.roles}
    given = kind.replica_specs(spec)
    # Their own operators accept role names in any case.
    written = {names.get(name.lower(), name): name for name in given}
    read = ReadSpec(head["name"].name, kind, spec, {name: given[key] for name, key in written.items()}, written)
    errors = tuple(_errors(read))
    if errors or len(written) < len(given):
        # The CRD's rule looks at each name alone, so `worker` and `Worker` pass it together.
        twice = FieldError(read.where, "two roles differ in the case of their letters only")
        return InvalidJob(**head, errors=(errors or (twice,))[:MAX_ERRORS])
    # Keep the raw templates: the models drop the fields that the operator does not read.
    templates = {name: mapping(mapping(spec_json[kind.roles_field])[key])["template"] for name, key in written.items()}
    return _job(read, raw, head, templates)


_BEGUN = (
    "another operator has begun this job, and its pods may still run; let it end there, or delete the job and create it"
    " again"
)


def _header(kind: GuestKind[S], raw: Json, seen: str) -> Header:
    """`seen`: the state of the job under another operator. A job that ended there does not run again."""
    own: Json = mapping(mapping(raw.get("status")).get(MEMORY))
    if seen in ("Succeeded", "Failed"):
        # The TTL counts from here. Without it, the jobs that ended before the operator was changed would stay for ever.
        completed = mapping(raw["status"]).get("completionTime")
        own = {"phase": "Succeed" if seen == "Succeeded" else "Failed"} | (
            {"completionTime": completed} if isinstance(completed, str) else {}
        )
    return header({**raw, "status": own}, kind.resource, kind.kind, kind.api_versions[0])


def _errors(read: ReadSpec[S]) -> Iterator[FieldError]:
    kind, specs = read.kind, read.specs
    if not rules.is_job_name(read.job):
        yield FieldError("metadata.name", f"{read.job[:80]!r}: the name of a job {rules.NAME_RULE}")
    if not specs:
        yield FieldError(read.where, f"has no role; {with_article(kind.kind)} has {' or '.join(kind.roles)}")
    for name in kind.needed:
        if specs and name not in specs:
            yield FieldError(read.path(name), f"required value: {with_article(kind.kind)} has a {name}")
    for name, role in specs.items():
        yield from _role_errors(read, name, role)
    total = sum(replicas_of(role) for role in specs.values())
    if specs and not 0 < total <= MAX_PODS:
        yield FieldError(read.where, f"{total} replicas of all roles together: they must be 1 to {MAX_PODS}")
    yield from kind.errors(read.job, read.spec, specs)
    elastic = kind.elastic_policy(read.spec)
    if elastic is not None:
        yield from _elastic_errors(read, elastic)


def _role_errors(read: ReadSpec[S], name: str, role: ReplicaSpec) -> Iterator[FieldError]:
    kind, path, replicas = read.kind, read.path(name), replicas_of(role)
    if name not in kind.roles:
        yield FieldError(path, f"is no role of {with_article(kind.kind)}: use {', '.join(kind.roles)}")
    if name in kind.lone and replicas != 1:
        yield FieldError(f"{path}.replicas", f"{replicas}: must be 1")
    containers = [container.name for container in role.template.spec.containers]
    if len(set(containers)) < len(containers):
        # The API server refuses this only when the first pod is created.
        yield FieldError(f"{path}.template.spec.containers", "two containers have one name")
    # Without this check the API server would refuse only the last pods of the job.
    longest = naming.longest_pod_name(read.job, name, replicas)
    if len(longest) > naming.MAX_NAME_LENGTH:
        yield FieldError("metadata.name", f"{longest[:80]}: the longest pod name {rules.LENGTH_RULE}")


def _elastic_errors(read: ReadSpec[S], elastic: ElasticBounds) -> Iterator[FieldError]:
    worker = read.specs.get("Worker")
    if worker is None:
        yield FieldError(read.path("Worker"), "must be there when spec.elasticPolicy is")
        return
    # Like their own operators, accept `replicas` outside of these bounds: there an HPA corrects it.
    least, most = elastic_bounds(elastic, worker)
    if least > most:
        yield FieldError("spec.elasticPolicy.minReplicas", f"{least}: must be at most maxReplicas ({most})")


def _job(read: ReadSpec[S], raw: Json, head: Header, templates: Mapping[str, Json]) -> Parsed:
    metadata, kind, run = mapping(raw.get("metadata")), read.kind, read.run
    annotations = strings(metadata.get("annotations"))
    autoscaled = annotations.get(ANNOTATION_AUTOSCALE) == "Auto"
    adapted = {
        name: kind.adapt_template(read.spec, name, head["uid"], template) for name, template in templates.items()
    }
    batch_size, wrong_size = annotated_batch_size(annotations)
    roles = tuple(_role(read, name, adapted[name], autoscaled, batch_size) for name in sorted(read.specs))
    if errors := (*wrong_size, *too_big_for_etcd(roles)):
        return InvalidJob(**head, errors=errors)
    job = TrainingJob(
        **head,
        roles=roles,
        labels=strings(metadata.get("labels")),
        annotations=annotations,
        created_at=unix_seconds(text(metadata.get("creationTimestamp"))),
        framework=kind.framework,
        active_deadline_seconds=run.active_deadline_seconds,
        ttl_seconds_after_finished=run.ttl_seconds_after_finished,
        backoff_limit=kind.backoff_limit if run.backoff_limit is None else run.backoff_limit,
        min_available=run.scheduling_policy.min_available if run.scheduling_policy else None,
        gang=_gang_policy(read),
        clean_pod_policy=run.clean_pod_policy or kind.clean_pod_policy,
        suspend=bool(run.suspend),
        suspend_field=read.run_path("suspend"),
        # A batch Job that exceeds its deadline loses its own pods only; the workers go as cleanPodPolicy says.
        limit_clean_policy=None if kind.batch_roles(read.spec) else kind.limit_clean_policy,
        batch_roles=kind.batch_roles(read.spec),
        # `ReconcileJobs` of both operators: `jobExceedsLimit` fails the job before anything else is asked.
        backoff_ends=True,
        main_container=kind.container,
        retries_unknown_exit=kind.retries_unknown_exit,
        scale_role="Worker" if "Worker" in read.specs else None,
        enough=kind.enough(read.spec, read.specs),
        runs=kind.runs(read.spec, read.specs),
        roles_path=read.where,
        guest_labels=kind.labels(),
        ignored=(
            *_ignored(read, annotations),
            *(() if kind.known_to_kueue else ignored_queue(strings(metadata.get("labels")))),
        ),
    )
    return kind.finish(job, read.spec)


_OF_A_GANG = frozenset(
    {"minAvailable", "queue", "priorityClass", "priorityClassName", "minResources", "scheduleTimeoutSeconds"}
)
"""Fields of a scheduling policy that a gang scheduler may act on."""


def _said(read: ReadSpec[S]) -> Json:
    policy = read.run.scheduling_policy
    return {} if policy is None else policy.model_dump(by_alias=True, exclude_none=True)


def _gang_policy(read: ReadSpec[S]) -> GangPolicy:
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


def _ignored(read: ReadSpec[S], annotations: Mapping[str, str]) -> Iterator[Ignored]:
    # Go's clients write "" and {} for fields that the user left out; only a set value is worth a warning.
    acting = (name for name, value in sorted(_said(read).items()) if value not in ("", {}) and name not in _OF_A_GANG)
    yield from (Ignored(read.run_path(f"schedulingPolicy.{name}")) for name in acting)
    of_kind = tuple(read.kind.ignored(read.spec))
    # The kind says why, so its entry replaces the plain one of the same field.
    explained = {one.path for one in of_kind}
    yield from (Ignored(path) for path in _all_inert(read) if path not in explained)
    yield from of_kind
    of_family = read.kind.ignored_annotations
    yield from (Ignored(name, part="annotation") for name in of_family if name in annotations)


def _all_inert(read: ReadSpec[S]) -> Iterator[str]:
    yield from _inert("spec", read.spec)
    # In KubeDL's kinds the run policy is the spec itself, whose fields would be reported twice.
    if read.run is not read.spec:
        yield from _inert(".".join(read.kind.run_policy_path), read.run)
    for name, role in read.specs.items():
        yield from _inert(read.path(name), role)


def _inert(path: str, model: BaseModel) -> Iterator[str]:
    """Fields that are kept, but have no effect."""
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        if isinstance(value, AsWritten) and value.model_extra:
            yield f"{path}.{field.alias}"


def _role(read: ReadSpec[S], name: str, template: Json, autoscaled: bool, batch_size: BatchSize | None) -> Role:
    kind, spec, role = read.kind, read.spec, read.specs[name]
    elastic = kind.elastic_policy(spec) if name == "Worker" else None
    free = (0, rules.MAX_REPLICAS) if name in kind.freely_scaled(spec) else (None, None)
    least, most = elastic_bounds(elastic, role) if elastic else free
    written = role.restart_policy or kind.default_restart(spec, name)
    restart_policy, restart_words = _restart_policy(kind, spec, name, written)
    return Role(
        name=name,
        workload="Pod",
        replicas=replicas_of(role),
        template=template,
        min_replicas=least,
        max_replicas=most,
        # An elasticPolicy alone moves nothing under its own operator, which leaves that to an HPA. An HPA and the
        # autoscaler would undo each other, so the annotation has to ask for the autoscaler.
        edl_policy="Auto" if autoscaled and elastic else "Manual",
        restart_policy=restart_policy,
        restart_words=restart_words,
        # Under their own operators, OnFailure and Always let the kubelet restart a container while others run.
        fails_in_part=written in ("Always", "OnFailure") or (written == "ExitCode" and kind.exit_code_of_running),
        # Both operators replace single pods and leave the others running.
        restart_scope="Pod",
        fail_policy="None" if name in kind.never_fails(spec) else "Any",
        fails_when_evicted=name in kind.fails_when_evicted,
        complete_policy=kind.complete_policies(spec, read.specs).get(name, "None"),
        spec_path=f"{read.path(name)}.replicas",
        batch_size=batch_size if elastic else None,
    )
