"""A job of one of Kubeflow's kinds -> the internal model. What differs by kind stands in a `Shape`. Pure; never raises,
whatever the JSON.

Pods are replaced by the operator and not by their kubelet, so that a restart has a cause, counts against backoffLimit
and leaves the end of its log in the status.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
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
    Json,
    Parsed,
    field_errors,
    header,
    mapping,
    strings,
    text,
    too_big_for_etcd,
)
from tjworker.api.kinds.kubeflow import status
from tjworker.api.kinds.kubeflow.spec import OWN_CONTROLLERS, ElasticPolicy, ReplicaSpec, RunPolicy
from tjworker.api.kinds.runpolicy import MAX_PODS
from tjworker.api.model import (
    EndPolicy,
    FieldError,
    FrameworkType,
    InvalidJob,
    LabelsOfGuest,
    RestartPolicy,
    Role,
    TrainingJob,
)
from tjworker.base import GroupResource

GROUP, VERSION = "kubeflow.org", "v1"
LABEL_PREFIX = "training.kubeflow.org/"
ANNOTATION_AUTOSCALE = "elasticdeeplearning.ai/edl-policy"
"""On a job with an elasticPolicy: `Auto` lets the autoscaler move its workers."""

_RESTARTS: Mapping[str, RestartPolicy] = {
    # training-operator makes a pod that has failed again whatever the cause, a lost node included.
    "Always": "Always",
    "OnFailure": "Always",
    "ExitCode": "OnNodeFailWithExitCode",
    "Never": "Never",
}
Specs = Mapping[str, ReplicaSpec]
Env = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Shape:
    """What one kind is."""

    kind: str
    plural: str
    framework: FrameworkType
    specs_field: str
    """Of spec: the map of roles."""
    roles: tuple[str, ...]
    spec_model: type[BaseModel]
    specs: Callable[[Any], Specs]
    """The map of roles of a spec that the model has read."""
    complete: Callable[[Any, Specs], Mapping[str, EndPolicy]]
    """When each role is done, given the spec and its roles by their canonical names; a role that is not there never
    ends the job with success."""
    default_restart: str = "Never"
    lone: tuple[str, ...] = ()
    """Roles of one replica."""
    needed: tuple[str, ...] = ()
    """Roles without which it cannot be."""
    environment: Callable[[Any], Env] = lambda spec: {}
    """What the spec itself says to the launcher, of every container."""
    never_fails: Callable[[Any], tuple[str, ...]] = lambda spec: ()
    """Roles whose failed pods do not end the job."""
    freely_scaled: Callable[[Any], tuple[str, ...]] = lambda spec: ()
    """Roles whose number of replicas may change while they run, without bounds."""
    ignored: Callable[[Any], Iterator[str]] = lambda spec: iter(())
    """Fields of its own that are set and not acted on."""
    versions: tuple[str, ...] = (VERSION,)
    """The stored one first."""
    version_defaults: Mapping[str, Json] = field(default_factory=dict)
    """See `JobKind`."""
    broken: Callable[[str, Any, Specs], Iterator[FieldError]] = lambda job, spec, specs: iter(())
    """(name of the job, spec, roles) -> what no kind but this refuses."""
    restart: Callable[[Any, str], str] | None = None
    """(spec, role) -> the restart policy of a role that sets none, in place of `default_restart`."""
    finish: Callable[[TrainingJob, Any], TrainingJob] = lambda job, spec: job
    """(job, spec) -> the job with what only this kind has."""

    @property
    def resource(self) -> GroupResource:
        return GroupResource(f"{self.plural}.{GROUP}")

    @property
    def controller(self) -> str:
        """As training-operator's controller of the kind calls itself in labels."""
        return f"{self.kind.lower()}-controller"


def job_kind(shape: Shape, description: str) -> JobKind:
    return JobKind(
        plural=shape.plural,
        singular=shape.kind.lower(),
        kind=shape.kind,
        short_name="",
        description=description,
        group=GROUP,
        versions=shape.versions,
        version_defaults=shape.version_defaults,
        scale_role="Worker",
        scale_spec_path=f".spec.{shape.specs_field}.Worker.replicas",
        spec_model=shape.spec_model,
        root_rules=(rules.ROOT[0],),
        parse=lambda raw: parse(shape, raw),
        optional=True,
        role_patch=lambda role, n: {"spec": {shape.specs_field: {role: {"replicas": n}}}},
        suspend_path=("spec", "runPolicy", "suspend"),
        guest=Guest(
            status_model=status.KubeflowStatus,
            write_status=status.write_status,
            columns=status.COLUMNS,
            scale_paths=(".status.replicaStatuses.Worker.active", ".status.replicaStatuses.Worker.selector"),
            is_for_another=is_for_another,
        ),
    )


