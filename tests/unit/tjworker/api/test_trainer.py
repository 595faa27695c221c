"""A TrainJob and its runtime -> the internal job: names, numbers, variables and volumes as Trainer 2.3 and JobSet make
them (plugins/torch, jax, xgboost, mpi, jobset of kubeflow/trainer, each with its `*_test.go`; JobSet's
labelAndAnnotateObject)."""

from __future__ import annotations

import copy
import hashlib
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.trainer import CLAIM, RUNTIMES, Json, read, read_job, replicated, runtime, train_job
from tjworker.api.kinds.trainer.patches import merged
from tjworker.api.kinds.trainer.status import write_status
from tjworker.api.model import After, InvalidJob, TrainingJob
from tjworker.api.status import JobStatus, Phase, ReplicaStatus
from tjworker.reconcile.workloads.podbody import pod_body

INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
MASTER = "digits-node-0-0.digits"


def container(job: TrainingJob, role: str = "node-0", name: str = "node") -> Json:
    listed = job.role(role).template["spec"]["containers"]
    return next(dict(one) for one in listed if one["name"] == name)


def variables(of: Json) -> dict[str, str]:
    """What a variable takes from the pod stands for its value."""
    told = {one["name"]: one.get("value") or one["valueFrom"]["fieldRef"]["fieldPath"] for one in of.get("env", ())}
    assert len(told) == len(of.get("env", ())), "no variable is there twice"
    return told


@dataclass(frozen=True)
class Env:
    spec: Json
    want: Json
    runtime: str = "torch-distributed"
    of: Json | None = None
    role: str = "node-0"


def torch(nodes: int = 1, procs: str = "1", **more: str) -> Json:
    return {
        "PET_NNODES": str(nodes),
        "PET_NPROC_PER_NODE": procs,
        "PET_NODE_RANK": INDEX,
        "PET_MASTER_ADDR": MASTER,
        "PET_MASTER_PORT": "29500",
        **more,
    }


def sized(policy: Json | None = None, **resources: Json) -> Json:
    pod = {"containers": [{"name": "node", "image": "a", "resources": resources}]}
    return runtime(replicated("node", step="trainer", pod=pod), policy=policy)


GPUS: Json = {"limits": {"nvidia.com/gpu": 4}}
ENVS: dict[str, Env] = {
    "torch: one node, one process": Env({"trainer": {}}, torch()),
    "torch: the runtime's number of nodes": Env(
        {"trainer": {}}, torch(5), of=runtime(policy={"numNodes": 5, "torch": {}})
    ),
    "torch: a job without spec.trainer has no variable": Env({}, {}),
    "torch: GPUs make it auto": Env({"trainer": {"resourcesPerNode": GPUS}}, torch(1, "auto")),
    "torch: resources of the job count alone": Env(
        {"trainer": {"resourcesPerNode": {"requests": {"cpu": 2}}}}, torch(1, "2"), of=sized(**GPUS)
    ),
    "torch: CPUs are rounded up, requests before limits": Env(
        {"trainer": {"resourcesPerNode": {"requests": {"cpu": "2500m"}, "limits": {"cpu": 8}}}}, torch(1, "3")
    ),
    "torch: the job's number of processes wins": Env(
        {"trainer": {"numProcPerNode": 7, "resourcesPerNode": GPUS}}, torch(1, "7")
    ),
    "jax": Env(
        {"trainer": {"numNodes": 2}},
        {"JAX_NUM_PROCESSES": "2", "JAX_PROCESS_ID": INDEX, "JAX_COORDINATOR_ADDRESS": f"{MASTER}:29500"},
        "jax-distributed",
    ),
    "jax: none without spec.trainer": Env({}, {}, "jax-distributed"),
    "xgboost: a worker for each GPU of each node": Env(
        {"trainer": {"numNodes": 2, "resourcesPerNode": GPUS}},
        {"DMLC_TRACKER_URI": MASTER, "DMLC_TRACKER_PORT": "29500", "DMLC_TASK_ID": INDEX, "DMLC_NUM_WORKER": "8"},
        "xgboost-distributed",
    ),
    "xgboost: GPUs of the limits, beside requests that name none": Env(
        {"trainer": {"resourcesPerNode": {"requests": {"cpu": 4}, **GPUS}}},
        {"DMLC_TRACKER_URI": MASTER, "DMLC_TRACKER_PORT": "29500", "DMLC_TASK_ID": INDEX, "DMLC_NUM_WORKER": "4"},
        "xgboost-distributed",
    ),
    "mpi: the launcher has Open MPI's, with spec.trainer or without": Env(
        {},
        {
            "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
            "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
            "OMPI_MCA_orte_set_default_slots": "1",
            "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
        },
        "deepspeed-distributed",
        role="launcher-0",
    ),
    "mpi: its nodes have none": Env({"trainer": {}}, {}, "deepspeed-distributed"),
    "no policy: the job's own alone": Env({"trainer": {"env": [{"name": "A", "value": "1"}]}}, {"A": "1"}, "plain"),
}


