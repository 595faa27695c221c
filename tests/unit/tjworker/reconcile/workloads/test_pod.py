"""The pods and services that a role gets: names, labels, owner, environment, ports."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.support.builders import make_job, make_pod, make_service, observe
from tests.support.builders.job import JobBuilder
from tests.unit.tjworker.reconcile.passes import after, created, decide, deleted
from tjworker.api.resources import PODS, SERVICES
from tjworker.reconcile.plan import Create


def bodies(builder: JobBuilder, resource: str = PODS) -> dict[str, Any]:
    plan = decide(builder.build())
    return {w.name: w.body for w in plan.writes if isinstance(w, Create) and w.resource == resource}


def template(**spec: Any) -> dict[str, Any]:
    container = {"name": "aitj-main", "image": "x", "ports": [{"name": "aitj-7164", "containerPort": 7164}]}
    return {"spec": {"containers": [container]} | spec}


def test_labels_and_owner() -> None:
    pod = bodies(make_job().labels(team="vision").role("trainer", 2))["digits-trainer-1"]
    assert pod["metadata"]["labels"] == {
        "team": "vision",
        "group-name": "elasticdeeplearning.ai",
        "job-name": "digits",
        "replica-type": "trainer",
        "replica-name": "trainer",
        "replica-index": "1",
        "restart-attempt": "0",
        "elasticdeeplearning.ai/job-uid": "uid-of-digits",
    }
    assert pod["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "elasticdeeplearning.ai/v1",
            "kind": "AITrainingJob",
            "name": "digits",
            "uid": "uid-of-digits",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert pod["metadata"]["namespace"] == "default"


def test_the_service_is_headless_and_selects_that_index() -> None:
    made = bodies(make_job().role("trainer", 2, ports=(7164, 7165)), SERVICES)["digits-trainer-1"]
    assert (made["apiVersion"], made["kind"], made["metadata"]["namespace"]) == ("v1", "Service", "default")
    spec = made["spec"]
    assert spec["clusterIP"] == "None"
    assert spec["publishNotReadyAddresses"] is True
    assert spec["selector"]["replica-index"] == "1"
    assert spec["selector"]["elasticdeeplearning.ai/job-uid"] == "uid-of-digits"
    assert "restart-attempt" not in spec["selector"]
    assert [(p["name"], p["port"]) for p in spec["ports"]] == [("aitj-7164", 7164), ("aitj-7165", 7165)]


SERVED: dict[str, tuple[JobBuilder, list[str]]] = {
    "one pod with a port": (make_job().role("trainer", 1), ["digits-trainer-0"]),
    "one pod without: nobody looks for it": (make_job().role("trainer", 1, ports=()), []),
    "two pods without": (make_job().role("trainer", 2, ports=()), ["digits-trainer-0", "digits-trainer-1"]),
    "two roles of one pod each, one without": (
        make_job().role("ps", 1).role("trainer", 1, ports=()),
        ["digits-ps-0", "digits-trainer-0"],
    ),
    "another role has no pod": (make_job().role("ps", 0).role("trainer", 1, ports=()), []),
}


@pytest.mark.parametrize(("job", "want"), SERVED.values(), ids=SERVED.keys())
def test_which_pods_have_a_service(job: JobBuilder, want: list[str]) -> None:
    assert sorted(bodies(job, SERVICES)) == want
    assert set(want) <= set(bodies(job))


def test_a_pod_that_gets_company_gets_its_service() -> None:
    alone = make_job().role("trainer", 1, ports=()).build()
    first = make_pod(alone, "trainer", 0).running()
    alone = after(alone, decide(alone, observe(first)))
    two = make_job().role("trainer", 2, ports=()).status(alone.status).build()
    assert created(decide(two, observe(first)), SERVICES) == ["digits-trainer-0", "digits-trainer-1"]


def test_kubelet_never_restarts_a_replica_behind_the_operators_back() -> None:
    job = make_job().role("trainer", 1, template=template(restartPolicy="Always"))
    assert bodies(job)["digits-trainer-0"]["spec"]["restartPolicy"] == "Never"


def test_the_template_in_the_job_is_never_touched() -> None:
    job = make_job().role("trainer", 2, template=template(initContainers=[{"name": "a", "image": "b"}])).build()
    before = copy.deepcopy(dict(job.roles[0].template))
    decide(job)
    assert job.roles[0].template == before


def test_a_service_follows_the_ports_of_an_edited_template_when_its_pod_is_made_again() -> None:
    old = make_job().role("trainer", 2, ports=(7164,)).status(phase="Running").build()
    new = make_job().role("trainer", 2, ports=(7165,)).status(phase="Running").build()
    services = [make_service(old, "trainer", 0), make_service(old, "trainer", 1)]
    plan = decide(new, observe(make_pod(new, "trainer", 0).running(), *services))
    assert deleted(plan, SERVICES) == ["digits-trainer-1"], "trainer-0 runs with the old port"
    assert created(plan) == ["digits-trainer-1"]
    then = decide(
        after(new, plan), observe(make_pod(new, "trainer", 0).running(), make_pod(new, "trainer", 1), services[0])
    )
    assert (deleted(then, SERVICES), created(then, SERVICES)) == ([], ["digits-trainer-1"])
