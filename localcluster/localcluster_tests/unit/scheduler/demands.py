"""Nodes and demands of pods, as the scheduler knows them, for tests of its pure parts."""

from __future__ import annotations

from typing import Any

from localcluster.scheduler.nodeinfo import Demand, NodeInfo, demand_of
from localcluster.wire import Json


def node(name: str = "n", *, taints: list[Json] | None = None, **spec: Any) -> NodeInfo:
    made = NodeInfo(name)
    allocatable = spec.pop("allocatable", {"cpu": "4", "memory": "8Mi", "nvidia.com/gpu": "2", "pods": "3"})
    labels = spec.pop("labels", {})
    made.set_node(
        {
            "metadata": {"name": name, "labels": labels},
            "spec": {"taints": taints or [], **spec},
            "status": {"allocatable": allocatable, "capacity": {"cpu": "999", "memory": "999Gi", "pods": "999"}},
        }
    )
    return made


def demand(name: str = "p", priority: int = 0, **spec: Any) -> Demand:
    meta = {"namespace": "d", "name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"}
    return demand_of({"metadata": meta, "spec": {"containers": [{"name": "c"}], **spec}}, priority)


def asking(
    name: str = "p",
    priority: int = 0,
    ports: list[Json] | None = None,
    wants: dict[str, str] | None = None,
    **requests: str,
) -> Demand:
    requests |= wants or {}
    gpus = {"nvidia.com/gpu": requests.pop("gpu")} if "gpu" in requests else {}
    containers = [{"name": "c", "ports": ports or [], "resources": {"requests": {**requests, **gpus}}}]
    return demand(name, priority, containers=containers)


def put(info: NodeInfo, demand: Demand, started: str = "2026-01-01T00:00:00Z") -> Json:
    pod = {"metadata": {"name": demand.key, "uid": demand.uid}, "spec": {}, "status": {"startTime": started}}
    info.add(demand, pod)
    return pod


def affinity(*terms: Json, preferred: list[Json] | None = None) -> Json:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}} if terms else {}
    preference = {"preferredDuringSchedulingIgnoredDuringExecution": preferred} if preferred else {}
    return {"nodeAffinity": {**required, **preference}}


def expression(operator: str, values: tuple[str, ...] = (), key: str = "zone") -> Json:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}
