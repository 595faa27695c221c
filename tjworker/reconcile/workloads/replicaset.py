"""The workload ReplicaSet: pods that are kept alive for as long as the job runs (master, pserver). Pure.

Kubelet restarts their containers, the ReplicaSet controller replaces pods that are gone; `policies.controller_managed`
says when that is too much.
"""

from __future__ import annotations

from collections.abc import Iterator

from tjworker.api.model import TrainingJob
from tjworker.api.resources import REPLICASETS
from tjworker.reconcile.one_pass import Pass
from tjworker.reconcile.plan import Write
from tjworker.reconcile.replicas import RoleView
from tjworker.reconcile.workloads.owner import Json, selector, shape_owner


def shape(p: Pass, view: RoleView, may_create: bool) -> Iterator[Write]:
    # A ReplicaSet takes no other restartPolicy than Always.
    return shape_owner(
        p,
        view,
        resource=REPLICASETS,
        api_version="apps/v1",
        spec=_spec,
        restart_policy="Always",
        count=view.role.replicas,
    )


def _spec(job: TrainingJob, view: RoleView, template: Json) -> Json:
    return {"replicas": view.role.replicas, "selector": selector(job, view.role), "template": template}
