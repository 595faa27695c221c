"""The base class of other operators' job kinds. Pure."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel

from tjworker.api.ignored import Ignored
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
    """A kind whose spec, an `S`, has a map of roles, each with a pod template.

    A subclass for each operator has what its kinds share, and a subclass of that for each kind has the rest. A kind
    overrides the methods for what it has.
    """

    spec_model: type[S]
    # The rule of the name alone: the rule of the longest pod name reads fields of an AITrainingJob. The parser judges
    # the length of a guest's pod names.
    root_rules = (rules.ROOT[0],)
    roles: tuple[str, ...]
    lone: tuple[str, ...] = ()
    """Roles that must have one replica."""
    needed: tuple[str, ...] = ()
    """Roles that a job must have."""
    framework: FrameworkType | GuestFramework
    container: str
    """Name of the main container (`GetDefaultContainerName`), whose exit code counts."""
    # The default of training-operator: ended pods stay for their logs.
    clean_pod_policy: CleanPodPolicy = "None"
    limit_clean_policy: CleanPodPolicy | None = None
    """Which pods are deleted when activeDeadlineSeconds or backoffLimit ends the job; None: as cleanPodPolicy says."""
    backoff_limit: int | None = None
    final: Mapping[str, str] = MappingProxyType({})
    """Role -> why ExitCode restarts none of its pods, as the end of a sentence."""
    fails_when_evicted: tuple[str, ...] = ()
    """Roles among `never_fails` whose evicted pods end the job."""
    retries_unknown_exit: bool = False
    """With ExitCode, a failed pod without an exit code of its main container is replaced."""
    exit_code_of_running: bool = False
    """With ExitCode, the operator looks at the exit code of the main container while the pod still runs."""
    known_to_kueue: bool = False
    """Kueue suspends its jobs until it admits them."""
    ignored_annotations: tuple[str, ...] = ()
    """Annotations of its operator that have no effect here."""
    style: Style

    @abstractmethod
    def run_fields(self, spec: S) -> RunFields:
        """The fields of the run policy, which are at `run_policy_path`."""

    @abstractmethod
    def labels(self) -> LabelsOfGuest:
        """The labels by which the users of its operator find pods."""

    @abstractmethod
    def replica_specs(self, spec: S) -> Specs:
        """The map of roles, by the names that the user wrote."""

    @abstractmethod
    def complete_policies(self, spec: S, specs: Specs) -> Mapping[str, EndPolicy]:
        """When each role is done. A role that is not in the mapping never ends the job with success."""

    def enough(self, spec: S, specs: Specs) -> Enough | None:
        """How many successes complete the job, if the kind counts them over roles."""
        return None

    def runs(self, spec: S, specs: Specs) -> Runs:
        """When its operator says Running: while a Chief or Master runs, or in a job without them while a worker
        runs."""
        masters = tuple(name for name in ("Chief", "Master") if name in specs)
        return Runs(masters or ("Worker",))

    def default_restart(self, spec: S, role: str) -> Restart:
        """The restart policy of a role that sets none."""
        # KubeDL leaves Always to the pods of some kinds, against its own API: a program that is done would start again
        # for ever.
        return "Never"

    def batch_roles(self, spec: S) -> tuple[str, ...]:
        """`TrainingJob.batch_roles`."""
        return ()

    def elastic_policy(self, spec: S) -> ElasticBounds | None:
        """The bounds of the number of workers; None if it is fixed."""
        return None

    def freely_scaled(self, spec: S) -> tuple[str, ...]:
        """Roles whose number of replicas may change without bounds while they run."""
        return ()

    def never_fails(self, spec: S) -> tuple[str, ...]:
        """Roles whose failed pods do not end the job."""
        return ()

    def ignored(self, spec: S) -> Iterator[Ignored]:
        """The kind's own fields that are set and have no effect."""
        return iter(())

    def errors(self, job: str, spec: S, specs: Specs) -> Iterator[FieldError]:
        """Errors in what only this kind checks. `job`: the job's name."""
        return iter(())

    def adapt_template(self, spec: S, role: str, uid: str, template: Json) -> Json:
        """A role's template, changed by other fields of the spec. `uid`: the job's."""
        return template

    def finish(self, job: TrainingJob, spec: S) -> TrainingJob:
        """The job with what only this kind has. Called last."""
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
