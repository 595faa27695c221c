"""A pod's phase and conditions, from what its containers do: every combination, in the words of Kubernetes.

https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/
https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/
"""

from __future__ import annotations

from itertools import combinations_with_replacement
from typing import Any

import pytest

from localcluster.kubelet.status import (
    compute_conditions,
    compute_phase,
    container_status,
    pod_status,
    terminated_state,
    waiting_state,
)
from localcluster.wire import Json

NOON = 1_767_268_800.0
STATES: dict[str, Json] = {
    "waits": {"state": waiting_state("ContainerCreating")},
    "runs": {"state": {"running": {}}},
    "succeeded": {"state": {"terminated": {"exitCode": 0}}},
    "failed": {"state": {"terminated": {"exitCode": 3}}},
    "waits after a success": {"state": waiting_state("CrashLoopBackOff"), "lastState": {"terminated": {"exitCode": 0}}},
    "waits after a failure": {"state": waiting_state("CrashLoopBackOff"), "lastState": {"terminated": {"exitCode": 3}}},
    "runs after a failure": {"state": {"running": {}}, "lastState": {"terminated": {"exitCode": 3}}},
}
POLICIES = ("Always", "OnFailure", "Never")


def documented(policy: str, states: tuple[str, ...]) -> str:
    """'Pending: [...] one or more of the containers has not been set up and made ready to run.'
    'Running: all of the containers have been created. At least one container is still running, or is in the process of
    starting or restarting.' 'Succeeded: all containers have terminated in success, and will not be restarted.'
    'Failed: all containers have terminated, and at least one container has terminated in failure.'"""
    if "waits" in states:
        return "Pending"
    good = all("success" in state or state == "succeeded" for state in states)
    if any(state.startswith("runs") for state in states) or policy == "Always":
        return "Running"
    if good:
        return "Succeeded"
    return "Failed" if policy == "Never" else "Running"


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_phase_of_a_pod(policy: str, count: int) -> None:
    for states in combinations_with_replacement(STATES, count):
        statuses = [{"name": f"c{number}", **STATES[state]} for number, state in enumerate(states)]
        assert compute_phase({"restartPolicy": policy}, statuses, []) == documented(policy, states), states


# -- conditions ------------------------------------------------------------------------------------
def pod(inits: list[Json] | None = None, **status: Any) -> Json:
    spec = {"containers": [{"name": "a"}, {"name": "b"}], "initContainers": inits or []}
    return {"metadata": {"name": "p", "generation": 4}, "spec": spec, "status": status}


def shown(new_phase: str, ready: str, inits: list[tuple[Json, Json]] | None = None) -> dict[str, tuple[str, str, str]]:
    statuses = [{"name": n, "ready": n in ready, "state": {"running": {}}} for n in "ab"]
    one = pod([spec for spec, _ in inits or []])
    found = compute_conditions(one, new_phase, statuses, [status for _, status in inits or []], NOON)
    assert {c["observedGeneration"] for c in found} == {4}
    return {c["type"]: (c["status"], c.get("reason", ""), c.get("message", "")) for c in found}


@pytest.mark.parametrize("new_phase", ["Pending", "Running", "Succeeded", "Failed"])
@pytest.mark.parametrize("ready", ["", "a", "b", "ab"])
def test_a_pod_is_ready_while_all_of_its_containers_are_and_it_has_not_ended(new_phase: str, ready: str) -> None:
    unready = " ".join(n for n in "ab" if n not in ready)
    want = {"Succeeded": ("False", "PodCompleted", ""), "Failed": ("False", "PodFailed", "")}.get(
        new_phase,
        ("False", "ContainersNotReady", f"containers with unready status: [{unready}]")
        if unready
        else ("True", "", ""),
    )
    found = shown(new_phase, ready)
    assert (found["Ready"], found["ContainersReady"]) == (want, want)
    assert found["PodScheduled"] == ("True", "", "")


