"""Converts a job of a kind that the operator can read to an AITrainingJob. Pure.

The kind's own parser makes the internal job, and with it defaults, ports, success policies and elastic bounds. What a
manifest says beyond the internal job is handled by a `Special`, in a file per kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from tjworker.api import crd
from tjworker.api.containers import with_environment
from tjworker.api.kinds import KNOWN_KINDS, parse
from tjworker.api.kinds.base import JobKind, text
from tjworker.api.kinds.kubedl.mpijob import OLD_RUN_POLICY
from tjworker.api.labels import KUEUE_QUEUE
from tjworker.api.model import InvalidJob, TrainingJob
from tjworker.api.naming import containers, counted_names
from tjworker.api.torchrun import TorchSettings
from tjworker.api.unknown import unknown_fields
from tjworker.base import GroupResource, Json, mapping, with_article
from tjworker.convert import write
from tjworker.convert.report import Converted, Left, Origins, RefusedManifest, at, value_at

INSTEAD: Mapping[str, str] = {
    "elasticPolicy.metrics": "make a HorizontalPodAutoscaler for the job's scale subresource, with spec.replicas in the"
    " manifest, or set edlPolicy: Auto of the role",
    "elasticPolicy.maxRestarts": "set restartLimit of the role, or PET_MAX_RESTARTS in its template",
    **{f"spec.{name}": f"set runPolicy.{name}" for name in OLD_RUN_POLICY},
    "spec.cronPolicy": "make a CronJob that creates jobs",
    "runPolicy.cronPolicy": "make a CronJob that creates jobs",
}
"""The last two steps of a field's path -> what to do about a field that has no effect."""
OWN_NAME = "$(TRAININGJOB_NAME)"
"""Replaces the job's UID in templates: a manifest has none yet."""
_LEAVE_OUT = "leave it out"


@dataclass(frozen=True, slots=True)
class Extra:
    """What a manifest says beyond the internal job."""

    job: TrainingJob
    """The job to write; it may differ from the parsed one."""
    left: tuple[Left, ...] = ()
    notes: tuple[str, ...] = ()
    acted_upon: frozenset[str] = frozenset()
    """Annotations whose content the spec has now."""
    origins: Origins = field(default_factory=dict)


Special = Callable[[Json, TrainingJob], Extra]


def convert(kind: JobKind, raw: Json, special: Special) -> Converted | RefusedManifest:
    metadata = mapping(raw.get("metadata"))
    version = str(raw.get("apiVersion")).rpartition("/")[2]
    # A file has not passed the API server, which would have set the defaults of its version.
    spec = {**kind.version_defaults.get(version, {}), **mapping(raw.get("spec"))}
    # The status of a job that was read from a cluster is another operator's.
    job = parse(kind.resource, {**raw, "spec": spec, "metadata": {**named(metadata), "uid": OWN_NAME}, "status": {}})
    if isinstance(job, InvalidJob):
        return RefusedManifest(job.errors)
    extra = special(raw, _with_settings(job))
    made = write.manifest(extra.job, write.own_metadata(metadata, extra.acted_upon), tuple(_order(raw, job)))
    left = (
        *unknown_left(kind, raw),
        *_ignored(raw, extra.job),
        *_main_containers(raw, job),
        *extra.left,
        *metadata_left(metadata),
    )
    return Converted(
        made, left, (*extra.notes, *_restarts(extra.job), *_labels(job)), {**_role_origins(raw, job), **extra.origins}
    )


def _with_settings(job: TrainingJob) -> TrainingJob:
    """An AITrainingJob has no fields for torchrun's options: its templates set the variables."""
    variables = job.torch.variables()
    roles = tuple(replace(role, template=with_environment(role.template, variables)) for role in job.roles)
    return replace(job, roles=roles, torch=TorchSettings())


def named(metadata: Json) -> dict[str, Any]:
    """The metadata with a name: a manifest for `kubectl create` may have only generateName."""
    # The rules on the length of names need one: the API server adds five characters.
    if metadata.get("name") or not metadata.get("generateName"):
        return dict(metadata)
    return {**metadata, "name": f"{metadata['generateName']}xxxxx"}


def _order(raw: Json, job: TrainingJob) -> Iterator[str]:
    """The names of the roles, in the manifest's order."""
    places = {written_path(raw, role.spec_path): role.name for role in job.roles}
    written = {path: name for path, name in places.items() if path is not None}
    for path in sorted(written, key=lambda path: list(value_at(raw, path[:-1])).index(path[-1])):
        yield written[path]


def written_path(raw: Json, spec_path: str) -> tuple[str, ...] | None:
    """A role's path in the manifest, which may write its name in any case; None if the manifest lacks the role."""
    found: list[str] = []
    here: Any = raw
    for step in spec_path.split(".")[:-1]:
        # training-operator accepts `worker` for `Worker`, and so does the parser.
        name = next((key for key in mapping(here) if str(key).lower() == step.lower()), None)
        if name is None:
            return None
        found.append(name)
        here = here[name]
    return tuple(found)


def _role_origins(raw: Json, job: TrainingJob) -> Origins:
    origins: dict[tuple[str | int, ...], tuple[str | int, ...]] = {(): ()}
    for role in job.roles:
        path = written_path(raw, role.spec_path)
        if path is not None:
            origins |= {("spec", "replicaSpecs"): path[:-1], ("spec", "replicaSpecs", role.name): path}
    return origins


