"""The common part of the MPIJobs of Kubeflow and KubeDL. `mpipods` makes their pods. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from tjworker.api.kinds.guests.kind import Specs
from tjworker.api.kinds.guests.mpipods import LAUNCHER, WORKER
from tjworker.api.model import FieldError

ROLES = (LAUNCHER, WORKER)
MAX_SLOTS = 1024


def worker_errors(specs: Specs, main_container: str | None, *, default: int, or_else: str = "") -> Iterator[FieldError]:
    """Check the role of the workers. `default`: its number of replicas if the user sets none. `or_else`: for messages,
    an alternative to workers."""
    path, worker = f"spec.mpiReplicaSpecs.{WORKER}", specs.get(WORKER)
    if worker is None:
        yield FieldError(path, f"required value: the launcher starts its processes in workers; add them{or_else}")
        return
    # The kinds differ in what a role without a number means.
    count = default if worker.replicas is None else worker.replicas
    if count < 1:
        yield FieldError(f"{path}.replicas", f"{count}: must be at least 1")
    names = [container.name for container in worker.template.spec.containers]
    if main_container and main_container not in names:
        yield FieldError(
            "spec.mainContainer", f"{main_container!r} is no container of a worker: use {' or '.join(names)}"
        )