@pytest.mark.parametrize("case", ENVS.values(), ids=ENVS.keys())
def test_variables(case: Env) -> None:
    job = read_job(train_job(case.runtime, **case.spec), case.of)
    assert variables(container(job, case.role)) == case.want


def test_a_pod_has_the_names_labels_and_annotations_of_jobset() -> None:
    job = read_job(train_job("deepspeed-distributed", trainer={"numNodes": 3}))
    pod = pod_body(job, job.role("node-0"), 1, 2, {})
    labels, annotations = pod["metadata"]["labels"], pod["metadata"]["annotations"]
    assert (pod["metadata"]["name"], pod["spec"]["hostname"], pod["spec"]["subdomain"]) == (
        "digits-node-0-1",
        "digits-node-0-1",
        "digits",
    )
    of_jobset = {
        "jobset-name": "digits",
        "jobset-uid": "uid-1",
        "replicatedjob-name": "node",
        "replicatedjob-replicas": "1",
        "global-replicas": "2",
        "job-index": "0",
        "job-global-index": "0",
        "group-name": "default",
        "group-replicas": "2",
        "job-group-index": "0",
    }
    for told in (labels, annotations):
        assert {f"jobset.sigs.k8s.io/{name}": value for name, value in of_jobset.items()}.items() <= told.items()
        assert told["batch.kubernetes.io/job-completion-index"] == "1"
        key = hashlib.sha1(b"default/digits-node-0", usedforsecurity=False).hexdigest()
        assert told["jobset.sigs.k8s.io/job-key"] == key
    assert labels["jobset.sigs.k8s.io/restart-attempt"] == "2"
    assert labels["batch.kubernetes.io/job-name"] == "digits-node-0"
    assert "trainer.kubeflow.org/trainjob-ancestor-step" not in labels


def test_mpi_mounts_keys_and_hosts_as_trainer_does() -> None:
    job = read_job(train_job("deepspeed-distributed", trainer={"numNodes": 3, "numProcPerNode": 2}))
    assert job.secret is not None
    assert job.secret.holds == "ssh-key"
    for role in ("node-0", "launcher-0"):
        mounts = {one["name"]: one["mountPath"] for one in container(job, role)["volumeMounts"]}
        assert mounts["mpi-ssh-auth"] == "/home/mpiuser/.ssh"
        (keys,) = [one for one in job.role(role).template["spec"]["volumes"] if one["name"] == "mpi-ssh-auth"]
        assert keys["secret"]["secretName"] == job.secret.name
        assert {one["path"]: one["mode"] for one in keys["secret"]["items"]} == {
            "id_rsa": 0o640,
            "id_rsa.pub": 0o644,
            "authorized_keys": 0o644,
        }
    hosts = job.role("launcher-0").template["metadata"]["annotations"]["trainer.kubeflow.org/mpi-hostfile"]
    assert hosts == "".join(f"digits-{name}.digits slots=2\n" for name in ("node-0-0", "node-0-1", "launcher-0-0"))
    assert job.role("launcher-0").after == (After("node-0", "Ready"),)


INJECTED: dict[str, tuple[Json, dict[str, str] | str]] = {
    "a sidecar": ({"containers": [{"name": "node", "image": "a"}, {"name": "side", "image": "b"}]}, torch(2)),
    "an init container": (
        {"containers": [{"name": "node", "image": "a"}], "initContainers": [{"name": "side", "image": "b"}]},
        torch(2),
    ),
    "one that is not there": (
        {},
        "spec.runtimeRef: the runtime injects variables into the container side of the replicated job node, which it"
        " does not have; mend its envInjection",
    ),
}


