"""Converts Volcano's Job (batch.volcano.sh/v1alpha1) to an AITrainingJob. A task becomes a role. Pure.

`spec` has the fields that are read, `policies` converts the lifecycle policies, and `plugins` the plugins.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from dataclasses import replace
from functools import cache
from itertools import count
from typing import Any

from pydantic import ValidationError

from tjworker.api.kinds.base import field_errors, header, strings, text
from tjworker.api.model import GangPolicy, Role, TrainingJob
from tjworker.api.naming import MAX_NAME_LENGTH
from tjworker.api.podtemplate import DNS_LABEL
from tjworker.api.schema import structural
from tjworker.api.unknown import unknown_fields
from tjworker.base import GroupResource, Json, mapping
from tjworker.convert import write
from tjworker.convert.known import metadata_left, named
from tjworker.convert.report import Converted, Left, Origins, Path, RefusedManifest
from tjworker.convert.volcano import plugins, policies
from tjworker.convert.volcano.plugins import Plugged
from tjworker.convert.volcano.policies import Lives
from tjworker.convert.volcano.spec import JobSpec, Task

API_VERSIONS = ("batch.volcano.sh/v1alpha1",)
_RESOURCE = GroupResource("jobs.batch.volcano.sh")
_SCHEDULER = "volcano"


def convert(raw: Json) -> Converted | RefusedManifest:
    metadata = mapping(raw.get("metadata"))
    try:
        spec = JobSpec.model_validate(raw.get("spec"))
    except ValidationError as error:
        return RefusedManifest(field_errors(error))
    kubelet = [text(mapping(task["template"].get("spec")).get("restartPolicy")) for task in raw["spec"]["tasks"]]
    # A pod without a restartPolicy gets Always from the API server.
    lives, plugged = policies.read(spec, [policy or "Always" for policy in kubelet]), plugins.read(spec)
    job = _job({**raw, "metadata": named(metadata), "status": {}}, spec, lives, plugged)
    names = tuple(spec.task_name(i) for i in range(len(spec.tasks)))
    made = write.manifest(job, write.own_metadata(metadata), names)
    unknown = unknown_fields(raw["spec"], _schema(), "spec")
    strange = (Left(u.path, u.value, "the conversion does not know this field", "leave it out") for u in unknown)
    left = (*strange, *lives.left, *plugged.left, *_left(spec, raw["spec"]), *metadata_left(metadata))
    return Converted(made, left, (*plugged.notes, *_notes(spec)), _origins(names))


@cache
def _schema() -> Json:
    return structural(JobSpec, defaults=False)


def _job(raw: Json, spec: JobSpec, lives: Lives, plugged: Plugged) -> TrainingJob:
    head = header(raw, _RESOURCE, "Job", API_VERSIONS[0])
    metadata = mapping(raw.get("metadata"))
    roles = tuple(_role(spec, i, raw["spec"]["tasks"][i]["template"], lives, plugged) for i in range(len(spec.tasks)))
    job = TrainingJob(
        **head,
        roles=roles,
        labels=strings(metadata.get("labels")),
        annotations=strings(metadata.get("annotations")),
        framework=plugged.framework,
        priority=spec.priority_class_name,
        scheduler_name=spec.scheduler_name,
        ttl_seconds_after_finished=spec.ttl_seconds_after_finished,
        # Volcano takes 0 for the number of all replicas, which is the default here.
        min_available=spec.min_available or None,
        # Volcano writes `default` into each job without a queue: the user has not chosen it.
        gang=GangPolicy(queue="" if spec.queue == "default" else spec.queue),
        # After its end a Volcano job keeps the pods that have ended, with their logs.
        clean_pod_policy="Running",
        complete_policy=lives.job_completes,
    )
    return replace(job, retryable_exit_codes=frozenset(lives.exit_codes)) if lives.exit_codes else job


def _role(spec: JobSpec, index: int, template: Json, lives: Lives, plugged: Plugged) -> Role:
    name = spec.task_name(index)
    return Role(
        name=name,
        workload="Pod",
        replicas=spec.tasks[index].replicas,
        template=_template(spec, template, plugged),
        restart_policy=lives.restart[name],
        restart_scope=lives.scope[name],
        restart_limit=lives.limit.get(name),
        fail_policy=lives.fail[name],
        complete_policy=lives.complete[name],
        spec_path=f"spec.tasks[{index}].replicas",
    )


def _template(spec: JobSpec, template: Json, plugged: Plugged) -> Json:
    """The template with the job's volumes, and with what the plugins add to each pod."""
    pod: dict[str, Any] = dict(mapping(template.get("spec")))
    volumes, mounts = _volumes(spec, {mapping(own).get("name") for own in pod.get("volumes") or ()})
    if volumes:
        pod["volumes"] = [*(pod.get("volumes") or ()), *volumes]
    for kind in ("initContainers", "containers"):
        if pod.get(kind):
            pod[kind] = [_container(mapping(c), mounts, plugged) for c in pod[kind]]
    if plugged.port is not None:
        first, *rest = pod["containers"]
        port = {"name": plugged.port[0], "containerPort": plugged.port[1]}
        pod["containers"] = [{**first, "ports": [*(first.get("ports") or ()), port]}, *rest]
    return {**template, "spec": pod}