def is_for_another(raw: Json) -> bool:
    manager = mapping(mapping(raw.get("spec")).get("runPolicy")).get("managedBy")
    return isinstance(manager, str) and manager not in OWN_CONTROLLERS


def parse(shape: Shape, raw: Json) -> Parsed:
    raw = mapping(raw)
    seen = status.of_another_operator(raw.get("status")) if MEMORY not in mapping(raw.get("status")) else ""
    head = _header(shape, raw, seen)
    spec_json = mapping(raw.get("spec"))
    if seen == "begun":
        return InvalidJob(**head, errors=(FieldError("status.conditions", _BEGUN),))
    try:
        spec: Any = shape.spec_model.model_validate(spec_json)
    except ValidationError as error:
        return InvalidJob(**head, errors=field_errors(error))
    names = {name.lower(): name for name in shape.roles}
    # Role names may be written in any case, as training-operator takes them.
    written = {names.get(name.lower(), name): name for name in shape.specs(spec)}
    specs = {name: shape.specs(spec)[key] for name, key in written.items()}
    errors = tuple(_broken(head["name"].name, shape, spec, specs))
    if errors or len(written) < len(shape.specs(spec)):
        twice = FieldError(f"spec.{shape.specs_field}", "two roles differ in the case of their letters only")
        return InvalidJob(**head, errors=(errors or (twice,))[:MAX_ERRORS])
    templates = {name: mapping(mapping(spec_json[shape.specs_field])[written[name]])["template"] for name in specs}
    return _job(shape, raw, head, spec, specs, templates)


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
    return header({**raw, "status": own}, shape.resource, shape.kind, f"{GROUP}/{shape.versions[0]}")


def _broken(job: str, shape: Shape, spec: Any, specs: Specs) -> Iterator[FieldError]:
    if not rules.is_job_name(job):
        yield FieldError("metadata.name", f"{job[:80]!r}: the name of a job {rules.NAME_RULE}")
    where = f"spec.{shape.specs_field}"
    if not specs:
        yield FieldError(where, f"has no role; a {shape.kind} has {' or '.join(shape.roles)}")
    for name in shape.needed:
        if specs and name not in specs:
            yield FieldError(f"{where}.{name}", f"required value: a {shape.kind} has a {name}")
    for name, role in specs.items():
        yield from _role_errors(job, shape, name, role)
    total = sum(_replicas(role) for name, role in specs.items())
    if specs and not 0 < total <= MAX_PODS:
        yield FieldError(where, f"{total} replicas of all roles together: they must be 1 to {MAX_PODS}")
    yield from shape.broken(job, spec, specs)
    elastic = elastic_policy(spec)
    if elastic is not None:
        yield from _elastic_errors(where, elastic, specs)
    policy = run_policy(spec).scheduling_policy
    if policy is not None and policy.min_available is not None and policy.min_available > total:
        yield FieldError(
            "spec.runPolicy.schedulingPolicy.minAvailable",
            f"{policy.min_available}: must be at most the sum of all replicas ({total})",
        )


def _role_errors(job: str, shape: Shape, name: str, role: ReplicaSpec) -> Iterator[FieldError]:
    path, replicas = f"spec.{shape.specs_field}.{name}", _replicas(role)
    if name not in shape.roles:
        yield FieldError(path, f"is no role of a {shape.kind}: use {', '.join(shape.roles)}")
    if name in shape.lone and replicas != 1:
        yield FieldError(f"{path}.replicas", f"{replicas}: must be 1")
    containers = [container.name for container in role.template.spec.containers]
    if len(set(containers)) < len(containers):
        yield FieldError(f"{path}.template.spec.containers", "two containers have one name")
    longest = naming.longest_pod_name(job, name, replicas)
    if len(longest) > naming.MAX_NAME_LENGTH:
        yield FieldError("metadata.name", f"{longest[:80]}: the longest pod name {rules.LENGTH_RULE}")


def _elastic_errors(where: str, elastic: ElasticPolicy, specs: Specs) -> Iterator[FieldError]:
    worker = specs.get("Worker")
    if worker is None:
        yield FieldError(f"{where}.Worker", "must be there when spec.elasticPolicy is")
        return
    least, most = elastic_bounds(elastic, worker)
    replicas = 1 if worker.replicas is None else worker.replicas
    if least > most:
        yield FieldError("spec.elasticPolicy.minReplicas", f"{least}: must be at most maxReplicas ({most})")
    elif not least <= replicas <= most:
        yield FieldError(f"{where}.Worker.replicas", f"{replicas}: elasticPolicy wants it from {least} to {most}")


