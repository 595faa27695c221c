"""The workload ReplicaSet: pods that are kept alive as long as the job runs (master, pserver). Pure.

The kubelet restarts their containers, and the ReplicaSet controller replaces missing pods.
`policies.controller_managed` limits the restarts.
"""

from __future__ import annotations

from collections.abc import Iterator

from tjworker.api.model import TrainingJob
from tjworker.api.resources import REPLICASETS
from tjworker.base import JsonDict
from tjworker.reconcile.one_pass import Pass
from tjworker.reconcile.plan import Write
from tjworker.reconcile.replicas import RoleView
from tjworker.reconcile.workloads.owner import selector, shape_owner


def shape(p: Pass, view: RoleView, may_create: bool) -> Iterator[Write]:
    # Always is the only restartPolicy that a ReplicaSet accepts.
    return shape_owner(
        p,
        view,
        resource=REPLICASETS,
        api_version="apps/v1",
        spec=_spec,
        restart_policy="Always",
        count=view.role.replicas,
    )


def _spec(job: TrainingJob, view: RoleView, template: JsonDict) -> JsonDict:
    return {"replicas": view.role.replicas, "selector": selector(job, view.role), "template": template}
