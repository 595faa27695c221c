"""XDLJob (training.kubedl.io/v1alpha1). Pure."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from tjworker.api.containers import with_containers
from tjworker.api.kinds.guests.kind import Specs
from tjworker.api.kinds.guests.spec import replicas_of, role_rules
from tjworker.api.kinds.kubedl.family import RunPolicyInSpec
from tjworker.api.kinds.kubedl.spec import KubeDLReplicaSpec, KubeDLRunPolicy
from tjworker.api.kinds.runpolicy import MAX_PODS
from tjworker.api.model import EndPolicy, Enough, Runs
from tjworker.base import Json

ROLES = ("PS", "Scheduler", "Worker", "ExtendRole")
WORKERS = ("Worker", "ExtendRole")
LEAST_PERCENT = 90
ZK_ADDR = "ZK_ADDR"


class XDLJobSpec(KubeDLRunPolicy):
    """Specification of the job."""

    min_finish_worker_num: int | None = Field(
        None,
        ge=1,
        le=MAX_PODS,
        alias="minFinishWorkNum",
        description="number of workers and extended roles that must succeed for the job to succeed",
    )
    min_finish_worker_percentage: int | None = Field(
        None,
        ge=1,
        le=100,
        alias="minFinishWorkRate",
        description=f"the same in percent, rounded up; overrides minFinishWorkNum. Default: {LEAST_PERCENT}",
    )
    xdl_replica_specs: dict[str, KubeDLReplicaSpec] = Field(
        min_length=1,
        max_length=16,
        description="PS, Scheduler, Worker and ExtendRole, which is another kind of worker",
        json_schema_extra=role_rules(ROLES, "XDLJob"),
    )


class XDLJob(RunPolicyInSpec[XDLJobSpec]):
    kind = "XDLJob"
    plural = "xdljobs"
    description = "An XDL job of KubeDL: parameter servers, a scheduler, workers."
    spec_model = XDLJobSpec
    roles_field = "xdlReplicaSpecs"
    roles = ROLES
    framework = "xdl"
    container = "xdl"
    clean_pod_policy = "Running"
    # KubeDL's default for this kind alone.
    backoff_limit = 20

    def replica_specs(self, spec: XDLJobSpec) -> Specs:
        return spec.xdl_replica_specs

    def complete_policies(self, spec: XDLJobSpec, specs: Specs) -> Mapping[str, EndPolicy]:
        return dict.fromkeys(WORKERS, "All")

    def enough(self, spec: XDLJobSpec, specs: Specs) -> Enough | None:
        counts = {name: replicas_of(specs[name]) for name in WORKERS if name in specs}
        every, percent = sum(counts.values()), spec.min_finish_worker_percentage
        if not every:
            return None
        if percent is None and spec.min_finish_worker_num is not None:
            # More successes than there are workers would never come, and the job would never end.
            return Enough(tuple(counts), min(spec.min_finish_worker_num, every))
        # Round up in integers: 0.07 * 100 is more than 7 as a float, and would require an eighth worker.
        return Enough(tuple(counts), -(-every * (percent or LEAST_PERCENT) // 100))

    def runs(self, spec: XDLJobSpec, specs: Specs) -> Runs:
        # KubeDL reports Running as soon as the pods exist. A pod that waits for a node trains nothing.
        return Runs(ROLES)

    def adapt_template(self, spec: XDLJobSpec, role: str, uid: str, template: Json) -> Json:
        """The template with a folder in ZooKeeper for each job, as jobs may share a ZooKeeper."""
        return with_containers(template, lambda container: _with_folder(container, uid))


def _with_folder(container: Json, folder: str) -> Json:
    env = container.get("env")
    return {**container, "env": [_in_folder(entry, folder) for entry in env]} if isinstance(env, list) else container


def _in_folder(entry: object, folder: str) -> object:
    if not isinstance(entry, Mapping) or entry.get("name") != ZK_ADDR:
        return entry
    address = entry.get("value")
    # An address by `valueFrom` is unknown here, and stays as it is.
    return {**entry, "value": f"{address.rstrip('/')}/{folder}"} if isinstance(address, str) else entry


JOB_KIND = XDLJob()
