"""The job kinds: one folder a kind, one row here; a family of guests (`kubeflow`, `kubedl`) has one folder. Nothing
behind `parse` knows which kind a job came from.

Pure. A new kind is a new folder with a `JOB_KIND`, and its row. What else there is of a kind is derived from the row:
its resource and permissions (`tjworker.kube.resources`), its CRD, its page of the reference.
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
"""Our own, which every installation serves."""
GUEST_KINDS: tuple[JobKind, ...] = (*kubeflow.JOB_KINDS, *kubedl.JOB_KINDS, *trainer.JOB_KINDS)
"""Those of other operators. A cluster may still run these, so a setting says which are served."""
KINDS: Mapping[GroupResource, JobKind] = {kind.resource: kind for kind in JOB_KINDS}
"""Our own by resource, as it stands in a JobKey."""
KNOWN_KINDS: Mapping[GroupResource, JobKind] = {kind.resource: kind for kind in (*JOB_KINDS, *GUEST_KINDS)}
COMPANIONS: Mapping[GroupResource, Companion] = {
    companion.resource: companion for kind in KNOWN_KINDS.values() for companion in kind.companions
}
"""Kinds of the objects that jobs name."""
EVERY_KIND = "all"
"""In TJ_KINDS: every guest."""
Owners = Mapping[tuple[str, str], GroupResource]


def owners(kinds: Iterable[JobKind]) -> Owners:
    """(API group, kind), as an owner reference has them -> resource. The version does not matter."""
    return {(kind.group, kind.kind): kind.resource for kind in kinds}


OWNERS = owners(KNOWN_KINDS.values())


def called(name: str, among: Iterable[JobKind] = KNOWN_KINDS.values()) -> tuple[JobKind, ...]:
    """The kinds that a user may mean: the names by which kubectl knows a resource, in letters of either case. Two
    operators' kinds may have one name in common; `<plural>.<group>` is always of one kind."""
    wanted = name.lower()
    return tuple(
        kind
        for kind in among
        # Guests have no short name: the empty word must not mean all of them.
        if wanted
        and wanted in (kind.plural, kind.singular, kind.short_name, kind.resource, f"{kind.singular}.{kind.group}")
    )


def word_for(kind: JobKind) -> str:
    """The shortest name for TJ_KINDS: `PaddleJob`; `tfjobs.kubeflow.org`, as KubeDL has a TFJob, too."""
    return kind.kind if len(called(kind.kind)) == 1 else kind.resource


def served(chosen: Iterable[str], source: str = "TJ_KINDS") -> Mapping[GroupResource, JobKind]:
    """Our own kinds, and the guests that are chosen: by any name that `called` knows, or `all`. Raises Terminal for a
    name that is no kind's, or that two have; `source` is where the user wrote it."""
    wanted: set[GroupResource] = set()
    for name in chosen:
        if name.lower() == EVERY_KIND:
            wanted |= KNOWN_KINDS.keys()
            continue
        # Every name that `kubectl get` accepts works here, because users copy it from there.
        found = called(name)
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
    meant = [word_for(kind) for kind in GUEST_KINDS if close and kind.kind == spelt[close[0]]]
    hint = f"did you mean {' or '.join(meant)}? There are" if meant else "use"
    return f"{hint} {EVERY_KIND}, {', '.join(map(word_for, GUEST_KINDS))}"


def kind_of_labels(told: Mapping[str, str], among: Owners = OWNERS) -> GroupResource | None:
    """The resource of the job that a child's labels name; None for a stranger's. A child of an earlier version has no
    label for the kind: there the group decides, if it has one kind only."""
    group, kind = told.get(labels.GROUP_NAME, ""), told.get(labels.JOB_KIND)
    if kind is not None:
        return among.get((group, kind))
    of_group = [resource for (of, _), resource in among.items() if of == group]
    return of_group[0] if len(of_group) == 1 else None


def parse(resource: GroupResource, raw: Mapping[str, Any]) -> TrainingJob | InvalidJob:
    """The job behind any JSON object of the kind `resource` (a key of KNOWN_KINDS), as the autoscaler has it. Never
    raises for the object's content."""
    kind = KNOWN_KINDS[resource]
    # The caller may have read it from a store that others can write.
    raw = raw if isinstance(raw, Mapping) else {}
    # The watcher has replaced the unreadable part of the spec. A parser would report errors that the user did not make.
    job = unreadable(raw, kind) if UNREADABLE in raw else kind.parse(raw)
    if isinstance(job, TrainingJob):
        # The autoscaler's target is part of the status and not of Redis: an emptied Redis loses no decision.
        return job.with_targets()
    # A job that another operator has begun, or that waits for its runtime, has nothing to be operated.
    if job.for_good or job.missing:
        return job
    rest = salvage(kind, raw, job.status) if kind.is_salvaged else kind.rest(raw)
    return replace(job, rest=rest and rest.with_targets())


def resolved(resource: GroupResource, raw: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """The job with the object `found` that its spec names: for `parse`."""
    return {**raw, RESOLVED: KNOWN_KINDS[resource].snapshot(found)}


def written_status(job: Parsed, status: JobStatus) -> dict[str, Any]:
    """As the API server gets it, in the shape that the kind's users read."""
    return KNOWN_KINDS[job.name.resource].written_status(job, status)
