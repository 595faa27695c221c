"""What differs by operator and by kind, as data. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel

from tjworker.api.kinds.guests.spec import ElasticBounds, ReplicaSpec, RunFields
from tjworker.api.kinds.guests.status import Style
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
from tjworker.base import GroupResource, Json

Specs = Mapping[str, ReplicaSpec]


@dataclass(frozen=True, slots=True)
class Family:
    """What the kinds of one operator share."""

    name: str
    """Whose kinds they are, for people."""
    group: str
    version: str
    run_policy_path: tuple[str, ...]
    """Where an object has the fields of the run policy."""
    run_policy: Callable[[Any], RunFields]
    """They, of a spec that the model has read."""
    labels: Callable[[str], LabelsOfGuest]
    """Of a kind, by its name."""
    status_model: type[BaseModel]
    style: Style
    columns: tuple[dict[str, Any], ...]
    scale_paths: tuple[str, str]
    is_for_another: Callable[[Json], bool] = lambda raw: False
    """The job says that another controller has it."""
    limit_clean_policy: CleanPodPolicy | None = None
    """Which pods activeDeadlineSeconds and backoffLimit delete; None: those that cleanPodPolicy says."""
    retries_unknown_exit: bool = False
    """With ExitCode, a pod without an exit code of its main container is made again."""
    exit_code_of_running: bool = False
    """With ExitCode, the operator looks at the exit code of the main container while the pod still runs."""
    known_to_kueue: bool = False
    """Kueue suspends its jobs until it admits them."""
    ignored_annotations: tuple[str, ...] = ()
    """Annotations that its users write, and nothing here acts on."""


@dataclass(frozen=True, slots=True)
class Dressed:
    """Of what role and job a template is."""

    spec: Any
    role: str
    uid: str


def runs_with_master(specs: Specs) -> Runs:
    """With its master, by whichever name; without one as soon as any worker runs."""
    masters = tuple(name for name in ("Chief", "Master") if name in specs)
    return Runs(masters or ("Worker",))


@dataclass(frozen=True, slots=True)
class Shape:
    """What one kind is."""

    family: Family
    kind: str
    plural: str
    framework: FrameworkType | GuestFramework
    container: str
    """Name of the main container (`GetDefaultContainerName`): its exit code counts, wherever it stands in the list."""
    specs_field: str
    """Of spec: the map of roles."""
    roles: tuple[str, ...]
    spec_model: type[BaseModel]
    specs: Callable[[Any], Specs]
    """The map of roles of a spec that the model has read."""
    complete: Callable[[Any, Specs], Mapping[str, EndPolicy]]
    """When each role is done, given the spec and its roles by their canonical names; a role that is not there never
    ends the job with success."""
    enough: Callable[[Any, Specs], Enough | None] = lambda spec, specs: None
    """With how many successes the job is done, where its kind counts them over roles."""
    runs: Callable[[Any, Specs], Runs] = lambda spec, specs: runs_with_master(specs)
    """When its operator says Running."""
    clean_pod_policy: CleanPodPolicy = "None"
    backoff_limit: int | None = None
    default_restart: Literal["Never", "OnFailure", "ExitCode"] = "Never"
    restart: Callable[[Any, str], str] | None = None
    """(spec, role) -> the restart policy of a role that sets none, in place of `default_restart`."""
    final: Mapping[str, str] = field(default_factory=dict)
    """Role -> why ExitCode restarts none of its pods."""
    batch_roles: Callable[[Any], tuple[str, ...]] = lambda spec: ()
    """See `TrainingJob`."""
    lone: tuple[str, ...] = ()
    """Roles of one replica."""
    needed: tuple[str, ...] = ()
    """Roles without which it cannot be."""
    dress: Callable[[Dressed, Json], Json] = lambda of, template: template
    """The template with what the spec says beside it."""
    elastic: Callable[[Any], ElasticBounds | None] = lambda spec: None
    """The bounds of the workers' number, where they have some."""
    never_fails: Callable[[Any], tuple[str, ...]] = lambda spec: ()
    """Roles whose failed pods do not end the job."""
    fails_when_evicted: tuple[str, ...] = ()
    """Of those, the roles whose evicted pods do."""
    freely_scaled: Callable[[Any], tuple[str, ...]] = lambda spec: ()
    """Roles whose number of replicas may change while they run, without bounds."""
    ignored: Callable[[Any], Iterator[Ignored]] = lambda spec: iter(())
    """Fields of its own that are set and not acted on."""
    versions: tuple[str, ...] = ()
    """The stored one first; none: the family's."""
    version_defaults: Mapping[str, Json] = field(default_factory=dict)
    """See `JobKind`."""
    broken: Callable[[str, Any, Specs], Iterator[FieldError]] = lambda job, spec, specs: iter(())
    """(name of the job, spec, roles) -> what no kind but this refuses."""
    finish: Callable[[TrainingJob, Any], TrainingJob] = lambda job, spec: job
    """(job, spec) -> the job with what only this kind has."""

    @property
    def api_version(self) -> str:
        return f"{self.family.group}/{(self.versions or (self.family.version,))[0]}"

    @property
    def resource(self) -> GroupResource:
        return GroupResource(f"{self.plural}.{self.family.group}")
