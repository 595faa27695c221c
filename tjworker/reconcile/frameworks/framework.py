"""What a framework decides: KubeDL's ControllerInterface, cut down to that. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from tjworker.api.model import Role, TrainingJob
from tjworker.api.naming import Port


class Framework(Protocol):
    @property
    def default_container(self) -> str:
        """Name of the container that gets the default port; where no container has it, the first."""

    @property
    def default_port(self) -> Port | None:
        """Of a role whose template has no port that counts; None: its services have no port."""

    def is_master(self, job: TrainingJob, role: Role, index: int | None) -> bool:
        """The replica's pod carries the label job-role=master. `index`: None for the template of a ReplicaSet or batch
        Job, whose pods get their ordinals when they run."""

    def order(self, job: TrainingJob) -> Sequence[str]:
        """All roles, in the order in which their objects are made."""

    def environment(self, job: TrainingJob, role: Role, index: int | None) -> Mapping[str, str]:
        """The cluster spec, as the framework's launcher reads it. A variable that the container itself sets wins."""
