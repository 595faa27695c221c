"""What a real kubelet, containerd and runc write of pods that end in each way: docs/internals/kubelet.md, observed.

`-s` prints each row as it was seen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.cluster.cluster import NAME, Cluster, Json, disruption, state


@dataclass(frozen=True, slots=True)
class Fact:
    arguments: tuple[str, ...] = ("pause",)
    container: Json = field(default_factory=dict)
    spec: Json = field(default_factory=dict)
    want_phase: str = "Failed"
    want_reason: str = ""
    """Of the pod."""
    want_state: tuple[str, str, int] = ("", "", 0)
    or_state: tuple[str, str, int] | None = None
    """Which of the two it is, is a race within the kubelet."""
    want_message: str = ""
    """The beginning of the pod's message."""


def limits(**figures: str) -> Json:
    return {"resources": {"limits": figures}}


def on_the_node(**more: Any) -> Json:
    """Past the scheduler, which would leave such a pod pending."""
    return {"nodeName": NAME, **more}


NOT_SEEN = ("terminated", "ContainerStatusUnknown", 137)
SCRATCH: Json = {"volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}], "securityContext": {"runAsUser": 0}}
FACTS = {
    "a program that exits with a code": Fact(("exit", "3"), want_state=("terminated", "Error", 3)),
    "a program that ends well": Fact(("exit", "0"), want_phase="Succeeded", want_state=("terminated", "Completed", 0)),
    "a program above its memory limit": Fact(
        ("memory", "100"), limits(memory="32Mi"), want_state=("terminated", "OOMKilled", 137)
    ),
    "a command that is not there": Fact(
        container={"command": ["/nowhere"]}, want_state=("terminated", "StartError", 128)
    ),
    "an image that no registry has": Fact(
        container={"image": "127.0.0.1:1/nowhere:1"},
        want_phase="Pending",
        want_state=("waiting", "ImagePullBackOff", 0),
    ),
    "an image that is not here and may not be pulled": Fact(
        container={"image": "localhost/nowhere:1", "imagePullPolicy": "Never"},
        want_phase="Pending",
        want_state=("waiting", "ErrImageNeverPull", 0),
    ),
    "a pod that asks for more CPU than the node has": Fact(
        container=limits(cpu="500"), spec=on_the_node(), want_reason="OutOfcpu", want_message="Pod was rejected: "
    ),
    "a pod whose node has not its label": Fact(
        spec=on_the_node(nodeSelector={"no": "such-label"}),
        want_reason="NodeAffinity",
        want_message="Pod was rejected: ",
    ),
    "a pod that asks for more memory than the node has": Fact(
        container=limits(memory="900Gi"),
        spec=on_the_node(),
        want_reason="OutOfmemory",
        want_message="Pod was rejected: ",
    ),
    "a pod that asks for GPUs where no device plugin is": Fact(
        container=limits(**{"nvidia.com/gpu": "1"}),
        spec=on_the_node(),
        want_phase="Running",
        want_state=("running", "", 0),
    ),
    "a pod with a sysctl that the node does not allow": Fact(
        spec=on_the_node(securityContext={"sysctls": [{"name": "kernel.msgmax", "value": "65536"}]}),
        want_reason="SysctlForbidden",
        want_message="Pod was rejected: ",
    ),
    "a variable of a ConfigMap that is not there": Fact(
        container={"envFrom": [{"configMapRef": {"name": "nowhere"}}]},
        want_phase="Pending",
        want_state=("waiting", "CreateContainerConfigError", 0),
    ),
    "an emptyDir above its size limit": Fact(
        ("write", "/scratch/file", "30", "2"),
        SCRATCH,
        {"volumes": [{"name": "scratch", "emptyDir": {"sizeLimit": "10Mi"}}]},
        want_reason="Evicted",
        want_state=("terminated", "Error", 2),
        or_state=NOT_SEEN,
        want_message="Usage of EmptyDir volume",
    ),
    "a container above its ephemeral storage": Fact(
        ("write", "/file", "30", "2"),
        {"securityContext": {"runAsUser": 0}, **limits(**{"ephemeral-storage": "10Mi"})},
        want_reason="Evicted",
        want_state=("terminated", "Error", 2),
        or_state=NOT_SEEN,
        want_message="Pod ephemeral local storage usage exceeds the total limit of containers",
    ),
}


@pytest.fixture(scope="module")
def pods(cluster: Cluster) -> dict[str, str]:
    """All of them at once: what takes long is the eviction manager's pause."""
    names = {title: f"fact-{at}" for at, title in enumerate(FACTS)}
    for title, fact in FACTS.items():
        cluster.run(names[title], *fact.arguments, spec=fact.spec, **fact.container)
    return names


@pytest.mark.parametrize("title", FACTS)
def test_what_the_kubelet_writes_of(title: str, cluster: Cluster, pods: dict[str, str]) -> None:
    fact, status = FACTS[title], dict[str, Any]()

    def has_come() -> bool:
        # Kept from this one look: reasons of waiting alternate, as ErrImagePull and ImagePullBackOff do.
        status.clear()
        status.update(cluster.status(pods[title]))
        return (status["phase"], state(status)) in ((fact.want_phase, s) for s in (fact.want_state, fact.or_state))

    cluster.until(title, has_come)
    seen = status["phase"], status.get("reason", ""), state(status)
    print(f"\n{title}: {seen}, {status.get('message', '')}")  # noqa: T201  -s shows it
    assert seen[:2] == (fact.want_phase, fact.want_reason)
    assert disruption(status) == ""
    assert str(status.get("message", "")).startswith(fact.want_message), status.get("message")
