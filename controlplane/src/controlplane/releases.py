"""What is built: the pinned versions and the programs. The pins themselves are the go.mod and go.sum files below `go/`;
here is only which of them exist, and the key under which their programs are cached. Reads files; changes nothing.
"""

from __future__ import annotations

import hashlib
import platform
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

MODULES = Path(__file__).resolve().parent / "go"
DEFAULT = "1.36.3"
SUPPORTED = ("1.36.3", "1.34.3")
RECIPE = "2"
"""Raised when the way of building changes: part of the cache key, as the pins are."""


@dataclass(frozen=True, slots=True)
class Program:
    name: str
    package: str
    own_module: str = ""
    """The folder below `go/` that pins it, when that is not the release's own."""


PROGRAMS = (
    Program("etcd", "go.etcd.io/etcd/server/v3"),
    Program("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
    Program("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    Program("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"),
    Program("kwok", "sigs.k8s.io/kwok/cmd/kwok", own_module="kwok"),
)
NAMES = tuple(program.name for program in PROGRAMS)
KUBELET = Program("kubelet", "k8s.io/kubernetes/cmd/kubelet", own_module="kubelet")
KUBE_PROXY = Program("kube-proxy", "k8s.io/kubernetes/cmd/kube-proxy", own_module="kubelet")
"""Both of the default release. Only the tests of a real node need them, so they have a module and a place in the cache
of their own."""
HELM = Program("helm", "helm.sh/helm/v3/cmd/helm", own_module="helm")
"""Only the tests of the chart need it."""
NEEDED = tuple(name for name in NAMES if name != "kwok")
"""Without which no control plane runs. KWOK only plays nodes, as other kubelets can."""


@dataclass(frozen=True)
class Release:
    version: str
    programs: tuple[Program, ...] = PROGRAMS

    @cached_property
    def go(self) -> tuple[int, int]:
        """The oldest Go that builds every program: the newest `go` line of the modules."""
        return max(_go_line(folder) for folder in self.folders)

    @property
    def folders(self) -> tuple[Path, ...]:
        return tuple(sorted({self.folder(program) for program in self.programs}))

    def folder(self, program: Program) -> Path:
        return MODULES / (program.own_module or self.version)

    def linker_flags(self, program: Program) -> str:
        """Stripped; and the version that the program says it is, without which it calls itself v0.0.0."""
        flags = ["-s", "-w"]
        if program.package.startswith("k8s.io/kubernetes/"):
            major, minor, _ = self.version.split(".")
            where = "k8s.io/component-base/version"
            flags += [
                f"-X {where}.gitVersion=v{self.version}",
                f"-X {where}.gitMajor={major}",
                f"-X {where}.gitMinor={minor}",
            ]
        return " ".join(flags)

    @cached_property
    def cache_key(self) -> str:
        """Hashes the pins, the recipe and the kind of machine, so the content of a cached folder never changes."""
        digest = hashlib.sha256(f"{RECIPE} {platform.system()} {platform.machine()}".encode())
        for folder in self.folders:
            for name in ("go.mod", "go.sum"):
                digest.update((folder / name).read_bytes())
        prefix = "" if self.programs == PROGRAMS else f"{'-'.join(p.name for p in self.programs)}-"
        return f"{prefix}{self.version}-{digest.hexdigest()[:12]}"


def kubelet() -> Release:
    """The kubelet that fits the default control plane, and kube-proxy."""
    return Release(DEFAULT, (KUBELET, KUBE_PROXY))


def helm() -> Release:
    """helm, pinned with the default control plane."""
    return Release(DEFAULT, (HELM,))


def release(version: str = "") -> Release:
    """The release of `1.36` or `1.36.3`; '' is the default one. Raises ValueError that lists what there is."""
    wanted = version.removeprefix("v") or DEFAULT
    for known in SUPPORTED:
        if wanted in (known, known.rpartition(".")[0]):
            return Release(known)
    raise ValueError(f"Kubernetes {version} is not one of {', '.join(SUPPORTED)}; each has its pins in {MODULES}")


def _go_line(folder: Path) -> tuple[int, int]:
    found = re.search(r"^go (\d+)\.(\d+)", (folder / "go.mod").read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise ValueError(f"{folder / 'go.mod'} has no line `go 1.x`")
    return int(found[1]), int(found[2])