@pytest.mark.parametrize("sentence", INJECTED)
def test_where_else_the_runtime_wants_the_variables_of_torchrun(sentence: str) -> None:
    pod, want = INJECTED[sentence]
    targets = [{"jobName": "node", "containerNames": ["side"]}]
    policy = {"numNodes": 2, "torch": {"envInjection": {"targets": targets}}}
    made = read(train_job(trainer={}), runtime(replicated("node", step="trainer", pod=pod), policy=policy))
    if isinstance(want, str):
        assert [str(error) for error in getattr(made, "errors", ())] == [want]
    else:
        assert isinstance(made, TrainingJob)
        spec = made.role("node-0").template["spec"]
        (side,) = [
            one for listed in spec.values() if isinstance(listed, list) for one in listed if one["name"] == "side"
        ]
        assert variables(side) == want


TUNES: dict[str, tuple[Json, list[str]]] = {
    "several devices": (
        {"resourcesPerNode": {"limits": {"nvidia.com/gpu": 2}}},
        [f"--rdzv_endpoint={MASTER}:29500", "full_finetune_distributed", "--config", "llama3_2/1B_full"],
    ),
    "one device": (
        {"numProcPerNode": 1},
        ["full_finetune_single_device", "--config", "llama3_2/1B_full_single_device"],
    ),
    "lora": (
        {"numProcPerNode": 2, "args": ["model.lora_attn_modules=[q_proj]"]},
        [f"--rdzv_endpoint={MASTER}:29500", "lora_finetune_distributed", "--config", "llama3_2/1B_lora"],
    ),
    "two processes on one GPU": (
        {"numProcPerNode": 2, "resourcesPerNode": {"limits": {"nvidia.com/gpu": 1}}},
        [
            f"--rdzv_endpoint={MASTER}:29500",
            "full_finetune_single_device",
            "--config",
            "llama3_2/1B_full_single_device",
        ],
    ),
}


@pytest.mark.parametrize(("trainer", "want"), TUNES.values(), ids=TUNES.keys())
def test_the_command_of_torchtune(trainer: Json, want: list[str]) -> None:
    job = read_job(train_job("torchtune-llama3.2-1b", trainer={"command": ["tune", "run"], **trainer}))
    paths = [
        "output_dir=/workspace/output",
        "tokenizer.path=/workspace/model/original/tokenizer.model",
        "checkpointer.checkpoint_dir=/workspace/model",
    ]
    assert container(job)["command"] == ["tune", "run", *want, *paths]


LORA, QLORA = "model.lora_attn_modules=[q_proj]", "model.quantize_base=True"
REFUSED_TUNES: dict[str, tuple[str, Json, list[str]]] = {
    "a model that is not supported": (
        "torchtune-llama3.1-70b",
        {},
        [
            "spec.runtimeRef.name: 'torchtune-llama3.1-70b': must have a supported pretrained model for `tune run`, as"
            " in torchtune-llama3.2-1b: one of llama3_2/1B, llama3_2/3B, llama3_3/70B, qwen2_5/1.5B"
        ],
    ),
    "several nodes for a small model": (
        "torchtune-llama3.2-3b",
        {"numNodes": 2},
        ["spec.trainer.numNodes: 2: must be 1 for the model llama3_2/3B; create the job again"],
    ),
    "LoRA on several nodes": (
        "torchtune-llama3.3-70b",
        {"numNodes": 2, "args": [LORA]},
        [
            "spec.trainer.numNodes: 2: LoRA fine-tuning is not supported for multi-node training in torchtune;"
            " create the job again with 1"
        ],
    ),
    "QLoRA of a Qwen": (
        "torchtune-qwen2.5-1.5b",
        {"numProcPerNode": 1, "args": [LORA, QLORA]},
        ["spec.trainer.args: QLoRA is not supported for the model qwen2_5/1.5B; create the job again without it"],
    ),
    "QLoRA on several devices": (
        "torchtune-llama3.2-1b",
        {"numProcPerNode": 2, "args": [LORA, QLORA]},
        [
            "spec.trainer: QLoRA of the model llama3_2/1B runs on one device: create the job again with"
            " numProcPerNode 1, or with one gpu"
        ],
    ),
    "a folder that is the runtime's": (
        "torchtune-llama3.2-1b",
        {"args": ["epochs=1", "output_dir=/mine"]},
        ["spec.trainer.args[1]: output_dir is managed by the runtime; create the job again without it"],
    ),
    "a reserved variable": (
        "torchtune-llama3.2-1b",
        {"env": [{"name": "PET_NNODES", "value": "9"}]},
        [
            "spec.trainer.env: must not have reserved envs, invalid envs configured: PET_NNODES; create the job"
            " again without them"
        ],
    ),
}
"""`validateTorchTune` of Trainer 2.3, with the cases of its torch_test.go."""


