"""Converts a PyTorchJob (kubeflow.org/v1) to a TrainJob (trainer.kubeflow.org/v1alpha1). Pure.

A PyTorchJob contains its pod templates; those of a TrainJob are in its runtime. The fields that Trainer has for a job
go into `spec.trainer`, and what a job may change in its runtime goes into one of `spec.runtimePatches`. The report
lists everything else. The kind's own parser reads the job first, for its defaults and bounds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tjworker.api.containers import env_entry
from tjworker.api.kinds import parse
from tjworker.api.kinds.base import text
from tjworker.api.kinds.guests.parse import ANNOTATION_AUTOSCALE
from tjworker.api.kinds.kubeflow import pytorchjob
from tjworker.api.kinds.kubeflow.spec import MULTIKUEUE
from tjworker.api.kinds.trainer.policies import POLICIES
from tjworker.api.kinds.trainer.spec import GROUP, NODE, VERSION
from tjworker.api.kinds.trainer.trainjob import AUTOSCALE, KIND, MAX_NODES, MIN_NODES
from tjworker.api.model import InvalidJob, TrainingJob
from tjworker.api.torchrun import variable
from tjworker.base import Json, mapping
from tjworker.convert.known import INSTEAD, OWN_NAME, finalizers_left, named, unknown_left, written_path
from tjworker.convert.report import Converted, Left, Origins, Path, RefusedManifest, at, printed, value_at
from tjworker.convert.write import own_metadata

RUNTIME = "torch-distributed"
"""Trainer's runtime for torchrun."""
MANAGER = "elasticdeeplearning.ai/convert"
"""The manager of the patch of the runtime."""
_POD_FIELDS = (
    *("serviceAccountName", "volumes", "imagePullSecrets", "securityContext", "nodeSelector", "affinity"),
    *("tolerations", "schedulingGates", "terminationGracePeriodSeconds"),
)
"""The fields of a pod that a patch may change (PodSpecPatch in Trainer's trainjob_types.go)."""
_CONTAINER_FIELDS = ("volumeMounts", "securityContext")
_TRAINER_FIELDS = {
    "image": "image",
    "command": "command",
    "args": "args",
    "env": "env",
    "resources": "resourcesPerNode",
}
_TORCHRUN = re.compile(r"torchrun|torch\.distributed\.(run|launch)")
_PYTHON = re.compile(r"(.*/)?python[\d.]*")
_OF_V1 = re.compile(r"\$[({]?(MASTER_ADDR|MASTER_PORT|RANK|WORLD_SIZE)\b")
"""Variables that training-operator sets in each pod, and Trainer in none."""
_IN_THE_RUNTIME = "set it in the runtime of the job"


_NO_RUNTIME = "Kubeflow Trainer has no runtime for {}"
NOT_MADE: Mapping[str, str] = {
    "JAXJob": "its program reads COORDINATOR_ADDRESS, NUM_PROCESSES and PROCESS_ID; the runtime jax-distributed sets"
    " JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and JAX_PROCESS_ID instead",
    "XGBoostJob": "its program reads MASTER_ADDR, RANK and WORLD_SIZE; the runtime xgboost-distributed sets"
    " DMLC_TRACKER_URI, DMLC_TASK_ID and DMLC_NUM_WORKER instead",
    "MPIJob": "a runtime for MPI starts sshd with its own user and paths, which the job's images may lack",
    "TFJob": _NO_RUNTIME.format("TensorFlow"),
    "PaddleJob": _NO_RUNTIME.format("Paddle"),
}
"""Kind -> why its jobs are not converted: the TrainJob would start, but not train as before."""


@dataclass(frozen=True, slots=True)
class _SourceRole:
    path: Path
    """The role's place in the manifest."""
    raw: Json

    @property
    def pod(self) -> Json:
        return mapping(mapping(self.raw.get("template")).get("spec"))

    @property
    def pod_path(self) -> Path:
        return (*self.path, "template", "spec")


@dataclass(frozen=True, slots=True)
class _SourceJob:
    raw: Json
    job: TrainingJob
    roles: Sequence[_SourceRole]
    """First the role whose template all nodes get."""
    container: Json
    """The container that trains."""
    container_path: Path

    @property
    def spec(self) -> Json:
        return mapping(self.raw.get("spec"))

    @property
    def run_policy(self) -> Json:
        return mapping(self.spec.get("runPolicy"))

    @property
    def elastic(self) -> Json:
        return mapping(self.spec.get("elasticPolicy"))

    @property
    def starts_python(self) -> bool:
        """True if Python starts the program, in one process per pod, and torchrun does not."""
        first = str(next(iter(self.container.get("command") or ()), ""))
        return bool(_PYTHON.fullmatch(first)) and not _names_torchrun(self.container)


