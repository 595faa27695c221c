"""The files of a local stack: one state folder, and every name in it. Touches no disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from tjworker.cli.cluster import STACK_SETTINGS


@dataclass(frozen=True, slots=True)
class StatePaths:
    root: Path
    """Absolute: it also identifies the stack (see `processes.MARKER`)."""

    @property
    def gitignore(self) -> Path:
        """Ignores the whole folder: credentials and logs belong in no repository."""
        return self.root / ".gitignore"

    @property
    def kubeconfig(self) -> Path:
        return self.root / "kubeconfig"

    @property
    def environment(self) -> Path:
        """The operator's settings (`TJ_NAME=value`, as a shell reads them), Redis' password among them."""
        return self.root / STACK_SETTINGS

    @property
    def lock(self) -> Path:
        """Locked (flock) for as long as a `tj up` owns this folder."""
        return self.root / "lock"

    @property
    def pids(self) -> Path:
        """Service -> pid, for people."""
        return self.root / "stack.json"

    @property
    def scrape_targets(self) -> Path:
        """The address of each process' metrics, as Prometheus' `file_sd_configs` reads it."""
        return self.root / "metrics.json"

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
    def reports_tls(self) -> Path:
        """`tls.crt`, `tls.key` and `ca.crt` of the report server: links to those of the cluster, which name this
        machine."""
        return self.root / "data" / "reports"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    def log(self, service: str) -> Path:
        return self.logs / f"{service}.log"


DEMO = "examples/digits/job.yaml"
_PACKAGE = Path(__file__).resolve().parent
_PACKED = _PACKAGE / "project"
"""What the wheel holds of a checkout (`setup.py`). A checkout has no such folder."""


def project_root() -> Path:
    """The folder with `k8s/` and `examples/`: the checkout, or the part of it in the wheel."""
    return _PACKED if _PACKED.is_dir() else _PACKAGE.parents[2]


@dataclass(frozen=True, slots=True)
class Words:
    """How messages name what differs between a checkout, whose commands run in its folder, and a wheel."""

    up: str
    demo_manifest: str


def words(root: Path) -> Words:
    """`root`: see `project_root`."""
    return Words("tj up", quote(str(root / DEMO))) if root == _PACKED else Words("make up", DEMO)
