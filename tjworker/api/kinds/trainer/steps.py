"""A runtime and a TrainJob together: the steps of the job, each with its pods as Trainer and JobSet make them
(pkg/runtime/core/trainingruntime.go and plugins/jobset/builder.go of kubeflow/trainer). Pure.

Trainer makes a JobSet, JobSet a batch Job for each replica of a replicated job, and Kubernetes the pods of it. Here a
role of the internal job is one of those batch Jobs, so that a pod has the name that it has there:
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
"""Of a batch Job that does not say."""


@dataclass(frozen=True, slots=True)
class Step:
    """One replicated job."""

    name: str
    step: str
    """Which step of the job it is; '' for none."""
    pods: int
    """Of each child Job."""
    template: Json
    """Of its pods."""
    job: ReplicatedJob
    annotations: Mapping[str, str] = field(default_factory=dict)

    def container(self, name: str) -> Json | None:
        return _named(self.template, "containers", name)

    def any_container(self, name: str) -> Json | None:
        """The container or init container of that name; None if there is none."""
        return self.container(name) or _named(self.template, "initContainers", name)

    def with_container(self, name: str, changed: Json) -> Step:
        """With this in the place of the container, or init container, of that name."""
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
    """The spec of a runtime, as JSON, with the patches of a job."""
    template = mapping(runtime.get("template"))
    spec = mapping(template.get("spec"))
    jobs = spec.get("replicatedJobs")
    changed = with_patches(jobs if isinstance(jobs, list) else [], patches)
    return {**runtime, "template": {**template, "spec": {**spec, "replicatedJobs": changed}}}


def steps_of(raw: Json, runtime: RuntimeSpec, job: TrainJobSpec) -> tuple[Step, ...]:
    """Of a runtime as JSON and as it was read, in its order: with the numbers, images, commands, variables and
    resources that the job sets. Without what its framework adds (`policies`)."""
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
        # Trainer's mpi plugin gives numNodes to the replicated job `node`, wherever the label is; of those nodes the
        # launcher is one where it trains, too.
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
        # Where the launcher trains, the label is at the launcher, and `node` still needs the variables and resources of
        # the job. Image, command and arguments are the labelled step's alone.
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
    """Of a field that is kept as it is written."""
    return dict(model.model_dump(exclude_unset=True))


def _resources(container: Json, more: Json) -> dict[str, Any]:
    """Each of the job's in the place of the runtime's of the same name."""
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
    """The container with these variables, each in the place of one of its name."""
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
    """Of the internal job: what JobSet calls the child Job, without the name of the job."""
    return f"{step}-{replica}"


def child_jobs(steps: Sequence[Step]) -> Iterator[tuple[Step, int, int]]:
    """Each child Job: its step, its number in that, and its number among all."""
    number = 0
    for step in steps:
        for replica in range(step.job.replicas):
            yield step, replica, number
            number += 1


def jobset_template(
    name: JobName, uid: str, subdomain: str, steps: Sequence[Step], step: Step, replica: int, number: int
) -> Json:
    """The pod template with the labels and annotations of JobSet (`labelAndAnnotateObject` of its
    jobset_controller.go), and those that Kubernetes gives to pods of a batch Job. What differs by pod and by attempt
    comes when a pod is made (`TrainingJob.guest_labels`)."""
    child = f"{name.name}-{role_name(step.name, replica)}"
    group = step.job.group_name or "default"
    in_group = [one for one in steps if (one.job.group_name or "default") == group]
    before = sum(one.job.replicas for one in in_group[: in_group.index(step)])
    told = {
        f"{JOBSET}jobset-name": name.name,
        f"{JOBSET}jobset-uid": uid,
        f"{JOBSET}replicatedjob-name": step.name,
        f"{JOBSET}replicatedjob-replicas": str(step.job.replicas),
        f"{JOBSET}global-replicas": str(sum(one.job.replicas for one in steps)),
        f"{JOBSET}job-index": str(replica),
        f"{JOBSET}job-global-index": str(number),
        # JobSet's digest of the child Job (`jobHashKey`), which exclusive placement selects by.
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
            "labels": {**mapping(metadata.get("labels")), **told, **of_jobs},
            "annotations": {**mapping(metadata.get("annotations")), **told, **step.annotations},
        },
    }