def convert(raw: Json) -> Converted | RefusedManifest:
    metadata, kind = mapping(raw.get("metadata")), pytorchjob.JOB_KIND
    job = parse(kind.resource, {**raw, "metadata": {**named(metadata), "uid": OWN_NAME}, "status": {}})
    if isinstance(job, InvalidJob):
        return RefusedManifest(job.errors)
    of = _source(raw, job)
    patch, trainer = _patch(of), _trainer(of)
    spec = {
        "runtimeRef": {"name": RUNTIME},
        "trainer": trainer,
        **({"runtimePatches": [patch]} if patch else {}),
        **_of_the_run_policy(of),
    }
    made = {"apiVersion": f"{GROUP}/{VERSION}", "kind": KIND, "metadata": _metadata(of), "spec": spec}
    left = (*unknown_left(kind, raw), *_left(of, trainer), *finalizers_left(metadata))
    return Converted(made, left, tuple(_notes(of, trainer)), _origins(of, patch))


def _source(raw: Json, job: TrainingJob) -> _SourceJob:
    written = {role.name: path for role in job.roles if (path := written_path(raw, role.spec_path)) is not None}
    names = sorted(written, key=lambda name: name != "Master")  # the master is the node of rank 0
    roles = [_SourceRole(written[name], mapping(value_at(raw, written[name]))) for name in names]
    listed = roles[0].pod.get("containers")
    containers = [mapping(one) for one in listed] if isinstance(listed, list) else []
    # The container whose exit code counts is the one that trains, at any place in the list.
    place = next((i for i, one in enumerate(containers) if one.get("name") == pytorchjob.JOB_KIND.container), 0)
    return _SourceJob(raw, job, roles, containers[place], (*roles[0].pod_path, "containers", place))


# -- what carries over -------------------------------------------------------------------------------------------------


def _metadata(of: _SourceJob) -> dict[str, Any]:
    made = own_metadata(mapping(of.raw.get("metadata")), frozenset({ANNOTATION_AUTOSCALE}))
    worker = next((role for role in of.job.roles if role.elastic), None)
    if worker is None or worker.min_replicas is None:
        return made
    others = sum(role.replicas for role in of.job.roles if role is not worker)
    # An elastic TrainJob bounds all its nodes, a PyTorchJob only its workers: the master is a node, too.
    bounds = {MIN_NODES: str(worker.min_replicas + others), MAX_NODES: str((worker.max_replicas or 0) + others)}
    moved = {AUTOSCALE: "true"} if worker.autoscaled else {}
    return {**made, "annotations": {**mapping(made.get("annotations")), **bounds, **moved}}


def _trainer(of: _SourceJob) -> dict[str, Any]:
    made: dict[str, Any] = {"numNodes": sum(role.replicas for role in of.job.roles)}
    for old, new in _TRAINER_FIELDS.items():
        if of.container.get(old):
            made[new] = of.container[old]
    # Without torchrun the program would find neither RANK nor WORLD_SIZE: Trainer sets torchrun's variables alone.
    if of.starts_python and (command := _with_torchrun(made["command"])) is not None:
        made["command"] = command
    # A TrainJob has no field for it, but torchrun reads the variable.
    restarts = of.elastic.get("maxRestarts")
    given = [] if restarts is None else [env_entry(variable("max_restarts"), str(restarts))]
    # Trainer refuses a job that sets one of these itself; `_program_left` reports it.
    variables = [one for one in made.get("env", ()) if mapping(one).get("name") not in _RESERVED]
    made |= {"env": [*variables, *given]}
    processes = _processes(of)
    return {name: value for name, value in {**made, "numProcPerNode": processes}.items() if value not in (None, [])}


_RESERVED = POLICIES["torch"].reserved


def _processes(of: _SourceJob) -> int | None:
    """The number of processes per node. None: Trainer chooses, one for each GPU or CPU."""
    if of.starts_python:
        return 1
    # The field of elasticPolicy is the older one.
    asked = text(of.spec.get("nprocPerNode")) or str(of.elastic.get("nProcPerNode") or "")
    if asked.isdecimal():
        return int(asked)
    has_master = any(role.name == "Master" for role in of.job.roles)
    return None if asked or has_master else 1  # torchrun's own default


def _with_torchrun(command: Sequence[Any]) -> list[Any] | None:
    """The command `python [-u] [-m] PROGRAM ...` with torchrun; None if it has other options of Python."""
    rest = [*command[1:]]
    while rest[:1] == ["-u"]:  # torchrun starts Python with -u itself
        rest = rest[1:]
    return None if rest and str(rest[0]).startswith("-") and rest[0] != "-m" else ["torchrun", *rest]


