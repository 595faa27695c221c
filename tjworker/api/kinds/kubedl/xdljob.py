"""XDLJob (training.kubedl.io/v1alpha1). Pure."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from tjworker.api.containers import with_containers
from tjworker.api.kinds.guests.parse import job_kind
from tjworker.api.kinds.guests.shape import Dressed, Shape, Specs
from tjworker.api.kinds.guests.spec import replicas_of, role_rules
from tjworker.api.kinds.kubedl.family import KUBEDL
from tjworker.api.kinds.kubedl.spec import KubeDLReplicaSpec, KubeDLRunPolicy
from tjworker.api.kinds.runpolicy import MAX_PODS
from tjworker.api.model import Enough, Runs
from tjworker.base import Json

ROLES = ("PS", "Scheduler", "Worker", "ExtendRole")
WORKERS = ("Worker", "ExtendRole")
LEAST_PERCENT = 90
ZK_ADDR = "ZK_ADDR"


class XDLJobSpec(KubeDLRunPolicy):
    """What the job is to do."""

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
        description=f"the same in percent of them, rounded up; wins over minFinishWorkNum. Default: {LEAST_PERCENT}",
    )
    xdl_replica_specs: dict[str, KubeDLReplicaSpec] = Field(
        min_length=1,
        max_length=16,
        description="PS, Scheduler, Worker and ExtendRole, which is another kind of worker",
        json_schema_extra=role_rules(ROLES, "XDLJob"),
    )


def _enough(spec: XDLJobSpec, specs: Specs) -> Enough | None:
    counts = {name: replicas_of(specs[name]) for name in WORKERS if name in specs}
    every, percent = sum(counts.values()), spec.min_finish_worker_percentage
    if not every:
        return None
    if percent is None and spec.min_finish_worker_num is not None:
        return Enough(tuple(counts), min(spec.min_finish_worker_num, every))
    return Enough(tuple(counts), -(-every * (percent or LEAST_PERCENT) // 100))


def _dress(of: Dressed, template: Json) -> Json:
    """Jobs that share a ZooKeeper have a folder each there."""

    def one(entry: object) -> object:
        if not isinstance(entry, Mapping) or entry.get("name") != ZK_ADDR or not isinstance(entry.get("value"), str):
            return entry
        return {**entry, "value": f"{entry['value'].rstrip('/')}/{of.uid}"}

    return with_containers(
        template, lambda c: {**c, "env": [one(e) for e in c["env"]]} if isinstance(c.get("env"), list) else c
    )


SHAPE = Shape(
    family=KUBEDL,
    kind="XDLJob",
    plural="xdljobs",
    framework="xdl",
    container="xdl",
    specs_field="xdlReplicaSpecs",
    roles=ROLES,
    spec_model=XDLJobSpec,
    specs=lambda spec: spec.xdl_replica_specs,
    complete=lambda spec, specs: dict.fromkeys(WORKERS, "All"),
    enough=_enough,
    runs=lambda spec, specs: Runs(ROLES),
    clean_pod_policy="Running",
    backoff_limit=20,
    dress=_dress,
)
JOB_KIND = job_kind(SHAPE, "An XDL job of KubeDL: parameter servers, a scheduler, workers.")
