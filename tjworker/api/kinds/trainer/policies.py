"""Applies the ML policy of a runtime to its steps, as the plugins of Trainer do (pkg/runtime/framework/plugins: torch,
jax, xgboost, mpi, plainml). A policy is a function and a row of `POLICIES`. Pure.

As in Trainer, only a job with `spec.trainer` gets the variables of torch, jax and xgboost, and the job's own variables
come after them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tjworker.api.containers import env_entry
from tjworker.api.kinds.guests.mpipods import SSH_PRIVATE_KEY, SSH_PUBLIC_KEY
from tjworker.api.kinds.trainer.spec import LAUNCHER, NODE, TRAINER, MLPolicy, MPIPolicy, TrainJobSpec, json_of
from tjworker.api.kinds.trainer.steps import Step, role_name, with_env
from tjworker.api.kinds.trainer.torchtune import TUNE, Devices, tune_command, tune_errors
from tjworker.api.labels import COMPLETION_INDEX
from tjworker.api.model import FieldError
from tjworker.api.quantity import milli
from tjworker.api.torchrun import TorchOptions, variable
from tjworker.base import Json, mapping

# The default port of torch.distributed. Trainer uses it for jax and xgboost, too.
PORT = 29500
HOSTFILE_FOLDER, HOSTFILE = "/etc/mpi", "hostfile"
HOSTFILE_ANNOTATION = "trainer.kubeflow.org/mpi-hostfile"
"""Annotation of the launcher's pods with the hostfile. A downwardAPI volume makes it a file."""
KEYS_VOLUME, HOSTFILE_VOLUME = "mpi-ssh-auth", "mpi-hostfile"
# The rank comes from the annotation of an Indexed Job, as under Trainer, so that the pods of a step differ in nothing
# else.
_INDEX: Json = {"fieldRef": {"fieldPath": f"metadata.annotations['{COMPLETION_INDEX}']"}}


@dataclass(frozen=True, slots=True)
class Setting:
    """The job to which the steps belong."""

    name: str
    subdomain: str
    spec: TrainJobSpec
    secret: str
    """Name of the Secret with its ssh keys."""
    elastic: bool = False
    """True if its number of nodes may change: then each pod gets the framework's variables when it is created."""

    @property
    def first_host(self) -> str:
        return f"{self.name}-{role_name(NODE, 0)}-0.{self.subdomain}"


Apply = Callable[[Setting, MLPolicy, tuple[Step, ...]], tuple[Step, ...]]
Check = Callable[[Setting, MLPolicy, Sequence[Step]], Iterator[FieldError]]


@dataclass(frozen=True, slots=True)
class RuntimePolicy:
    apply: Apply
    reserved: frozenset[str] = frozenset()
    """Variables that a job must not set."""
    errors: Check = lambda setting, policy, steps: iter(())


def find_policy(policy: MLPolicy | None) -> RuntimePolicy:
    """The policy of the runtime's framework; without a framework, a policy that changes nothing."""
    # By a rule of the CRD, as in Trainer, a runtime has at most one policy.
    chosen = [name for name in POLICIES if policy is not None and getattr(policy, name) is not None]
    return POLICIES[chosen[0]] if chosen else PLAIN


def reserved_errors(setting: Setting, policy: MLPolicy | None) -> Iterator[FieldError]:
    """Check that a job sets no reserved variable: `must not have reserved envs` of the plugins' Validate."""
    trainer, made = setting.spec.trainer, find_policy(policy)
    named = sorted({one.name for one in (trainer.env if trainer else None) or ()} & made.reserved)
    if named:
        yield FieldError(
            "spec.trainer.env",
            f"must not have reserved envs, invalid envs configured: {', '.join(named)}; create the job again without"
            " them",
        )


# -- torch -------------------------------------------------------------------------------------------------------------


