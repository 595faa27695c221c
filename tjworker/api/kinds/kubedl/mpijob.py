"""MPIJob (training.kubedl.io/v1alpha1). Pure.

KubeDL's launcher starts processes by `kubectl exec`, with a kubectl from an init container. Here it uses the agent of
ADR 28. The spec has the fields of three versions of MPIJob. The run policy is in `runPolicy`, as in the newest version.
Fields of older versions are reported as ignored, or refused with the replacement (ADR 28).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Literal

from pydantic import Field

from tjworker.api.ignored import Ignored
from tjworker.api.kinds.base import CamelModel
from tjworker.api.kinds.guests import mpipods
from tjworker.api.kinds.guests.kind import Specs
from tjworker.api.kinds.guests.mpijob import MAX_SLOTS, ROLES, worker_errors
from tjworker.api.kinds.guests.spec import AsWritten, GuestCleanPodPolicy, role_rules
from tjworker.api.kinds.kubedl.family import KubeDLKind, columns
from tjworker.api.kinds.kubedl.spec import KubeDLReplicaSpec, KubeDLRunPolicy
from tjworker.api.kinds.runpolicy import MAX_INT32
from tjworker.api.model import EndPolicy, FieldError, MPILaunch, Runs, TrainingJob
from tjworker.base import Json, mapping

CONTAINER = "mpi"
PORT: Json = {"name": "mpi-port", "containerPort": 2222}
_IMPLEMENTATIONS: Mapping[str, Literal["OpenMPI", "Intel", "MPICH"]] = {
    "OpenMPI": "OpenMPI",
    "IntelMPI": "Intel",
    "MPICH": "MPICH",
}
_IN_RUN_POLICY = "field of the first versions of MPIJob; ignored, as in KubeDL: set it in runPolicy"
_V1ALPHA1 = "field of MPIJob v1alpha1; refused: use mpiReplicaSpecs"


class MPIJobSpec(CamelModel):
    """Specification of the job."""

    run_policy: KubeDLRunPolicy | None = Field(None, description="policies for the whole job")
    clean_pod_policy: GuestCleanPodPolicy | None = Field(None, description="same as in runPolicy, which it overrides")
    mpi_replica_specs: dict[str, KubeDLReplicaSpec] | None = Field(
        None,
        min_length=1,
        max_length=16,
        description=(
            "Launcher, which runs mpirun, and Worker, where it starts processes. Required, though not by the "
            "schema: a job of v1alpha1 gets a message with the fields to use instead"
        ),
        json_schema_extra=role_rules(ROLES, "MPIJob", lone=("Launcher",), needed=("Launcher",)),
    )
    slots_per_worker: int | None = Field(None, ge=1, le=MAX_SLOTS, description="processes of each worker. Default: 1")
    main_container: str | None = Field(
        None, max_length=63, description="container of a worker that runs the processes. Default: the first"
    )
    mpi_distribution: Literal["", "OpenMPI", "IntelMPI", "MPICH"] | None = Field(
        None, description="MPI implementation of the launcher's mpirun. Default: OpenMPI"
    )
    ttl_seconds_after_finished: int | None = Field(None, ge=0, le=MAX_INT32, description=_IN_RUN_POLICY)
    active_deadline_seconds: int | None = Field(None, ge=0, le=MAX_INT32, description=_IN_RUN_POLICY)
    backoff_limit: int | None = Field(None, ge=0, le=MAX_INT32, description=_IN_RUN_POLICY)
    scheduling_policy: AsWritten | None = Field(None, description=_IN_RUN_POLICY)
    cron_policy: AsWritten | None = Field(None, description=_IN_RUN_POLICY)
    gpus: int | None = Field(None, description=_V1ALPHA1)
    gpus_per_node: int | None = Field(None, description=_V1ALPHA1)
    processing_units: int | None = Field(None, description=_V1ALPHA1)
    processing_units_per_node: int | None = Field(None, description=_V1ALPHA1)
    processing_resource_type: str | None = Field(None, max_length=253, description=_V1ALPHA1)
    launcher_on_master: bool | None = Field(None, description=_V1ALPHA1)
    replicas: int | None = Field(None, description=_V1ALPHA1)
    template: AsWritten | None = Field(None, description=_V1ALPHA1)


OLD_RUN_POLICY = (
    *("ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit"),
    *("schedulingPolicy", "cronPolicy"),
)
"""Fields that the first versions had in the spec itself, where they have no effect."""
ARGUMENTS_LOST = "without a command; set one"
_WRITE_INSTEAD: Mapping[str, str] = {
    "gpus": "write mpiReplicaSpecs.Worker.replicas and slotsPerWorker",
    "gpusPerNode": "write slotsPerWorker",
    "processingUnits": "write mpiReplicaSpecs.Worker.replicas and slotsPerWorker",
    "processingUnitsPerNode": "write slotsPerWorker",
    "processingResourceType": "write slotsPerWorker, and the resource into the limits of the worker's container",
    "launcherOnMaster": "write a nodeSelector into the launcher's template",
    "replicas": "write mpiReplicaSpecs.Worker.replicas",
    "template": "write mpiReplicaSpecs.Launcher.template and mpiReplicaSpecs.Worker.template",
}


class MPIJob(KubeDLKind[MPIJobSpec]):
    kind = "MPIJob"
    plural = "mpijobs"
    description = "An MPI job of KubeDL: a launcher, which runs mpirun, and the workers of its processes."
    spec_model = MPIJobSpec
    suspend_path = ("spec", "runPolicy", "suspend")
    columns = columns(("spec", "runPolicy"))
    roles_field = "mpiReplicaSpecs"
    roles = ROLES
    lone = (mpipods.LAUNCHER,)
    needed = (mpipods.LAUNCHER,)
    framework = "mpi"
    container = CONTAINER
    clean_pod_policy = "Running"
    # `UpdateJobStatus` of controllers/mpi/job.go: a launcher that has failed ends the job before it could fail over; of
    # the workers only one that is evicted does.
    final = MappingProxyType({mpipods.LAUNCHER: "restarts no launcher of KubeDL's MPIJob"})
    fails_when_evicted = (mpipods.WORKER,)

    def run_fields(self, spec: MPIJobSpec) -> KubeDLRunPolicy:
        run = spec.run_policy or KubeDLRunPolicy()
        return run.model_copy(update={"clean_pod_policy": spec.clean_pod_policy}) if spec.clean_pod_policy else run

    def replica_specs(self, spec: MPIJobSpec) -> Specs:
        return spec.mpi_replica_specs or {}

    def complete_policies(self, spec: MPIJobSpec, specs: Specs) -> Mapping[str, EndPolicy]:
        return {mpipods.LAUNCHER: "All"}

    def runs(self, spec: MPIJobSpec, specs: Specs) -> Runs:
        return mpipods.RUNS

    def never_fails(self, spec: MPIJobSpec) -> tuple[str, ...]:
        return (mpipods.WORKER,)

    def ignored(self, spec: MPIJobSpec) -> Iterator[Ignored]:
        given = spec.model_dump(by_alias=True, exclude_none=True)
        yield from (Ignored(f"spec.{name}", "set it in spec.runPolicy") for name in OLD_RUN_POLICY if name in given)

    def errors(self, job: str, spec: MPIJobSpec, specs: Specs) -> Iterator[FieldError]:
        given = spec.model_dump(by_alias=True, exclude_none=True)
        for name, instead in _WRITE_INSTEAD.items():
            if given.get(name):
                yield FieldError(f"spec.{name}", f"is a field of MPIJob v1alpha1, which is not served; {instead}")
        yield from worker_errors(specs, spec.main_container, default=1)

    def adapt_template(self, spec: MPIJobSpec, role: str, uid: str, template: Json) -> Json:
        """`setDefaults_MPIJobPort`."""
        pod = mapping(template.get("spec"))
        every: list[Any] = list(pod.get("containers") or ())
        place = next((i for i, one in enumerate(every) if one.get("name") == CONTAINER), 0)
        ports = list(every[place].get("ports") or ())
        if any(mapping(port).get("name") == PORT["name"] for port in ports):
            return template
        every[place] = {**every[place], "ports": [*ports, PORT]}
        return {**template, "spec": {**pod, "containers": every}}

    def finish(self, job: TrainingJob, spec: MPIJobSpec) -> TrainingJob:
        launch = MPILaunch(
            slots=spec.slots_per_worker or 1,
            implementation=_IMPLEMENTATIONS[spec.mpi_distribution or "OpenMPI"],
            agent=True,
            # KubeDL always adds its launcher to the hostfile. The description of its flag launcher-runs-workloads wants
            # this only for a launcher with GPUs, and KubeDL's words win over its code (ADR 28).
            on_launcher=mpipods.has_gpu(job),
            waits=True,
        )
        made = mpipods.with_launch(job, launch, hides_gpus=False, main_container=spec.main_container or "")
        return replace(made, ignored=(*job.ignored, *_lost_arguments(job, spec)))


def _lost_arguments(job: TrainingJob, spec: MPIJobSpec) -> Iterator[Ignored]:
    """Arguments of workers without a command: the agent replaces the entrypoint of the image, which would take them."""
    for role in (one for one in job.roles if one.name == mpipods.WORKER):
        place, container = mpipods.main(role.template["spec"]["containers"], spec.main_container or "")
        if container.get("args") and not container.get("command"):
            path = role.spec_path.removesuffix(".replicas")
            yield Ignored(f"{path}.template.spec.containers[{place}].args", ARGUMENTS_LOST)


JOB_KIND = MPIJob()
