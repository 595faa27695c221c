"""Pods, files and keys of MPIJobs: of v2beta1 as mpi-operator 0.6 makes them (`pkg/controller/mpi_job_controller.go`),
of v1 as training-operator 1.9 does (`pkg/controller.v1/mpi/mpijob_controller.go`), but for what docs/kinds.md says. How
an MPIJob ends, restarts and cleans up is in tests/peers.
"""

from __future__ import annotations

import base64
from typing import Any

import pytest

from localcluster.client import ApiError
from tests.scenarios.test_kubeflow import DONE, PREFIX, environment, job, role, state, world
from tests.scenarios.world import World
from tjworker.api.kinds import parse
from tjworker.api.kinds.base import MEMORY
from tjworker.api.model import TrainingJob
from tjworker.base import GroupResource

Json = dict[str, Any]
L, W0, W1 = "digits-launcher-0", "digits-worker-0", "digits-worker-1"
V1, V2 = "v1", "v2beta1"
MPIJOBS = GroupResource("mpijobs.kubeflow.org")
BOTH = pytest.mark.parametrize("version", [V1, V2])


def mpi(version: str, roles: Json | None = None, run: Json | None = None, **spec: Any) -> Json:
    made = job("MPIJob", roles or {"Launcher": role(**DONE), "Worker": role(2)}, run, **spec)
    return made | {"apiVersion": f"kubeflow.org/{version}"}


def secrets(w: World) -> list[Json]:
    found: list[Json] = w.cluster.client.get("/api/v1/namespaces/default/secrets")["items"]
    return found


def file(w: World, pod: str, name: str) -> str:
    """Of /etc/mpi, as the kubelet shows it."""
    spec = w.pods()[pod]["spec"]
    (volume,) = [v["downwardAPI"]["items"] for v in spec["volumes"] if "downwardAPI" in v]
    (path,) = [item["fieldRef"]["fieldPath"] for item in volume if item["path"] == name]
    mounted = [m["mountPath"] for m in spec["containers"][0]["volumeMounts"] if m["name"] == "framework-files"]
    assert mounted == ["/etc/mpi"]
    text: str = w.pods()[pod]["metadata"]["annotations"][path.split("'")[1]]
    return text


@BOTH
def test_the_launcher_is_made_when_its_workers_are_ready(version: str) -> None:
    late = role(2, ready_seconds=30)
    w = world().apply(mpi(version, {"Launcher": role(), "Worker": late})).run().advance(10)
    assert sorted(w.pods()) == [W0, W1]
    assert "is made when the role Worker is ready: 0 of 2 are" in w.status()[MEMORY]["message"]
    w.until("it runs", lambda: state(w) == "Running")
    assert w.status()["replicaStatuses"]["Launcher"]["active"] == 1


SSH: Json = {
    "K_MPI_JOB_ROLE": "launcher",
    "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
    "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
    "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
    "OMPI_MCA_orte_set_default_slots": "2",
}
ENVIRONMENTS: dict[str, tuple[Json, Json, str]] = {
    "Open MPI": ({}, SSH, "digits-worker-0.digits.default.svc slots=2\ndigits-worker-1.digits.default.svc slots=2\n"),
    "Intel MPI": (
        {"mpiImplementation": "Intel"},
        {
            "I_MPI_HYDRA_HOST_FILE": "/etc/mpi/hostfile",
            "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": "-o ConnectionAttempts=10",
            "I_MPI_PERHOST": "2",
        },
        "digits-worker-0.digits.default.svc:2\ndigits-worker-1.digits.default.svc:2\n",
    ),
    "MPICH": (
        {"mpiImplementation": "MPICH"},
        {"HYDRA_HOST_FILE": "/etc/mpi/hostfile", "HYDRA_LAUNCH_EXTRA_ARGS": "-o ConnectionAttempts=10"},
        "digits-worker-0.digits.default.svc:2\ndigits-worker-1.digits.default.svc:2\n",
    ),
    "processes in the launcher, too": (
        {"runLauncherAsWorker": True},
        SSH,
        "digits-launcher.digits.default.svc slots=2\n"
        "digits-worker-0.digits.default.svc slots=2\ndigits-worker-1.digits.default.svc slots=2\n",
    ),
}


