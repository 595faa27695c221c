"""The scenarios of nodes in trouble: what their kubelets do to pods (`localcluster.kubelet.troubles`), and what becomes
of the job. Played where those of `scenarios` are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from localcluster.kubelet.troubles import EVICT_ANNOTATION
from tests.scenarios.driver import Driver
from tests.scenarios.world import job, play, role

Scenario = Callable[[Driver], None]
NODES = ("node-0", "node-1", "node-2")
MOST_CREATES = 10
"""Of one replica in a minute, whatever turns it away."""


def _running(world: Driver) -> None:
    world.until("the job runs", lambda: world.phase() == "Running")


def _counts(world: Driver) -> dict[str, int]:
    """Restarts of the trainers by cause, without the zeros."""
    return {k: v for k, v in world.status().get("restartCounts", {}).get("trainer", {}).items() if v}


def _is_another(world: Driver, name: str, before: dict[str, str]) -> bool:
    return world.uids().get(name, before[name]) != before[name] and world.phase() == "Running"


def _all_nodes(world: Driver, how: str) -> None:
    for node in NODES:
        world.fail_node(node, how) if how else world.recover_node(node)


def _turned_away(reason: str) -> Scenario:
    def scenario(world: Driver) -> None:
        _all_nodes(world, f"Reject={reason}")
        try:
            world.apply(
                job({"trainer": role(1, annotations=play(), restartPolicy="Never", restartLimit=0)}, backoffLimit=0)
            )
            world.until("it is made again", lambda: world.requests()["create pods"] >= 2)
            world.stays("it is nobody's failure", lambda: world.phase() not in ("Failed", ""), for_seconds=20)
            assert world.requests()["create pods"] <= MOST_CREATES
        finally:
            _all_nodes(world, "")
        world.until("it runs when it is let in", lambda: world.phase() == "Running", within_seconds=300)
        assert _counts(world).get("application", 0) == 0

    return scenario


def evicted_for_its_own_limits(world: Driver) -> None:
    over = {**play(run_seconds=1), EVICT_ANNOTATION: "limit"}
    world.apply(job({"trainer": role(1, annotations=over, restartPolicy="OnFailure", restartLimit=2)}))
    world.until("it has used up its limit", lambda: world.phase() == "Failed")
    assert _counts(world) == {"application": 2}
    assert world.condition("Failed")["reason"] == "RestartLimitReached"
    assert "exceeds the total limit" in world.condition("Failed")["message"], "the kubelet's words"


def evicted_for_the_nodes_sake(world: Driver) -> None:
    pressed = {**play(run_seconds=1), EVICT_ANNOTATION: "pressure"}
    world.apply(
        job({"trainer": role(1, annotations=pressed, restartPolicy="OnFailure", restartLimit=0)}, backoffLimit=0)
    )
    world.until("it has been evicted three times", lambda: _counts(world).get("node", 0) >= 3)
    assert set(_counts(world)) == {"node"}
    assert world.phase() != "Failed"


def containers_lost_with_their_node(world: Driver) -> None:
    """The node was rebooted within its grace: `OnNodeFail` replaces the pod, and no limit is used up."""
    lost = play(failing_attempts=1, failing_run_seconds=1, failing_exit_code=137, reason="ContainerStatusUnknown")
    world.apply(job({"trainer": role(1, annotations=play(), restartPolicy="OnNodeFail")}, "beside"))
    world.until("its neighbour runs", lambda: world.phase("beside") == "Running")
    neighbour = world.uids()["beside-trainer-0"]
    world.apply(job({"trainer": role(1, annotations=lost, restartPolicy="OnNodeFail", restartLimit=0)}, backoffLimit=0))
    world.until(
        "its pod is another one, and runs", lambda: _counts(world) == {"node": 1} and world.phase() == "Running"
    )
    assert world.uids()["beside-trainer-0"] == neighbour


def a_command_that_cannot_be_started(world: Driver) -> None:
    """`ExitCode` retries 128, but not of a container that never started; its message names the command alone."""
    wrong = play(run_seconds=0, exit_code=128, reason="StartError")
    world.apply(job({"trainer": role(1, annotations=wrong, restartPolicy="ExitCode")}))
    world.until("it has failed at once", lambda: world.phase() == "Failed")
    assert _counts(world) == {}
    assert "a command that cannot be started is not retryable" in world.condition("Failed")["message"]


def _two_trainers(world: Driver) -> dict[str, str]:
    slow = play(terminate_seconds=2)
    world.apply(job({"trainer": role(2, annotations=slow, restartPolicy="OnFailure", restartScope="Pod")}))
    _running(world)
    return world.uids()


def maintenance_of_a_healthy_node(world: Driver) -> None:
    before = _two_trainers(world)
    node = world.pods()["digits-trainer-0"]["spec"]["nodeName"]
    world.taint_node(node, "maintenance")
    try:
        world.until("its pod runs elsewhere", lambda: _is_another(world, "digits-trainer-0", before))
        assert world.pods()["digits-trainer-0"]["spec"]["nodeName"] != node
        assert set(_counts(world)) == {"node"}
    finally:
        world.taint_node(node, "")


def a_node_shuts_down_in_order(world: Driver) -> None:
    before = _two_trainers(world)
    node = world.pods()["digits-trainer-0"]["spec"]["nodeName"]
    world.fail_node(node, "NodeShutdown")
    try:
        world.until("its pod runs elsewhere", lambda: _is_another(world, "digits-trainer-0", before))
        assert world.pods()["digits-trainer-0"]["spec"]["nodeName"] != node
        assert set(_counts(world)) == {"node"}
    finally:
        world.recover_node(node)


def a_flapping_node_keeps_its_pods(world: Driver) -> None:
    """Each time for ten seconds, which is less than its grace."""
    before = _two_trainers(world)
    _all_nodes(world, "Flapping")
    try:
        world.stays("nobody is replaced", lambda: world.uids() == before, for_seconds=45)
    finally:
        _all_nodes(world, "")
    _running(world)
    assert _counts(world) == {}


@contextmanager
def _deletable_while_clocks_are_behind(world: Driver) -> Iterator[dict[str, str]]:
    """A trainer that exits with 0 when it is told to go."""
    _all_nodes(world, "ClockSkew=-2")
    try:
        world.apply(job({"trainer": role(1, annotations=play(terminate_exit_code=0), restartPolicy="OnFailure")}))
        _running(world)
        yield world.uids()
    finally:
        _all_nodes(world, "")


def a_clock_that_is_behind_makes_no_success(world: Driver) -> None:
    """Whoever is deleted and ends with 0 at once has not done its work; `finishedAt` is earlier than the deletion."""
    with _deletable_while_clocks_are_behind(world) as before:
        world.delete_pod("digits-trainer-0")
        world.until("it is another pod", lambda: _is_another(world, "digits-trainer-0", before))
        assert _counts(world) == {"user": 1}


def a_deletion_that_is_confirmed_late_makes_no_success(world: Driver) -> None:
    """When the kubelet confirms a deletion, the API server sets the grace period to 0 and deletionTimestamp to now:
    what ended in between looks as if it had ended before. A finalizer makes the moment last."""
    with _deletable_while_clocks_are_behind(world) as before:
        world.hold_pod("digits-trainer-0")
        world.delete_pod("digits-trainer-0")
        world.until("its kubelet confirms the deletion", lambda: _grace_seconds(world, "digits-trainer-0") == 0)
        world.until("it is counted", lambda: _counts(world) == {"user": 1})
        world.stays("it is no success", lambda: world.phase() == "Restarting", for_seconds=3)
        world.hold_pod("digits-trainer-0", held=False)
        world.until("it is another pod", lambda: _is_another(world, "digits-trainer-0", before))
        assert _counts(world) == {"user": 1}


def _grace_seconds(world: Driver, name: str) -> int | None:
    granted: int | None = world.pods()[name]["metadata"].get("deletionGracePeriodSeconds")
    return granted


KUBELET_SCENARIOS: Mapping[str, Scenario] = {
    **{
        f"a pod that is turned away ({reason}) rests and is made again, under every policy": _turned_away(reason)
        for reason in ("UnexpectedAdmissionError", "TopologyAffinityError", "OutOfcpu")
    },
    "an eviction for the program's own limits is the program's failure": evicted_for_its_own_limits,
    "an eviction for the node's sake uses up no limit": evicted_for_the_nodes_sake,
    "containers that are lost with their node are its failure": containers_lost_with_their_node,
    "a command that cannot be started is not retried": a_command_that_cannot_be_started,
    "a NoExecute taint on a healthy node moves its pods, and fails nobody": maintenance_of_a_healthy_node,
    "a node that shuts down in order moves its pods, and fails nobody": a_node_shuts_down_in_order,
    "a node that flaps keeps its pods": a_flapping_node_keeps_its_pods,
    "a pod that is deleted on a node whose clock is behind is no success": a_clock_that_is_behind_makes_no_success,
    "a deletion that its kubelet confirms while a finalizer holds the pod is no success": (
        a_deletion_that_is_confirmed_late_makes_no_success
    ),
}
