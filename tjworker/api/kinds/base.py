"""The base classes of job kinds, and how all kinds read metadata, status and pydantic's errors.

Pure. No function raises for any JSON: the valid parts of metadata and status are used, a wrong spec becomes field
errors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypedDict

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from tjworker.api.model import FieldError, InvalidJob, Role, TrainingJob
from tjworker.api.status import PHASES, JobStatus
from tjworker.api.timefmt import deletion_seconds
from tjworker.api.wording import problem_words
from tjworker.base import GroupResource, JobName, Json, mapping

Parsed = TrainingJob | InvalidJob
MAX_ERRORS = 10
"""Errors that are reported for a job at once: enough to correct it, and the condition's message stays short."""
MAX_REPAIRS = 8
MEMORY = "operator"
"""Field of the status of another operator's kind that holds this operator's status."""
UNREADABLE = "unreadable"
"""Field of a projected job whose spec could not be kept. It holds the reason."""
RESOLVED = "resolved"
"""Field of a job that a worker has just read. It holds the part to keep of the object that the spec names."""
LEFT_OUT = "leftOut"
"""Field of a projected job without its spec: the size of the spec in bytes. A worker reads it from the API server."""
MAX_DEPTH = 16
"""Levels of a status that a repair copies: more than any valid status has, and no risk to the stack."""


MOST_OF_AN_OBJECT = 3 << 19
"""Bytes: etcd refuses a larger request (--max-request-bytes, 1.5 MiB)."""
MOST_OF_ALL_PODS = 1 << 30
"""Bytes: half of what etcd holds by default (--quota-backend-bytes)."""


class CamelModel(BaseModel):
    """Base of the models. Field names are camelCase, values are not converted, unknown fields are dropped."""

    # `strict`: the API server refuses "3" for an integer, so a job from a file must not pass here, either. `extra`: in
    # an upgrade the CRD comes first, and may have fields that workers of the old version do not know.
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", alias_generator=to_camel, populate_by_name=True)


@dataclass(frozen=True, slots=True)
class Companion:
    """A kind of objects that jobs name in their spec. The operator only reads them."""

    plural: str
    singular: str
    kind: str
    group: str
    version: str
    namespaced: bool
    description: str
    spec_model: type[BaseModel]

    @property
    def resource(self) -> GroupResource:
        return GroupResource(f"{self.plural}.{self.group}")


Named = tuple[GroupResource, str]
"""An object that a job names: its resource, and `namespace/name`. The namespace of a cluster-wide object is empty."""


