"""Files of a framework in its pods, such as MPI's hostfile. Pure.

A file is an annotation of the pod, shown by a downwardAPI volume. So no further object has to be created, updated and
deleted. All files of a pod are in one folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from tjworker.reconcile.volumes import add_mount

VOLUME = "framework-files"
PREFIX = "files.elasticdeeplearning.ai/"
EXECUTABLE = 0o555


def file_annotations(files: Mapping[str, str]) -> dict[str, str]:
    return {PREFIX + PurePosixPath(path).name: text for path, text in files.items()}


def add_files(spec: dict[str, Any], files: Mapping[str, str]) -> None:
    """Add the files to the pod's own copy of its spec. A container that already has a mount there keeps it."""
    if not files:
        return
    folder = str(PurePosixPath(next(iter(files))).parent)
    items = [
        {
            "path": name.removeprefix(PREFIX),
            "fieldRef": {"fieldPath": f"metadata.annotations['{name}']"},
            **({"mode": EXECUTABLE} if name.endswith(".sh") else {}),
        }
        for name in file_annotations(files)
    ]
    spec["volumes"] = [*(spec.get("volumes") or ()), {"name": VOLUME, "downwardAPI": {"items": items}}]
    mount = {"name": VOLUME, "mountPath": folder, "readOnly": True}
    for kind in ("initContainers", "containers"):
        if spec.get(kind):
            spec[kind] = [add_mount(c, mount) for c in spec[kind]]
