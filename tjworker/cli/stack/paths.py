"""Where a local stack keeps its things: one state folder, every name in it decided here. Touches no disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

DEFAULT_STATE_DIR = ".tj"


@dataclass(frozen=True, slots=True)
class StatePaths:
    """`root` is absolute: it also identifies the stack (see `processes.MARKER`)."""

    root: Path

    @property
    def kubeconfig(self) -> Path:
        return self.root / "kubeconfig"

    @property
    def environment(self) -> Path:
        """The settings (`TJ_NAME=value`, as a shell reads them) of the operator's processes, Redis' password among them."""
        return self.root / "env"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def redis_data(self) -> Path:
        return self.root / "data" / "redis"

    @property
    def redis_config(self) -> Path:
        return self.root / "data" / "redis.conf"

    @property
    def cluster_data(self) -> Path:
        return self.root / "data" / "cluster"

    @property
    def control_plane_data(self) -> Path:
        return self.root / "data" / "control-plane"

    @property
    def lock(self) -> Path:
        """Locked (flock) for as long as a `tj up` owns this folder."""
        return self.root / "lock"

    @property
    def roster(self) -> Path:
        """Which processes the stack runs, with their start times."""
        return self.root / "stack.json"

    def log(self, service: str) -> Path:
        return self.logs / f"{service}.log"


def project_root() -> Path:
    """The folder that holds `tjworker/`, `k8s/` and `examples/`."""
    return Path(__file__).resolve().parents[3]
