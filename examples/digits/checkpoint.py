"""A checkpoint is one file, written beside its place and renamed into it: there is always a whole one or none.

Holds the queue's snapshot and what each parameter server exported. Never pickles. Safe to run twice; for one writer.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from examples.digits.model import Parameters

FILE = "checkpoint.npz"


class BadCheckpoint(Exception):
    """There is a file, but no checkpoint of this training in it."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    queue: Mapping[str, Any]
    versions: tuple[int, ...]
    """Updates applied, for each parameter server."""
    exports: tuple[Parameters, ...]


def save(directory: Path, checkpoint: Checkpoint) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    about = {"queue": dict(checkpoint.queue), "versions": checkpoint.versions, "format": 1}
    arrays = {f"{i}/{name}": array for i, export in enumerate(checkpoint.exports) for name, array in export.items()}
    beside = directory / (FILE + ".new")
    with beside.open("wb") as file:
        np.savez(file, about=np.frombuffer(json.dumps(about).encode(), np.uint8), **arrays)  # type: ignore[arg-type]
        file.flush()
        os.fsync(file.fileno())
    beside.replace(directory / FILE)


def load(directory: Path) -> Checkpoint | None:
    """The checkpoint in `directory`, None when there is none. Raises BadCheckpoint."""
    path = directory / FILE
    if not path.exists():
        return None
    try:
        with np.load(path, allow_pickle=False) as file:
            about = json.loads(file["about"].tobytes())
            exports: tuple[Parameters, ...] = tuple({} for _ in about["versions"])
            for key in file.files:
                server, slash, name = key.partition("/")
                if slash:
                    exports[int(server)][name] = file[key]
            return Checkpoint(about["queue"], tuple(about["versions"]), exports)
    except (ValueError, KeyError, TypeError, IndexError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise BadCheckpoint(
            f"{path} is not a checkpoint of this training ({error}): move it away to start afresh."
        ) from None
