"""Short words for tests of the local cluster: objects to apply, and what the world looks like afterwards."""

from __future__ import annotations

from typing import Any

from localcluster.client import ApiError
from localcluster.cluster import LocalCluster
from localcluster.wire import Json

PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
SETS = "/apis/apps/v1/namespaces/default/replicasets"


def fake(**annotations: object) -> dict[str, str]:
    """`fake(run_seconds=5)`: annotations of the fake kubelet."""
    return {f"fake.localcluster/{k.replace('_', '-')}": str(v) for k, v in annotations.items()}


def pod(
    name: str,
    *,
    cpu: str = "",
    gpus: int = 0,
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    restart: str = "Never",
    **spec: Any,
) -> Json:
    requests = {k: v for k, v in (("cpu", cpu), ("nvidia.com/gpu", str(gpus) if gpus else "")) if v}
    resources = (
        {"requests": requests, **({"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {})} if requests else {}
    )
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations or {}, "labels": labels or {}},
        "spec": {
            "restartPolicy": restart,
            "containers": [{"name": "main", "image": "none", "command": ["x"], "resources": resources}],
            **spec,
        },
    }


def template(
    annotations: dict[str, str] | None = None, labels: dict[str, str] | None = None, restart: str = "Never"
) -> Json:
    return {
        "metadata": {"labels": labels or {}, "annotations": annotations or {}},
        "spec": {"restartPolicy": restart, "containers": [{"name": "main", "image": "none"}]},
    }


def job(name: str, *, annotations: dict[str, str] | None = None, restart: str = "Never", **spec: Any) -> Json:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": template(annotations, restart=restart), **spec},
    }


def replica_set(name: str, replicas: int, *, annotations: dict[str, str] | None = None) -> Json:
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template(annotations, {"app": name}, "Always"),
        },
    }


def phases(cluster: LocalCluster) -> list[str]:
    """The phase of each pod of the default namespace, sorted; a `-` in front when it is being deleted."""
    return sorted(("-" if "deletionTimestamp" in p["metadata"] else "") + p["status"]["phase"] for p in pods(cluster))


def pods(cluster: LocalCluster) -> list[Json]:
    items: list[Json] = cluster.client.get(PODS)["items"]
    return items


def get(cluster: LocalCluster, path: str) -> Json | None:
    try:
        return cluster.client.get(path)
    except ApiError as error:
        if error.code == 404:
            return None
        raise


def conditions(obj: Json) -> dict[str, str]:
    """type -> status/reason"""
    return {c["type"]: f"{c['status']}/{c.get('reason', '')}" for c in obj["status"].get("conditions") or ()}


def events(cluster: LocalCluster, name: str) -> list[str]:
    items = cluster.client.get("/api/v1/namespaces/default/events")["items"]
    return [f"{e['reason']}: {e['message']}" for e in items if e["involvedObject"]["name"] == name]
