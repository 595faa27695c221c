"""A user's session with Kubeflow's own client, as it comes from the index: create, wait, read, logs, delete. Runs in
the client's environment, not in ours, and prints what it has seen as JSON.

    python tests/sdk/session.py <kubeconfig> <PyTorchJob | TFJob | MPIJob>
"""

import json
import sys

from kubeflow.training import TrainingClient, models
from kubeflow.training.constants import constants

PROGRAM = """
import os, sys, time
print("hello from", os.environ["HOSTNAME"], os.environ.get("RANK"), os.environ.get("TF_CONFIG"), flush=True)
time.sleep(3)
sys.exit(int(sys.argv[1]))
"""
DONE = {constants.JOB_CONDITION_SUCCEEDED, constants.JOB_CONDITION_FAILED}


def replica(container: str, count: int, code: int) -> models.KubeflowOrgV1ReplicaSpec:
    main = models.V1Container(name=container, image="none", command=["python", "-S", "-c", PROGRAM, str(code)])
    template = models.V1PodTemplateSpec(spec=models.V1PodSpec(containers=[main]))
    return models.KubeflowOrgV1ReplicaSpec(replicas=count, restart_policy="Never", template=template)


def sleeping(container: str) -> models.KubeflowOrgV1ReplicaSpec:
    """As workers of an MPIJob do: without a command of their own."""
    main = models.V1Container(name=container, image="none")
    template = models.V1PodTemplateSpec(spec=models.V1PodSpec(containers=[main]))
    return models.KubeflowOrgV1ReplicaSpec(replicas=1, restart_policy="Never", template=template)


def job(kind: str, name: str, code: int) -> object:
    meta = models.V1ObjectMeta(name=name, namespace="default")
    policy = models.KubeflowOrgV1RunPolicy(clean_pod_policy="None")
    if kind == "PyTorchJob":
        roles = {"Master": replica("pytorch", 1, code), "Worker": replica("pytorch", 1, 0)}
        spec = models.KubeflowOrgV1PyTorchJobSpec(run_policy=policy, pytorch_replica_specs=roles)
        return models.KubeflowOrgV1PyTorchJob(api_version="kubeflow.org/v1", kind=kind, metadata=meta, spec=spec)
    if kind == "MPIJob":
        roles = {"Launcher": replica("mpi", 1, code), "Worker": sleeping("mpi")}
        mpi = models.KubeflowOrgV1MPIJobSpec(run_policy=policy, mpi_replica_specs=roles)
        return models.KubeflowOrgV1MPIJob(api_version="kubeflow.org/v1", kind=kind, metadata=meta, spec=mpi)
    roles = {"Chief": replica("tensorflow", 1, code), "Worker": replica("tensorflow", 1, 0)}
    tf = models.KubeflowOrgV1TFJobSpec(run_policy=policy, tf_replica_specs=roles)
    return models.KubeflowOrgV1TFJob(api_version="kubeflow.org/v1", kind=kind, metadata=meta, spec=tf)


def main(kubeconfig: str, kind: str) -> None:
    client = TrainingClient(config_file=kubeconfig, namespace="default", job_kind=kind)
    wait = {"polling_interval": 1, "wait_timeout": 240}
    seen: dict[str, object] = {}
    client.create_job(job(kind, "good", 0))
    client.wait_for_job_conditions("good", expected_conditions={constants.JOB_CONDITION_RUNNING}, **wait)
    seen["running"] = client.is_job_running("good")
    ended = client.wait_for_job_conditions("good", expected_conditions=DONE, **wait)
    seen["conditions"] = [[c.type, c.status, c.reason] for c in client.get_job_conditions("good")]
    seen["succeeded"] = [client.is_job_succeeded("good"), client.is_job_failed("good")]
    seen["times"] = [type(ended.status.start_time).__name__, type(ended.status.completion_time).__name__]
    seen["replicas"] = {n: r.succeeded or 0 for n, r in ended.status.replica_statuses.items()}
    seen["pods"] = sorted(client.get_job_pod_names("good"))
    seen["master"] = client.get_job_pod_names("good", is_master=True)
    seen["workers"] = client.get_job_pod_names("good", replica_type="worker", replica_index=0)
    logs, _ = client.get_job_logs("good", is_master=True)
    seen["logs"] = logs
    seen["listed"] = [one.metadata.name for one in client.list_jobs()]
    client.create_job(job(kind, "bad", 3))
    client.wait_for_job_conditions("bad", expected_conditions=DONE, **wait)
    seen["failed"] = [client.is_job_succeeded("bad"), client.is_job_failed("bad")]
    seen["why"] = next(c.message for c in client.get_job_conditions("bad") if c.type == "Failed")
    for name in ("good", "bad"):
        client.delete_job(name)
    seen["left"] = [one.metadata.name for one in client.list_jobs()]
    sys.stdout.write(json.dumps(seen) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