def _container(container: Json, mounts: list[Json], plugged: Plugged) -> Json:
    made = dict(container)
    own = {entry.get("name") for entry in container.get("env") or () if isinstance(entry, dict)}
    added = [{"name": name, "value": value} for name, value in plugged.env.items() if name not in own]
    if added:
        made["env"] = [*(container.get("env") or ()), *added]
    if mounts:
        made["volumeMounts"] = [*(container.get("volumeMounts") or ()), *mounts]
    return made


def _volumes(spec: JobSpec, own: Container[object]) -> tuple[list[Json], list[Json]]:
    """(volumes, mounts). A volume is named as its claim if that is valid and not in `own`, the template's names."""
    claims = [volume.volume_claim_name for volume in spec.volumes]
    names = {claim: claim for claim in claims if _may_name_a_volume(claim) and claim not in own}
    volumes: dict[str, Json] = {}
    mounts: list[Json] = []
    for i, (claim, volume) in enumerate(zip(claims, spec.volumes, strict=True)):
        name = names.get(claim)
        if name is None:
            # A claim's name may be too long for a volume, or taken by a volume of the template.
            free = (f"volume-{n}" for n in count(i))
            name = next(each for each in free if each not in own and each not in names and each not in volumes)
        if claim:
            # A claim that is mounted at two paths is one volume with two mounts.
            names[claim] = name
        volumes[name] = {"persistentVolumeClaim": {"claimName": claim}} if claim else {"emptyDir": {}}
        mounts.append({"name": name, "mountPath": volume.mount_path})
    return [{"name": name, **source} for name, source in volumes.items()], mounts


def _may_name_a_volume(claim: str) -> bool:
    """True if the claim's name is valid for a volume: a claim's may have dots, and be longer."""
    return bool(re.fullmatch(DNS_LABEL, claim)) and len(claim) <= MAX_NAME_LENGTH


def _left(spec: JobSpec, raw: Json) -> Iterator[Left]:
    total = sum(task.replicas for task in spec.tasks)
    if spec.min_available and spec.min_available < total:
        yield Left(
            "spec.minAvailable",
            spec.min_available,
            f"the job starts with {spec.min_available} pods, but does not complete when as many of its {total} succeed",
            "set failPolicy and completePolicy of the roles",
        )
    for name, why, instead in _FIELDS:
        if raw.get(name) not in (None, "", {}, []):
            yield Left(f"spec.{name}", raw[name], why, instead)
    for i, volume in enumerate(spec.volumes):
        if volume.volume_claim is not None:
            yield Left(
                f"spec.volumes[{i}].volumeClaim",
                raw["volumes"][i]["volumeClaim"],
                "this operator makes no PersistentVolumeClaim",
                f"make a claim named {volume.volume_claim_name or '...'}, and name it in the volumes of the templates",
            )
    for i, task in enumerate(spec.tasks):
        yield from _left_of_task(f"spec.tasks[{i}]", task, raw["tasks"][i])


_FIELDS = (
    ("minSuccess", "all, any or the first pod complete a role, not a number", "set completePolicy of the role"),
    ("networkTopology", "nothing places pods by network", "set affinity or topologySpreadConstraints in the templates"),
    ("runningEstimate", "it has no effect", "set timeLimit if it should limit the job"),
)
_TASK_FIELDS = (
    ("topologyPolicy", "nothing places pods by NUMA node", "set the kubelet's topologyManagerPolicy on the nodes"),
    ("partitionPolicy", "roles have no partitions", "make each partition a role"),
    (
        "dependsOn",
        "the roles start together",
        "let the program wait for the others, or use frameworkType mpi, whose launcher starts last",
    ),
)


def _left_of_task(path: str, task: Task, raw: Json) -> Iterator[Left]:
    if task.min_available not in (None, task.replicas):
        yield Left(f"{path}.minAvailable", task.min_available, "a gang is the whole job", "set minAvailable of the job")
    for name, why, instead in _TASK_FIELDS:
        if raw.get(name) not in (None, "", "none", {}):
            yield Left(f"{path}.{name}", raw[name], why, instead)


def _notes(spec: JobSpec) -> Iterator[str]:
    if spec.scheduler_name == _SCHEDULER:
        yield (
            "spec.schedulerName is still volcano: leave it out if Volcano's scheduler does not run, or no pod gets a"
            " node"
        )
    yield "its pods no longer have labels volcano.sh/*: select them by job-name, replica-name and replica-index"


def _origins(names: tuple[str, ...]) -> Origins:
    origins: dict[Path, Path] = {
        (): (),
        ("spec", "replicaSpecs"): ("spec", "tasks"),
        ("spec", "priority"): ("spec", "priorityClassName"),
        ("spec", "runPolicy", "schedulingPolicy", "minAvailable"): ("spec", "minAvailable"),
        ("spec", "runPolicy", "schedulingPolicy", "queue"): ("spec", "queue"),
        ("spec", "runPolicy", "ttlSecondsAfterFinished"): ("spec", "ttlSecondsAfterFinished"),
    }
    return origins | {("spec", "replicaSpecs", name): ("spec", "tasks", i) for i, name in enumerate(names)}
