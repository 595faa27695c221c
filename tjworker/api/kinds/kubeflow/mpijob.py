"""MPIJob (kubeflow.org): v2beta1 of the MPI operator, and v1 of training-operator. Pure.

Each of two operators serves this CRD in its own version. Here both versions have one schema (ADR 28). The API server
sets `manifestVersion` to the version of the manifest, on which the pods depend (`mpipods`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Literal

from pydantic import ConfigDict, Field

from tjworker.api import labels
from tjworker.api.ignored import Ignored
from tjworker.api.kinds.guests import mpipods
from tjworker.api.kinds.guests.kind import Restart, Specs
from tjworker.api.kinds.guests.mpijob import MAX_SLOTS, ROLES, worker_errors
from tjworker.api.kinds.guests.spec import GuestCleanPodPolicy, ReplicaSpec, role_rules
from tjworker.api.kinds.kubeflow.family import KubeflowKind
from tjworker.api.kinds.kubeflow.spec import OWN_CONTROLLER, OWN_MPI_CONTROLLER, KubeflowSpec, RunPolicy, spec_rules
from tjworker.api.model import EndPolicy, FieldError, LabelsOfGuest, MPILaunch, Runs, TrainingJob
from tjworker.api.podtemplate import ABSOLUTE_PATH

V1, V2 = "v1", "v2beta1"
BACKOFF_LIMIT = 6
"""The default of a batch Job: under mpi-operator the launcher of v2beta1 is one."""


_OF_V1 = f"has(self.manifestVersion) && self.manifestVersion == '{V1}'"


class MPIJobSpec(KubeflowSpec):
    """Specification of the job."""

    model_config = ConfigDict(
        json_schema_extra=spec_rules((_OF_V1, OWN_CONTROLLER), (f"!({_OF_V1})", OWN_MPI_CONTROLLER))
    )
    clean_pod_policy: GuestCleanPodPolicy | None = Field(
        None, description="v1: same as in runPolicy, which overrides it"
    )
    mpi_replica_specs: dict[str, ReplicaSpec] = Field(
        min_length=1,
        max_length=16,
        description="Launcher, which runs mpirun, and Worker, where it starts processes",
        json_schema_extra=role_rules(ROLES, "MPIJob", lone=("Launcher",), needed=("Launcher",)),
    )
    slots_per_worker: int | None = Field(None, ge=1, le=MAX_SLOTS, description="processes of each worker. Default: 1")
    main_container: str | None = Field(
        None, max_length=63, description="v1: container of a worker that runs the processes. Default: the first"
    )
    run_launcher_as_worker: bool | None = Field(
        None, description="v2beta1: true: the launcher's pod also runs processes"
    )
    ssh_auth_mount_path: str | None = Field(
        None,
        max_length=1024,
        pattern=ABSOLUTE_PATH,
        description=f"v2beta1: the folder of the ssh keys in every pod. Default: {mpipods.ROOT_SSH}",
    )
    launcher_creation_policy: Literal["", "AtStartup", "WaitForWorkersReady"] | None = Field(
        None, description="AtStartup: the launcher starts with the workers. Default: when all of them are ready"
    )
    mpi_implementation: Literal["", "OpenMPI", "Intel", "MPICH"] | None = Field(
        None, description="v2beta1: MPI implementation of the launcher's mpirun. Default: OpenMPI"
    )
    manifest_version: Literal["v1", "v2beta1"] | None = Field(
        None,
        description="apiVersion of the manifest, which decides how the launcher starts its processes. Set by the API"
        " server",
        json_schema_extra={
            "x-kubernetes-validations": [
                {
                    "rule": "self == oldSelf",
                    "message": "a job keeps the version that it was made in; delete it and create it again",
                }
            ]
        },
    )


def _is_v1(spec: MPIJobSpec) -> bool:
    return spec.manifest_version == V1


class MPIJob(KubeflowKind[MPIJobSpec]):
    kind = "MPIJob"
    plural = "mpijobs"
    description = "An MPI job of Kubeflow: a launcher, which runs mpirun, and the workers of its processes."
    # With the conversion None the API server changes nothing but apiVersion. A job of v1 is stored as v2beta1, too, so
    # manifestVersion keeps the version of the manifest.
    versions = (V2, V1)
    version_defaults = MappingProxyType({version: {"manifestVersion": version} for version in (V1, V2)})
    spec_model = MPIJobSpec
    roles_field = "mpiReplicaSpecs"
    roles = ROLES
    lone = (mpipods.LAUNCHER,)
    needed = (mpipods.LAUNCHER,)
    framework = "mpi"
    container = "mpi"

    def replica_specs(self, spec: MPIJobSpec) -> Specs:
        return spec.mpi_replica_specs

    def complete_policies(self, spec: MPIJobSpec, specs: Specs) -> Mapping[str, EndPolicy]:
        return {mpipods.LAUNCHER: "All"}

    def runs(self, spec: MPIJobSpec, specs: Specs) -> Runs:
        return mpipods.RUNS

    def default_restart(self, spec: MPIJobSpec, role: str) -> Restart:
        # The defaults of mpi-operator 0.6 and, for both roles of v1, of training-operator 1.9.
        return "OnFailure" if role == mpipods.LAUNCHER and not _is_v1(spec) else "Never"

    def batch_roles(self, spec: MPIJobSpec) -> tuple[str, ...]:
        return () if _is_v1(spec) else (mpipods.LAUNCHER,)

    def ignored(self, spec: MPIJobSpec) -> Iterator[Ignored]:
        given = spec.model_dump(by_alias=True, exclude_none=True)
        of_v1 = ("mainContainer", "cleanPodPolicy")
        of_v2 = ("sshAuthMountPath", "mpiImplementation", "runLauncherAsWorker")
        other, why = (of_v2, "only v2beta1 has it") if _is_v1(spec) else (of_v1, "only v1 has it")
        yield from (Ignored(f"spec.{name}", why) for name in other if given.get(name))

    def errors(self, job: str, spec: MPIJobSpec, specs: Specs) -> Iterator[FieldError]:
        # With runLauncherAsWorker the launcher is in the hostfile, so the job needs no workers.
        needs_no_worker = bool(spec.run_launcher_as_worker) and not _is_v1(spec)
        if not (needs_no_worker and mpipods.WORKER not in specs):
            or_else = "" if _is_v1(spec) else ", or spec.runLauncherAsWorker: true"
            main = spec.main_container if _is_v1(spec) else None
            yield from worker_errors(specs, main, default=0, or_else=or_else)
        for name in () if _is_v1(spec) else specs:
            # mpi-operator runs the launcher as a batch Job, for which the API server accepts only Never and OnFailure.
            if specs[name].restart_policy in ("Always", "ExitCode"):
                yield FieldError(
                    f"spec.mpiReplicaSpecs.{name}.restartPolicy",
                    f"{specs[name].restart_policy}: must be Never or OnFailure",
                )

    def finish(self, job: TrainingJob, spec: MPIJobSpec) -> TrainingJob:
        v1, run = _is_v1(spec), spec.run_policy or RunPolicy()
        on_launcher = mpipods.has_gpu(job) if v1 else bool(spec.run_launcher_as_worker)
        launch = MPILaunch(
            slots=spec.slots_per_worker or 1,
            implementation="OpenMPI" if v1 else spec.mpi_implementation or "OpenMPI",
            agent=v1,
            on_launcher=on_launcher,
            # mpi-operator starts the launcher at once by default. Here it waits: mpirun fails on a worker that is not
            # ready, and each failure uses up backoffLimit.
            waits=spec.launcher_creation_policy != "AtStartup",
        )
        made = mpipods.with_launch(
            job,
            launch,
            hides_gpus=not on_launcher,
            ssh_path=spec.ssh_auth_mount_path or mpipods.ROOT_SSH,
            main_container=spec.main_container or "",
        )
        return replace(
            made,
            backoff_limit=BACKOFF_LIMIT if run.backoff_limit is None and not v1 else run.backoff_limit,
            clean_pod_policy=run.clean_pod_policy or (spec.clean_pod_policy if v1 else None) or "None",
            guest_labels=LabelsOfGuest(labels.KUBEFLOW, "mpijob-controller")
            if v1
            else LabelsOfGuest(labels.KUBEFLOW, "mpi-operator", job_role_is_type=True),
            # The hostfile of v2beta1 has names below a single service, which has the job's name.
            subdomain="" if v1 else job.name.name,
        )


JOB_KIND = MPIJob()