class JobKind(ABC):
    """The base class of job kinds. A kind is a subclass with one instance, a row of `kinds.KNOWN_KINDS`."""

    plural: str
    kind: str
    short_name: str = ""
    description: str
    """Description of the kind for `kubectl explain` and the reference."""
    group: str
    # The same schema for all versions needs no conversion, and so no webhook that can be down (ADR 6).
    versions: tuple[str, ...]
    """Served versions, the stored one first. All have the same schema, but for `version_defaults`."""
    version_defaults: Mapping[str, Json] = MappingProxyType({})
    """Version -> defaults of the spec that the API server fills in for manifests of that version."""
    spec_model: type[BaseModel]
    """The model from which the CRD's schema is generated."""
    root_rules: tuple[Mapping[str, Any], ...]
    """CEL rules on the whole object, for conditions on metadata.name."""
    optional: bool = False
    """True if a cluster may lack its CRD."""
    roles_field: str = "replicaSpecs"
    """The field of spec that is the map of roles; empty if each role is a field of spec."""
    run_policy_path: tuple[str, ...] = ("spec", "runPolicy")
    """The object that has the fields of the run policy, such as ttlSecondsAfterFinished."""
    suspend_path: tuple[str, ...] = ("spec", "suspend")
    """The field that suspends a job."""
    ttl_path: tuple[str, ...] = ()
    """The field with the seconds for which an ended job is kept; empty: ttlSecondsAfterFinished of the run policy."""
    companions: tuple[Companion, ...] = ()
    """Kinds of the objects that its jobs name. `parse` returns an InvalidJob with `missing` until the named object
    exists. Then the status keeps its `snapshot` for the life of the job."""
    is_salvaged: bool = True
    """True if `salvage` finds the usable rest of a job whose spec has errors; False if `rest` does."""

    @abstractmethod
    def parse(self, raw: Json) -> Parsed:
        """Parse any JSON object. Never raises."""

    @property
    def scale_role(self) -> str:
        """The role that the scale subresource scales, if the job has it. A CRD allows one fixed path."""
        return ""

    @property
    def scale_spec_path(self) -> str:
        """Path of the number of replicas that the scale subresource changes; empty if the CRD has none."""
        return ""

    def role_patch(self, role: str, replicas: int) -> dict[str, Any] | None:
        """The merge patch that scales a role without the scale subresource; None if no other role is scaled."""
        return None

    def skeleton(self, numbers: Mapping[str, int], templates: Mapping[str, Json]) -> dict[str, Any]:
        """A spec with these roles and nothing else."""
        roles = {name: {"replicas": number, "template": templates[name]} for name, number in numbers.items()}
        return {self.roles_field: roles}

    def named(self, raw: Json) -> Named | None:
        """The object for which the job `raw` waits; None for a job that has begun."""
        return None

    def snapshot(self, found: Json) -> dict[str, Any]:
        """The part of the named object that a job keeps."""
        return {}

    def rest(self, raw: Json) -> TrainingJob | None:
        """The usable rest of a job whose spec has errors, for a kind that is not `is_salvaged`."""
        return None

    @property
    def guest(self) -> Guest | None:
        """The kind itself, if it is another operator's."""
        return None

    @property
    def singular(self) -> str:
        return self.kind.lower()

    @property
    def resource(self) -> GroupResource:
        """Name of the CRD; the kind's part of a JobKey, and its key in `kube.resources` and in KINDS."""
        return GroupResource(f"{self.plural}.{self.group}")

    @property
    def roles_path(self) -> tuple[str, ...]:
        """The object whose fields are the roles."""
        return ("spec", self.roles_field) if self.roles_field else ("spec",)

    @property
    def api_versions(self) -> tuple[str, ...]:
        return tuple(f"{self.group}/{version}" for version in self.versions)

    def run_policy(self, raw: Json) -> Json:
        """The fields of the run policy in any object, raw."""
        found: object = raw
        for step in self.run_policy_path:
            found = mapping(found).get(step)
        return mapping(found)

    def ttl_seconds(self, raw: Json) -> int | None:
        """Seconds for which an ended job is kept, from any object, raw; None: for ever."""
        found: object = raw
        for step in self.ttl_path or (*self.run_policy_path, "ttlSecondsAfterFinished"):
            found = mapping(found).get(step)
        return found if isinstance(found, int) else None

    def with_run_policy(self, policy: Json) -> dict[str, Any]:
        """An object that has only this run policy."""
        made = dict(policy)
        for step in reversed(self.run_policy_path):
            made = {step: made}
        return made

    def own_status(self, status: object) -> Json:
        """The operator's own status in the status of an object, raw."""
        return mapping(status)

    def placed(self, status: Json) -> dict[str, Any]:
        """The status of an object that has only this own status, or this part of one."""
        return dict(status)

    def written_status(self, job: Parsed, status: JobStatus) -> dict[str, Any]:
        """The whole status of an object, as it is written to the API server."""
        return self.placed(status.to_json())


class Guest(JobKind):
    """A kind of another operator. Its status has the form that its users and their programs read. The field MEMORY
    holds this operator's status."""

    optional = True
    status_model: type[BaseModel]
    columns: tuple[dict[str, Any], ...]
    scale_paths: tuple[str, str]
    """Paths in the status for the scale subresource: replicas and selector."""
    mirrored: tuple[str, ...] = ()
    """Fields of this operator's status that are also written outside of MEMORY, for users."""

    @abstractmethod
    def status_of(self, job: Parsed, status: JobStatus) -> dict[str, Any]:
        """The status in the form of its operator, without MEMORY."""

    def is_for_another(self, raw: Json) -> bool:
        """True if the job names another controller (`managedBy`)."""
        return False

    @property
    def guest(self) -> Guest:
        return self

    def own_status(self, status: object) -> Json:
        return mapping(mapping(status).get(MEMORY))

    def placed(self, status: Json) -> dict[str, Any]:
        return {MEMORY: status, **{name: status[name] for name in self.mirrored if name in status}}

    def written_status(self, job: Parsed, status: JobStatus) -> dict[str, Any]:
        # The same PUT has both forms. With two writes the second could fail, and the status would contradict the
        # memory (ADR 28).
        return {**self.status_of(job, status), **self.placed(status.to_json())}


