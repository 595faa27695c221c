"""What the ML policy of a runtime adds to its steps, as the plugins of Trainer do (pkg/runtime/framework/plugins:
torch, jax, xgboost, mpi, plainml). A policy is a function and a row of `POLICIES`. Pure.

Trainer adds the variables of torch, jax and xgboost only to a job that has `spec.trainer`, and those of the job itself
after its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tjworker.api.kinds.base import Json, mapping
from tjworker.api.kinds.guests.mpipods import SSH_PRIVATE_KEY, SSH_PUBLIC_KEY
from tjworker.api.kinds.trainer.spec import LAUNCHER, NODE, TRAINER, MLPolicy, MPIPolicy, TrainJobSpec
from tjworker.api.kinds.trainer.steps import Step, json_of_any, role_name, with_env
from tjworker.api.labels import COMPLETION_INDEX
from tjworker.api.model import FieldError
from tjworker.api.quantity import milli

PORT = 29500
TUNE = ("tune", "run")
HOSTFILE_FOLDER, HOSTFILE = "/etc/mpi", "hostfile"
HOSTFILE_ANNOTATION = "trainer.kubeflow.org/mpi-hostfile"
"""The annotation of the launcher's pods that holds the hostfile; a downwardAPI volume shows it as a file."""
KEYS_VOLUME, HOSTFILE_VOLUME = "mpi-ssh-auth", "mpi-hostfile"
_INDEX: Json = {"fieldRef": {"fieldPath": f"metadata.annotations['{COMPLETION_INDEX}']"}}


@dataclass(frozen=True, slots=True)
class Setting:
    """The job whose steps these are."""

    name: str
    subdomain: str
    spec: TrainJobSpec
    secret: str
    """Name of the Secret with its ssh keys."""
    elastic: bool = False
    """The number of its nodes changes while it runs: the framework's variables come with each pod."""

    @property
    def first_host(self) -> str:
        return f"{self.name}-{role_name(NODE, 0)}-0.{self.subdomain}"


Apply = Callable[[Setting, MLPolicy, tuple[Step, ...]], tuple[Step, ...]]
Check = Callable[[Setting, MLPolicy, Sequence[Step]], Iterator[FieldError]]


@dataclass(frozen=True, slots=True)
class Policy:
    apply: Apply
    reserved: frozenset[str] = frozenset()
    """Variables that a job may not set itself."""
    errors: Check = lambda setting, policy, steps: iter(())


def find_policy(policy: MLPolicy | None) -> Policy:
    """The policy of the framework that the runtime names; of none, one that adds nothing."""
    chosen = [name for name in POLICIES if policy is not None and getattr(policy, name) is not None]
    return POLICIES[chosen[0]] if chosen else PLAIN


def reserved_errors(setting: Setting, policy: MLPolicy | None) -> Iterator[FieldError]:
    """`must not have reserved envs` of the plugins' Validate."""
    trainer, made = setting.spec.trainer, find_policy(policy)
    if trainer is None or tuple(trainer.command or ()) == TUNE:
        return
    named = sorted({str(json_of_any(one).get("name")) for one in trainer.env or ()} & made.reserved)
    if named:
        yield FieldError(
            "spec.trainer.env", f"must not have reserved envs, invalid envs configured: {', '.join(named)}; remove them"
        )


# -- torch -------------------------------------------------------------------------------------------------------------