INIT, SIDECAR = {"name": "i"}, {"name": "s", "restartPolicy": "Always"}
DONE = {"name": "i", "state": {"terminated": {"exitCode": 0}}}
INITS: dict[str, tuple[list[tuple[Json, Json]], str]] = {
    "one that runs": ([(INIT, {"name": "i", "state": {"running": {}}})], "i"),
    "one that failed": ([(INIT, {"name": "i", "state": {"terminated": {"exitCode": 1}}})], "i"),
    "one of which nothing is known": ([(INIT, {"name": "other"})], "i"),
    "one that succeeded": ([(INIT, DONE)], ""),
    "a sidecar that has not started": ([(SIDECAR, {"name": "s", "started": False, "ready": True})], "s"),
    "a sidecar that has": ([(SIDECAR, {"name": "s", "started": True, "ready": True})], ""),
    "both, and one is late": ([(INIT, DONE), (SIDECAR, {"name": "s", "started": False, "ready": True})], "s"),
}


@pytest.mark.parametrize("what", INITS)
def test_a_pod_is_initialized_by(what: str) -> None:
    inits, missing = INITS[what]
    message = f"containers with incomplete status: [{missing}]"
    want = ("False", "ContainersNotInitialized", message) if missing else ("True", "", "")
    assert shown("Pending", "ab", inits)["Initialized"] == want
    assert shown("Succeeded", "", inits)["Initialized"] == ("True", "PodCompleted", "")
    assert shown("Running", "ab", inits)["Initialized"] == ("True", "", "")


def test_what_others_wrote_into_a_status_is_kept_and_what_is_over_goes() -> None:
    target = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    old = pod(
        phase="Pending",
        reason="x",
        message="x",
        nominatedNodeName="n",
        startTime="2026-01-01T00:00:00Z",
        qosClass="Guaranteed",
        conditions=[target],
        resize="Deferred",
    )
    status = pod_status(old, "Running", [{"name": "a"}], [], NOON, host_ip="10.0.0.1", pod_ip="10.1.0.1")
    assert not {"reason", "message", "nominatedNodeName", "initContainerStatuses"} & set(status)
    assert target in status["conditions"]
    kept = {name: status[name] for name in ("phase", "startTime", "qosClass", "resize", "observedGeneration")}
    assert kept == {
        "phase": "Running",
        "startTime": "2026-01-01T00:00:00Z",
        "qosClass": "Guaranteed",
        "resize": "Deferred",
        "observedGeneration": 4,
    }
    assert (status["hostIPs"], status["podIPs"]) == ([{"ip": "10.0.0.1"}], [{"ip": "10.1.0.1"}])
    fresh = pod_status(pod(), "Pending", [], [{"name": "i"}], NOON, host_ip="10.0.0.1", pod_ip="")
    assert fresh["startTime"] == "2026-01-01T12:00:00Z"
    assert "podIP" not in fresh
    assert fresh["initContainerStatuses"] == [{"name": "i"}]


def test_what_is_said_of_a_container() -> None:
    found = container_status({"name": "c", "image": "x"}, {"running": {}}, ready=True, restarts=2, last={"exitCode": 1})
    assert (found["ready"], found["restartCount"], found["started"]) == (True, 2, True)
    assert found["lastState"] == {"terminated": {"exitCode": 1}}
    assert not container_status({"name": "c"}, waiting_state("x"), ready=False, restarts=0)["started"]
    for code, reason in ((0, "Completed"), (1, "Error"), (137, "Error")):
        end = terminated_state(code, NOON, NOON + 5)
        assert (end["exitCode"], end["reason"], end["startedAt"], end["finishedAt"]) == (
            *(code, reason),
            *("2026-01-01T12:00:00Z", "2026-01-01T12:00:05Z"),
        )
    assert terminated_state(137, NOON, NOON, reason="OOMKilled")["reason"] == "OOMKilled"
