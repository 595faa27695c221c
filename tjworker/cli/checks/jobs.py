"""The jobs: does one wait for something that only a person can mend? A name that somebody else's object has taken, what
the API server refuses, passes that die.

A job waits until the foreign object goes: the operator touches nothing that it does not control.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from tjworker.api import naming
from tjworker.api.kinds import KINDS, KNOWN_KINDS, parse
from tjworker.api.kinds.base import JobKind, seen_status
from tjworker.api.model import InvalidJob
from tjworker.api.owners import controller
from tjworker.api.resources import BATCH_JOBS, PODS, REPLICASETS, SERVICES
from tjworker.api.status import FAILED_CREATE, FAILED_DELETE, POD_NOT_GONE
from tjworker.base import GroupResource, JsonDict, OperatorError
from tjworker.cli.checks.check import Check, Subject
from tjworker.cli.jobs import FoundJob, list_jobs
from tjworker.kube.client import KubeClient
from tjworker.scope import Scope

SUBJECT = Subject("jobs")
SHOWN = 10
_TROUBLES = (POD_NOT_GONE, FAILED_CREATE, FAILED_DELETE)


def check(api: KubeClient, scope: Scope, kinds: Collection[GroupResource] = tuple(KINDS)) -> Iterator[Check]:
    """`scope`: the namespaces that the operator serves. `kinds`: other jobs are another operator's."""
    try:
        found = [
            job
            for where in scope.selections()
            for job in list_jobs(api, where.namespace, kinds)
            # `list_jobs` takes no field selector, so it lists excluded namespaces, too.
            if scope.serves(job.namespace)
        ]
    except OperatorError as error:
        yield SUBJECT.skipped("waiting", f"the jobs cannot be listed: {error.message}")
        return
    living = [job for job in found if not seen_status(job.raw).get("completionTime")]
    # A job that runs has all its objects: no foreign object can have their names.
    waiting = [job for job in living if seen_status(job.raw).get("phase") != "Running"]
    troubled = [one for job in living if (one := _troubled(job)) is not None]
    troubled += _names_taken(api, waiting)
    yield from troubled[:SHOWN]
    if len(troubled) > SHOWN:
        more = f"and {len(troubled) - SHOWN} more"
        yield SUBJECT.warning("others", more, "`tj get -A -o wide` shows all; mend these first, and ask again")
    if not troubled:
        yield SUBJECT.ok("waiting", f"{len(living)} live, {len(waiting)} of them not running whole; none is blocked")


def _name(job: FoundJob) -> str:
    return f"{job.namespace}/{job.name}"


def _troubled(job: FoundJob) -> Check | None:
    """What the operator itself says that it cannot get on with."""
    for condition in seen_status(job.raw).get("conditions") or ():
        stalled = condition.get("type") == "Stalled" and condition.get("status") == "True"
        if stalled or condition.get("reason") in _TROUBLES:
            name = job.raw["metadata"]["name"]
            said = f"{condition.get('reason')}: {condition.get('message') or ''}".strip()
            return SUBJECT.warning(_name(job), said, f"`tj describe {name}` and `tj events {name}` say more")
    return None


# -- foreign owners --------------------------------------------------------------------------------
def _names_taken(api: KubeClient, jobs: Sequence[FoundJob]) -> Iterator[Check]:
    """Reports objects that have the name of a child of a waiting job and do not belong to the job."""
    wanted: dict[str, dict[tuple[GroupResource, str], FoundJob]] = {}
    for job in jobs:
        for child in _children(job):
            wanted.setdefault(job.namespace, {})[child] = job
    for namespace, children in wanted.items():
        for resource in sorted({resource for resource, _ in children}):
            try:
                # A list of the namespace, not a GET for each child: a job of 500 replicas has 1,000 children.
                for held in api.list_all(resource, namespace):
                    job_of = children.get((resource, held["metadata"]["name"]))
                    if job_of is not None and (taken := _taken(resource, held, job_of)) is not None:
                        yield taken
            except OperatorError as error:
                yield SUBJECT.skipped(f"names in {namespace}", f"{resource} cannot be listed: {error.message}")


def _children(job: FoundJob) -> Iterator[tuple[GroupResource, str]]:
    """(resource, name) of each child that the job needs."""
    model = parse(job.resource, job.raw)
    if isinstance(model, InvalidJob):
        return
    for role in model.roles:
        if role.workload == "Pod":
            for index in range(role.replicas):
                yield PODS, naming.pod_name(model.name.name, role.name, index)
                yield SERVICES, naming.service_name(model.name.name, role.name, index)
        else:
            owner = naming.owner_name(model.name.name, role.name)
            yield from ((REPLICASETS, owner), (BATCH_JOBS, owner))


def _taken(resource: GroupResource, held: JsonDict, job: FoundJob) -> Check | None:
    metadata, kind = held["metadata"], KNOWN_KINDS[job.resource]
    owner = controller(metadata)
    # By UID, as the garbage collector compares: an owner of the same name may be an earlier job.
    if owner is not None and owner.get("uid") == job.raw["metadata"]["uid"]:
        return None
    what = f"{resource.partition('.')[0].removesuffix('s')} {metadata['name']}"
    name = job.raw["metadata"]["name"]
    whose = f"is controlled by {owner.get('kind')} {owner.get('name')}" if owner else "has no controller"
    if owner is not None and (owner.get("kind"), owner.get("name")) == (kind.kind, name):
        whose = f"is of an earlier {kind.kind} {name}"
    return SUBJECT.failed(_name(job), f"{what} has a name that the job needs, and {whose}", _advice(held, kind, name))


def _advice(held: JsonDict, kind: JobKind, job: str) -> str:
    finalizers = held["metadata"].get("finalizers")
    if held["metadata"].get("deletionTimestamp"):
        return f"it is being deleted{f'; its finalizers hold it: {finalizers}' if finalizers else ': wait'}"
    return f"delete it, or apply the {kind.kind} {job} under another name: what others own is left alone"