class Header(TypedDict):
    """The fields that every job has, valid or not."""

    name: JobName
    api_version: str
    kind: str
    uid: str
    resource_version: int
    generation: int
    status: JobStatus
    deleted_at: int | None


def header(raw: object, resource: GroupResource, kind: str, api_version: str) -> Header:
    raw = mapping(raw)
    metadata = mapping(raw.get("metadata"))
    return {
        "name": JobName(resource, text(metadata.get("namespace")), text(metadata.get("name"))),
        "api_version": text(raw.get("apiVersion")) or api_version,
        "kind": kind,
        "uid": text(metadata.get("uid")),
        "resource_version": number(metadata.get("resourceVersion")),
        "generation": number(metadata.get("generation")),
        "status": read_status(raw.get("status")),
        "deleted_at": deletion_seconds(metadata),
    }


def too_big_for_etcd(roles: Sequence[Role]) -> tuple[FieldError, ...]:
    """Check that the pods of a job fit into etcd, each with a copy of its role's template. A CEL rule cannot check it:
    CEL does not see the size of a template."""
    # The autoscaler may reach maxReplicas hours after the job was accepted, when a refusal comes too late.
    counts = {role.name: max(role.replicas, role.max_replicas or 0) for role in roles}
    # Most jobs are far below the limit, and need no template serialised at each parse.
    if sum(counts.values()) * MOST_OF_AN_OBJECT <= MOST_OF_ALL_PODS:
        return ()
    sizes = {role.name: _json_size(role.template) for role in roles}
    total = sum(sizes[name] * count for name, count in counts.items())
    if total <= MOST_OF_ALL_PODS:
        return ()
    worst = max(roles, key=lambda r: sizes[r.name] * counts[r.name])
    return (
        FieldError(
            worst.spec_path,
            f"{counts[worst.name]} pods of {sizes[worst.name] >> 10} KiB each: the pods of a job must be at most"
            f" {MOST_OF_ALL_PODS >> 20} MiB together, as etcd holds a copy of the template for each; put what is large"
            " into a ConfigMap or a volume, or split the job",
        ),
    )


def _json_size(template: Json) -> int:
    try:
        return len(orjson.dumps(template))
    except TypeError:  # deeper than orjson goes: the API server judges it
        return 0


LEVELS_KEPT = 3
"""Levels of a spec that are tried separately if it cannot be kept whole: down to the fields of a role or run policy."""
_LEVELS_ABOVE = 3
"""Levels of a record above its spec, and a spare one."""


def readable(value: object, levels: int = LEVELS_KEPT) -> object:
    """The value without the parts that JSON cannot hold; None if nothing is left. A job that has begun runs by it."""
    inside = value
    for _ in range(LEVELS_KEPT + _LEVELS_ABOVE):
        inside = [inside]
    try:
        # As deep as it will lie in the record: orjson counts levels from there.
        orjson.dumps(inside)
    except orjson.JSONEncodeError:
        if levels == 0 or not isinstance(value, dict):
            return None
        parts = ((name, readable(part, levels - 1)) for name, part in value.items() if isinstance(name, str))
        return {name: part for name, part in parts if part is not None}
    return value


def unreadable(raw: Json, kind: JobKind) -> InvalidJob:
    """The InvalidJob for a job whose spec the projection could not keep."""
    errors = (FieldError("spec", text(raw[UNREADABLE])),)
    return InvalidJob(**header(raw, kind.resource, kind.kind, kind.api_versions[0]), errors=errors)


def seen_status(raw: Json) -> Json:
    """This operator's raw status in a job of any kind."""
    status = mapping(raw.get("status"))
    return mapping(status.get(MEMORY)) if MEMORY in status else status