@pytest.mark.parametrize("sentence", ENVIRONMENTS)
def test_what_mpirun_finds_is_what_the_mpi_operator_gives_it(sentence: str) -> None:
    spec, want, hosts = ENVIRONMENTS[sentence]
    w = world().apply(mpi(V2, {"Launcher": role(), "Worker": role(2)}, slotsPerWorker=2, **spec)).run()
    w.until("it runs", lambda: state(w) == "Running")
    found = environment(w, L)
    assert found.items() >= want.items()
    assert file(w, L, "hostfile") == hosts
    names = [line.replace(":", " ").split()[0] for line in hosts.splitlines()]
    assert file(w, L, "discover_hosts.sh") == "".join(["#!/bin/sh\n", *(f"echo {name}\n" for name in names)])
    hides = any(e["name"] == "NVIDIA_VISIBLE_DEVICES" for e in w.pods()[L]["spec"]["containers"][0]["env"])
    assert hides is not spec.get("runLauncherAsWorker", False), "a launcher without processes takes no GPU"


def test_pods_of_v2beta1_are_those_of_the_mpi_operator() -> None:
    w = world().apply(mpi(V2, {"Launcher": role(), "Worker": role(2)})).run()
    w.until("it runs", lambda: state(w) == "Running")
    assert w.services() == ["digits"], "one for all pods"
    for name, told, host in ((L, "launcher", "digits-launcher"), (W0, "worker", W0), (W1, "worker", W1)):
        pod, spec = w.pods()[name], w.pods()[name]["spec"]
        labels = {k.removeprefix(PREFIX): v for k, v in pod["metadata"]["labels"].items() if k.startswith(PREFIX)}
        index = name.rpartition("-")[2]
        assert labels.items() >= {"job-name": "digits", "operator-name": "mpi-operator", "job-role": told}.items()
        assert labels["replica-index"] == index
        assert (spec["hostname"], spec["subdomain"]) == (host, "digits")
        assert spec["dnsConfig"]["searches"] == ["digits.default.svc.cluster.local"]
        (keys,) = [v["secret"] for v in spec["volumes"] if v["name"] == "ssh-auth"]
        assert {item["path"]: item["key"] for item in keys["items"]} == {
            "id_rsa": "ssh-privatekey",
            "id_rsa.pub": "ssh-publickey",
            "authorized_keys": "ssh-publickey",
        }
        assert (keys["defaultMode"], keys["secretName"]) == (0o600, secrets(w)[0]["metadata"]["name"])
        assert {"name": "ssh-auth", "mountPath": "/root/.ssh"} in spec["containers"][0]["volumeMounts"]
    assert w.pods()[W0]["spec"]["containers"][0]["command"] == ["/usr/sbin/sshd", "-De"]
    assert "command" not in w.pods()[L]["spec"]["containers"][0]


def test_what_a_template_says_of_its_own_is_kept() -> None:
    own = role(1)
    own["template"]["spec"] |= {"hostname": "mine", "dnsConfig": {"searches": ["here"]}}
    own["template"]["spec"]["containers"][0] |= {"args": ["sshd", "-f", "own"]}
    w = world().apply(mpi(V2, {"Launcher": role(), "Worker": own}, sshAuthMountPath="/home/mpiuser/.ssh")).run()
    spec = w.pods()[W0]["spec"]
    assert "command" not in spec["containers"][0]
    assert spec["dnsConfig"]["searches"] == ["here", "digits.default.svc.cluster.local"]
    assert spec["hostname"] == W0, "the hostfile says so"
    (keys,) = [v["secret"] for v in spec["volumes"] if v["name"] == "ssh-auth"]
    assert keys.get("defaultMode") != 0o600, "a user other than root must read it"
    assert {"name": "ssh-auth", "mountPath": "/home/mpiuser/.ssh"} in spec["containers"][0]["volumeMounts"]


