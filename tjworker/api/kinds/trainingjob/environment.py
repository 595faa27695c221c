"""The environment of a TrainingJob's containers: the PADDLE_* variables that paddle_k8s and old training scripts read.
Pure.

TRAINERS, PSERVERS and PADDLE_INIT_NUM_GRADIENT_SERVERS always have min-instance: they are for jobs of a fixed size. A
container's environment cannot change while it runs, and an elastic job asks its master. The names are PaddlePaddle
EDL's.
"""

from __future__ import annotations

from tjworker.api.kinds.trainingjob.spec import Component, Resources, TrainingJobSpec
from tjworker.api.quantity import milli, whole

Entry = dict[str, object]

CUDA_LIBRARIES = "/usr/local/cuda/lib64"
GPU = "gpu"
"""A resource is a GPU when the last word of its name is this: nvidia.com/gpu, alpha.kubernetes.io/nvidia-gpu."""

_FROM_THE_POD = {"NAMESPACE": "metadata.namespace", "POD_IP": "status.podIP", "POD_NAME": "metadata.name"}


def environment(job: str, spec: TrainingJobSpec, role: Component, trainers: int, pservers: int) -> list[Entry]:
    """The operator's variables, then the role's `envs`, sorted. A variable in `envs` replaces the operator's."""
    entry = spec.trainer.entrypoint or ""
    gpus = gpu_count(spec.trainer.resources)
    values = {
        "PADDLE_JOB_NAME": job,
        "TRAINERS": str(trainers),
        "PSERVERS": str(pservers),
        "ENTRY": entry,
        "TOPOLOGY": entry,
        "TRAINER_PACKAGE": role.workspace or spec.trainer.workspace or "",
        "PADDLE_INIT_PORT": str(spec.port),
        "PADDLE_INIT_TRAINER_COUNT": str(gpus or cpu_count(spec.trainer.resources)),
        "PADDLE_INIT_PORTS_NUM": str(spec.ports_num),
        "PADDLE_INIT_PORTS_NUM_FOR_SPARSE": str(spec.ports_num_for_sparse),
        "PADDLE_INIT_NUM_GRADIENT_SERVERS": str(trainers),
        "PADDLE_INIT_NUM_PASSES": str(spec.trainer.passes or spec.passes),
        "PADDLE_INIT_USE_GPU": "1" if gpus else "0",
        "LD_LIBRARY_PATH": CUDA_LIBRARIES,
    }
    ours: list[Entry] = [{"name": name, "value": value} for name, value in values.items()]
    # Before `envs`: the kubelet expands $(POD_IP) in a value only from variables that come earlier in the list.
    ours += [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in _FROM_THE_POD.items()]
    own: list[Entry] = [{"name": name, "value": value} for name, value in sorted(role.envs.items())]
    # Each name once: `env` is a map by name for server-side apply, which cannot merge a list with the same name twice.
    return [*(entry for entry in ours if entry["name"] not in role.envs), *own]


def gpu_count(resources: Resources) -> int:
    """GPUs of one pod. Kubernetes wants requests and limits of a GPU alike; PaddlePaddle EDL read the limits."""
    asked = {**(resources.requests or {}), **(resources.limits or {})}
    return sum(whole(quantity) for name, quantity in asked.items() if name.replace("-", "/").rpartition("/")[2] == GPU)


def cpu_count(resources: Resources) -> int:
    """Whole CPUs that one trainer may use, at least 1: PaddlePaddle EDL rounded a part of a CPU to a whole one
    too."""
    cpu = (resources.requests or {}).get("cpu") or (resources.limits or {}).get("cpu") or 1
    return max(1, -(-milli(cpu) // 1000))
