"""Checks the job kinds of other operators: which are served, switched off, or installed but not served. A job of a kind
that has a CRD, but no operator, would wait for ever without a message.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from tjworker.api.kinds import GUEST_KINDS
from tjworker.api.kinds.base import MEMORY, JobKind
from tjworker.base import GroupResource, OperatorError, mapping
from tjworker.cli.checks.check import Check
from tjworker.cli.checks.cluster import SUBJECT
from tjworker.cli.kinds import how_to_switch_on, installed_kinds, names_by_group
from tjworker.kube.client import PAGE_SIZE, KubeClient

NAME = "job kinds"
Kinds = Mapping[GroupResource, JobKind]


def check(api: KubeClient, served: Kinds) -> Iterator[Check]:
    """`served`: by the operator, as TJ_KINDS says."""
    try:
        installed = installed_kinds(api)
    except OperatorError as error:
        yield SUBJECT.skipped(NAME, f"the cluster does not say which it has: {error.message}")
        return
    yield _switched_on(served, installed)
    by_half = [kind for kind in installed.values() if kind.resource not in served]
    waiting: dict[GroupResource, str] = {}
    idle: list[JobKind] = []
    elsewhere: list[JobKind] = []
    for kind in by_half:
        jobs = _jobs(api, kind)
        if found := [job for job in jobs if _waits(job)]:
            waiting[kind.resource] = f"{len(found)} of {kind.resource}, such as {_name(found[0])}"
        else:
            (elsewhere if jobs else idle).append(kind)
    if waiting:
        said = f"TJ_KINDS does not name their kind, so these jobs wait for ever: {'; '.join(waiting.values())}"
        advice = how_to_switch_on([kind for kind in by_half if kind.resource in waiting], served)
        yield SUBJECT.failed("jobs not served", said, f"delete them, or {advice}")
    if idle:
        said = (
            f"CRDs are installed that TJ_KINDS does not name: {names_by_group(idle)}; a job of such a kind waits for"
            " ever, unless another operator serves it"
        )
        # A warning, no failure: a CRD without jobs of this operator may serve another operator.
        yield SUBJECT.warning("half on", said, f"delete these CRDs, or {how_to_switch_on(by_half, served)}")
    if elsewhere:
        said = f"no job waits for this operator, which does not serve them: {names_by_group(elsewhere)}"
        yield SUBJECT.ok("of others", said)


def _switched_on(served: Kinds, installed: Collection[GroupResource]) -> Check:
    on = [kind.kind if not kind.guest else kind.resource for kind in served.values()]
    off = [kind for kind in GUEST_KINDS if kind.resource not in served and kind.resource not in installed]
    if not off:
        return SUBJECT.ok(NAME, f"{', '.join(on)} are served")
    said = f"{', '.join(on)} are served; switched off: {names_by_group(off)}"
    return Check(SUBJECT, NAME, "ok", said, f"to serve more, {how_to_switch_on(off, served)}")


def _jobs(api: KubeClient, kind: JobKind) -> Sequence[Mapping[str, Any]]:
    """The first page of jobs, as the number only says that something is wrong; none where the user may not look."""
    try:
        return api.list_page(kind.resource, limit=PAGE_SIZE).items
    except OperatorError:
        return ()


def _waits(job: Mapping[str, Any]) -> bool:
    """No operator has taken it up; or this one did once, as its own status says, and the job has not ended."""
    status = mapping(job.get("status"))
    # Only this operator writes it: it served the job once, and TJ_KINDS has lost the kind since.
    if MEMORY in status:
        return not mapping(status[MEMORY]).get("completionTime")
    # The training-operator and KubeDL write the condition `Created` in their first pass over a job.
    return not status.get("conditions")


def _name(job: Mapping[str, Any]) -> str:
    return f"{job['metadata']['namespace']}/{job['metadata']['name']}"
