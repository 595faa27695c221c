"""Finds the usable rest of a job with an invalid spec. Pure.

The operator runs a job that has begun by this rest until a user corrects the spec. The search begins with a spec that
has only the job's roles and their numbers of replicas, from the status. It adds each field of the real spec with which
the parser of the kind still accepts the job. So this module repeats no rule of any kind.

Every field has a default, except the number of replicas. The status has it: `replicaStatuses.<role>.desired`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

from tjworker.api.kinds.base import UNREADABLE, JobKind
from tjworker.api.kinds.runpolicy import MAX_PODS
from tjworker.api.model import TrainingJob
from tjworker.api.podtemplate import DNS_LABEL
from tjworker.api.status import JobStatus
from tjworker.base import Json, mapping

Path = tuple[str, ...]
# In the spelling of every kind: `min-instance` and `max-instance` are a TrainingJob's, `elasticPolicy` is a guest's.
NUMBERS = frozenset({"replicas", "min-instance"})
BOUNDS = frozenset({"minReplicas", "maxReplicas", "max-instance", "elasticPolicy"})
OF_A_ROLE = frozenset({"restartPolicy", "restartScope", "restartLimit", "failPolicy", "completePolicy", "edlPolicy"})
"""Fields of a role that do not change its pods."""
OF_THE_JOB = frozenset(
    {
        *("suspend", "timeLimit", "restartingExitCode", "cleanPodPolicy", "failPolicy", "completePolicy"),
        *("faultTolerant", "runPolicy", "successPolicy", "walltime"),
        *("ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit", "schedulingPolicy"),
    }
)
"""Fields of the job that do not change its pods."""
SPLIT = ("runPolicy", "annotations")
"""Objects of the spec whose fields are tried one by one."""
# Every parser demands a container. The stub is never made into a pod, so the container needs no image.
PLAIN = {"spec": {"containers": [{"name": "main"}]}}
MAX_CONTAINERS = 64
LENGTH_OF_SHARED = 2
"""Length of the path of a field of the spec itself."""
SWEEPS = 2
"""A field may be valid only together with a field that is tried later."""


def salvage(kind: JobKind, raw: Json, status: JobStatus) -> TrainingJob | None:
    """The usable rest; None if the parser refuses even the roles, or their numbers of pods are unknown."""
    last = {name: min(counts.desired, MAX_PODS) for name, counts in status.replica_statuses.items()}
    roles = _written_roles(kind, raw, last)
    names = last.keys() or {name for name, role in roles.items() if isinstance(role, Mapping)}

    def read(trial: Json) -> TrainingJob | None:
        job = kind.parse(trial)
        # A trial that loses or adds a role is refused, too: the job's pods and status have these names, and an
        # unreadable spec is no reason to give them up.
        if not isinstance(job, TrainingJob) or {role.name for role in job.roles} != names:
            return None
        return job

    base = _base(kind, raw, {name: last.get(name, 1) for name in names}, roles)
    pieces = list(_pieces(kind, raw, {name: mapping(roles.get(name)) for name in names}))
    counts = [piece for piece in pieces if piece[0][-1] in NUMBERS | BOUNDS]
    # All numbers of the spec come first: a job with a broken template must still scale down.
    asked, kept = _with(base, counts), False
    if read(asked) is not None:
        base, pieces = asked, [piece for piece in pieces if piece[0][-1] not in NUMBERS | BOUNDS]
    elif not last or read(base) is None:
        return None
    else:
        # Numbers are taken together: one role is not scaled by the half of an edit.
        kept = True
        pieces = [piece for piece in pieces if piece[0][-1] not in NUMBERS]
    base, dropped = _take(base, pieces, read)
    # An edit that makes `suspend` unreadable must not start a suspended job.
    if status.suspend_time and any(path == kind.suspend_path[: len(path)] for path in dropped):
        base = _with(base, [(kind.suspend_path, True)])
    job = read(base)
    if job is None or UNREADABLE in raw or not (dropped or kept):  # the invalid part is missing in `raw`
        return job and job.without_new_pods()
    # The existing PodGroup stays: the job's scheduling policy is unknown.
    if any(path[-1] in ("runPolicy", "schedulingPolicy") for path in dropped):
        job = replace(job, gang=replace(job.gang, unread=True))
    missing = {name for name in names if kind.roles_field and "template" not in mapping(roles.get(name))}
    return _without_pods_of(job, dropped, missing)


def _without_pods_of(job: TrainingJob, dropped: Sequence[Path], missing: Set[str]) -> TrainingJob:
    """The job, with no new pods for roles whose template is not valid. `missing`: roles without a template."""
    names = {role.name for role in job.roles}
    of_pods = [path for path in dropped if path[0] == "spec" and path[-1] not in OF_A_ROLE | OF_THE_JOB]
    # A field of the spec itself may be part of every pod.
    if any(path[-2] not in names or len(path) == LENGTH_OF_SHARED for path in of_pods):
        return job.without_new_pods()
    lacking = missing | {path[-2] for path in of_pods}
    return job.without_new_pods(lacking)


def _base(kind: JobKind, raw: Json, numbers: Mapping[str, int], roles: Json) -> dict[str, Any]:
    """The object with nothing but its roles, each with the names and ports of its containers."""
    templates = {name: _stub(mapping(roles.get(name)).get("template")) for name in numbers}
    # Some annotations can make a job invalid, such as the batch size. So each is tried by itself, like a field.
    metadata = {name: value for name, value in mapping(raw.get("metadata")).items() if name != "annotations"}
    kept = {name: value for name, value in raw.items() if name != UNREADABLE}
    return {**kept, "metadata": metadata, "spec": kind.skeleton(numbers, templates)}


def _written_roles(kind: JobKind, raw: Json, last: Mapping[str, int]) -> dict[str, Any]:
    """The roles by their names in the status. In other operators' kinds users may write them in any case."""
    found: object = raw
    for step in kind.roles_path:
        found = mapping(found).get(step)
    by_lower = {name.lower(): name for name in last}
    written = {str(name): role for name, role in mapping(found).items()}
    return {name if name in last else by_lower.get(name.lower(), name): role for name, role in written.items()}


