"""A user's session with the client of Kubeflow Trainer (`kubeflow`), as it comes from the index: runtimes, train with a
function, a command and initializers, wait, logs, events, progress, delete. Runs in the client's environment, not in
ours; prints what it does and, last, what it has seen as JSON.

    python tests/sdk/trainer_session.py <kubeconfig> <folder with a torchrun>
"""

import json
import os
import sys
import time
from typing import Any

from kubeflow.common.types import KubernetesBackendConfig
from kubeflow.trainer import (
    CustomTrainer,
    CustomTrainerContainer,
    HuggingFaceDatasetInitializer,
    Initializer,
    TrainerClient,
)
from kubeflow.trainer.options import Name, TrainerCommand
from kubernetes import client, config

GROUP, VERSION = "trainer.kubeflow.org", "v1alpha1"
STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
SLEEPS = "import time; print('data is there', flush=True); time.sleep(2)"
REPORTS = """
import time
from kubeflow.trainer import update_trainjob_status
for percent in (40, 100):
    told = False
    for _ in range(30):
        told = told or update_trainjob_status(percent, estimated_remaining_seconds=100 - percent, metrics={"loss": 0.5})
        time.sleep(0 if told else 1)
    print(percent, told, flush=True)
    time.sleep(6)
"""
"""Of the program that reports how far it is; the client lets one report through in five seconds."""
CALLBACK = """
import time
from transformers.integrations.integration_utils import KubeflowCallback
from transformers.trainer_callback import TrainerControl, TrainerState
callback, state, control = KubeflowCallback(), TrainerState(max_steps=4), TrainerControl()
callback.on_train_begin(None, state, control)
for state.global_step in (1, 2):
    time.sleep(6)
    callback.on_log(None, state, control, logs={"loss": 1 / state.global_step})
    callback.on_step_end(None, state, control)
callback.on_train_end(None, state, control)
"""
"""Of the program that transformers' callback reports for. The hooks are called as its Trainer does, which would need
PyTorch."""
WAIT: dict[str, Any] = {"timeout": 240, "polling_interval": 1}


def step(name: str, called: str, label: str, **more: Any) -> dict[str, Any]:
    pod = {"containers": [{"name": called, "image": "trainer:1", **more.pop("container", {})}], **more.pop("pod", {})}
    template = {"metadata": {"labels": {STEP: label}}, "spec": {"template": {"spec": pod}, "backoffLimit": 0}}
    return {"name": name, "template": template, **more}


def runtime(name: str, *jobs: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": name, "labels": {"trainer.kubeflow.org/framework": "torch"}},
        "spec": {"mlPolicy": {"numNodes": 1, "torch": {}}, "template": {"spec": {"replicatedJobs": list(jobs)}}},
    }


NODE = step("node", "node", "trainer")
FETCH = step(
    "dataset-initializer",
    "dataset-initializer",
    "dataset-initializer",
    container={
        "command": ["python", "-S", "-c", SLEEPS],
        "volumeMounts": [{"name": "initializer", "mountPath": "/workspace/dataset"}],
    },
    pod={"volumes": [{"name": "initializer", "emptyDir": {}}]},
)
RUNTIMES = (
    runtime("torch-distributed", NODE),
    runtime("torch-with-data", FETCH, {**NODE, "dependsOn": [{"name": "dataset-initializer", "status": "Complete"}]}),
)


def train(steps: int) -> None:
    import os
    import time

    for i in range(steps):
        print("step", i, "of node", os.environ["PET_NODE_RANK"], "of", os.environ["PET_NNODES"], flush=True)  # noqa: T201
        time.sleep(1)


def said(words: str, seen: Any) -> Any:
    sys.stdout.write(f">>> {words}\n{seen}\n")
    sys.stdout.flush()
    return seen