def _patch(of: _SourceJob) -> dict[str, Any] | None:
    """The job's changes to its runtime; None if there are none."""
    pod = {name: of.roles[0].pod[name] for name in _POD_FIELDS if name in of.roles[0].pod}
    container = {name: of.container[name] for name in _CONTAINER_FIELDS if name in of.container}
    if container:
        # Trainer merges the patch by the names of its runtime's containers: the training container is called node.
        pod["containers"] = [{"name": NODE, **container}]
    given = mapping(mapping(of.roles[0].raw.get("template")).get("metadata"))
    metadata = {name: given[name] for name in ("labels", "annotations") if given.get(name)}
    template = ({"metadata": metadata} if metadata else {}) | ({"spec": pod} if pod else {})
    if not template:
        return None
    jobs = [{"name": NODE, "template": {"spec": {"template": template}}}]
    return {"manager": MANAGER, "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}}


def _of_the_run_policy(of: _SourceJob) -> dict[str, Any]:
    found = {"activeDeadlineSeconds": of.run_policy.get("activeDeadlineSeconds")}
    found["suspend"] = of.run_policy.get("suspend") or None
    # The other value names training-operator, and Trainer accepts only its own controller or MultiKueue.
    found["managedBy"] = MULTIKUEUE if of.run_policy.get("managedBy") == MULTIKUEUE else None
    return {name: value for name, value in found.items() if value is not None}


_AT_THE_NODE: Path = (
    *("spec", "runtimePatches", 0, "trainingRuntimeSpec", "template", "spec", "replicatedJobs", 0),
    *("template", "spec", "template"),
)


def _origins(of: _SourceJob, patch: Json | None) -> Origins:
    run: Path = ("spec", "runPolicy")
    found: dict[Path, Path] = {(): (), ("spec", "trainer", "numNodes"): (*of.roles[0].path, "replicas")}
    found |= {("spec", name): (*run, name) for name in ("activeDeadlineSeconds", "suspend", "managedBy")}
    for old, new in _TRAINER_FIELDS.items():
        found[("spec", "trainer", new)] = (*of.container_path, old)
    if patch is not None:
        found[_AT_THE_NODE] = (*of.roles[0].path, "template")
        found[(*_AT_THE_NODE, "spec", "containers", 0)] = of.container_path
    return found


# -- what does not -----------------------------------------------------------------------------------------------------


def _left(of: _SourceJob, trainer: Json) -> Iterator[Left]:
    yield from _run_policy_left(of)
    yield from _elastic_left(of)
    yield from _other_templates(of)
    yield from _pod_left(of)
    yield from _program_left(of, trainer)


def _run_policy_left(of: _SourceJob) -> Iterator[Left]:
    policy = of.run_policy
    of_the_runtime = {
        "backoffLimit": "template.spec.replicatedJobs[node].template.spec.backoffLimit",
        "ttlSecondsAfterFinished": "template.spec.ttlSecondsAfterFinished",
        "schedulingPolicy": "podGroupPolicy",
    }
    for name, path in of_the_runtime.items():
        if policy.get(name) is not None:
            why = "a TrainJob has this in its runtime"
            yield Left(f"spec.runPolicy.{name}", policy[name], why, f"set spec.{path} there")
    # JobSet deletes running pods when a job ends, as `Running` does.
    if policy.get("cleanPodPolicy") not in (None, "", "None", "Running"):
        yield Left(
            "spec.runPolicy.cleanPodPolicy",
            policy["cleanPodPolicy"],
            "ended pods of a TrainJob stay until it is deleted",
            "set ttlSecondsAfterFinished of the runtime, or delete the job",
        )
    for role in of.roles:
        if (policy_of_role := role.raw.get("restartPolicy")) in ("Never", "ExitCode"):
            yield Left(
                printed((*role.path, "restartPolicy")),
                policy_of_role,
                "failed pods of a TrainJob are replaced, up to the backoffLimit of the runtime",
                "set spec.template.spec.replicatedJobs[node].template.spec.backoffLimit there, to 0 for Never",
            )


def _elastic_left(of: _SourceJob) -> Iterator[Left]:
    for name, value in of.elastic.items():
        if name in ("minReplicas", "maxReplicas", "maxRestarts", "nProcPerNode"):
            continue
        # A TrainJob always has this rendezvous.
        if (name, value) == ("rdzvBackend", "c10d"):
            continue
        instead = (
            INSTEAD["elasticPolicy.metrics"] if name == "metrics" else "set PET_* in spec.trainer.env if you need it"
        )
        yield Left(f"spec.elasticPolicy.{name}", value, "the rendezvous of a TrainJob is c10d at node 0", instead)
    if of.elastic and not any(role.elastic for role in of.job.roles):
        why = "a TrainJob with a fixed number of nodes gets no variables for torchrun's rendezvous"
        yield Left("spec.elasticPolicy", dict(of.elastic), why, "set minReplicas below maxReplicas, or leave it out")


def _other_templates(of: _SourceJob) -> Iterator[Left]:
    """Reports the fields in which other roles differ from the first: all nodes of a TrainJob have one template."""
    first = of.roles[0]
    for role in of.roles[1:]:
        for path, value in _differences(mapping(first.raw.get("template")), mapping(role.raw.get("template"))):
            yield Left(
                printed((*role.path, "template", *path)),
                value,
                f"all nodes of a TrainJob have one template, here that of {printed(first.path)}, which differs",
                "make the templates equal, or let the program choose by its rank",
            )


def _differences(first: Any, other: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """The innermost fields that differ, with the value in `other`."""
    if isinstance(first, Mapping) and isinstance(other, Mapping):
        for name in sorted({*first, *other}):
            yield from _differences(first.get(name), other.get(name), (*path, name))
    elif isinstance(first, list) and isinstance(other, list) and len(first) == len(other):
        for i, (one, two) in enumerate(zip(first, other, strict=True)):
            yield from _differences(one, two, (*path, i))
    elif first != other:
        yield path, other


def _pod_left(of: _SourceJob) -> Iterator[Left]:
    role, why = of.roles[0], "a TrainJob may not change this field of its runtime"
    for name, value in role.pod.items():
        # The restartPolicy of the role replaces that of the template, and `_run_policy_left` reports it.
        if name not in (*_POD_FIELDS, "containers", "restartPolicy"):
            yield Left(printed((*role.pod_path, name)), value, why, _IN_THE_RUNTIME)
    for i, one in enumerate(role.pod.get("containers") or ()):
        if (*role.pod_path, "containers", i) != of.container_path:
            yield Left(printed((*role.pod_path, "containers", i)), mapping(one).get("name"), why, _IN_THE_RUNTIME)
    for name, value in of.container.items():
        # Trainer adds the rendezvous port itself.
        if name not in ("name", "ports", *_TRAINER_FIELDS, *_CONTAINER_FIELDS):
            yield Left(printed((*of.container_path, name)), value, why, _IN_THE_RUNTIME)


def _program_left(of: _SourceJob, trainer: Json) -> Iterator[Left]:
    for i, one in enumerate(of.container.get("env") or ()):
        if mapping(one).get("name") in _RESERVED:
            path = printed((*of.container_path, "env", i))
            yield Left(path, mapping(one).get("name"), "Trainer sets this variable itself", "leave it out")
    # Kubernetes expands $(RANK) in command and args, a shell ${RANK}: neither has torchrun's variables, which it sets
    # only in the processes that it starts.
    words = [str(word) for field in ("command", "args") for word in of.container.get(field) or ()]
    read = sorted({name for word in words for name in _OF_V1.findall(word)})
    if read:
        yield Left(
            printed((*of.container_path, "command")),
            ", ".join(read),
            "in a TrainJob only the processes that torchrun starts have these variables",
            "read PET_MASTER_ADDR, PET_MASTER_PORT, PET_NODE_RANK and PET_NNODES",
        )
    if not _names_torchrun({"command": trainer.get("command"), "args": trainer.get("args")}):
        yield Left(
            printed((*of.container_path, "command")),
            of.container.get("command"),
            "nodes of a TrainJob find each other by torchrun's variables (PET_*), and the command has no torchrun",
            "start the program with torchrun",
        )


def _names_torchrun(container: Json) -> bool:
    words = (str(word) for field in ("command", "args") for word in container.get(field) or ())
    return any(_TORCHRUN.search(word) for word in words)


def _notes(of: _SourceJob, trainer: Json) -> Iterator[str]:
    yield (
        f"it names the runtime {RUNTIME}, which must exist: its container {NODE} has the fields that the job leaves"
        " out; pods and services have Trainer's names and labels"
    )
    if of.starts_python and "torchrun" in (trainer.get("command") or ()):
        yield "torchrun starts its program, one process per node, and sets RANK, WORLD_SIZE and MASTER_ADDR"
    if "numProcPerNode" not in trainer:
        yield "torchrun starts a process for each GPU of a node, or for each requested CPU if it has no GPU"
    if any(at(of.raw, printed((*role.path, "replicas"))) for role in of.roles[1:]):
        yield "the master and the workers are nodes of one kind; the master is node 0"