@pytest.mark.parametrize("sentence", REFUSED_TUNES)
def test_what_torchtune_cannot_run(sentence: str) -> None:
    name, trainer, want = REFUSED_TUNES[sentence]
    job = train_job(name, trainer={"command": ["tune", "run"], **trainer})
    made = read(job, RUNTIMES["torchtune-llama3.2-1b"])
    assert [str(error) for error in getattr(made, "errors", ())] == want


def test_initializers_get_what_the_job_says_and_train_in_no_world() -> None:
    source = {"storageUri": "hf://mine", "env": [{"name": "A", "value": "1"}], "secretRef": {"name": "token"}}
    job = read_job(train_job("torchtune-llama3.2-1b", initializer={"dataset": source, "model": {}}))
    fetches = container(job, "dataset-initializer-0", "dataset-initializer")
    assert variables(fetches) == {"STORAGE_URI": "hf://mine", "A": "1"}
    assert fetches["envFrom"] == [{"secretRef": {"name": "token"}}]
    kept = container(job, "model-initializer-0", "model-initializer")
    assert variables(kept) == {"STORAGE_URI": "hf://meta-llama/Llama-3.2-1B-Instruct"}
    assert [role.name for role in job.trainers] == ["node-0"]
    assert job.role("node-0").after == tuple(
        After(f"{name}-initializer-0", "Complete") for name in ("dataset", "model")
    )


def named(*names: str, **more: Any) -> list[Json]:
    return [{"name": name, **more} for name in names]


MERGES: dict[str, tuple[Json, Json, Json]] = {
    "a field is replaced": ({"a": 1}, {"a": 2}, {"a": 2}),
    "one without a value stays": ({"a": 1, "b": {"c": 1}}, {"a": None, "b": {"c": None}}, {"a": 1, "b": {"c": 1}}),
    "objects are merged": ({"m": {"a": 1}}, {"m": {"b": 2}}, {"m": {"a": 1, "b": 2}}),
    "items of one name are merged": (
        {"containers": [{"name": "a", "x": 1}, {"name": "b"}]},
        {"containers": [{"name": "a", "y": 2}]},
        {"containers": [{"name": "a", "x": 1, "y": 2}, {"name": "b"}]},
    ),
    "a new item goes before those that are not named": (
        {"env": named("a", "b")},
        {"env": named("n")},
        {"env": named("n", "a", "b")},
    ),
    "items of the patch keep its order, and others their place before them": (
        {"volumes": named("a", "b", "c", "d")},
        {"volumes": named("c", "n", "b")},
        {"volumes": named("a", "c", "n", "b", "d")},
    ),
    "mounts by path": (
        {"volumeMounts": [{"mountPath": "/a", "name": "a"}]},
        {"volumeMounts": [{"mountPath": "/a", "name": "b"}, {"mountPath": "/c", "name": "c"}]},
        {"volumeMounts": [{"mountPath": "/a", "name": "b"}, {"mountPath": "/c", "name": "c"}]},
    ),
}
"""What `StrategicMergePatch` of apimachinery 0.36.3 answers."""


@pytest.mark.parametrize(("into", "change", "want"), MERGES.values(), ids=MERGES.keys())
def test_strategic_merge(into: Json, change: Json, want: Json) -> None:
    before = copy.deepcopy(into)
    assert merged(into, change) == want
    assert into == before, "the argument stays as it is"


