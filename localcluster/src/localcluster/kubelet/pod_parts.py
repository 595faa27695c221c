"""What all pods of a kubelet share, and small rules about one container. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from localcluster.kubelet.container_run import ContainerRun
from localcluster.kubelet.env import Lookup
from localcluster.kubelet.exits import Exits
from localcluster.kubelet.hosts import HostsFiles
from localcluster.kubelet.probes import Actions, Prober
from localcluster.kubelet.volumes import RequestToken
from localcluster.wire import Json

BACKOFF_NAME = {"CreateContainerConfigError": 5.0}
LOOPBACK = "127.0.0.1"
"""The address of pods on the host's network, and of all where addresses cannot be had."""
DEADLINE_MESSAGE = "Pod was active on the node longer than the specified deadline"


@dataclass(frozen=True, slots=True)
class Host:
    """What all pods of a kubelet share."""

    folder: Path
    isolation: str
    own_ports: bool
    """Each pod has ports of its own (`ports`)."""
    base_env: dict[str, str]
    working_dir: str
    log_bytes: int
    exits: Exits
    actions: Actions
    lookup: Lookup
    request_token: RequestToken
    hosts: HostsFiles
    resolver: str


def init_done(container: ContainerRun) -> bool:
    if container.sidecar:
        return container.started
    return container.ended and container.exit_code() == 0


def grace_seconds(pod: Json, prober: Prober | None) -> float:
    probe = prober.probes.get(prober.must_restart, {}) if prober is not None and prober.must_restart else {}
    return float(probe.get("terminationGracePeriodSeconds", pod["spec"].get("terminationGracePeriodSeconds", 30)))


def container_path(container: ContainerRun) -> str:
    return f"spec.{'initContainers' if container.init else 'containers'}{{{container.name}}}"


def go_duration(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole}s" if whole < 60 else f"{whole // 60}m{whole % 60}s"