def test_pods_of_v1_are_those_of_training_operator_with_the_agent_in_kubectls_place() -> None:
    own = role(2)
    own["template"]["spec"]["containers"][0] |= {"command": ["sleep"], "args": ["365d"]}
    w = world().apply(mpi(V1, {"Launcher": role(), "Worker": own}, slotsPerWorker=2)).run()
    w.until("it runs", lambda: state(w) == "Running")
    env = environment(w, L)
    want = {
        "OMPI_MCA_plm_rsh_agent": "/etc/mpi/kubexec.sh",
        "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
        "I_MPI_HYDRA_BOOTSTRAP": "rsh",
        "I_MPI_HYDRA_BOOTSTRAP_EXEC": "/etc/mpi/kubexec.sh",
    }
    assert env.items() >= want.items()
    assert file(w, L, "hostfile") == f"{W0} slots=2\n{W1} slots=2\n"
    assert file(w, L, "discover_hosts.sh") == f"#!/bin/sh\necho {W0}:2\necho {W1}:2\n"
    assert file(w, L, "kubexec.sh").startswith("#!/bin/sh\n")
    assert file(w, W0, "agent.py") == file(w, L, "agent.py")
    worker = w.pods()[W0]["spec"]["containers"][0]
    assert (worker["command"], worker["args"]) == (["python3", "/etc/mpi/agent.py", "serve", "--", "sleep"], ["365d"])
    labels = w.pods()[L]["metadata"]["labels"]
    assert (labels[f"{PREFIX}job-role"], labels[f"{PREFIX}operator-name"]) == ("master", "mpijob-controller")
    assert w.pods()[L]["spec"].get("serviceAccountName", "default") == "default", "it needs no rights"


@BOTH
def test_a_job_has_one_key_and_another_job_of_its_name_another(version: str) -> None:
    w = world().apply(mpi(version, {"Launcher": role(), "Worker": role(3)})).run()
    w.until("it runs", lambda: state(w) == "Running")
    (first,) = secrets(w)
    assert first["metadata"]["ownerReferences"][0]["uid"] == w.get(MPIJOBS, "digits")["metadata"]["uid"]
    w.delete("digits").run().advance(60)
    assert secrets(w) == [], "it goes with its job"
    w.apply(mpi(version, {"Launcher": role(), "Worker": role(3)})).run()
    w.until("it runs", lambda: state(w) == "Running")
    (second,) = secrets(w)
    assert second["metadata"]["name"] != first["metadata"]["name"]
    assert second["data"] != first["data"]


def test_the_service_of_all_pods_is_made_again_while_one_of_them_runs() -> None:
    w = world().apply(mpi(V2, {"Launcher": role(), "Worker": role(3)})).run()
    w.until("it runs", lambda: state(w) == "Running")
    service = "/api/v1/namespaces/default/services/digits"
    before = w.cluster.client.get(service)["metadata"]["uid"]
    w.cluster.client.delete(service)
    w.run()
    assert w.cluster.client.get(service)["metadata"]["uid"] != before


def test_a_launcher_that_waits_for_a_worker_that_has_ended_asks_for_no_key() -> None:
    w = world().apply(mpi(V2, {"Launcher": role(), "Worker": role(1, run_seconds=5, ready_seconds=60)})).run()
    w.until("the worker has ended", lambda: w.status()["replicaStatuses"]["Worker"].get("succeeded") == 1)
    asked = w.requests()["create secrets"]
    for _ in range(3):
        w.patch_job("digits", {"metadata": {"labels": {"looked": str(w.clock.now_seconds)}}})
        w.run().advance(10)
    assert w.requests()["create secrets"] == asked


def test_a_key_is_asked_for_until_a_pod_proves_that_it_is_there() -> None:
    """Nobody may read it. A pod that runs has mounted it."""
    late = role(4, start_seconds=20, ready_seconds=20)
    w = world().apply(mpi(V2, {"Launcher": role(), "Worker": late})).run()
    w.until("the workers run", lambda: w.status()["replicaStatuses"]["Worker"].get("active") == 4)
    asked = w.requests()["create secrets"]
    assert asked >= 1
    w.advance(10)
    assert w.requests()["create secrets"] == asked
    w.cluster.client.delete(f"/api/v1/namespaces/default/secrets/{secrets(w)[0]['metadata']['name']}")
    w.delete_pod(W1).run().advance(10)
    assert len(secrets(w)) == 1, "a pod that is made again has one to mount"


def test_the_key_is_one_that_ssh_takes() -> None:
    w = world().apply(mpi(V2)).run()
    (made,) = secrets(w)
    assert made["type"] == "kubernetes.io/ssh-auth"
    private, public = (base64.b64decode(made["data"][name]) for name in ("ssh-privatekey", "ssh-publickey"))
    assert private.startswith(b"-----BEGIN EC PRIVATE KEY-----")
    assert public.startswith(b"ecdsa-sha2-nistp521 ")


