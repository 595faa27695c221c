"""Locates the programs: in KUBEBUILDER_ASSETS when it is set (the convention of controller-runtime's envtest), else in
this package's cache. Reads only.

Archives made for that convention often hold etcd and kube-apiserver alone; the cache supplies the others.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from controlplane.errors import BuildError
from controlplane.releases import NAMES, NEEDED, Release

ASSETS = "KUBEBUILDER_ASSETS"
CACHE = "TJ_CACHE_DIR"


def cache_root(environment: Mapping[str, str] = os.environ) -> Path:
    given = environment.get(CACHE, "")
    base = Path(given).expanduser() if given else Path(__file__).resolve().parents[3] / ".cache"
    return base.resolve() / "control-plane"


def cached_folder(release: Release, environment: Mapping[str, str] = os.environ) -> Path:
    """The folder of the built programs; it exists only when all of them are in it."""
    return cache_root(environment) / release.cache_key / "bin"


def locate(release: Release, environment: Mapping[str, str] = os.environ) -> dict[str, Path]:
    """Maps the programs that are present to their files. Raises BuildError when KUBEBUILDER_ASSETS names no folder."""
    found: dict[str, Path] = {}
    assets = environment.get(ASSETS, "")
    if assets and not Path(assets).is_dir():
        raise BuildError(f"{ASSETS}={assets} is no folder: correct it, or unset it and run `make control-plane`")
    for folder in [*([Path(assets)] if assets else []), cached_folder(release, environment)]:
        for name in NAMES:
            if name not in found and os.access(folder / name, os.X_OK):
                found[name] = folder / name
    return found


def missing(release: Release, environment: Mapping[str, str] = os.environ) -> list[str]:
    """Lists the required programs that are absent."""
    found = locate(release, environment)
    return [name for name in NEEDED if name not in found]


def explain_missing(release: Release, lacking: list[str]) -> str:
    """Makes the message for a user whose machine lacks programs."""
    return (
        f"{', '.join(lacking)} of Kubernetes {release.version} not found: run `make control-plane`, which builds them "
        f"once, or set {ASSETS} to a folder that has them"
    )
