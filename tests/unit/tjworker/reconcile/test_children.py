"""The bodies of pods and services that the operator creates."""

from __future__ import annotations

from tests.support.builders import make_job
from tests.unit.tjworker.reconcile.passes import decide
from tjworker.api.resources import PODS, SERVICES


def test_a_templates_own_scheduler_goes_before_the_jobs() -> None:
    template = {"spec": {"schedulerName": "mine", "containers": [{"name": "aitj-main", "image": "trainer:1"}]}}
    job = make_job().role("trainer", 1, template=template).spec(schedulerName="the-jobs").build()
    (pod,) = [w for w in decide(job).writes if w.resource == PODS]
    assert pod.body["spec"]["schedulerName"] == "mine"  # type: ignore[union-attr]


def test_a_service_gives_each_port_by_its_name_to_the_same_port_of_the_pod() -> None:
    job = make_job().role("trainer", 1, ports=(7164, 7165)).build()
    (service,) = [w for w in decide(job).writes if w.resource == SERVICES]
    assert service.body["spec"]["ports"] == [  # type: ignore[union-attr]
        {"name": "aitj-7164", "port": 7164, "targetPort": 7164},
        {"name": "aitj-7165", "port": 7165, "targetPort": 7165},
    ]
