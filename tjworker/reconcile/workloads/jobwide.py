"""What a job has once, beside its pods: one headless service for all of them, a Secret that they mount. Pure.

A Secret is never read. That it is there a pod proves that runs, as it has mounted it: until then each pass asks for it
again, and so does one that makes a pod. A second create does nothing.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from tjworker.api import labels
from tjworker.api.resources import SECRETS, SERVICES
from tjworker.reconcile.one_pass import Pass
from tjworker.reconcile.plan import Create
from tjworker.reconcile.replicas import State
from tjworker.reconcile.workloads.pod import needs_service
from tjworker.reconcile.workloads.podbody import Json, child_metadata

STARTING: tuple[State, ...] = ("missing", "pending", "scheduled")


def creates(p: Pass, held: Container[str]) -> Iterator[Create]:
    """Before the pods. `held`: roles whose pods are not made yet."""
    job = p.job
    serves = any(needs_service(replica) for view in p.roles.values() for replica in view.replicas)
    if job.subdomain and serves and job.subdomain not in {service.name for service in p.observed.services}:
        yield Create(SERVICES, job.subdomain, _service(p))
    proved = any(view.count("running") for view in p.roles.values())
    begun = [view for name, view in p.roles.items() if name not in held]
    to_make, starting = any(view.count("missing") for view in begun), any(view.count(*STARTING) for view in begun)
    if job.secret is not None and (to_make or (starting and not proved)):
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": child_metadata(job, job.secret.name)}
        yield Create(SECRETS, job.secret.name, body, holds=job.secret.holds)


def _service(p: Pass) -> Json:
    """Pods are found before they are ready: the launcher of an MPI job looks for its own name, too."""
    metadata = child_metadata(p.job, p.job.subdomain)
    own = {name: metadata["labels"][name] for name in (labels.GROUP_NAME, labels.JOB_NAME, labels.JOB_UID)}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": own},
    }
