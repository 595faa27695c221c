"""Mounts that the operator adds to the containers of a template. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from tjworker.base import Json


def add_mount(container: Json, mount: Json) -> Json:
    """The container with this mount. A container that already has a mount at that path keeps it."""
    own = list(container.get("volumeMounts") or ())
    taken = any(isinstance(m, Mapping) and str(m.get("mountPath", "")).rstrip("/") == mount["mountPath"] for m in own)
    return {**container, "volumeMounts": own if taken else [*own, dict(mount)]}


def path_inside(path: str, folder: str) -> bool:
    """True if the path is the folder or inside it."""
    return bool(folder) and (path.rstrip("/") + "/").startswith(folder.rstrip("/") + "/")
