"""What a job has once, beside its pods: one headless service for all of them, a Secret that they mount. Pure.

Of the Secret only that it is made is known, never what is in it, nor that it is there: it is asked for again in each
pass until every pod has started, and a second create does nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from tjworker.api import labels
from tjworker.api.resources import SECRETS, SERVICES
from tjworker.reconcile.one_pass import Pass
from tjworker.reconcile.plan import Create
from tjworker.reconcile.replicas import State
from tjworker.reconcile.workloads.podbody import Json, child_metadata

STARTING: tuple[State, ...] = ("missing", "pending", "scheduled")


def creates(p: Pass) -> Iterator[Create]:
    """Before the pods."""
    job = p.job
    starting = any(view.count(*STARTING) for view in p.roles.values())
    if job.subdomain and starting and job.subdomain not in {service.name for service in p.observed.services}:
        yield Create(SERVICES, job.subdomain, _service(p))
    if job.secret is not None and starting:
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
