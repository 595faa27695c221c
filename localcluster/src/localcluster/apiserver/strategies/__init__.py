"""One strategy a kind: the literal table. A kind that is not in it is stored as it comes.

Serves: `kubectl create|apply|edit` of the built-in kinds: their defaults, and refusals of what is wrong in them.
"""

from __future__ import annotations

from typing import Final

from localcluster.apiserver import crds
from localcluster.apiserver.strategies import podgroups, simple, storage, workloads
from localcluster.apiserver.strategies.base import Strategy
from localcluster.resources import Resource

PLAIN: Final = Strategy()

STRATEGIES: Final[dict[str, Strategy]] = {
    "pods": Strategy(
        simple.default_pod,
        simple.prepare_pod,
        simple.update_pod,
        simple.validate_pod,
        simple.validate_pod_update,
        generation=True,
        returns_deleted=True,
    ),
    "apps/replicasets": Strategy(
        workloads.default_replicaset,
        workloads.prepare_replicaset,
        validate=workloads.validate_replicaset,
        validate_update=workloads.validate_replicaset_update,
        generation=True,
    ),
    "batch/jobs": Strategy(
        workloads.default_job,
        workloads.prepare_job,
        complete_create=workloads.complete_job,
        validate=workloads.validate_job,
        validate_update=workloads.validate_job_update,
        validate_status=workloads.validate_job_status,
        generation=True,
        orphans_by_default=True,
    ),
    "services": Strategy(
        simple.default_service,
        validate=simple.validate_service,
        validate_update=simple.validate_service_update,
        prepare_update=simple.update_service,
        returns_deleted=True,
    ),
    "namespaces": Strategy(simple.default_namespace, simple.prepare_namespace),
    "nodes": Strategy(simple.default_node),
    "configmaps": Strategy(validate=simple.validate_configmap, validate_update=simple.validate_immutable_data),
    "secrets": Strategy(
        simple.default_secret,
        simple.prepare_secret,
        validate=simple.validate_secret,
        validate_update=simple.validate_immutable_data,
    ),
    "serviceaccounts": Strategy(returns_deleted=True),
    "persistentvolumeclaims": Strategy(
        storage.default_claim,
        storage.prepare_claim,
        validate=storage.validate_claim,
        validate_update=storage.validate_claim_update,
        returns_deleted=True,
    ),
    "persistentvolumes": Strategy(
        storage.default_volume, storage.prepare_volume, validate=storage.validate_volume, returns_deleted=True
    ),
    "storage.k8s.io/storageclasses": Strategy(
        storage.default_class,
        validate=storage.validate_class,
        validate_update=storage.validate_class_update,
        returns_deleted=True,
    ),
    "events": Strategy(simple.default_event, validate=simple.validate_event),
    "resourcequotas": Strategy(returns_deleted=True),
    "scheduling.k8s.io/priorityclasses": Strategy(
        simple.default_priority, validate_update=simple.validate_priority_update, generation=True
    ),
    "scheduling.k8s.io/podgroups": Strategy(
        podgroups.default,
        podgroups.prepare_create,
        validate=podgroups.validate,
        validate_update=podgroups.validate_update,
    ),
    "coordination.k8s.io/leases": Strategy(validate=simple.validate_lease),
    "discovery.k8s.io/endpointslices": Strategy(simple.default_slice, generation=True),
    "apiextensions.k8s.io/customresourcedefinitions": Strategy(
        crds.default, crds.prepare_create, crds.prepare_update, crds.validate, generation=True
    ),
}


def strategy_of(resource: Resource) -> Strategy:
    return PLAIN if resource.custom else STRATEGIES.get(resource.bucket, PLAIN)
