"""Merges a runtime and a TrainJob into the steps of the job, with pod templates as Trainer and JobSet make them
(pkg/runtime/core/trainingruntime.go and plugins/jobset/builder.go of kubeflow/trainer). Pure.

Trainer creates a JobSet, JobSet a batch Job for each replica of a replicated job, and Kubernetes its pods. Here a role
of the internal job takes the place of each batch Job, so that pods have the same names as under Trainer:
`<job>-<replicated job>-<replica>-<index>`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tjworker.api.kinds.trainer.patches import with_patches
from tjworker.api.kinds.trainer.spec import (
    DATASET,
    LAUNCHER,
    MODEL,
    NODE,
    STEP_LABEL,
    TRAINER,
    ReplicatedJob,
    RuntimeSpec,
    Source,
    TrainJobSpec,
    json_of,
)
from tjworker.api.labels import JOBSET
from tjworker.base import JobName, Json, mapping

STEPS = frozenset({DATASET, MODEL, TRAINER})
BACKOFF_LIMIT = 6
"""The default of a batch Job."""


@dataclass(frozen=True, slots=True)
class Step:
    """A replicated job."""

    name: str
    step: str
    """Name of the job's step; '' if the replicated job is none."""
    pods: int
    """Number of pods of each child Job."""
    template: Json
    """Pod template."""
    job: ReplicatedJob
    annotations: Mapping[str, str] = field(default_factory=dict)

    def container(self, name: str) -> Json | None:
        return _named(self.template, "containers", name)

    def any_container(self, name: str) -> Json | None:
        """The container or init container of that name; None if there is none."""
        return self.container(name) or _named(self.template, "initContainers", name)

    def with_container(self, name: str, changed: Json) -> Step:
        """The step with the container, or init container, of that name replaced."""
        pod = mapping(self.template.get("spec"))
        lists = {kind: _containers(self.template, kind) for kind in ("initContainers", "containers") if kind in pod}
        every = {kind: [changed if c.get("name") == name else c for c in listed] for kind, listed in lists.items()}
        return replace(self, template={**self.template, "spec": {**pod, **every}})

    def with_pod(self, **fields: object) -> Step:
        pod = {**mapping(self.template.get("spec")), **fields}
        return replace(self, template={**self.template, "spec": pod})


def _containers(template: Json, kind: str) -> list[Json]:
    listed = mapping(template.get("spec")).get(kind)
    return [mapping(c) for c in listed] if isinstance(listed, list) else []


def _named(template: Json, kind: str, name: str) -> Json | None:
    return next((c for c in _containers(template, kind) if c.get("name") == name), None)


def patched(runtime: Json, patches: Sequence[Json]) -> dict[str, Any]:
    """Apply the patches of a job to the spec of a runtime, as JSON."""
    template = mapping(runtime.get("template"))
    spec = mapping(template.get("spec"))
    jobs = spec.get("replicatedJobs")
    changed = with_patches(jobs if isinstance(jobs, list) else [], patches)
    return {**runtime, "template": {**template, "spec": {**spec, "replicatedJobs": changed}}}


def steps_of(raw: Json, runtime: RuntimeSpec, job: TrainJobSpec) -> tuple[Step, ...]:
    """The steps of a runtime in its order, with the numbers, images, commands, variables and resources that the job
    sets. `policies` adds the parts of the framework. `raw`: the same runtime as JSON."""
    listed = mapping(mapping(raw["template"]).get("spec")).get("replicatedJobs") or ()
    return tuple(
        _with_what_the_job_sets(_step(mapping(one), read, runtime, job), runtime, job)
        for one, read in zip(listed, runtime.template.spec.replicated_jobs, strict=True)
    )


def _step(raw: Json, read: ReplicatedJob, runtime: RuntimeSpec, job: TrainJobSpec) -> Step:
    labels = (read.template.metadata.labels if read.template.metadata else None) or {}
    step = labels.get(STEP_LABEL, "")
    # 1 is batch/v1's default of parallelism.
    pods = 1 if read.template.spec.parallelism is None else read.template.spec.parallelism
    asked = job.trainer.num_nodes if job.trainer else None
    policy = runtime.ml_policy
    if step == TRAINER:
        pods = policy.num_nodes if policy else pods
    if policy is not None and policy.mpi is not None:
        # Trainer's mpi plugin gives numNodes to the replicated job `node`, wherever the label is. If the launcher also
        # trains, it is one of these nodes.
        if read.name == NODE and (asked is not None or step != TRAINER):
            nodes = policy.num_nodes if asked is None else asked
            pods = max(nodes - 1, 1) if policy.mpi.run_launcher_as_node else nodes
        elif read.name == LAUNCHER:
            pods = 1
    elif step == TRAINER and asked is not None:
        pods = asked
    return Step(read.name, step, pods, mapping(mapping(mapping(raw["template"])["spec"])["template"]), read)