LONG = "a" * 55
BROKEN: dict[str, tuple[Json, str]] = {
    "two launchers": (mpi(V2, {"Launcher": role(2), "Worker": role(1)}), "Launcher.replicas: 2: must be 1"),
    "no launcher": (mpi(V2, {"Worker": role(1)}), "spec.mpiReplicaSpecs.Launcher: required value"),
    "zero workers": (mpi(V2, {"Launcher": role(), "Worker": role(0)}), "Worker.replicas: 0: must be at least 1"),
    "workers whose number is not said, which is zero there": (
        mpi(V1, {"Launcher": role(), "Worker": role(None)}),
        "Worker.replicas: 0: must be at least 1",
    ),
    "no workers": (mpi(V1, {"Launcher": role()}), "spec.mpiReplicaSpecs.Worker: required value"),
    "restartPolicy of v1 in v2beta1": (
        mpi(V2, {"Launcher": role(1, "ExitCode"), "Worker": role(1)}),
        "Launcher.restartPolicy: ExitCode: must be Never or OnFailure",
    ),
    "mainContainer that no worker has": (
        mpi(V1, mainContainer="other"),
        "spec.mainContainer: 'other' is no container of a worker: use main",
    ),
    "a name too long for host names": (
        mpi(V2) | {"metadata": {"name": LONG}},
        f"metadata.name: {LONG}-launcher-0: the longest pod name",
    ),
}


BY_THE_API_SERVER = {"two launchers": "an MPIJob has one Launcher", "no launcher": "an MPIJob has a Launcher: add it"}
"""Of these, what its schema refuses already."""


@pytest.mark.parametrize("sentence", BY_THE_API_SERVER)
def test_what_the_schema_can_tell_the_api_server_refuses(sentence: str) -> None:
    with pytest.raises(ApiError, match=BY_THE_API_SERVER[sentence]):
        world().apply(BROKEN[sentence][0])


@pytest.mark.parametrize("sentence", sorted(BROKEN.keys() - BY_THE_API_SERVER.keys()))
def test_what_cannot_be_is_said_and_nothing_is_made(sentence: str) -> None:
    made, why = BROKEN[sentence]
    w = world().apply(made).run().advance(30)
    (failed,) = [c for c in w.status(made["metadata"]["name"])["conditions"] if c["type"] == "Failed"]
    assert failed["reason"] == "MPIJobFailedValidation"
    assert why in failed["message"]
    assert (list(w.pods()), w.services(), secrets(w)) == ([], [], [])


def test_a_launcher_alone_may_be_its_own_worker() -> None:
    w = world().apply(mpi(V2, {"Launcher": role(**DONE)}, runLauncherAsWorker=True)).run()
    w.until("done", lambda: state(w) == "Succeeded")


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (mpi(V1, sshAuthMountPath="/root/.ssh"), "spec.sshAuthMountPath (only v2beta1 has it)"),
        (mpi(V2, cleanPodPolicy="All"), "spec.cleanPodPolicy (only v1 has it)"),
    ],
)
def test_what_is_not_acted_on_is_told(made: Json, told: str) -> None:
    w = world().apply(made).run()
    assert told in w.condition("Created")["message"]


DEFAULTS: dict[str, tuple[Json, dict[str, object]]] = {
    "v2beta1, whose launcher is a batch Job there": (
        mpi(V2),
        {"backoff_limit": 6, "Launcher": "Always", "Worker": "Never", "clean_pod_policy": "None"},
    ),
    "v1": (mpi(V1), {"backoff_limit": None, "Launcher": "Never", "Worker": "Never", "clean_pod_policy": "None"}),
    "cleanPodPolicy of v1 may stand beside runPolicy": (
        mpi(V1, cleanPodPolicy="Running"),
        {"clean_pod_policy": "Running"},
    ),
    "that of runPolicy goes before it": (
        mpi(V1, run={"cleanPodPolicy": "All"}, cleanPodPolicy="Running"),
        {"clean_pod_policy": "All"},
    ),
    "and v2beta1 has none beside it": (mpi(V2, cleanPodPolicy="Running"), {"clean_pod_policy": "None"}),
    "a job of mpi-operator's own": (mpi(V2, run={"managedBy": "kubeflow.org/mpi-operator"}), {"backoff_limit": 6}),
}


@pytest.mark.parametrize("sentence", DEFAULTS)
def test_what_is_not_said_is_as_there(sentence: str) -> None:
    made, want = DEFAULTS[sentence]
    w = world().apply(made).run()
    assert w.pods(), "it is ours to run"
    found = parse(MPIJOBS, w.get(MPIJOBS, "digits"))
    assert isinstance(found, TrainingJob)
    policies: dict[str, object] = {one.name: one.restart_policy for one in found.roles}
    assert {name: policies.get(name, getattr(found, name, None)) for name in want} == want