@pytest.mark.parametrize("odd", [None, 7, "x", [], {}, [[]]])
def test_a_replicated_job_that_is_no_object_is_refused(odd: Any) -> None:
    made = read(train_job(), runtime(odd, replicated("node", step="trainer")))
    assert isinstance(made, InvalidJob)
    assert "spec.template.spec.replicatedJobs[0].name: required value" in str(made.errors[0])


def test_a_runtime_too_large_for_a_status_is_refused() -> None:
    of = copy.deepcopy(RUNTIMES["plain"])
    of["spec"]["template"]["metadata"] = {"annotations": {f"a{i}": "x" * 200_000 for i in range(2)}}
    made = read(train_job(), of)
    assert isinstance(made, InvalidJob)
    assert "has more than 256 KiB" in str(made.errors[0])


@pytest.mark.parametrize(("levels", "is_refused"), [(190, False), (240, True), (1000, True)])
def test_a_runtime_nested_too_deep_for_a_status_is_refused(levels: int, is_refused: bool) -> None:
    of = copy.deepcopy(RUNTIMES["plain"])
    deep: Json = {}
    for _ in range(levels):
        deep = {"a": deep}
    replicated_job = of["spec"]["template"]["spec"]["replicatedJobs"][0]
    replicated_job["template"]["spec"]["template"]["spec"]["affinity"] = deep
    made = read(train_job(), of)
    assert [str(error) for error in getattr(made, "errors", ())] == is_refused * [
        "spec.runtimeRef.name: ClusterTrainingRuntime torch-distributed is nested too deep to be kept; mend it so that"
        " no field has more than 200 levels"
    ]
    assert not (is_refused and made.status.snapshot)


CHILDREN: dict[str, tuple[Phase, dict[str, int], str]] = {
    "none of its pods is made yet": ("Pending", {"pending": 2}, "active"),
    "one runs and one waits": ("Creating", {"active": 1, "pending": 1}, "active"),
    "all run": ("Running", {"active": 2}, "active ready"),
    "one has succeeded and one runs": ("Running", {"active": 1, "succeeded": 1}, "active ready"),
    "all have succeeded": ("Running", {"succeeded": 2}, "succeeded"),
    "one has failed, and the job has": ("Failed", {"succeeded": 1, "failed": 1}, "failed"),
    "the job has run out of time": ("Failed", {}, ""),
    "the job is suspended": ("Suspended", {}, "suspended"),
}
"""What its pods do, and how the child Job of the step counts then: `calculateReplicatedJobStatuses` of JobSet."""


@pytest.mark.parametrize("sentence", CHILDREN)
def test_how_the_child_job_of_a_step_stands(sentence: str) -> None:
    phase, pods, want = CHILDREN[sentence]
    job = read_job(train_job(trainer={"numNodes": 2}))
    status = JobStatus(phase=phase, replica_statuses={"node-0": ReplicaStatus(desired=2, **pods)})
    (told,) = write_status(job, status)["jobsStatus"]
    assert (told.pop("name"), {name for name, count in told.items() if count}) == ("node", set(want.split()))


def claimed(*templates: Json, **policy: Any) -> Json:
    pod = {"containers": [{"name": "node", "image": "a", "volumeMounts": [{"name": "initializer", "mountPath": "/w"}]}]}
    policies = [{"templates": list(templates), **policy}]
    return runtime(replicated("node", step="trainer", pod=pod), replicated("other"), volumeClaimPolicies=policies)


WRONG_CLAIMS: dict[str, tuple[tuple[Json, ...], str]] = {
    "without a name": (({"spec": CLAIM["spec"]},), "metadata.name: '': pods mount it, so it must be a lower-case DNS"),
    "of one name": ((CLAIM, CLAIM), "templates[1].metadata.name: initializer: another template has this name"),
    "of another namespace": (
        ({**CLAIM, "metadata": {"name": "initializer", "namespace": "x"}},),
        "metadata.namespace: the claim is in the job's namespace; remove this",
    ),
}


@pytest.mark.parametrize(("templates", "says"), WRONG_CLAIMS.values(), ids=WRONG_CLAIMS.keys())
def test_claims_that_cannot_be_used(templates: tuple[Json, ...], says: str) -> None:
    made = read(train_job(), claimed(*templates))
    assert isinstance(made, InvalidJob)
    assert [says in str(error) for error in made.errors] == [True], made.errors