def elastic_policy(spec: Any) -> ElasticPolicy | None:
    found = getattr(spec, "elastic_policy", None)
    return found if isinstance(found, ElasticPolicy) else None


def elastic_bounds(elastic: ElasticPolicy, worker: ReplicaSpec) -> tuple[int, int]:
    """One bound stands for the other; without any the number of workers is fixed."""
    replicas = 1 if worker.replicas is None else worker.replicas
    least = elastic.min_replicas or elastic.max_replicas or replicas
    return least, elastic.max_replicas or least


def run_policy(spec: Any) -> RunPolicy:
    found = spec.run_policy
    return found if isinstance(found, RunPolicy) else RunPolicy()


def _replicas(role: ReplicaSpec) -> int:
    return 1 if role.replicas is None else role.replicas


def _job(shape: Shape, raw: Json, head: Header, spec: Any, specs: Specs, templates: Mapping[str, Json]) -> Parsed:
    metadata = mapping(raw.get("metadata"))
    annotations = strings(metadata.get("annotations"))
    autoscaled = annotations.get(ANNOTATION_AUTOSCALE) == "Auto"
    roles = tuple(_role(shape, spec, specs, name, templates[name], autoscaled) for name in sorted(specs))
    if errors := too_big_for_etcd(roles):
        return InvalidJob(**head, errors=errors)
    run = run_policy(spec)
    ignored = tuple(_ignored(shape, spec, run))
    job = TrainingJob(
        **head,
        roles=roles,
        labels=strings(metadata.get("labels")),
        annotations=annotations,
        created_at=text(metadata.get("creationTimestamp")),
        framework=shape.framework,
        active_deadline_seconds=run.active_deadline_seconds,
        ttl_seconds_after_finished=run.ttl_seconds_after_finished,
        backoff_limit=run.backoff_limit,
        min_available=run.scheduling_policy.min_available if run.scheduling_policy else None,
        clean_pod_policy=run.clean_pod_policy or "None",
        suspend=bool(run.suspend),
        scale_role="Worker" if "Worker" in specs else None,
        guest_labels=LabelsOfGuest(LABEL_PREFIX, shape.controller),
        ignored=ignored,
    )
    return shape.finish(job, spec)


def _ignored(shape: Shape, spec: Any, run: RunPolicy) -> Iterator[str]:
    policy = run.scheduling_policy
    said = {} if policy is None else policy.model_dump(by_alias=True, exclude_none=True)
    acting = (name for name, value in sorted(said.items()) if value not in ("", {}))
    yield from (f"spec.runPolicy.schedulingPolicy.{name}" for name in acting)
    elastic = elastic_policy(spec)
    if elastic is not None and elastic.metrics:
        yield "spec.elasticPolicy.metrics"
    yield from shape.ignored(spec)


def _role(shape: Shape, spec: Any, specs: Specs, name: str, template: Json, autoscaled: bool) -> Role:
    role = specs[name]
    elastic = elastic_policy(spec) if name == "Worker" else None
    free = (0, rules.MAX_REPLICAS) if name in shape.freely_scaled(spec) else (None, None)
    least, most = elastic_bounds(elastic, role) if elastic else free
    unset = shape.restart(spec, name) if shape.restart else shape.default_restart
    return Role(
        name=name,
        workload="Pod",
        replicas=_replicas(role),
        template=with_environment(template, shape.environment(spec)),
        min_replicas=least,
        max_replicas=most,
        edl_policy="Auto" if autoscaled and elastic else "Manual",
        restart_policy=_RESTARTS[role.restart_policy or unset],
        restart_scope="Pod",
        fail_policy="None" if name in shape.never_fails(spec) else "Any",
        complete_policy=shape.complete(spec, specs).get(name, "None"),
        spec_path=f"spec.{shape.specs_field}.{name}.replicas",
    )


def with_environment(template: Json, added: Env) -> Json:
    """The template with these variables in every container that does not set them itself."""
    pod = mapping(template.get("spec"))
    containers = pod.get("containers")
    if not added or not isinstance(containers, list):
        return template
    return {**template, "spec": {**pod, "containers": [_with_env(mapping(c), added) for c in containers]}}


def _with_env(container: Json, added: Env) -> Json:
    own = container.get("env") if isinstance(container.get("env"), list) else []
    named = {entry.get("name") for entry in own or () if isinstance(entry, Mapping)}
    ours = [{"name": name, "value": value} for name, value in added.items() if name not in named]
    return {**container, "env": [*(own or ()), *ours]}
