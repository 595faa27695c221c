"""What is written of pods when something happens to their node: docs/internals/kubelet.md, on a second node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.cluster import SECOND, Cluster, Json, disruption, state


@pytest.fixture(autouse=True)
def second(cluster: Cluster) -> Iterator[None]:
    """The second node is Ready before and after each test, and has no pod of it."""
    yield
    node = cluster.second
    cluster.kubectl("delete", "pods", "--all", "--force", "--grace-period=0", "--wait=false")
    cluster.until("the second node is Ready", node.is_ready)


def start(cluster: Cluster, name: str, *arguments: str, spec: Json | None = None, **container: Any) -> None:
    node = cluster.second.name
    cluster.run(name, *(arguments or ("pause",)), spec={"nodeName": node, **(spec or {})}, **container)
    cluster.until(f"{name} runs", lambda: cluster.status(name)["phase"] == "Running")


def seen(cluster: Cluster, name: str) -> tuple[str, str, str]:
    """Phase, reason, and why the pod is disrupted."""
    status = cluster.status(name)
    return status["phase"], status.get("reason", ""), disruption(status)


def test_after_a_power_cut_the_end_of_a_container_is_unknown(cluster: Cluster) -> None:
    start(cluster, "cut")
    cluster.second.cut_power()
    cluster.second.power_on()
    cluster.until("the pod has ended", lambda: cluster.status("cut")["phase"] == "Failed")
    assert state(cluster.status("cut")) == ("terminated", "Unknown", 255)
    assert seen(cluster, "cut") == ("Failed", "", "")


def test_a_critical_pod_takes_the_place_of_another(cluster: Cluster) -> None:
    most = {"resources": {"requests": {"cpu": str(int(cluster.node(SECOND)["status"]["capacity"]["cpu"]) - 0.5)}}}
    start(cluster, "ousted", "stubborn", **most)
    critical = {"nodeName": SECOND, "priorityClassName": "system-node-critical"}
    cluster.run("critical", "pause", spec=critical, **most)
    cluster.until("it makes room", lambda: cluster.status("ousted")["phase"] == "Failed")
    assert seen(cluster, "ousted") == ("Failed", "Preempting", "TerminationByKubelet")