def main(kubeconfig: str, programs: str) -> None:
    config.load_kube_config(kubeconfig)  # type: ignore[no-untyped-call]
    objects = client.CustomObjectsApi()
    for one in RUNTIMES:
        for part in one["spec"]["template"]["spec"]["replicatedJobs"]:
            # The client writes the function into a file, where the container works.
            part["template"]["spec"]["template"]["spec"]["containers"][0]["workingDir"] = programs
        objects.create_cluster_custom_object(GROUP, VERSION, "clustertrainingruntimes", one)
    trainer = TrainerClient(KubernetesBackendConfig(namespace="default", config_file=kubeconfig))
    seen: dict[str, Any] = {}
    runtimes = said("trainer.list_runtimes()", trainer.list_runtimes())
    seen["runtimes"] = sorted(one.name for one in runtimes)
    env = {"PATH": f"{programs}:{os.environ['PATH']}"}

    by_function = CustomTrainer(func=train, func_args={"steps": 6}, num_nodes=2, env=env)
    name = said(
        "trainer.train('torch-distributed', trainer=CustomTrainer(func=train, ...))",
        trainer.train("torch-distributed", trainer=by_function),
    )
    running = said(
        f"trainer.wait_for_job_status({name!r}, {{'Running'}})", trainer.wait_for_job_status(name, {"Running"}, **WAIT)
    )
    seen["running"] = running.status
    seen["steps"] = sorted(one.name for one in running.steps)
    seen["followed"] = said(
        f"list(trainer.get_job_logs({name!r}, follow=True))", list(trainer.get_job_logs(name, follow=True))
    )
    done = said(f"trainer.wait_for_job_status({name!r})", trainer.wait_for_job_status(name, **WAIT))
    seen["done"] = done.status
    seen["other_node"] = said(
        f"list(trainer.get_job_logs({name!r}, step='node-1'))", list(trainer.get_job_logs(name, step="node-1"))
    )
    events = said(f"trainer.get_job_events({name!r})", trainer.get_job_events(name))
    seen["events"] = sorted({(one.involved_object_kind, one.reason) for one in events})

    image = CustomTrainerContainer(image="trainer:1", num_nodes=1)
    failing = ["python", "-S", "-c", "import sys; print('I fail', flush=True); sys.exit(3)"]
    trainer.train("torch-distributed", trainer=image, options=[Name("bad"), TrainerCommand(failing)])
    bad = said("trainer.wait_for_job_status('bad', {'Failed'})", trainer.wait_for_job_status("bad", {"Failed"}, **WAIT))
    seen["bad"] = bad.status
    raw: Any = objects.get_namespaced_custom_object(GROUP, VERSION, "default", "trainjobs", "bad")
    seen["why"] = said("kubectl get trainjob bad -o jsonpath={.status.conditions}", raw["status"]["conditions"])

    fetched = CustomTrainerContainer(image="trainer:1", num_nodes=1)
    data = Initializer(dataset=HuggingFaceDatasetInitializer(storage_uri="hf://tatsu-lab/alpaca"))
    quick = ["python", "-S", "-c", "print('trained', flush=True)"]
    trainer.train("torch-with-data", initializer=data, trainer=fetched, options=[Name("data"), TrainerCommand(quick)])
    complete = said("trainer.wait_for_job_status('data')", trainer.wait_for_job_status("data", **WAIT))
    seen["data"] = {one.name: one.status for one in complete.steps}
    seen["data_log"] = said(
        "list(trainer.get_job_logs('data', step='dataset-initializer'))",
        list(trainer.get_job_logs("data", step="dataset-initializer")),
    )

    reporting = [sys.executable, "-c", REPORTS]
    trainer.train("torch-distributed", trainer=image, options=[Name("reports"), TrainerCommand(reporting)])
    trainer.wait_for_job_status("reports", **WAIT)
    seen["reported"] = said(
        "list(trainer.get_job_logs('reports'))  # update_trainjob_status in the program",
        list(trainer.get_job_logs("reports")),
    )
    raw = objects.get_namespaced_custom_object(GROUP, VERSION, "default", "trainjobs", "reports")
    seen["progress"] = said(
        "kubectl get trainjob reports -o jsonpath={.status.trainerStatus}", raw["status"].get("trainerStatus")
    )

    calling_back = [sys.executable, "-c", CALLBACK]
    trainer.train("torch-distributed", trainer=image, options=[Name("callback"), TrainerCommand(calling_back)])
    trainer.wait_for_job_status("callback", **WAIT)
    for _ in range(40):
        # The operator writes a job's progress at most every ten seconds, also after the job's end.
        raw = objects.get_namespaced_custom_object(GROUP, VERSION, "default", "trainjobs", "callback")
        if (told := raw["status"].get("trainerStatus", {})).get("progressPercentage") == 100:
            break
        time.sleep(0.5)
    seen["called_back"] = said("kubectl get trainjob callback -o jsonpath={.status.trainerStatus}", told)

    seen["listed"] = len(said("trainer.list_jobs()", trainer.list_jobs()))
    for made in (name, "bad", "data", "reports", "callback"):
        trainer.delete_job(made)
    seen["left"] = said("trainer.list_jobs()", [one.name for one in trainer.list_jobs()])
    sys.stdout.write(json.dumps(seen) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