def _with_what_the_job_sets(step: Step, runtime: RuntimeSpec, job: TrainJobSpec) -> Step:
    trainer, initializer = job.trainer, job.initializer
    if trainer is not None and (found := step.container(NODE)) is not None:
        # If the launcher also trains, it has the label, and `node` still needs the variables and resources of the job.
        # Only the labelled step gets the image, command and arguments.
        as_node = step.name == NODE and _launcher_is_node(runtime)
        changed = dict(found)
        if step.step == TRAINER:
            set_here = {"image": trainer.image, "command": trainer.command, "args": trainer.args}
            changed |= {name: value for name, value in set_here.items() if value}
        if step.step == TRAINER or as_node:
            changed = with_env(changed, [json_of_any(one) for one in trainer.env or ()])
            changed |= _resources(found, json_of(trainer.resources_per_node))
        step = step.with_container(NODE, changed)
    fetched = {DATASET: initializer.dataset, MODEL: initializer.model} if initializer else {}
    for name, source in fetched.items():
        if source is not None and step.step == name and (found := step.container(name)) is not None:
            step = step.with_container(name, _fetching(found, source))
    return step


def _launcher_is_node(runtime: RuntimeSpec) -> bool:
    mpi = runtime.ml_policy.mpi if runtime.ml_policy else None
    return mpi is not None and mpi.run_launcher_as_node


def json_of_any(model: Any) -> dict[str, Any]:
    """The JSON of a field that is kept as the user wrote it."""
    return dict(model.model_dump(exclude_unset=True))


def _resources(container: Json, more: Json) -> dict[str, Any]:
    """The job's resources, which override the runtime's of the same name."""
    if not more:
        return {}
    old = mapping(container.get("resources"))
    amounts = {part: {**mapping(old.get(part)), **mapping(more.get(part))} for part in ("limits", "requests")}
    return {"resources": {**old, **more, **{part: found for part, found in amounts.items() if found}}}


def _fetching(container: Json, source: Source) -> Json:
    # Before the job's own variables, so that those win.
    uri = [{"name": "STORAGE_URI", "value": source.storage_uri}] if source.storage_uri else []
    made = with_env(container, [*uri, *map(json_of_any, source.env or ())])
    if source.secret_ref is None:
        return made
    return {**made, "envFrom": [*(made.get("envFrom") or ()), {"secretRef": {"name": source.secret_ref.name}}]}


def with_env(container: Json, added: Sequence[Json]) -> dict[str, Any]:
    """The container with these variables, which replace variables of the same name."""
    if not added:
        return dict(container)
    listed = container.get("env")
    made = list(listed) if isinstance(listed, list) else []
    for variable in added:
        place = next((i for i, one in enumerate(made) if mapping(one).get("name") == variable.get("name")), None)
        if place is None:
            made.append(variable)
        else:
            made[place] = variable
    return {**container, "env": made}


def role_name(step: str, replica: int) -> str:
    """Name of a role of the internal job: JobSet's name of the child Job without the name of the job."""
    return f"{step}-{replica}"


def child_jobs(steps: Sequence[Step]) -> Iterator[tuple[Step, int, int]]:
    """(step, index in the step, index among all child Jobs) of each child Job."""
    number = 0
    for step in steps:
        for replica in range(step.job.replicas):
            yield step, replica, number
            number += 1


def jobset_template(
    name: JobName, uid: str, subdomain: str, steps: Sequence[Step], step: Step, replica: int, number: int
) -> Json:
    """The pod template with the labels and annotations of JobSet (`labelAndAnnotateObject` of its
    jobset_controller.go) and of the pods of a batch Job. Labels that differ by pod or attempt are added when a pod is
    created (`TrainingJob.guest_labels`)."""
    child = f"{name.name}-{role_name(step.name, replica)}"
    group = step.job.group_name or "default"
    in_group = [one for one in steps if (one.job.group_name or "default") == group]
    before = sum(one.job.replicas for one in in_group[: in_group.index(step)])
    jobset_keys = {
        f"{JOBSET}jobset-name": name.name,
        f"{JOBSET}jobset-uid": uid,
        f"{JOBSET}replicatedjob-name": step.name,
        f"{JOBSET}replicatedjob-replicas": str(step.job.replicas),
        f"{JOBSET}global-replicas": str(sum(one.job.replicas for one in steps)),
        f"{JOBSET}job-index": str(replica),
        f"{JOBSET}job-global-index": str(number),
        # JobSet's digest of the child Job (`jobHashKey`), by which exclusive placement selects pods.
        f"{JOBSET}job-key": hashlib.sha1(f"{name.namespace}/{child}".encode(), usedforsecurity=False).hexdigest(),
        f"{JOBSET}group-name": group,
        f"{JOBSET}group-replicas": str(sum(one.job.replicas for one in in_group)),
        f"{JOBSET}job-group-index": str(before + replica),
    }
    metadata = mapping(step.template.get("metadata"))
    # A batch Job's controller sets this label on its pods. Here no Job exists, but selectors by it still have to match.
    of_jobs = {"batch.kubernetes.io/job-name": child}
    return {
        **step.template,
        "spec": {**mapping(step.template.get("spec")), "subdomain": subdomain},
        "metadata": {
            **metadata,
            # JobSet writes its keys as labels and as annotations: selectors need the former, and programs read the
            # latter by the downward API.
            "labels": {**mapping(metadata.get("labels")), **jobset_keys, **of_jobs},
            "annotations": {**mapping(metadata.get("annotations")), **jobset_keys, **step.annotations},
        },
    }
