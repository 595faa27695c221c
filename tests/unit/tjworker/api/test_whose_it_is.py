"""Whose a job or an object is: other operators' controllers, and labels of children."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.builders import make_job
from tests.support.guests import GUESTS, KIND_OF, guest_job
from tjworker.api.model import InvalidJob
from tjworker.base import GroupResource

MANAGERS: dict[str, tuple[Any, bool]] = {
    "nobody is named": (None, False),
    "an empty name": ("", False),
    "training-operator": ("kubeflow.org/training-operator", False),
    "the MPI operator": ("kubeflow.org/mpi-operator", False),
    "Kueue": ("kueue.x-k8s.io/multikueue", True),
    "a controller that is called almost alike": ("kubeflow.org/training-operator-2", True),
    "no text": (7, False),
}


@pytest.mark.parametrize("manager", MANAGERS)
@pytest.mark.parametrize("kind", GUESTS)
def test_which_jobs_another_controller_has(kind: GroupResource, manager: str) -> None:
    """KubeDL's kinds have no such field."""
    named, of_another = MANAGERS[manager]
    raw = guest_job(kind)
    raw["spec"]["runPolicy"] = {**raw["spec"].get("runPolicy", {}), "managedBy": named}
    guest = KIND_OF[kind].guest
    assert guest is not None
    assert guest.is_for_another(raw) == (of_another and KIND_OF[kind].group == "kubeflow.org")


@pytest.mark.parametrize(("replicas", "most", "fits"), [(600, None, True), (700, None, False), (1, 700, False)])
def test_the_pods_of_a_job_fit_into_etcd_at_its_largest(replicas: int, most: int | None, fits: bool) -> None:
    """1 GiB for all of them, each with a copy of a template of 1.6 MiB."""
    template = {"spec": {"containers": [{"name": "aitj-main", "image": "x", "args": ["x" * (1_650_000)]}]}}
    job = make_job().role("trainer", replicas, most=most, template=template).parse()
    assert isinstance(job, InvalidJob) is not fits
