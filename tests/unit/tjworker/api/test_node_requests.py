"""What a pod takes of its node, as the scheduler counts it (k8s.io/component-helpers/resource, PodRequests)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from tjworker.api.node_requests import NodeRequests, decode_node_requests, encode_node_requests, pod_requests
from tjworker.base import Terminal

Json = dict[str, Any]
GPU = "nvidia.com/gpu"


def c(cpu: str = "", memory: str = "", *, name: str = "c", limits: Json | None = None, **more: Any) -> Json:
    requests = {k: v for k, v in (("cpu", cpu), ("memory", memory)) if v}
    return {"name": name, "resources": {"requests": requests, **({"limits": limits} if limits else {})}, **more}


def sidecar(cpu: str, memory: str = "", **more: Any) -> Json:
    return c(cpu, memory, restartPolicy="Always", **more)


@dataclass(frozen=True)
class Case:
    spec: Json
    want: NodeRequests
    status: Json = field(default_factory=dict)


def load(cpu: int = 0, memory: int = 0, cpu_limit: int = 0, memory_limit: int = 0, **extended: int) -> NodeRequests:
    return NodeRequests(cpu, memory, cpu_limit, memory_limit, 1, tuple(sorted((GPU, n) for n in extended.values())))


CASES = {
    "no requests": Case({"containers": [{"name": "c"}]}, load()),
    "containers run side by side": Case({"containers": [c("1", "100M"), c("500m", "1k")]}, load(1500, 100_001_000)),
    "init containers run before them, so the greatest counts": Case(
        {"containers": [c("1", "50")], "initContainers": [c("3"), c("2", "90")]}, load(3000, 90)
    ),
    "an init container below the sum changes nothing": Case(
        {"containers": [c("1"), c("1")], "initContainers": [c("1500m")]}, load(2000)
    ),
    "a sidecar runs beside the containers": Case(
        {"containers": [c("1", "10")], "initContainers": [sidecar("500m", "5")]}, load(1500, 15)
    ),
    "an init container runs beside the sidecars before it": Case(
        {"containers": [c("1")], "initContainers": [sidecar("1"), c("4")]}, load(5000)
    ),
    "an init container does not run beside the sidecars after it": Case(
        {"containers": [c("1")], "initContainers": [c("4"), sidecar("1")]}, load(4000)
    ),
    "sidecars add up": Case({"containers": [c("1")], "initContainers": [sidecar("1"), sidecar("2")]}, load(4000)),
    "overhead comes on top": Case(
        {"containers": [c("1", "10")], "overhead": {"cpu": "250m", "memory": "5"}}, load(1250, 15)
    ),
    "what the pod asks for as a whole stands in for its containers": Case(
        {"containers": [c("1", "10")], "resources": {"requests": {"cpu": "4"}}, "overhead": {"cpu": "1"}},
        load(5000, 10),
    ),
    "a limit of the whole pod is its request when there is none": Case(
        {"containers": [c("1")], "resources": {"limits": {"cpu": "4", "memory": "7"}}}, load(4000, 7, 4000, 7)
    ),
    "extended resources": Case(
        {
            "containers": [c("1", limits={GPU: "2"}), c(limits={GPU: 1, "hugepages-2Mi": "4Mi"})],
            "initContainers": [c(limits={GPU: "2"})],
        },
        load(1000, gpus=3),
    ),
    "limits add up as requests do": Case(
        {"containers": [c("1", limits={"cpu": "2"})], "initContainers": [sidecar("1", limits={"cpu": "3"})]},
        load(2000, 0, 5000),
    ),
    "a pod that grows in place: what it asks for": Case(
        {"containers": [c("2")]},
        load(2000),
        {"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
    ),
}


@pytest.mark.parametrize("sentence", CASES)
def test_a_pod(sentence: str) -> None:
    case = CASES[sentence]
    assert pod_requests(case.spec, case.status) == case.want


def test_node_requests_are_read_as_they_were_written() -> None:
    requests = NodeRequests(1, 2, 3, 4, 5, (("a/gpu", 1), ("b/gpu", 2)))
    assert decode_node_requests(encode_node_requests(requests)) == requests
    assert decode_node_requests(b"[1,2,3,4,5,{},6,{}]") == NodeRequests(1, 2, 3, 4, 5), "a later version appends"
    for garbage in (b"", b"{}", b"[1,2]", b'[1,2,3,4,"x",{}]', b"[1,2,3,4,5,6]"):
        with pytest.raises(Terminal, match="requests cannot be read"):
            decode_node_requests(garbage)