def _with_torch(setting: Setting, policy: MLPolicy, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    trainer, node = setting.spec.trainer, _training(steps)
    if trainer is None or node is None:
        return steps
    if _tunes(setting):
        tuned = _changed(steps, node.name, NODE, lambda c: _with_port(_tuned(setting, steps, node, c)))
        return _injected(policy, tuned, _torchrun(setting, steps, node))
    # A container's variables cannot change, so torchrun must not find a fixed PET_NNODES in an elastic job.
    if setting.elastic:
        # In an elastic job `reconcile.frameworks.pytorch` sets the rendezvous of each pod, at this port.
        procs = _variables(TorchOptions(nproc_per_node=_processes(setting, steps)))
        return _changed(steps, node.name, NODE, lambda c: _with_port(_before_own(setting, c, procs), "pytorchjob-port"))
    added = _torchrun(setting, steps, node)
    return _injected(
        policy, _changed(steps, node.name, NODE, lambda c: _with_port(_before_own(setting, c, added))), added
    )


def _torchrun(setting: Setting, steps: Sequence[Step], node: Step) -> list[Json]:
    return _variables(
        TorchOptions(
            nnodes=str(node.pods),
            nproc_per_node=_processes(setting, steps),
            node_rank=_INDEX,
            master_addr=setting.first_host,
            master_port=str(PORT),
        )
    )


def _variables(options: TorchOptions) -> list[Json]:
    return [env_entry(name, value) for name, value in options.variables().items()]


def _injected(policy: MLPolicy, steps: tuple[Step, ...], added: Sequence[Json]) -> tuple[Step, ...]:
    """Add the variables to the containers of envInjection, also for torchtune: these run other programs."""
    for target in policy.torch.env_injection.targets if policy.torch and policy.torch.env_injection else ():
        for container in target.container_names:
            steps = _changed(steps, target.job_name, container, lambda c: with_env(c, added))
    return steps


def _torch_errors(setting: Setting, policy: MLPolicy, steps: Sequence[Step]) -> Iterator[FieldError]:
    injected = policy.torch.env_injection.targets if policy.torch and policy.torch.env_injection else ()
    by_name = {step.name: step for step in steps}
    for target in injected:
        for container in target.container_names:
            step = by_name.get(target.job_name)
            if step is None or step.any_container(container) is None:
                yield FieldError(
                    "spec.runtimeRef",
                    f"the runtime injects variables into the container {container} of the replicated job"
                    f" {target.job_name}, which it does not have; mend its envInjection",
                )
    if _tunes(setting):
        yield from tune_errors(setting.spec, _gpus(_resources_per_node(setting, steps)))


def _tunes(setting: Setting) -> bool:
    return setting.spec.trainer is not None and tuple(setting.spec.trainer.command or ()) == TUNE


def _processes(setting: Setting, steps: Sequence[Step]) -> str:
    """Processes of each node: `auto` if it has GPUs, else one per CPU."""
    trainer = setting.spec.trainer
    if trainer is not None and trainer.num_proc_per_node is not None:
        return str(trainer.num_proc_per_node)
    resources = _resources_per_node(setting, steps)
    if _gpus(resources):
        return "auto"
    # At least one process, even if the node requests no CPU.
    cpus = (math.ceil(_cpus(resources.get(part, {}).get("cpu", 0))) for part in ("requests", "limits"))
    return str(max(1, next((count for count in cpus if count), 0)))


def _resources_per_node(setting: Setting, steps: Sequence[Step]) -> Mapping[str, Json]:
    """`requests` and `limits` as in the job, or in the runtime if the job has none."""
    trainer = setting.spec.trainer
    if trainer is not None and trainer.resources_per_node is not None:
        given: Json = json_of(trainer.resources_per_node)
    else:
        nodes = (step.container(NODE) for step in steps if step.name == NODE or step.step == TRAINER)
        given = next((mapping(one["resources"]) for one in nodes if one is not None and one.get("resources")), {})
    return {part: mapping(given.get(part)) for part in ("requests", "limits")}


def _cpus(quantity: object) -> float:
    try:
        return milli(quantity) / 1000
    except ValueError:  # the API server says so when a pod is made
        return 0


def _tuned(setting: Setting, steps: Sequence[Step], node: Step, container: Json) -> dict[str, Any]:
    processes, gpus = _processes(setting, steps), _gpus(_resources_per_node(setting, steps))
    of_runtime = next((c.command or [] for c in node.job.template.spec.template.spec.containers if c.name == NODE), [])
    numbers = _variables(TorchOptions(nnodes=str(node.pods), nproc_per_node=processes, node_rank=_INDEX))
    command = tune_command(
        setting.spec, Devices(node.pods, processes, gpus), f"{setting.first_host}:{PORT}", of_runtime
    )
    return {**_before_own(setting, container, numbers), "command": command}


# -- jax and xgboost ---------------------------------------------------------------------------------------------------


def _with_jax(setting: Setting, policy: MLPolicy, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    node = _training(steps)
    if setting.spec.trainer is None or node is None:
        return steps
    added: list[Json] = [
        {"name": "JAX_NUM_PROCESSES", "value": str(node.pods)},
        {"name": "JAX_PROCESS_ID", "valueFrom": _INDEX},
        {"name": "JAX_COORDINATOR_ADDRESS", "value": f"{setting.first_host}:{PORT}"},
    ]
    return _changed(steps, node.name, NODE, lambda c: _with_port(_before_own(setting, c, added)))


def _with_xgboost(setting: Setting, policy: MLPolicy, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    node = _training(steps)
    if setting.spec.trainer is None or node is None:
        return steps
    # Trainer starts a worker for each GPU, and the tracker waits until all of them have registered.
    workers = node.pods * max(1, _gpus(_resources_per_node(setting, steps)))
    added: list[Json] = [
        {"name": "DMLC_TRACKER_URI", "value": setting.first_host},
        {"name": "DMLC_TRACKER_PORT", "value": str(PORT)},
        {"name": "DMLC_TASK_ID", "valueFrom": _INDEX},
        {"name": "DMLC_NUM_WORKER", "value": str(workers)},
    ]
    return _changed(steps, node.name, NODE, lambda c: _with_port(_before_own(setting, c, added)))


def _gpus(resources: Mapping[str, Json]) -> int:
    """GPUs in the requests, or else in the limits: `GetNumGPUPerNode` of pkg/runtime/runtime.go."""
    given = (resources.get(part, {}) for part in ("requests", "limits"))
    counts = (sum(math.ceil(_cpus(value)) for name, value in one.items() if "gpu" in name.lower()) for one in given)
    return next((count for count in counts if count), 0)


# -- mpi ---------------------------------------------------------------------------------------------------------------


def _with_mpi(setting: Setting, policy: MLPolicy, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    mpi = policy.mpi
    assert mpi is not None  # noqa: S101  find_policy has looked
    slots = _slots(setting, mpi, steps)
    items = [
        {"key": SSH_PRIVATE_KEY, "path": "id_rsa", "mode": 0o640},
        {"key": SSH_PUBLIC_KEY, "path": "id_rsa.pub", "mode": 0o644},
        {"key": SSH_PUBLIC_KEY, "path": "authorized_keys", "mode": 0o644},
    ]
    keys = {"name": KEYS_VOLUME, "secret": {"secretName": setting.secret, "defaultMode": 0o400, "items": items}}
    made = []
    for step in steps:
        # Trainer's mpi plugin also goes by these names: the label of the step may be on the launcher or on the node.
        takes_part = step.name in (NODE, LAUNCHER)
        with_keys = _with_volume(step, keys, mpi.ssh_auth_mount_path) if takes_part else step
        hosts = _hostfile(setting, mpi, steps, slots)
        made.append(_with_hostfile(with_keys, hosts, slots) if step.name == LAUNCHER else with_keys)
    return tuple(made)


def _slots(setting: Setting, mpi: MPIPolicy, steps: Sequence[Step]) -> int:
    trainer = setting.spec.trainer
    if trainer is not None and trainer.num_proc_per_node is not None:
        return trainer.num_proc_per_node
    # 1 is the default of the field. Like Trainer, treat a 1 that the runtime sets as the default.
    gpus = _gpus(_resources_per_node(setting, steps)) if mpi.num_proc_per_node == 1 else 0
    return gpus if gpus > 1 else mpi.num_proc_per_node


def _hostfile(setting: Setting, mpi: MPIPolicy, steps: Sequence[Step], slots: int) -> str:
    trains = (NODE, LAUNCHER) if mpi.run_launcher_as_node else (NODE,)
    # In the order of the runtime's replicated jobs: mpirun numbers its ranks by the order of the hostfile.
    hosts = (
        f"{setting.name}-{role_name(step.name, 0)}-{i}.{setting.subdomain}"
        for step in steps
        if step.name in trains
        for i in range(step.pods)
    )
    return "".join(f"{one} slots={slots}\n" for one in hosts)


def _with_hostfile(step: Step, text: str, slots: int) -> Step:
    # Trainer's hostfile is in a ConfigMap. An annotation needs no right to ConfigMaps and is deleted with its pod.
    source = {"fieldRef": {"fieldPath": f"metadata.annotations['{HOSTFILE_ANNOTATION}']"}}
    items = [{"path": HOSTFILE, "mode": 0o444, **source}]
    made = _with_volume(step, {"name": HOSTFILE_VOLUME, "downwardAPI": {"items": items}}, HOSTFILE_FOLDER)
    variables = {
        "OMPI_MCA_orte_default_hostfile": f"{HOSTFILE_FOLDER}/{HOSTFILE}",
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "OMPI_MCA_orte_set_default_slots": str(slots),
        "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
    }
    added = [{"name": name, "value": value} for name, value in variables.items()]
    (with_variables,) = _changed((made,), step.name, NODE, lambda c: with_env(c, added))
    return replace(with_variables, annotations={**step.annotations, HOSTFILE_ANNOTATION: text})


def _with_volume(step: Step, volume: Json, path: str) -> Step:
    """Mount the volume in the container `node`. It replaces a volume of its name, and another mount at its path."""
    mount = {"name": volume["name"], "mountPath": path}
    made = step.with_pod(volumes=_put(mapping(step.template.get("spec")).get("volumes"), "name", volume))
    (mounted,) = _changed(
        (made,), step.name, NODE, lambda c: {**c, "volumeMounts": _put(c.get("volumeMounts"), "mountPath", mount)}
    )
    return mounted


def _put(listed: object, key: str, item: Json) -> list[Any]:
    """The list with this item in place of each item with the same key, or at the end."""
    old = listed if isinstance(listed, list) else []
    made = [item if mapping(one).get(key) == item[key] else one for one in old]
    return made if item in made else [*made, item]


def _mpi_errors(setting: Setting, policy: MLPolicy, steps: Sequence[Step]) -> Iterator[FieldError]:
    trainer, names = setting.spec.trainer, {step.name for step in steps}
    several = trainer is not None and (trainer.num_nodes or 1) > 1
    if policy.mpi is not None and policy.mpi.run_launcher_as_node and several and not {NODE, LAUNCHER} <= names:
        yield FieldError(
            "spec.trainer.numNodes",
            "must have 1 when MPI trainingRuntime with enabled runLauncherAsNode does not have either launcher and"
            " node; create the job again with 1",
        )


# ----------------------------------------------------------------------------------------------------------------------


def _unsupported(setting: Setting, policy: MLPolicy, steps: Sequence[Step]) -> Iterator[FieldError]:
    yield FieldError(
        "spec.runtimeRef", "the runtime has the policy flux, which is not supported; create the job again with another"
    )


def _unchanged(setting: Setting, policy: MLPolicy, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    return steps


PLAIN = RuntimePolicy(_unchanged)
# Trainer's reserved variables differ by plugin: its jax and its plain plugin reserve none.
POLICIES: Mapping[str, RuntimePolicy] = {
    "torch": RuntimePolicy(
        _with_torch,
        frozenset(map(variable, ("nnodes", "nproc_per_node", "node_rank", "master_addr", "master_port"))),
        _torch_errors,
    ),
    "jax": RuntimePolicy(_with_jax),
    "xgboost": RuntimePolicy(
        _with_xgboost, frozenset({"DMLC_TRACKER_URI", "DMLC_TRACKER_PORT", "DMLC_TASK_ID", "DMLC_NUM_WORKER"})
    ),
    "mpi": RuntimePolicy(
        _with_mpi,
        frozenset(
            {
                "OMPI_MCA_orte_default_hostfile",
                "OMPI_MCA_orte_keep_fqdn_hostnames",
                "OMPI_MCA_orte_set_default_slots",
                "OMPI_MCA_plm_rsh_args",
            }
        ),
        _mpi_errors,
    ),
    # Refused rather than ignored: a program that expects Flux would start without its peers.
    "flux": RuntimePolicy(_unchanged, errors=_unsupported),
}
"""Field of the ML policy -> its implementation."""


def _training(steps: Sequence[Step]) -> Step | None:
    return next((step for step in steps if step.step == TRAINER), None)


def _changed(steps: tuple[Step, ...], name: str, container: str, change: Callable[[Json], Json]) -> tuple[Step, ...]:
    made = []
    for step in steps:
        found = step.any_container(container) if step.name == name else None
        made.append(step if found is None else step.with_container(container, change(found)))
    return tuple(made)


def _before_own(setting: Setting, container: Json, added: Sequence[Json]) -> dict[str, Any]:
    """The container with these variables, except those that the job sets itself."""
    trainer = setting.spec.trainer
    own = {one.name for one in (trainer.env if trainer else None) or ()}
    return with_env(container, [one for one in added if one["name"] not in own])


def _with_port(container: Json, name: str = "") -> Json:
    listed = container.get("ports") or ()
    # The number is a key of the list-map `ports`: server-side apply refuses the same number twice.
    others = [port for port in listed if mapping(port).get("containerPort") != PORT]
    return {**container, "ports": [*others, {"containerPort": PORT, **({"name": name} if name else {})}]}