def text(value: object) -> str:
    return value if isinstance(value, str) else ""


def number(value: object) -> int:
    """A count that Kubernetes writes as a number or, for resourceVersion, as digits. 0 for anything else."""
    # A bool is an int in Python: `generation: true` in a file is no count.
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    # `isdigit` accepts "²", which int() does not. int() also refuses text of more than 4,300 digits; a resourceVersion
    # has at most the 20 digits of 64 bits.
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 20 else 0


def strings(value: object) -> dict[str, str]:
    """Labels or annotations."""
    return {k: v for k, v in mapping(value).items() if isinstance(k, str) and isinstance(v, str)}


def read_status(raw: object) -> JobStatus:
    """The valid parts of a status. An invalid field must not hide the end of a job: an ended job would run again."""
    if not isinstance(raw, Mapping):
        return JobStatus()
    raw = _with_known_end(raw)
    value: Any = raw
    # Removing a part can make its parent invalid, which the next validation finds. The bound keeps a garbled status
    # from costing a pass its time.
    for _ in range(MAX_REPAIRS):
        try:
            return JobStatus.model_validate(value)
        except ValidationError as error:
            # Nearly all statuses are valid, so only a faulty status costs a copy. The original may be shared with other
            # readers.
            if value is raw:
                value = _copy(raw)
            # From the last problem to the first: removing an item of a list shifts the indices of all later items.
            for problem in reversed(error.errors(include_url=False, include_input=False)):
                _repair(value, problem["loc"], problem["type"], problem.get("ctx", {}))
    # Beyond repair. The phase alone decides whether the job may run again, so it is the last part to be given up.
    return _only_phase(raw)


def _with_known_end(raw: Json) -> Json:
    """Replace the unknown phase of an ended job by Succeed or Failed, as its conditions say. A later version may have
    written that phase; without a phase the job would begin again after a rollback."""
    # Only an end has a completionTime. An unknown phase of a live job needs no substitute: the next pass computes it.
    phase, completed = raw.get("phase"), raw.get("completionTime")
    if not (isinstance(phase, str) and isinstance(completed, str) and completed) or phase in PHASES:
        return raw
    conditions = raw.get("conditions")
    succeeded = isinstance(conditions, list) and any(
        isinstance(one, Mapping) and (one.get("type"), one.get("status")) == ("Succeeded", "True") for one in conditions
    )
    return {**raw, "phase": "Succeed" if succeeded else "Failed"}


def _only_phase(raw: Json) -> JobStatus:
    try:
        return JobStatus.model_validate({"phase": raw.get("phase", "")})
    except ValidationError:
        return JobStatus()


def _copy(value: Any, depth: int = MAX_DEPTH) -> Any:
    if not isinstance(value, Mapping | list | tuple):
        return value
    if depth == 0:
        return None
    if isinstance(value, Mapping):
        return {str(k): _copy(v, depth - 1) for k, v in value.items()}
    return [_copy(v, depth - 1) for v in value]


def _repair(value: Any, path: Sequence[int | str], problem: str, context: Mapping[str, Any]) -> None:
    """Remove the invalid part of `value`: the object that lacks a required field, the surplus of a list too long."""
    steps = path[:-1] if problem == "missing" else path
    for i, step in enumerate(steps):
        # An earlier repair of the same round may have removed the part, or its parent.
        listed = isinstance(value, list) and isinstance(step, int) and step < len(value)
        if not listed and not (isinstance(value, dict) and step in value):
            return
        if i < len(steps) - 1:
            value = value[step]
        elif problem == "too_long" and isinstance(value[step], list):
            del value[step][context["max_length"] :]
        else:
            del value[step]


def field_errors(error: ValidationError, root: str = "spec") -> tuple[FieldError, ...]:
    """The errors of a spec as kubectl prints them: path, short value, rule."""
    problems = error.errors(include_url=False)[:MAX_ERRORS]
    return tuple(FieldError(field_path(root, p["loc"]), problem_words(p)) for p in problems)


def field_path(root: str, loc: Sequence[int | str]) -> str:
    return root + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in loc)
