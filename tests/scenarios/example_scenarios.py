"""What each manifest in examples/ promises in its comment, as a scenario (`tests.scenarios.driver`): to be played in
any world.

The pods are played: a scenario says how long each role's pods run and how they end, where the manifest has a command.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from tests.scenarios.driver import Driver, Json
from tests.scenarios.world import play
from tests.support import fast_yaml as yaml
from tests.support.paths import ROOT

FOLDER = ROOT / "examples"


def load(name: str, **roles: Mapping[str, str]) -> Json:
    """The manifest, with a script for the pods of each role given."""
    manifest: Json = yaml.safe_load((FOLDER / name).read_text())
    for role, script in roles.items():
        manifest["spec"]["replicaSpecs"][role]["template"].setdefault("metadata", {})["annotations"] = dict(script)
    return manifest


def load_training_job(name: str, **roles: Mapping[str, str]) -> Json:
    """The same of a TrainingJob, whose pods are played by annotations of the job:
    `trainer.fake.localcluster/run-seconds`."""
    manifest: Json = yaml.safe_load((FOLDER / name).read_text())
    script = {f"{role}.{key}": value for role, told in roles.items() for key, value in told.items()}
    manifest["metadata"]["annotations"] = {**manifest["metadata"].get("annotations", {}), **script}
    return manifest


def _phase(world: Driver, name: str, phase: str, *, within_seconds: float = 60) -> None:
    world.until(f"{name} is {phase}", lambda: world.phase(name) == phase, within_seconds=within_seconds)


def _end_pods(world: Driver, exit_code: int = 0) -> None:
    for name in world.pods():
        world.end_pod(name, exit_code)


def _replaced(world: Driver, before: Mapping[str, str], *names: str) -> None:
    world.until(
        f"{', '.join(names)} are other pods", lambda: all(world.uids().get(n, before[n]) != before[n] for n in names)
    )


def restart_pod(world: Driver) -> None:
    world.apply(load("restart-pod.yaml", trainer=play()))
    _phase(world, "restart-pod", "Running")
    before = world.uids()
    world.delete_pod("restart-pod-trainer-1")
    _replaced(world, before, "restart-pod-trainer-1")
    _phase(world, "restart-pod", "Running")
    assert world.uids()["restart-pod-trainer-0"] == before["restart-pod-trainer-0"]
    assert world.status("restart-pod")["restartCounts"]["trainer"]["user"] == 1


def restart_pod_fails_once(world: Driver) -> None:
    flaky = play(failing_attempts=1, failing_exit_code=1, failing_run_seconds=3, run_seconds=6)
    world.apply(load("restart-pod.yaml", trainer=flaky))
    _phase(world, "restart-pod", "Succeed")
    status = world.status("restart-pod")
    assert status["restartCounts"]["trainer"]["application"] == 2
    assert {f["exitCode"] for f in status["failures"]} == {1}


def restart_all(world: Driver) -> None:
    world.apply(load("restart-all.yaml", trainer=play()))
    _phase(world, "restart-all", "Running")
    before = world.uids()
    world.end_pod("restart-all-trainer-0", 1)
    _replaced(world, before, *before)
    _end_pods(world)
    _phase(world, "restart-all", "Succeed")
    assert world.status("restart-all")["attempts"]["job"] == 1


def exit_codes(world: Driver, code: int, phase: str) -> None:
    world.apply(
        load(
            "exit-codes.yaml",
            trainer=play(failing_attempts=1, failing_exit_code=code, failing_run_seconds=1, run_seconds=2),
        )
    )
    _phase(world, "exit-codes", phase)
    if phase == "Failed":
        assert f"exit code {code} is not retryable" in world.condition("Failed", "exit-codes")["message"]


def restart_limit(world: Driver) -> None:
    world.apply(load("restart-limit.yaml", trainer=play(run_seconds=1, exit_code=3)))
    _phase(world, "restart-limit", "Failed")
    assert "restartLimit 2 of role trainer is used up" in world.status("restart-limit")["message"]
    assert len(world.status("restart-limit")["failures"]) == 3


def end_policies(world: Driver) -> None:
    world.apply(load("end-policies.yaml", coordinator=play(), trainer=play(run_seconds=3, exit_code=1)))
    world.until("the trainers have failed", lambda: len(world.status("end-policies").get("failures", ())) == 3)
    assert world.phase("end-policies") == "Running"
    world.end_pod("end-policies-coordinator-0")
    _phase(world, "end-policies", "Succeed")


def clean_pods(world: Driver) -> None:
    world.apply(load("clean-pods.yaml", pserver=play(), trainer=play(run_seconds=3)))
    _phase(world, "clean-pods", "Succeed")
    assert sorted(world.pods()) == ["clean-pods-trainer-0"]
    assert world.services() == ["clean-pods-trainer-0"]
    world.delete("clean-pods")
    world.until("the rest is gone", lambda: (world.pods(), world.services()) == ({}, []))


def suspend(world: Driver) -> None:
    def asks(value: bool) -> None:
        world.patch_job("suspend", {"spec": {"suspend": value}})

    world.apply(load("suspend.yaml", trainer=play(terminate_exit_code=0, terminate_seconds=1)))
    _phase(world, "suspend", "Suspended")
    assert world.pods() == {}
    asks(False)
    _phase(world, "suspend", "Running")
    asks(True)
    world.until("its pods are gone", lambda: world.phase("suspend") == "Suspended" and world.pods() == {})
    asks(False)
    _phase(world, "suspend", "Running")
    status = world.status("suspend")
    assert (status.get("restarts", 0), status.get("failures", [])) == (0, [])


def scaling(world: Driver) -> None:
    world.apply(load("scaling.yaml", trainer=play()))
    _phase(world, "scaling", "Running")
    before = world.uids()
    world.scale("scaling", 4)
    world.until("four run", lambda: len(world.pods()) == 4 and world.phase("scaling") == "Running")
    assert before.items() <= world.uids().items()
    world.scale("scaling", 1)
    world.until("one is left", lambda: sorted(world.pods()) == ["scaling-trainer-0"])
    assert before.items() >= world.uids().items()


def time_limits(world: Driver) -> None:
    manifest = load("time-limits.yaml", trainer=play())
    manifest["spec"] |= {"timeLimit": 3}
    manifest["spec"]["runPolicy"]["ttlSecondsAfterFinished"] = 15
    world.apply(manifest)
    _phase(world, "time-limits", "Timeout")
    assert world.pods() == {}
    world.until("the job is gone", lambda: world.jobs() == [])


def node_failure(world: Driver) -> None:
    manifest = load("node-failure.yaml", trainer=play())
    # One a node, in every world: which node a scheduler likes best is its own affair.
    container = manifest["spec"]["replicaSpecs"]["trainer"]["template"]["spec"]["containers"][0]
    container["ports"] = [{"name": "one-a-node", "containerPort": 7164, "hostPort": 7164}]
    world.apply(manifest)
    _phase(world, "node-failure", "Running")
    before = world.uids()
    nodes = {name: pod["spec"]["nodeName"] for name, pod in world.pods().items()}
    lost, stays = "node-failure-trainer-0", "node-failure-trainer-1"
    assert nodes[lost] != nodes[stays]
    world.fail_node(nodes[lost])
    try:
        world.until(
            "the pod of the lost node is another one",
            within_seconds=150,
            condition=lambda: world.uids().get(lost, before[lost]) != before[lost],
        )
        _phase(world, "node-failure", "Running")
    finally:
        world.recover_node(nodes[lost])
    assert world.uids()[stays] == before[stays]
    assert world.pods()[lost]["spec"]["nodeName"] != nodes[lost]
    status = world.status("node-failure")
    assert status["restartCounts"]["trainer"]["node"] == 1
    assert nodes[lost] in status["failures"][0]["message"]


def _trainers(world: Driver) -> dict[str, Json]:
    return {n: p for n, p in world.pods().items() if p["metadata"]["labels"].get("replica-type") == "trainer"}


def elastic(world: Driver) -> None:
    world.apply(load_training_job("training-job-elastic.yaml", trainer=play(), pserver=play(), master=play()))
    _phase(world, "elastic", "Running")
    before = {n: p["metadata"]["uid"] for n, p in _trainers(world).items()}
    assert len(before) >= 2
    world.scale("elastic", 4)
    world.until("at least four run", lambda: len(_trainers(world)) >= 4 and world.phase("elastic") == "Running")
    assert before.items() <= world.uids().items()
    assert world.status("elastic").get("restarts", 0) == 0


def local(world: Driver) -> None:
    world.apply(load_training_job("training-job-local.yaml", trainer=play(run_seconds=3)))
    _phase(world, "local", "Succeed")
    assert world.status("local")["replicaStatuses"] == {
        "trainer": {
            "desired": 1,
            "pending": 0,
            "scheduled": 0,
            "active": 0,
            "succeeded": 1,
            "failed": 0,
            "evicted": 0,
            "restarting": 0,
        }
    }
    assert [p["status"]["phase"] for p in world.pods().values()] == ["Succeeded"], "its log can still be read"


def nccl(world: Driver, code: int, phase: str) -> None:
    world.apply(load_training_job("training-job-nccl.yaml", trainer=play()))
    world.until("three trainers and no other", lambda: len(_trainers(world)) == 3 == len(world.pods()))
    ports = [c["containerPort"] for p in _trainers(world).values() for c in p["spec"]["containers"][0]["ports"]]
    assert sorted(ports) == [7164] * 3 + [7165] * 3
    _end_pods(world, code)
    _phase(world, "nccl", phase)


def host_network(world: Driver) -> None:
    world.apply(load_training_job("training-job-host-network.yaml", trainer=play()))
    _phase(world, "host-network", "Running")
    pods = [pod["spec"] for pod in _trainers(world).values()]
    assert [(spec["hostNetwork"], spec["dnsPolicy"]) for spec in pods] == [(True, "ClusterFirstWithHostNet")] * 2
    assert len({spec["nodeName"] for spec in pods}) == 2


def git_sync(world: Driver) -> None:
    world.apply(load("git-sync.yaml", trainer=play()))
    world.until("both are there", lambda: len(world.pods()) == 2)
    for pod in world.pods().values():
        (clones,), (trains,) = pod["spec"]["initContainers"], pod["spec"]["containers"]
        assert clones["name"] == "git-sync-code"
        assert "/digits" in [mount["mountPath"] for mount in trains["volumeMounts"]]
    _end_pods(world)
    _phase(world, "git-sync", "Succeed")


def host_ports(world: Driver) -> None:
    world.apply(load("host-network.yaml", trainer=play()))
    _phase(world, "host-network", "Running")
    pods = [pod["spec"] for pod in world.pods().values()]
    assert all(spec["hostNetwork"] for spec in pods)
    drawn = world.status("host-network")["hostPorts"]["first"]
    assert sorted(spec["containers"][0]["ports"][0]["hostPort"] for spec in pods) == [drawn, drawn + 1]
    _end_pods(world)
    _phase(world, "host-network", "Succeed")


def tensorboard(world: Driver) -> None:
    made = load("tensorboard.yaml", trainer=play(run_seconds=20))
    spec = made["spec"]["replicaSpecs"]["trainer"]["template"]["spec"]
    spec["volumes"] = [{"name": "checkpoints", "emptyDir": {}}]  # where no claim can be bound
    world.apply(made)
    _phase(world, "tensorboard", "Succeed")
    (pod,) = world.pods().values()
    assert pod["metadata"]["name"] == "tensorboard-tensorboard-0", "its trainers have gone"
    assert world.services() == ["tensorboard-tensorboard-0"]


EXAMPLES: Mapping[str, Callable[[Driver], None]] = {
    "restart-pod.yaml: a deleted pod is replaced, the other stays": restart_pod,
    "restart-pod.yaml: pods that fail once are replaced, and the job succeeds": restart_pod_fails_once,
    "restart-all.yaml: every pod is replaced, and the job succeeds": restart_all,
    "exit-codes.yaml: 3 is worth another try": partial(exit_codes, code=3, phase="Succeed"),
    "exit-codes.yaml: 1 is not": partial(exit_codes, code=1, phase="Failed"),
    "restart-limit.yaml: the job fails and says why": restart_limit,
    "end-policies.yaml: the coordinator alone decides": end_policies,
    "clean-pods.yaml: what has ended stays": clean_pods,
    "suspend.yaml: it waits, runs, waits, and runs again": suspend,
    "scaling.yaml: the trainers that stay keep their pods": scaling,
    "time-limits.yaml: Timeout, then gone": time_limits,
    "node-failure.yaml: the pods of the lost node alone are replaced": node_failure,
    "training-job-elastic.yaml: more trainers, and those that run go on": elastic,
    "training-job-local.yaml: one trainer, to its end": local,
    "training-job-nccl.yaml: three trainers and no other": partial(nccl, code=0, phase="Succeed"),
    "training-job-nccl.yaml: one that fails fails the job": partial(nccl, code=1, phase="Failed"),
    "training-job-host-network.yaml: two with one port never share a node": host_network,
    "host-network.yaml: each pod has a port of its own": host_ports,
    "tensorboard.yaml: it outlives its job": tensorboard,
    "git-sync.yaml: each pod clones before it trains": git_sync,
}