def _with_torch(setting: Setting, policy: MLPolicy, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    trainer, node = setting.spec.trainer, _training(steps)
    if trainer is None or node is None:
        return steps
    if tuple(trainer.command or ()) == TUNE:
        return _changed(steps, node.name, NODE, lambda c: _with_port(_tuned(setting, node, c)))
    if setting.elastic:
        # The framework of an elastic job tells each pod how to join (`reconcile.frameworks.pytorch`), by this port.
        procs = [{"name": "PET_NPROC_PER_NODE", "value": _processes(setting, node)}]
        return _changed(steps, node.name, NODE, lambda c: _with_port(_before_own(setting, c, procs), "pytorchjob-port"))
    added: list[Json] = [
        {"name": "PET_NNODES", "value": str(node.pods)},
        {"name": "PET_NPROC_PER_NODE", "value": _processes(setting, node)},
        {"name": "PET_NODE_RANK", "valueFrom": _INDEX},
        {"name": "PET_MASTER_ADDR", "value": setting.first_host},
        {"name": "PET_MASTER_PORT", "value": str(PORT)},
    ]
    made = _changed(steps, node.name, NODE, lambda c: _with_port(_before_own(setting, c, added)))
    injected = policy.torch.env_injection.targets if policy.torch and policy.torch.env_injection else ()
    for target in injected:
        for container in target.container_names:
            made = _changed(made, target.job_name, container, lambda c: with_env(c, added))
    return made


def _processes(setting: Setting, node: Step) -> str:
    """`auto` where the node has GPUs, else one for each CPU."""
    trainer = setting.spec.trainer
    if trainer is not None and trainer.num_proc_per_node is not None:
        return str(trainer.num_proc_per_node)
    resources = mapping((node.container(NODE) or {}).get("resources"))
    given = [mapping(resources.get(part)) for part in ("requests", "limits")]
    if any("gpu" in name.lower() for one in given for name in one):
        return "auto"
    return str(max(1, math.ceil(_cpus(next((one["cpu"] for one in given if "cpu" in one), 0)))))


def _cpus(quantity: object) -> float:
    try:
        return milli(quantity) / 1000
    except ValueError:  # the API server says so when a pod is made
        return 0


def _tuned(setting: Setting, node: Step, container: Json) -> dict[str, Any]:
    """The command line of torchtune, as torchtune.go makes it: how to start the processes, the recipe and its
    configuration by the name of the runtime, and what the runtime's own command says of paths."""
    processes, several = _processes(setting, node), node.pods > 1
    trainer = setting.spec.trainer
    args = [*(trainer.args or ())] if trainer else []
    lora = any("model.lora_attn_modules" in one for one in args)
    quantized = any("model.quantize_base" in one for one in args) and not any("model.use_dora" in one for one in args)
    single = not several and (processes == "1" or _gpus(node) == 1)
    method, kind = (
        ("lora_finetune", "_qlora" if quantized else "_lora") if lora or quantized else ("full_finetune", "_full")
    )
    if several:
        method, kind = "full_finetune", "_full"
    recipe = f"{method}_{'single_device' if single else 'distributed'}"
    config = f"{_model_of(setting.spec.runtime_ref.name)}{kind}{'_single_device' if single else ''}"
    config += "_multinode" if several else ""
    rendezvous = [] if single else [f"--rdzv_endpoint={setting.first_host}:{PORT}"]
    of_runtime = next((c.command or [] for c in node.job.template.spec.template.spec.containers if c.name == NODE), [])
    kept = [word for word in of_runtime if word.partition("=")[0] in _TUNE_PATHS]
    numbers: list[Json] = [
        {"name": "PET_NNODES", "value": str(node.pods)},
        {"name": "PET_NPROC_PER_NODE", "value": processes},
        {"name": "PET_NODE_RANK", "valueFrom": _INDEX},
    ]
    made = _before_own(setting, container, numbers)
    return {**made, "command": [*TUNE, *rendezvous, recipe, "--config", config, *kept]}


_TUNE_PATHS = ("output_dir", "tokenizer.path", "tokenizer.merges_file", "checkpointer.checkpoint_dir")


def _model_of(runtime: str) -> str:
    """torchtune-llama3.2-1b -> llama3_2/1B."""
    parts = runtime.split("-")
    return f"{parts[1].replace('.', '_')}/{parts[2].upper()}" if len(parts) == 3 else ""


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
    workers = node.pods * max(1, _gpus(node))
    added: list[Json] = [
        {"name": "DMLC_TRACKER_URI", "value": setting.first_host},
        {"name": "DMLC_TRACKER_PORT", "value": str(PORT)},
        {"name": "DMLC_TASK_ID", "valueFrom": _INDEX},
        {"name": "DMLC_NUM_WORKER", "value": str(workers)},
    ]
    return _changed(steps, node.name, NODE, lambda c: _with_port(_before_own(setting, c, added)))


def _gpus(node: Step) -> int:
    """Of its requests, or of its limits where its requests name none: `GetNumGPUPerNode` of pkg/runtime/runtime.go."""
    resources = mapping((node.container(NODE) or {}).get("resources"))
    given = (mapping(resources.get(part)) for part in ("requests", "limits"))
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
        takes_part = step.name in (NODE, LAUNCHER)
        with_keys = _with_volume(step, keys, mpi.ssh_auth_mount_path) if takes_part else step
        hosts = _hostfile(setting, mpi, steps, slots)
        made.append(_with_hostfile(with_keys, hosts, slots) if step.name == LAUNCHER else with_keys)
    return tuple(made)


def _slots(setting: Setting, mpi: MPIPolicy, steps: Sequence[Step]) -> int:
    trainer, node = setting.spec.trainer, _training(steps)
    if trainer is not None and trainer.num_proc_per_node is not None:
        return trainer.num_proc_per_node
    gpus = _gpus(node) if node is not None and mpi.num_proc_per_node == 1 else 0
    return gpus if gpus > 1 else mpi.num_proc_per_node


def _hostfile(setting: Setting, mpi: MPIPolicy, steps: Sequence[Step], slots: int) -> str:
    trains = (NODE, LAUNCHER) if mpi.run_launcher_as_node else (NODE,)
    hosts = (
        f"{setting.name}-{role_name(step.name, 0)}-{i}.{setting.subdomain}"
        for step in steps
        if step.name in trains
        for i in range(step.pods)
    )
    return "".join(f"{one} slots={slots}\n" for one in hosts)


def _with_hostfile(step: Step, text: str, slots: int) -> Step:
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
    """The volume, mounted in the container `node`."""
    listed = mapping(step.template.get("spec")).get("volumes") or ()
    others = [one for one in listed if mapping(one).get("name") != volume["name"]]
    made = step.with_pod(volumes=[*others, volume])
    mount = {"name": volume["name"], "mountPath": path}
    (mounted,) = _changed(
        (made,), step.name, NODE, lambda c: {**c, "volumeMounts": [*(c.get("volumeMounts") or ()), mount]}
    )
    return mounted


def _mpi_errors(setting: Setting, policy: MLPolicy, steps: Sequence[Step]) -> Iterator[FieldError]:
    trainer, names = setting.spec.trainer, {step.name for step in steps}
    several = trainer is not None and (trainer.num_nodes or 1) > 1
    if policy.mpi is not None and policy.mpi.run_launcher_as_node and several and not {NODE, LAUNCHER} <= names:
        yield FieldError(
            "spec.trainer.numNodes",
            "must have 1 when MPI trainingRuntime with enabled runLauncherAsNode does not have either launcher and"
            " node",
        )


# ----------------------------------------------------------------------------------------------------------------------


def _unsupported(setting: Setting, policy: MLPolicy, steps: Sequence[Step]) -> Iterator[FieldError]:
    yield FieldError(
        "spec.runtimeRef", "the runtime has the policy flux, which is not supported; name a runtime with another policy"
    )


def _unchanged(setting: Setting, policy: MLPolicy, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    return steps


PLAIN = Policy(_unchanged)
POLICIES: Mapping[str, Policy] = {
    "torch": Policy(
        _with_torch,
        frozenset({"PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"}),
    ),
    "jax": Policy(_with_jax),
    "xgboost": Policy(
        _with_xgboost, frozenset({"DMLC_TRACKER_URI", "DMLC_TRACKER_PORT", "DMLC_TASK_ID", "DMLC_NUM_WORKER"})
    ),
    "mpi": Policy(
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
    "flux": Policy(_unchanged, errors=_unsupported),
}
"""By the field of the ML policy."""


def _training(steps: Sequence[Step]) -> Step | None:
    return next((step for step in steps if step.step == TRAINER), None)


def _changed(steps: tuple[Step, ...], name: str, container: str, change: Callable[[Json], Json]) -> tuple[Step, ...]:
    made = []
    for step in steps:
        found = step.container(container) if step.name == name else None
        made.append(step if found is None else step.with_container(container, change(found)))
    return tuple(made)


def _before_own(setting: Setting, container: Json, added: Sequence[Json]) -> dict[str, Any]:
    """With these variables; one that the job sets itself stays."""
    trainer = setting.spec.trainer
    own = {json_of_any(one).get("name") for one in (trainer.env if trainer else None) or ()}
    return with_env(container, [one for one in added if one["name"] not in own])


def _with_port(container: Json, name: str = "") -> Json:
    listed = container.get("ports") or ()
    others = [port for port in listed if mapping(port).get("containerPort") != PORT]
    return {**container, "ports": [*others, {"containerPort": PORT, **({"name": name} if name else {})}]}
