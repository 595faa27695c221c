"""What differs by operator and by kind: a class that says it. Pure."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel

from tjworker.api.kinds.aitrainingjob import rules
from tjworker.api.kinds.base import Guest, Parsed
from tjworker.api.kinds.guests.spec import ElasticBounds, ReplicaSpec, RunFields
from tjworker.api.kinds.guests.status import Style, write_status
from tjworker.api.model import (
    CleanPodPolicy,
    EndPolicy,
    Enough,
    FieldError,
    FrameworkType,
    GuestFramework,
    Ignored,
    LabelsOfGuest,
    Runs,
    TrainingJob,
)
from tjworker.api.status import JobStatus
from tjworker.base import Json

Specs = Mapping[str, ReplicaSpec]
"""Roles by their canonical names."""
Restart = Literal["Always", "OnFailure", "Never", "ExitCode"]
S = TypeVar("S", bound=BaseModel)


class GuestKind(Guest, Generic[S]):
    """A kind whose spec, an `S`, has a map of roles with a pod template each.

    A class for each operator says what its kinds share, a class for each kind the rest. Where a method is not
    overridden, the kind has nothing of that.
    """

    spec_model: type[S]
    root_rules = (rules.ROOT[0],)
    roles: tuple[str, ...]
    lone: tuple[str, ...] = ()
    """Roles of one replica."""
    needed: tuple[str, ...] = ()
    """Roles without which it cannot be."""
    framework: FrameworkType | GuestFramework
    container: str
    """Name of the main container (`GetDefaultContainerName`): its exit code counts, wherever it stands in the list."""
    clean_pod_policy: CleanPodPolicy = "None"
    limit_clean_policy: CleanPodPolicy | None = None
    """Which pods activeDeadlineSeconds and backoffLimit delete; None: those that cleanPodPolicy says."""
    backoff_limit: int | None = None
    final: Mapping[str, str] = MappingProxyType({})
    """Role -> why ExitCode restarts none of its pods."""
    fails_when_evicted: tuple[str, ...] = ()
    """Of the roles that never fail, those whose evicted pods end the job."""
    retries_unknown_exit: bool = False
    """With ExitCode, a pod without an exit code of its main container is made again."""
    exit_code_of_running: bool = False
    """With ExitCode, the operator looks at the exit code of the main container while the pod still runs."""
    known_to_kueue: bool = False
    """Kueue suspends its jobs until it admits them."""
    ignored_annotations: tuple[str, ...] = ()
    """Annotations that its users write, and nothing here acts on."""
    style: Style

    @abstractmethod
    def run_fields(self, spec: S) -> RunFields:
        """Those of the run policy, which stands at `run_policy_path`."""

    @abstractmethod
    def labels(self) -> LabelsOfGuest:
        """Those of its pods."""

    @abstractmethod
    def replica_specs(self, spec: S) -> Specs:
        """The map of roles, by the names that the user wrote."""

    @abstractmethod
    def complete_policies(self, spec: S, specs: Specs) -> Mapping[str, EndPolicy]:
        """When each role is done; a role that is not there never ends the job with success."""

    def enough(self, spec: S, specs: Specs) -> Enough | None:
        """With how many successes the job is done, where its kind counts them over roles."""
        return None

    def runs(self, spec: S, specs: Specs) -> Runs:
        """When its operator says Running: with its master, by whichever name; without one as soon as any worker
        runs."""
        masters = tuple(name for name in ("Chief", "Master") if name in specs)
        return Runs(masters or ("Worker",))

    def default_restart(self, spec: S, role: str) -> Restart:
        """The restart policy of a role that sets none."""
        return "Never"

    def batch_roles(self, spec: S) -> tuple[str, ...]:
        """See `TrainingJob`."""
        return ()

    def elastic_policy(self, spec: S) -> ElasticBounds | None:
        """The bounds of the workers' number, where they have some."""
        return None

    def freely_scaled(self, spec: S) -> tuple[str, ...]:
        """Roles whose number of replicas may change while they run, without bounds."""
        return ()

    def never_fails(self, spec: S) -> tuple[str, ...]:
        """Roles whose failed pods do not end the job."""
        return ()

    def ignored(self, spec: S) -> Iterator[Ignored]:
        """Fields of its own that are set and not acted on."""
        return iter(())

    def errors(self, job: str, spec: S, specs: Specs) -> Iterator[FieldError]:
        """What no kind but this refuses. `job`: its name."""
        return iter(())

    def dress(self, spec: S, role: str, uid: str, template: Json) -> Json:
        """A role's template with what the spec says beside it. `uid`: the job's."""
        return template

    def finish(self, job: TrainingJob, spec: S) -> TrainingJob:
        """The job with what only this kind has."""
        return job

    @property
    def scale_role(self) -> str:
        return "Worker" if "Worker" in self.roles else ""

    @property
    def scale_spec_path(self) -> str:
        return f".spec.{self.roles_field}.{self.scale_role}.replicas" if self.scale_role else ""

    def role_patch(self, role: str, replicas: int) -> dict[str, Any]:
        return {"spec": {self.roles_field: {role: {"replicas": replicas}}}}

    def status_of(self, job: Parsed, status: JobStatus) -> dict[str, Any]:
        return write_status(self.style, job, status)
