"""MarsJob (training.kubedl.io/v1alpha1): distributed tensors and data frames. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import Field

from tjworker.api.containers import with_environment
from tjworker.api.ignored import Ignored
from tjworker.api.kinds.base import CamelModel
from tjworker.api.kinds.guests.kind import Restart, Specs
from tjworker.api.kinds.guests.spec import role_rules
from tjworker.api.kinds.kubedl.family import RunPolicyInSpec
from tjworker.api.kinds.kubedl.spec import KubeDLReplicaSpec, KubeDLRunPolicy
from tjworker.api.kinds.quantity import Quantity
from tjworker.api.model import EndPolicy, Runs
from tjworker.api.quantity import asked_whole, whole
from tjworker.base import Json, mapping

ROLES = ("Scheduler", "WebService", "Worker")
SHARED = "/dev/shm"  # noqa: S108
"""Mount path of the memory that the workers of a pod share."""
CACHE, SPILL = "mars-shared-cache", "mars-empty-dir"
Path = Annotated[str, Field(min_length=1, max_length=4096)]


class WorkerMemoryTuningPolicy(CamelModel):
    """Settings of the workers' memory."""

    plasma_store: Path | None = Field(None, description=f"folder of the shared memory. Default: {SHARED}")
    lock_free_file_io: bool | None = Field(
        None, alias="lockFreeFileIO", description="no other pod uses the spill folders. Default: true"
    )
    spill_dirs: list[Path] | None = Field(
        None, max_length=16, description="folders, each an emptyDir, for data that does not fit into memory"
    )
    worker_cache_percentage: int | None = Field(
        None, ge=0, le=100, description="percentage of the worker's memory for data in shared memory"
    )
    worker_cache_size: Quantity | None = Field(None, description="size of the shared memory; overrides the percentage")


class MarsJobSpec(KubeDLRunPolicy):
    """Specification of the job."""

    worker_memory_tuning_policy: WorkerMemoryTuningPolicy | None = Field(
        None, description="settings of the workers' memory"
    )
    web_host: str | None = Field(
        None,
        max_length=253,
        description="host of an Ingress; ignored: create an Ingress for the services of WebService",
    )
    mars_replica_specs: dict[str, KubeDLReplicaSpec] = Field(
        min_length=1,
        max_length=16,
        description="Scheduler, WebService and Worker",
        json_schema_extra=role_rules(ROLES, "MarsJob", needed=("Scheduler",)),
    )


class MarsJob(RunPolicyInSpec[MarsJobSpec]):
    kind = "MarsJob"
    plural = "marsjobs"
    description = "A Mars job of KubeDL: schedulers, workers and web services."
    spec_model = MarsJobSpec
    roles_field = "marsReplicaSpecs"
    roles = ROLES
    needed = ("Scheduler",)
    framework = "mars"
    container = "mars"
    # `updateGeneralJobStatus` of controllers/mars/status.go: a scheduler holds its state in memory, so one that has
    # failed ends the job whatever its restart policy.
    final = MappingProxyType({"Scheduler": "restarts no scheduler of a MarsJob"})

    def replica_specs(self, spec: MarsJobSpec) -> Specs:
        return spec.mars_replica_specs

    def complete_policies(self, spec: MarsJobSpec, specs: Specs) -> Mapping[str, EndPolicy]:
        return {"Scheduler": "All"}

    def runs(self, spec: MarsJobSpec, specs: Specs) -> Runs:
        return Runs(("Worker",))

    def default_restart(self, spec: MarsJobSpec, role: str) -> Restart:
        policies: Mapping[str, Restart] = {"WebService": "Always", "Worker": "ExitCode"}
        return policies.get(role, "Never")

    def never_fails(self, spec: MarsJobSpec) -> tuple[str, ...]:
        return ("WebService", "Worker")

    def ignored(self, spec: MarsJobSpec) -> Iterator[Ignored]:
        if spec.web_host:
            yield Ignored("spec.webHost")

    def adapt_template(self, spec: MarsJobSpec, role: str, uid: str, template: Json) -> Json:
        """The template with shared memory and spill folders in the first container, which is Mars'."""
        policy = spec.worker_memory_tuning_policy or WorkerMemoryTuningPolicy()
        if role != "Worker":
            return template
        dirs, cache = policy.spill_dirs or [], _cache_bytes(policy, template)
        said = {
            "MARS_SPILL_DIRS": ",".join(dirs),
            "MARS_PLASMA_DIRS": policy.plasma_store or SHARED,
            "MARS_LOCK_FREE_FILEIO": "0" if policy.lock_free_file_io is False else "1",
            "MARS_CACHE_MEM_SIZE": str(cache) if cache else "",
        }
        mounts: list[tuple[str, str, Json]] = [(f"{SPILL}-{i}", path, {}) for i, path in enumerate(dirs)]
        # The container runtime gives a container 64 MiB of shared memory unless a volume is mounted there.
        if cache:
            mounts.append((CACHE, policy.plasma_store or SHARED, {"medium": "Memory", "sizeLimit": str(cache)}))
        dressed = with_environment(template, {name: value for name, value in said.items() if value})
        return _with_mounts(dressed, mounts) if mounts else dressed


def _cache_bytes(policy: WorkerMemoryTuningPolicy, template: Json) -> int:
    if policy.worker_cache_size is not None:
        return whole(policy.worker_cache_size)
    return asked_whole(_main(template), "memory") * (policy.worker_cache_percentage or 0) // 100


def _main(template: Json) -> Json:
    found = mapping(template.get("spec")).get("containers")
    return mapping(found[0]) if isinstance(found, list) and found else {}


def _with_mounts(template: Json, mounts: list[tuple[str, str, Json]]) -> Json:
    """The template with these emptyDirs, (name, path, source), unless it already has them, in the first container."""
    spec = mapping(template.get("spec"))
    containers: list[Any] = list(spec.get("containers") or ())
    volumes = _added(spec.get("volumes"), [{"name": name, "emptyDir": source} for name, _, source in mounts])
    here = _added(_main(template).get("volumeMounts"), [{"name": n, "mountPath": path} for n, path, _ in mounts])
    containers[0] = {**containers[0], "volumeMounts": here}
    return {**template, "spec": {**spec, "volumes": volumes, "containers": containers}}


def _added(own: object, more: list[Json]) -> list[Any]:
    have: list[Any] = list(own) if isinstance(own, list) else []
    names = {entry.get("name") for entry in have if isinstance(entry, Mapping)}
    return have + [entry for entry in more if entry["name"] not in names]


JOB_KIND = MarsJob()