@cache
def _schema(resource: GroupResource) -> Json:
    # Built once per kind: a file may hold hundreds of jobs.
    schema: Json = crd.schema(KNOWN_KINDS[resource])["properties"]["spec"]
    return schema


def unknown_left(kind: JobKind, raw: Json) -> Iterator[Left]:
    for one in unknown_fields(raw.get("spec"), _schema(kind.resource), "spec"):
        yield Left(
            one.path, one.value, f"{with_article(kind.kind)} has no such field", "leave it out, or check its spelling"
        )


def _ignored(raw: Json, job: TrainingJob) -> Iterator[Left]:
    for ignored in job.ignored:
        if ignored.part == "label":
            continue  # `metadata_left` reports it
        if ignored.part == "annotation":
            path, value = f"metadata.annotations.{ignored.path}", job.annotations[ignored.path]
        else:
            path, value = ignored.path, at(raw, ignored.path)
        why = f"it has no effect ({ignored.because})" if ignored.because else "it has no effect"
        end = ".".join(path.split(".")[-2:])
        yield Left(path, value, why, INSTEAD.get(end, _LEAVE_OUT))


def _main_containers(raw: Json, job: TrainingJob) -> Iterator[Left]:
    """Reports each role in which an AITrainingJob counts another container's exit code."""
    for role in job.roles:
        names = [container.get("name", "") for container in containers(role.template)]
        # The guest's main container (pytorch) may be the second in the list; without a prefix an AITrainingJob counts
        # the first. A sidecar's exit code would then decide on restarts.
        if (counted := counted_names(names, job.main_container)) != counted_names(names):
            path = ".".join(written_path(raw, role.spec_path) or ())
            yield Left(
                f"{path}.template.spec.containers",
                names,
                f"the exit code of {counted[0]} counted; in an AITrainingJob that of {counted_names(names)[0]} does",
                f"put {counted[0]} first, or begin its name with aitj-",
            )


def metadata_left(metadata: Json) -> Iterator[Left]:
    # The new job starts at once, past the quota of its queue, and nothing else shows it.
    queue = mapping(metadata.get("labels")).get(KUEUE_QUEUE)
    if queue is not None:
        yield Left(
            f"metadata.labels.{KUEUE_QUEUE}",
            queue,
            "Kueue does not know AITrainingJobs: the job does not wait for its queue",
            "keep a job that Kueue admits as one of Kubeflow's kinds, which are served as they are (docs/kinds.md)",
        )
    yield from finalizers_left(metadata)


def finalizers_left(metadata: Json) -> Iterator[Left]:
    if metadata.get("finalizers"):
        yield Left(
            "metadata.finalizers",
            metadata["finalizers"],
            "the programs that set them know only the old object",
            "let the program that needs a finalizer set it",
        )


def _restarts(job: TrainingJob) -> Iterator[str]:
    for role in job.roles:
        if role.restart_words == "OnFailure" and role.restart_policy == "Always":
            yield (
                f"restartPolicy OnFailure of {role.name} becomes Always: OnFailure of an AITrainingJob does not replace"
                " the pod of a lost node. Neither restarts a program that has succeeded"
            )


def _labels(job: TrainingJob) -> Iterator[str]:
    if job.guest_labels is not None and not job.guest_labels.prefix:
        yield "the label replica-type of its pods holds the role's name as written (Worker), not in lower case"
    elif job.guest_labels is not None:
        yield (
            f"its pods and services no longer have labels {job.guest_labels.prefix}*: select them by job-name,"
            " replica-name and replica-index"
        )


def rendezvous(raw: Json, job: TrainingJob) -> Iterator[Left]:
    """Reports torchrun's rendezvous in a job of a fixed size, or with a master outside the rendezvous."""
    if job.rendezvous and not any(role.elastic for role in job.roles):
        why = "an AITrainingJob with a fixed number of replicas gets no variables for torchrun's rendezvous"
        instead = "set PET_NNODES and PET_RDZV_* in the templates, or minReplicas below maxReplicas"
    elif job.rendezvous and any(role.name == "Master" for role in job.roles):
        why = "its pods do not get MASTER_ADDR, RANK and WORLD_SIZE, and torchrun counts the master as a node"
        instead = "leave out the Master, or set what the program reads in the templates"
    else:
        return
    yield Left("spec.elasticPolicy", mapping(raw.get("spec")).get("elasticPolicy"), why, instead)


def managed_by(raw: Json) -> Iterator[Left]:
    """Reports `managedBy` of a RunPolicy, which names the controller of the job."""
    manager = text(mapping(mapping(raw.get("spec")).get("runPolicy")).get("managedBy"))
    # With it the other operator leaves a job to MultiKueue. Here nothing does, and both would create pods.
    if manager:
        yield Left(
            "spec.runPolicy.managedBy",
            manager,
            "this operator controls every AITrainingJob",
            "make sure that no other controller takes the job before you create it",
        )


def plain(raw: Json, job: TrainingJob) -> Extra:
    """The `Special` of kinds that say nothing beyond the internal job."""
    return Extra(job)
