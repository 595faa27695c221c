"""Objects that a job has once: one headless service for all its pods, and a Secret and claims that they mount. Pure.

No watch shows Secrets or claims. A running pod proves that they exist, because it has mounted them. Until then, and
whenever a pass creates a pod, it creates them again. A second create does nothing.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from tjworker.api import labels
from tjworker.api.model import JobClaim, TrainingJob
from tjworker.api.resources import CLAIMS, SECRETS, SERVICES
from tjworker.base import JsonDict
from tjworker.reconcile.one_pass import Pass
from tjworker.reconcile.plan import Create
from tjworker.reconcile.replicas import State
from tjworker.reconcile.workloads.pod import needs_service
from tjworker.reconcile.workloads.podbody import child_metadata, owner_reference

STARTING: tuple[State, ...] = ("missing", "pending", "scheduled")


def creates(p: Pass, held: Container[str]) -> Iterator[Create]:
    """The creates of these objects, to be written before the pods. `held`: roles whose pods are not created yet."""
    job = p.job
    serves = any(needs_service(replica) for view in p.roles.values() for replica in view.replicas)
    if job.subdomain and serves and job.subdomain not in {service.name for service in p.observed.services}:
        yield Create(SERVICES, job.subdomain, _service(p))
    proved = any(view.count("running") for view in p.roles.values())
    begun = [view for name, view in p.roles.items() if name not in held]
    creates_pods, starting = any(view.count("missing") for view in begun), any(view.count(*STARTING) for view in begun)
    if not (creates_pods or (starting and not proved)):
        return
    for claim in job.claims:
        yield Create(CLAIMS, claim.name, _claim(job, claim), needed=True)
    if job.secret is not None:
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": child_metadata(job, job.secret.name)}
        yield Create(SECRETS, job.secret.name, body, holds=job.secret.holds)


def _service(p: Pass) -> JsonDict:
    # It publishes pods that are not ready: the launcher of an MPI job looks up its own name, too.
    metadata = child_metadata(p.job, p.job.subdomain)
    own = {name: metadata["labels"][name] for name in (labels.GROUP_NAME, labels.JOB_NAME, labels.JOB_UID)}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": own},
    }


def _claim(job: TrainingJob, claim: JobClaim) -> JsonDict:
    # Only JobSet's labels: the claim may outlive the job, and serve the next job of that name.
    metadata: JsonDict = {"name": claim.name, "namespace": job.name.namespace, "labels": dict(claim.labels)}
    if claim.annotations:
        metadata["annotations"] = dict(claim.annotations)
    if not claim.stays:
        metadata["ownerReferences"] = [owner_reference(job)]
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": dict(claim.spec)}
