"""`kubectl describe` alone says why a job is pending, why it failed, and who restarted it and when: three jobs on the
real control plane. `-s` shows what it prints, and how long a lost node took."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from tests.e2e.control_plane.install import kubectl
from tests.e2e.control_plane.world import RealWorld
from tests.scenarios.world import job, play, role
from tjworker.settings import Settings

ONE_A_NODE = {"name": "one-a-node", "containerPort": 7164, "hostPort": 7164}


def one_a_node(roles: dict[str, Any]) -> dict[str, Any]:
    for one in roles.values():
        one["template"]["spec"]["containers"][0]["ports"] = [ONE_A_NODE]
    return roles


def described(world: RealWorld, name: str) -> str:
    """Without the spec, which the user knows."""
    found = kubectl(world.operator.plane.kubeconfig, "-n", world.namespace, "describe", "aitj", name)
    text = re.sub(r"(?ms)^Spec:\n.*?^(?=Status:)", "", found)
    print(f"\n$ kubectl describe aitj {name}   (without Spec)\n{text}")  # noqa: T201  -s shows it
    return text


def has(world: RealWorld, event: str) -> Callable[[], bool]:
    """The event comes after the status, from a thread of its own."""
    return lambda: event in world.events()


def _seconds(since: str, until: str) -> float:
    begin, end = (datetime.fromisoformat(t.replace("Z", "+00:00")) for t in (since, until))
    return (end - begin).total_seconds()


def test_a_job_that_lost_a_node(world: RealWorld) -> None:
    world.apply(
        job(one_a_node({"trainer": role(2, annotations=play(), restartPolicy="OnNodeFail", restartScope="Pod")}))
    )
    world.until("it runs", lambda: world.phase() == "Running")
    before, node = world.uids(), world.pods()["digits-trainer-0"]["spec"]["nodeName"]
    begun = datetime.now(UTC).isoformat()
    world.fail_node(node)
    try:
        world.until(
            "its pod is another one, and runs",
            within_seconds=300,
            condition=lambda: (
                world.uids().get("digits-trainer-0", before["digits-trainer-0"]) != before["digits-trainer-0"]
                and world.phase() == "Running"
            ),
        )
        world.until("told of", has(world, "Restarting"))
        text = described(world, "digits")
        silent = world.node_condition(node, "Ready")["lastTransitionTime"]
    finally:
        world.recover_node(node)
    pod = world.pods()["digits-trainer-0"]
    runs = next(c for c in pod["status"]["conditions"] if c["type"] == "Ready")["lastTransitionTime"]
    made = pod["metadata"]["creationTimestamp"]
    print(  # noqa: T201  -s shows it
        f"the agent is told at 0 s, the node is not Ready at {_seconds(begun, silent):.0f} s, the replacement is made"
        f" at {_seconds(begun, made):.0f} s and Ready at {_seconds(begun, runs):.0f} s"
    )
    grace = Settings().node_failure_grace_seconds
    assert _seconds(silent, made) >= grace - 1, "not before the grace; both times are whole seconds"
    assert re.search(rf"(?m)^\s+Message:.*\b{node}\b", text), "which node"
    assert re.search(r"(?m)^\s+Reason:\s+Node", text)
    assert re.search(r"(?m)^\s+Node:\s+1$", text), "restarts by cause"
    assert re.search(r"(?m)^\s+Warning\s+Restarting\s", text), "when, and by whom"
    assert world.uids()["digits-trainer-1"] == before["digits-trainer-1"]


def test_a_job_that_hit_its_limit(world: RealWorld) -> None:
    crashing = play(run_seconds=1, exit_code=7)
    world.apply(job({"trainer": role(1, annotations=crashing, restartPolicy="OnFailure", restartLimit=2)}))
    world.until("it fails", lambda: world.phase() == "Failed")
    world.until("told of", has(world, "Failed"))
    text = described(world, "digits")
    assert re.search(r"(?m)^\s+Message:.*exited with code 7.*restartLimit", text)
    assert re.search(r"(?m)^\s+Application:\s+2$", text)
    assert len(re.findall(r"(?m)^\s+Exit Code:\s+7$", text)) == 3
    assert re.search(r"(?m)^\s+Warning\s+Failed\s", text)


def test_a_job_that_is_pending(world: RealWorld) -> None:
    roles = {"trainer": role(1)}
    roles["trainer"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1000"}}
    world.apply(job(roles))
    world.until("the scheduler has spoken", lambda: world.condition("Running").get("reason") == "Unschedulable")
    world.until("told of", has(world, "Unschedulable"))
    text = described(world, "digits")
    assert re.search(r"(?m)^\s+Phase:\s+Pending$", text)
    assert "pod digits-trainer-0 has no node: 0/3 nodes are available: 3 Insufficient cpu" in text
    assert re.search(r"(?m)^\s+Warning\s+Unschedulable\s", text)
