"""Finds jobs and their pods for the commands. Reads through a KubeClient, changes nothing.

A kind whose CRD is not installed has no jobs, and does not make a command fail.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tjworker.api import labels
from tjworker.api.kinds import COMPANIONS, KINDS, KNOWN_KINDS, find_kinds, parse, with_companion
from tjworker.api.kinds.base import seen_status, strings, text
from tjworker.api.model import FieldError, InvalidJob, Role, TrainingJob
from tjworker.api.resources import EVENTS, PODS
from tjworker.api.timefmt import unix_seconds
from tjworker.base import JsonDict, OperatorError, mapping, with_article
from tjworker.cli import happenings
from tjworker.cli.errors import NoSuchJob, UserError
from tjworker.cli.happenings import Happening
from tjworker.cli.kinds import installed_kinds, operator_kinds, switched_off
from tjworker.cli.rows import WAITING, job_phase, replica_of
from tjworker.kube.errors import NO_PERMISSION

if TYPE_CHECKING:
    from tjworker.base import GroupResource
    from tjworker.cli.cluster import Cluster
    from tjworker.kube.client import KubeClient

_AN_END_IS_FINAL = "an end is final; to run the job again, delete it and apply it again"
_MEND = "it starts once its spec is mended; `tj describe {name}` names the field"


@dataclass(frozen=True, slots=True)
class FoundJob:
    resource: GroupResource
    raw: JsonDict

    @property
    def name(self) -> str:
        """The object's name; the name that the user typed may begin with a kind."""
        return str(self.raw["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.raw["metadata"]["namespace"])

    @property
    def place(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def status(self) -> Mapping[str, Any]:
        """The operator's own status, which each kind keeps in its place."""
        return seen_status(self.raw)


@dataclass(frozen=True, slots=True)
class Scaling:
    role: str
    before: int
    patch: JsonDict
    subresource: str


def list_jobs(api: KubeClient, namespace: str, kinds: Iterable[GroupResource] = ()) -> list[FoundJob]:
    """The jobs, by namespace and name. `kinds`: only of these kinds. Raises OperatorError if the user may not list
    them."""
    return look(api, namespace, kinds)[0]


def look(
    api: KubeClient, namespace: str, kinds: Iterable[GroupResource] = ()
) -> tuple[list[FoundJob], list[GroupResource]]:
    """(the jobs by namespace and name, the guest kinds that this user may not list). The cluster may have the CRDs of
    guest kinds for other users. If the user has named a kind, or it is an own kind, a refusal raises OperatorError:
    its list would not be empty."""
    found, refused, asked = [], [], list(kinds)
    for resource in asked or installed_kinds(api):
        try:
            found += [FoundJob(resource, raw) for raw in api.list_all(resource, namespace)]
        except OperatorError as error:
            if error.status in NO_PERMISSION and not asked and resource not in KINDS:
                refused.append(resource)
            # A CRD may be deleted between the discovery and the list.
            elif error.status != 404:
                raise
    return sorted(found, key=lambda f: (f.namespace, f.name, f.resource)), refused


def kinds_called(api: KubeClient, name: str, operator: Mapping[str, str] | None = None) -> list[GroupResource]:
    """The installed kinds that kubectl knows by this name: tfjobs.training.kubedl.io, tfjob.training.kubedl.io, tfjobs,
    tfjob or aitj. Raises UserError if there is none. `operator`: its settings, see `Cluster.operator`."""
    installed = installed_kinds(api)
    if found := find_kinds(name, installed.values()):
        return [kind.resource for kind in found]
    if known := find_kinds(name):
        raise UserError(switched_off(known, operator_kinds(operator)))
    raise UserError(f"{name!r} is not a job kind; this cluster has: {', '.join(installed)}")


def find_job(api: KubeClient, namespace: str, wanted: str) -> FoundJob:
    """The job of that name, of any kind in the cluster; or `<kind>/<name>`. Raises NoSuchJob if there is none, and
    UserError if several kinds have one."""
    kind, slash, name = wanted.rpartition("/")
    kinds = kinds_called(api, kind) if slash else list(installed_kinds(api))
    found, refused = [], []
    for resource in kinds:
        try:
            raw = api.get(resource, namespace, name)
        except OperatorError as error:
            # The cluster may have a guest kind for other users: a refusal counts only if the user has named the kind.
            if error.status in NO_PERMISSION and not slash and resource not in KINDS:
                refused.append(resource)
            # A CRD may be deleted between the discovery and this.
            elif error.status != 404:
                raise
        else:
            found += [FoundJob(resource, raw)] if raw is not None else []
    if len(found) == 1:
        return found[0]
    if found:
        raise UserError(
            f"{name} is the name of jobs of {len(found)} kinds in namespace {namespace}; use one of:"
            f" {', '.join(f'{one.resource}/{name}' for one in found)}"
        )
    but = f" that you may read ({', '.join(refused)} you may not)" if refused else ""
    raise NoSuchJob(f"no job {name} in namespace {namespace}{but}; {_elsewhere(api, namespace, name)}")


@contextmanager
def opened_job(wanted: str, namespace: str | None) -> Iterator[tuple[Cluster, FoundJob]]:
    """The user's cluster, and a job in it; see `find_job`. `namespace` None means that of the context."""
    from tjworker.cli.cluster import user_cluster

    with user_cluster() as cluster:
        yield cluster, find_job(cluster.api, namespace or cluster.namespace, wanted)


def _elsewhere(api: KubeClient, namespace: str, name: str) -> str:
    """A hint for a user who named a job that does not exist."""
    if kinds := find_kinds(name):
        return f"{name} is a kind of job: `tj get {kinds[0].resource}` lists its jobs"
    if known := [job.name for job in list_jobs(api, namespace)][:10]:
        return f"there are: {', '.join(known)}"
    return "it has none; -n names another namespace, `tj get -A` shows all"


def parsed(job: FoundJob) -> TrainingJob:
    """The internal model. Raises UserError with the field errors for a job that cannot be used, or that waits for an
    object that its spec names."""
    model = parse(job.resource, job.raw)
    if isinstance(model, InvalidJob):
        why = "; ".join(map(str, model.errors))
        if model.missing is not None and not model.status.refused:
            raise UserError(f"{job.name} waits: {why}")
        raise UserError(f"the spec of {job.name} cannot be used: {why}")
    return model


def with_named(api: KubeClient, job: FoundJob) -> FoundJob:
    """The job with the object that its spec names, such as a runtime, as the operator will read it. The job as it is
    where it has that object in its status, or the object does not exist, or the user may not read it."""
    model = parse(job.resource, job.raw)
    if isinstance(model, TrainingJob) or model.missing is None:
        return job
    named = model.missing
    namespace = model.name.namespace if COMPANIONS[named.resource].namespaced else ""
    try:
        found = api.get(named.resource, namespace, named.name)
    except OperatorError:
        found = None
    return job if found is None else FoundJob(job.resource, with_companion(job.resource, job.raw, found))


def readable(job: FoundJob) -> tuple[TrainingJob, tuple[FieldError, ...]]:
    """The job as far as it can be shown, in the worst case without roles, and what is wrong with its spec. Nothing is
    wrong with a job that waits for an object: its status says so."""
    model = parse(job.resource, job.raw)
    if isinstance(model, TrainingJob):
        return model, ()
    return model.rest or _without_roles(model, job), () if model.missing is not None else model.errors


def _without_roles(model: InvalidJob, job: FoundJob) -> TrainingJob:
    metadata, suspend = job.raw["metadata"], job.raw
    for field in KNOWN_KINDS[job.resource].suspend_path:
        suspend = mapping(suspend).get(field)  # type: ignore[assignment]
    return TrainingJob(
        name=model.name,
        api_version=model.api_version,
        kind=model.kind,
        uid=model.uid,
        resource_version=model.resource_version,
        generation=model.generation,
        roles=(),
        status=model.status,
        labels=strings(metadata.get("labels")),
        annotations=strings(metadata.get("annotations")),
        created_at=unix_seconds(text(metadata.get("creationTimestamp"))),
        deleted_at=model.deleted_at,
        # The spec cannot be used, so `suspend` may be any JSON value.
        suspend=suspend is True,  # type: ignore[comparison-overlap]
    )


def untaken(job: FoundJob, operator: Mapping[str, str] | None) -> str:
    """Why a job has no phase; '' for one that has, or that waits, as its message says. `operator`: its settings, see
    `Cluster.operator`."""
    from tjworker.cli.narrative import UNTAKEN

    if job_phase(job.status):
        return ""
    kind, of_operator = KNOWN_KINDS[job.resource], operator_kinds(operator)
    if of_operator is not None and kind.resource not in of_operator:
        return f"the operator does not serve its kind, so it waits: {switched_off([kind], of_operator)}"
    return UNTAKEN


def job_events(api: KubeClient, job: FoundJob) -> list[Happening]:
    """The Events of the job and of its children; see `happenings.of_job`."""
    # All Events of the namespace: a field selector takes a single object, and a job owns hundreds, some of them gone.
    found = api.list_all(EVENTS, job.namespace)
    return happenings.of_job(found, job.raw, role_names(job))


def role_names(job: FoundJob) -> list[str]:
    """Also of a job whose spec cannot be used: it may have had pods."""
    model = parse(job.resource, job.raw)
    if isinstance(model, TrainingJob):
        return [role.name for role in model.roles]
    specs = (job.raw.get("spec") or {}).get(KNOWN_KINDS[job.resource].roles_field)
    return [str(name) for name in specs] if isinstance(specs, dict) else []


def check_replica(job: FoundJob, role: str | None, index: int | None) -> None:
    """Raises UserError when the job can have no such role or replica. Not for a job whose spec cannot be used: it may
    still have pods."""
    model, name = parse(job.resource, job.raw), job.name
    if not isinstance(model, TrainingJob):
        return
    names = [r.name for r in model.roles]
    if role and role not in names:
        raise UserError(f"{name} has no role {role}; it has: {', '.join(names)}")
    asked = [r for r in model.roles if role in (None, r.name)]
    if index is not None and all(index >= max(r.replicas, r.max_replicas or 0) for r in asked):
        counts = ", ".join(f"{r.name} {r.replicas}" for r in asked)
        raise UserError(f"{name} has no replica {index}; it has {counts}, counted from 0")


def scaling(job: FoundJob, role: str | None, replicas: int) -> Scaling:
    """What `tj scale` writes. Raises UserError for a job or a role that cannot be scaled."""
    model, name, job_kind = parsed(job), job.name, KNOWN_KINDS[job.resource]
    _check_not_over(model, name)
    by_patch = not job_kind.scale_spec_path and model.scale_role is not None
    if not job_kind.scale_spec_path and not by_patch:
        whose = "this job" if job_kind.companions else with_article(job_kind.kind)
        raise UserError(f"{name} is not scaled: no role of {whose} is")
    wanted, names = role or model.scale_role, [r.name for r in model.roles]
    if wanted is None:
        raise UserError(f"{name} has no role that scales by default; name one with --role, it has: {', '.join(names)}")
    if wanted not in names:
        raise UserError(f"{name} has no role {wanted}; it has: {', '.join(names)}")
    _refuse_out_of_bounds(name, model.role(wanted), replicas)
    before, written = model.role(wanted).replicas, _as_written(job, wanted)
    patch = job_kind.role_patch(written or wanted, replicas)
    if by_patch and patch is not None:
        if wanted != model.scale_role:
            raise UserError(f"role {wanted} of {name} is not scaled: only {model.scale_role} is")
        return Scaling(wanted, before, patch, "")
    # The scale subresource has one fixed path: a role that is written in another case needs a patch.
    if wanted == model.scale_role and written in (None, wanted):
        _refuse_what_could_not_be_used(job, job_kind.scale_spec_path.removeprefix("."), replicas)
        return Scaling(wanted, before, {"spec": {"replicas": replicas}}, "scale")
    if patch is None:
        raise UserError(
            f"role {wanted} of {name} is not scaled: of {with_article(job_kind.kind)} only {model.scale_role} is"
        )
    _refuse_what_could_not_be_used(job, model.role(wanted).spec_path, replicas)
    return Scaling(wanted, before, patch, "")


def _as_written(job: FoundJob, role: str) -> str | None:
    """The role's name in the manifest, which may have other letters in upper case; None where roles are no map."""
    specs = (job.raw.get("spec") or {}).get(KNOWN_KINDS[job.resource].roles_field)
    names = specs if isinstance(specs, dict) else {}
    return next((str(name) for name in names if str(name).lower() == role.lower()), None)


def autoscaler_goes_on(job: FoundJob, role: str, operator: Mapping[str, str] | None) -> str:
    """That the autoscaler may change what a user has just set; '' for a role that it does not scale. `operator`: its
    settings, see `Cluster.operator`."""
    model = parse(job.resource, job.raw)
    roles = model.roles if isinstance(model, TrainingJob) else ()
    settings = operator or {}
    if not any(one.name == role and one.autoscaled for one in roles) or settings.get(_POLICY) == "off":
        return ""
    from tjworker.settings import Settings

    default = f"{Settings.model_fields['autoscale_cooldown_seconds'].default:g} s"
    known = f" of {settings[_COOLDOWN]} s" if _COOLDOWN in settings else f" of {default}"
    when = known if operator is not None else f", {default} by default"
    return f"{job.name}: the autoscaler scales {role}, and may change this again after its cool-down{when}"


_POLICY, _COOLDOWN = "TJ_AUTOSCALE_POLICY", "TJ_AUTOSCALE_COOLDOWN_SECONDS"


def _refuse_out_of_bounds(job: str, role: Role, replicas: int) -> None:
    """The API server refuses it, too, and cannot always say both bounds. Those of a batch Job's role move with it."""
    least, most = role.min_replicas or 0, role.max_replicas
    if role.workload != "Pod" or most is None or least <= replicas <= most:
        return
    raise UserError(
        f"role {role.name} of {job} has {least} to {most} replicas, so it cannot be scaled to {replicas}; choose a"
        " number between these, or change minReplicas and maxReplicas of the role"
    )


def _refuse_what_could_not_be_used(job: FoundJob, path: str, replicas: int) -> None:
    """No schema says that a job has one launcher: the API server takes two, and the operator then leaves the job
    alone."""
    model = parse(job.resource, _with(job.raw, path.split("."), replicas))
    if isinstance(model, InvalidJob):
        raise UserError(f"{job.raw['metadata']['name']} cannot be scaled so: " + "; ".join(map(str, model.errors)))


def _with(raw: Mapping[str, Any], path: Sequence[str], value: int) -> JsonDict:
    first, *rest = path
    return {**raw, first: _with(raw.get(first) or {}, rest, value) if rest else value}


def suspending(job: FoundJob, suspend: bool) -> JsonDict | None:
    """The merge patch that suspends the job or lets it go on; None when it is so already. Raises UserError where it
    cannot."""
    name, job_kind = job.name, KNOWN_KINDS[job.resource]
    # One that waits for its runtime can be suspended, so that it does not start when that comes.
    model = readable(job)[0] if job_phase(job.status) == WAITING else parsed(job)
    _check_not_ending(model, name)
    patch: Any = suspend
    for field in reversed(job_kind.suspend_path):
        patch = {field: patch}
    return None if model.suspend == suspend else patch


def ending(job: FoundJob, annotation: str, message: str) -> JsonDict:
    """The merge patch that ends the job by an annotation. Raises UserError for a job that has ended or is about to: an
    annotation would say something else than its status, for ever."""
    _check_not_ending(parsed(job), job.name)
    return {"metadata": {"annotations": {annotation: message}}}


def _check_not_over(model: TrainingJob, name: str) -> None:
    if model.status.refused:
        raise UserError(f"{name} was refused and has no pods: {_MEND.format(name=name)}")
    if model.status.ended:
        raise UserError(f"{name} has ended ({model.status.phase}): {_AN_END_IS_FINAL}")


def _check_not_ending(model: TrainingJob, name: str) -> None:
    _check_not_over(model, name)
    if model.status.ending is not None:
        raise UserError(f"{name} is about to end ({model.status.ending.phase}): {_AN_END_IS_FINAL}")


def main_container(job: FoundJob) -> str | None:
    """The container whose exit code counts, for `naming.counted_names`; None if the kind names none."""
    model = parse(job.resource, job.raw)
    read = model if isinstance(model, TrainingJob) else model.rest
    return read.main_container if read is not None else None


def pods_selector(name: str) -> str:
    return f"{labels.JOB_NAME}={name}"


def job_pods(api: KubeClient, job: FoundJob) -> list[JsonDict]:
    """Its pods that are there now, by role and index; none of an earlier job of that name."""
    metadata = job.raw["metadata"]
    # The selector has only the name, so it finds pods of an earlier job in their grace period, too. Their UID differs.
    found = api.list_all(PODS, metadata["namespace"], label_selector=pods_selector(metadata["name"]))
    ours = (None, "", metadata["uid"])
    return sorted((p for p in found if (p["metadata"].get("labels") or {}).get(labels.JOB_UID) in ours), key=pod_order)


def pod_order(pod: JsonDict) -> tuple[str, int, str]:
    """Role, then index, then name."""
    return (*replica_of(pod), str(pod["metadata"]["name"]))