def _pieces(kind: JobKind, raw: Json, roles: Mapping[str, Json]) -> Iterator[tuple[Path, Any]]:
    """The parts that are tried separately: fields of roles, of the run policy, of the spec; annotations."""
    for name, role in roles.items():
        yield from (((*kind.roles_path, name, str(field)), value) for field, value in role.items())
    for field, value in mapping(raw.get("spec")).items():
        if ("spec", field) == kind.roles_path or (kind.roles_path == ("spec",) and field in roles):
            continue
        # A misspelt cleanPodPolicy must not take the deadline and the TTL of the same run policy with it.
        if field in SPLIT and isinstance(value, Mapping):
            yield from ((("spec", str(field), str(name)), part) for name, part in value.items())
        else:
            yield ("spec", str(field)), value
    for name, value in mapping(mapping(raw.get("metadata")).get("annotations")).items():
        yield ("metadata", "annotations", str(name)), value


def _take(
    base: dict[str, Any], pieces: Sequence[tuple[Path, Any]], read: Callable[[Json], TrainingJob | None]
) -> tuple[dict[str, Any], list[Path]]:
    """The object with all pieces that leave it valid, and the paths of the dropped pieces."""
    left = list(pieces)
    for _ in range(SWEEPS):
        before, todo, left = len(left), [left], []
        while todo:
            some = todo.pop()
            trial = _with(base, some)
            if read(trial) is not None:
                base = trial
            elif len(some) == 1:
                left += some
            else:
                # Halving finds one wrong field among a hundred with few parses.
                todo += [some[len(some) // 2 :], some[: len(some) // 2]]
        if len(left) in (0, before):
            break
    return base, [path for path, _ in left]


def _with(obj: dict[str, Any], pieces: Sequence[tuple[Path, Any]]) -> dict[str, Any]:
    """A copy of the object with these pieces. It shares the parts that no piece changes."""
    made = dict(obj)
    for path, value in pieces:
        into = made
        for step in path[:-1]:
            into[step] = dict(mapping(into.get(step)))
            into = into[step]
        into[path[-1]] = value
    return made


def _stub(template: object) -> dict[str, Any]:
    """A minimal template with the containers whose exit codes count, and their ports. No pod is created from it."""
    listed = mapping(mapping(template).get("spec")).get("containers")
    made: dict[str, Any] = {}
    ports: dict[str, int] = {}
    for container in listed if isinstance(listed, list) else ():
        name = mapping(container).get("name")
        # A stub that the parser refuses would make every trial fail, whichever field is at fault.
        if isinstance(name, str) and re.fullmatch(DNS_LABEL, name) and len(name) <= 63 and name not in made:
            made[name] = {"name": name, "ports": list(_ports(container, ports))}
    return {"spec": {"containers": list(made.values())[:MAX_CONTAINERS]}} if made else PLAIN


def _ports(container: Json, seen: dict[str, int]) -> Iterator[dict[str, Any]]:
    listed = container.get("ports")
    for port in listed if isinstance(listed, list) else ():
        name, number = mapping(port).get("name"), mapping(port).get("containerPort")
        # The API server's bounds of a port. The same name with two numbers is an error of a role, so the first number
        # counts.
        fits = isinstance(name, str) and len(name) <= 15 and type(number) is int and 0 < number < 65536
        if fits and seen.setdefault(str(name), number or 0) == number:
            yield {"name": name, "containerPort": number}
