"""torchtune in a TrainJob with the command `tune run`, as in plugins/torch/torchtune.go of kubeflow/trainer: the
command line, and checks. The name of the runtime contains the model: torchtune-llama3.2-1b. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tjworker.api.kinds.trainer.spec import TrainJobSpec
from tjworker.api.model import FieldError

TUNE = ("tune", "run")
SEVERAL_NODES = frozenset({"llama3_3/70B"})
"""Models that several nodes can train."""
QLORA_ON_ONE_DEVICE = frozenset({"llama3_2/1B", "llama3_2/3B"})
WITHOUT_QLORA = frozenset({"qwen2_5/1.5B"})
MODELS = SEVERAL_NODES | QLORA_ON_ONE_DEVICE | WITHOUT_QLORA
_PATHS = ("output_dir", "tokenizer.path", "tokenizer.merges_file", "checkpointer.checkpoint_dir")
"""Settings that only the runtime may have."""


@dataclass(frozen=True, slots=True)
class Devices:
    """The devices of a job."""

    nodes: int
    processes: str
    """Processes of each node: a number, or `auto` for one per GPU."""
    gpus: int
    """GPUs of each node."""


def tune_command(spec: TrainJobSpec, on: Devices, first_host: str, of_runtime: Sequence[str]) -> list[str]:
    """The command: rendezvous of several processes, recipe, configuration, and the paths in the runtime's command."""
    # One process needs no rendezvous, and torchtune's recipes for one device accept none.
    alone = on.nodes == 1 and (int(on.processes) == 1 if on.processes != "auto" else on.gpus <= 1)
    rendezvous = [] if alone else [f"--rdzv_endpoint={first_host}"]
    recipe, config = _recipe(spec, on)
    # The paths are in volumes that the runtime mounts, and unknown to the job.
    kept = [word for word in of_runtime if word.partition("=")[0] in _PATHS]
    return [*TUNE, *rendezvous, recipe, "--config", f"{_model(spec)}{config}", *kept]


def _recipe(spec: TrainJobSpec, on: Devices) -> tuple[str, str]:
    """(recipe, suffix of the name of its configuration)."""
    # torchtune has recipes for several nodes only for full fine-tuning.
    if on.nodes > 1:
        return "full_finetune_distributed", "_full_multinode"
    method, kind = ("lora", "_qlora" if _uses_qlora(spec) else "_lora") if _uses_lora(spec) else ("full", "_full")
    if on.processes == "1" or on.gpus == 1:
        return f"{method}_finetune_single_device", f"{kind}_single_device"
    return f"{method}_finetune_distributed", kind


def _args(spec: TrainJobSpec) -> Sequence[str]:
    return (spec.trainer.args if spec.trainer else None) or ()


def _uses_lora(spec: TrainJobSpec) -> bool:
    return any("model.lora_attn_modules" in one for one in _args(spec)) or _uses_qlora(spec)


def _uses_qlora(spec: TrainJobSpec) -> bool:
    return _is_on("model.quantize_base", spec) and not _is_on("model.use_dora", spec)


def _is_on(switch: str, spec: TrainJobSpec) -> bool:
    """True if an argument sets the switch to true, in any case (`isBoolArgEnabled`)."""
    pairs = (argument.partition("=") for argument in _args(spec))
    return any(switch in name and value.strip().lower() == "true" for name, _, value in pairs)


def _model(spec: TrainJobSpec) -> str:
    """torchtune-llama3.2-1b -> llama3_2/1B."""
    parts = spec.runtime_ref.name.split("-")
    return f"{parts[1].replace('.', '_')}/{parts[2].upper()}" if len(parts) == 3 else ""


def tune_errors(spec: TrainJobSpec, gpus: int) -> Iterator[FieldError]:
    """The checks of `validateTorchTune`. `gpus`: number per node."""
    model, trainer = _model(spec), spec.trainer
    if model not in MODELS:
        known = ", ".join(sorted(MODELS))
        yield FieldError(
            "spec.runtimeRef.name",
            f"{spec.runtime_ref.name!r}: must have a supported pretrained model for `tune run`, as in"
            f" torchtune-llama3.2-1b: one of {known}",
        )
    nodes = (trainer.num_nodes if trainer else None) or 1
    if nodes > 1 and model not in SEVERAL_NODES:
        yield FieldError("spec.trainer.numNodes", f"{nodes}: must be 1 for the model {model}; create the job again")
    if nodes > 1 and _uses_lora(spec):
        yield FieldError(
            "spec.trainer.numNodes",
            f"{nodes}: LoRA fine-tuning is not supported for multi-node training in torchtune; create the job"
            " again with 1",
        )
    processes = trainer.num_proc_per_node if trainer else None
    _, config = _recipe(spec, Devices(nodes, "auto" if processes is None else str(processes), gpus))
    if "_qlora" in config and model in WITHOUT_QLORA:
        yield FieldError(
            "spec.trainer.args", f"QLoRA is not supported for the model {model}; create the job again without it"
        )
    if config == "_qlora" and model in QLORA_ON_ONE_DEVICE:
        yield FieldError(
            "spec.trainer",
            f"QLoRA of the model {model} runs on one device: create the job again with numProcPerNode 1, or with one"
            " gpu",
        )
    for i, argument in enumerate(_args(spec)):
        if (name := argument.partition("=")[0]) in _PATHS:
            yield FieldError(
                f"spec.trainer.args[{i}]", f"{name} is managed by the runtime; create the job again without it"
            )
