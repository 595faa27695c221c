"""What differs from replica to replica, role to role and port to port, of jobs whose roles have different ports."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from tests.support.builders import make_job
from tjworker.api.model import MPILaunch, TrainingJob
from tjworker.api.status import HostPorts
from tjworker.reconcile.frameworks import FRAMEWORKS, find_framework
from tjworker.reconcile.workloads.environment import role_environment
from tjworker.reconcile.workloads.podbody import pod_body

Json = dict[str, Any]
ROLES = {
    "any": ("ps", "worker"),
    "jax": ("coordinator", "worker"),
    "mars": ("scheduler", "webservice", "worker"),
    "mpi": ("launcher", "worker"),
    "paddle": ("ps", "trainer"),
    "pytorch": ("master", "worker"),
    "tensorflow": ("chief", "evaluator", "ps", "worker"),
    "xdl": ("ps", "scheduler", "worker"),
    "xgboost": ("master", "worker"),
}
ALONE = ("launcher", "master", "chief", "evaluator")


def _job(framework: str, *, by_host: bool = False, **roles: Any) -> TrainingJob:
    """Role number n has the port 7000 + 10 n."""
    built = make_job(namespace="team-a")
    for number, (name, fields) in enumerate(roles.items()):
        built = built.role(name, **{"ports": (7000 + 10 * number,), **fields})
    job = replace(built.build(), framework=framework)
    return replace(job, host_ports=HostPorts(first=20990, low=20000, high=20999)) if by_host else job


def _bodies(job: TrainingJob) -> dict[str, Json]:
    env = role_environment(job)
    made = [pod_body(job, role, i, 0, env) for role in job.roles for i in range(role.replicas)]
    return {body["metadata"]["name"]: body for body in made}


def _env(body: Json) -> dict[str, str]:
    return {e["name"]: e.get("value", "") for e in body["spec"]["containers"][0]["env"]}


def _port(body: Json) -> int:
    (port,) = body["spec"]["containers"][0]["ports"]
    return int(port["containerPort"])


_ADDRESS = re.compile(r"(digits-[a-z]+-\d+)(?:\.team-a\.svc)?:(\d+)")
PAIRS = (
    ("MASTER_ADDR", "MASTER_PORT"),
    ("PET_MASTER_ADDR", "PET_MASTER_PORT"),
    ("DMLC_TRACKER_URI", "DMLC_TRACKER_PORT"),
    ("COORDINATOR_ADDRESS", "COORDINATOR_PORT"),
)


@pytest.mark.parametrize("elastic", [False, True], ids=["as many as they are", "elastic"])
@pytest.mark.parametrize("by_host", [False, True], ids=["a network each", "on the host network"])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_every_address_that_a_replica_is_told_is_where_that_replica_listens(
    framework: str, by_host: bool, elastic: bool
) -> None:
    """Also when each replica has a port of its own, in a block that goes on at the beginning of its range."""
    roles: dict[str, Any] = {name: {"replicas": 1 if name in ALONE else 3} for name in ROLES[framework]}
    if elastic:
        if find_framework(_job(framework, **roles)).fixed:
            return
        roles["trainer" if framework == "paddle" else "worker"] |= {"least": 1, "most": 5}
    bodies = _bodies(_job(framework, by_host=by_host, **roles))
    ports = {name: _port(body) for name, body in bodies.items()}
    assert len(set(ports.values())) == (len(ports) if by_host else len(roles))
    told = 0
    for body in bodies.values():
        env = _env(body)
        found = [pair for value in env.values() for pair in _ADDRESS.findall(value)]
        found += [(env[host], env[port]) for host, port in PAIRS if host in env]
        assert {(name, int(port)) for name, port in found} <= ports.items()
        told += len(found)
    assert told >= len(bodies), "it looked at something"


@pytest.mark.parametrize(("limit", "want"), [(None, "100"), (0, "0"), (3, "3")])
def test_torchrun_may_restart_as_often_as_the_elastic_role(limit: int | None, want: str) -> None:
    roles: dict[str, Any] = {
        "eval": {"replicas": 2, "limit": 9},
        "worker": {"replicas": 2, "least": 1, "most": 6, "limit": limit},
    }
    job = _job("pytorch", **roles)
    for name, body in _bodies(job).items():
        env = _env(body)
        assert (env["PET_MAX_RESTARTS"], env["PET_NNODES"], env["PET_RDZV_ID"]) == (want, "3:8", job.uid), name


CLUSTERS: dict[str, tuple[str, bool]] = {
    "no role is elastic": ("", True),
    "the workers are: each is told what does not change with their number": ("worker", False),
    "the parameter servers are": ("ps", False),
    "a role beside the cluster is: the cluster stays as it is": ("data", True),
}


@pytest.mark.parametrize(("elastic", "fixed"), CLUSTERS.values(), ids=CLUSTERS.keys())
def test_tensorflow_is_told_of_a_cluster_that_changes_where_the_cluster_does(elastic: str, fixed: bool) -> None:
    roles: dict[str, Any] = {name: {"replicas": 2} for name in ("data", "ps", "worker")}
    if elastic:
        roles[elastic] |= {"least": 1, "most": 4}
    for name, body in _bodies(_job("tensorflow", **roles)).items():
        if "data" in name:
            assert "TF_CONFIG" not in _env(body)
            continue
        told = json.loads(_env(body)["TF_CONFIG"])
        assert (told.get("environment") == "cloud") is fixed
        role, index = name.split("-")[1:]
        assert told["task"] == {"type": role, "index": int(index)}
        mine = told["cluster"][role]
        own = f"{name}.team-a.svc:{_port(body)}"
        assert mine == {index: own} if elastic == role else mine[int(index)] == own


def test_mars_counts_memory_in_bytes_for_the_process_and_in_mebibytes_for_the_worker() -> None:
    template = {
        "spec": {
            "containers": [
                {
                    "name": "mars",
                    "image": "x",
                    "ports": [{"name": "aitj-7000", "containerPort": 7000}],
                    "resources": {"requests": {"cpu": "1500m", "memory": "3Gi"}, "limits": {"memory": "4Gi"}},
                }
            ]
        }
    }
    job = _job("mars", scheduler={"template": template}, worker={"template": template})
    for name, body in _bodies(job).items():
        env = _env(body)
        assert (env["MARS_CPU_TOTAL"], env["MARS_MEMORY_TOTAL"]) == ("2", str(3 * 2**30))
        measured = json.loads(env["MARS_TASK_DETAIL"])["task"].get("resources")
        assert measured == ({"cpu_procs": 2, "phy_mem": 3072} if "worker" in name else None)


def test_the_slots_of_an_mpi_worker_are_the_gpus_of_all_its_containers_that_count() -> None:
    def container(name: str, **limits: object) -> Json:
        return {"name": name, "image": "x", "resources": {"limits": limits}}

    template = {
        "spec": {
            "containers": [
                container("aitj-a", **{"nvidia.com/gpu": 2, "amd.com/gpu": "1", "cpu": "8"}),
                container("aitj-b", **{"nvidia.com/gpu": "3"}),
                container("sidecar", **{"nvidia.com/gpu": 7}),
            ]
        }
    }
    job = _job("mpi", launcher={}, cpu={"replicas": 1}, worker={"replicas": 2, "template": template})
    files = find_framework(job).files(job, job.role("launcher"))
    assert files == {
        "/etc/mpi/hostfile": "digits-cpu-0 slots=1\ndigits-worker-0 slots=6\ndigits-worker-1 slots=6\n",
        "/etc/mpi/hydra_hostfile": "digits-cpu-0:1\ndigits-worker-0:6\ndigits-worker-1:6\n",
    }


@pytest.mark.parametrize(("implementation", "line"), [("OpenMPI", " slots=4"), ("Intel", ":4"), ("MPICH", ":4")])
@pytest.mark.parametrize("on_launcher", [False, True])
def test_each_mpi_of_an_mpijob_has_hostfiles_in_its_own_form(implementation: Any, line: str, on_launcher: bool) -> None:
    how = MPILaunch(slots=4, implementation=implementation, agent=False, on_launcher=on_launcher, waits=False)
    job = replace(_job("mpi", launcher={}, worker={"replicas": 2}), mpi=how)
    names = [*(["digits-launcher-0"] if on_launcher else []), "digits-worker-0", "digits-worker-1"]
    files = find_framework(job).files(job, job.role("launcher"))
    assert files == {
        "/etc/mpi/hostfile": "".join(f"{name}{line}\n" for name in names),
        "/etc/mpi/discover_hosts.sh": "#!/bin/sh\n" + "".join(f"echo {name}\n" for name in names),
    }
    assert find_framework(job).files(job, job.role("worker")) == {}
