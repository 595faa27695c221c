"""The registry of job kinds. A kind has a folder and a row here; the kinds of another operator share a folder
(`kubeflow`, `kubedl`, `trainer`). Code after `parse` does not depend on the kind of a job.

Pure. To add a kind, add a folder with a `JOB_KIND` and its row. The row determines its resource and permissions
(`tjworker.kube.resources`), its CRD and its section of the reference.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from tjworker.api import labels
from tjworker.api.kinds import aitrainingjob, kubedl, kubeflow, trainer, trainingjob
from tjworker.api.kinds.base import RESOLVED, UNREADABLE, Companion, JobKind, Parsed, unreadable
from tjworker.api.kinds.salvage import salvage
from tjworker.api.model import InvalidJob, TrainingJob
from tjworker.api.status import JobStatus
from tjworker.base import GroupResource, Terminal

JOB_KINDS: tuple[JobKind, ...] = (aitrainingjob.JOB_KIND, trainingjob.JOB_KIND)
"""The operator's own kinds. Every installation serves them, but the CRD of an `optional` kind may be missing."""
GUEST_KINDS: tuple[JobKind, ...] = (*kubeflow.JOB_KINDS, *kubedl.JOB_KINDS, *trainer.JOB_KINDS)
"""Kinds of other operators, which may still run in the cluster. The setting TJ_KINDS chooses the kinds to serve."""
KINDS: Mapping[GroupResource, JobKind] = {kind.resource: kind for kind in JOB_KINDS}
"""The operator's own kinds by resource, as in a JobKey."""
KNOWN_KINDS: Mapping[GroupResource, JobKind] = {kind.resource: kind for kind in (*JOB_KINDS, *GUEST_KINDS)}
COMPANIONS: Mapping[GroupResource, Companion] = {
    companion.resource: companion for kind in KNOWN_KINDS.values() for companion in kind.companions
}
"""Kinds of the objects that jobs name, by resource."""
EVERY_KIND = "all"
"""The value of TJ_KINDS for all kinds of other operators."""
Owners = Mapping[tuple[str, str], GroupResource]


def map_owners(kinds: Iterable[JobKind]) -> Owners:
    """Map (API group, kind) of an owner reference to the resource. The version does not matter."""
    return {(kind.group, kind.kind): kind.resource for kind in kinds}


OWNERS = map_owners(KNOWN_KINDS.values())


def find_kinds(name: str, among: Iterable[JobKind] = KNOWN_KINDS.values()) -> tuple[JobKind, ...]:
    """The kinds with this name, in upper or lower case: any name that kubectl accepts for the resource. Kinds of two
    operators may share a name; `<plural>.<group>` is unique."""
    wanted = name.lower()
    return tuple(
        kind
        for kind in among
        # Guests have no short name: the empty word must not mean all of them.
        if wanted
        and wanted in (kind.plural, kind.singular, kind.short_name, kind.resource, f"{kind.singular}.{kind.group}")
    )


def shortest_name(kind: JobKind) -> str:
    """The shortest unique name for TJ_KINDS: `PaddleJob`, but `tfjobs.kubeflow.org`, as KubeDL also has a TFJob."""
    return kind.kind if len(find_kinds(kind.kind)) == 1 else kind.resource


def served(chosen: Iterable[str], source: str = "TJ_KINDS") -> Mapping[GroupResource, JobKind]:
    """The operator's own kinds, and the chosen kinds of other operators. Each is chosen by a name for `find_kinds`, or
    all by `all`. Raises Terminal for an unknown or ambiguous name; `source` names the setting in the message."""
    wanted: set[GroupResource] = set()
    for name in chosen:
        if name.lower() == EVERY_KIND:
            wanted |= KNOWN_KINDS.keys()
            continue
        # Every name that `kubectl get` accepts works here, because users copy it from there.
        found = find_kinds(name)
        if not found:
            raise Terminal(f"{source} names {name}, which is not a known job kind; {_known(name)}")
        if len(found) > 1:
            # Kubeflow and KubeDL share four kind names. A guess would serve the jobs of an operator that still runs:
            # both would then write the same status and delete each other's pods (ADR 28).
            both = " or ".join(kind.resource for kind in found)
            raise Terminal(f"{source} names {name}, which is a kind of {len(found)} operators; use {both}")
        wanted.add(found[0].resource)
    return {**KINDS, **{kind.resource: kind for kind in GUEST_KINDS if kind.resource in wanted}}


def _known(name: str) -> str:
    spelt = {spelling: kind.kind for kind in GUEST_KINDS for spelling in (kind.singular, kind.plural, kind.resource)}
    # The list of fourteen guests hides the intended name, so the closest name comes first.
    close = difflib.get_close_matches(name.lower(), spelt, n=1)
    meant = [shortest_name(kind) for kind in GUEST_KINDS if close and kind.kind == spelt[close[0]]]
    hint = f"did you mean {' or '.join(meant)}? There are" if meant else "use"
    return f"{hint} {EVERY_KIND}, {', '.join(map(shortest_name, GUEST_KINDS))}"


def kind_of_labels(child_labels: Mapping[str, str], among: Owners = OWNERS) -> GroupResource | None:
    """The resource of the job that the labels of a child name; None if they name no known kind."""
    group, kind = child_labels.get(labels.GROUP_NAME, ""), child_labels.get(labels.JOB_KIND)
    if kind is not None:
        return among.get((group, kind))
    # An earlier version did not label the kind. The group is enough if it has a single kind.
    of_group = [resource for (of, _), resource in among.items() if of == group]
    return of_group[0] if len(of_group) == 1 else None


def parse(resource: GroupResource, raw: Mapping[str, Any]) -> TrainingJob | InvalidJob:
    """Parse a JSON object of the kind `resource` (a key of KNOWN_KINDS), with the autoscaler's targets. Never raises
    for the object's content."""
    kind = KNOWN_KINDS[resource]
    # The caller may have read it from a store that others can write.
    raw = raw if isinstance(raw, Mapping) else {}
    # The watcher has replaced the unreadable part of the spec. A parser would report errors that the user did not make.
    job = unreadable(raw, kind) if UNREADABLE in raw else kind.parse(raw)
    if isinstance(job, TrainingJob):
        # The autoscaler's target is part of the status and not of Redis: an emptied Redis loses no decision.
        return job.with_targets()
    # A job that another operator has begun, or that waits for its runtime, has no pods of this operator.
    if job.for_good or job.missing:
        return job
    rest = salvage(kind, raw, job.status) if kind.is_salvaged else kind.rest(raw)
    return replace(job, rest=rest and rest.with_targets())


def with_companion(resource: GroupResource, raw: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """The raw job with the object `found` that its spec names, for `parse`."""
    return {**raw, RESOLVED: KNOWN_KINDS[resource].snapshot(found)}


def written_status(job: Parsed, status: JobStatus) -> dict[str, Any]:
    """The whole status for the API server, in the form of the job's kind."""
    return KNOWN_KINDS[job.name.resource].written_status(job, status)
