"""A job that training-operator has had, and what becomes of it here: what ended there stays ended, what waits goes on,
what has pods there is let be.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.scenarios.test_kubeflow import JOBS, PREFIX, PYTORCH, W0, M, job, role, world
from tests.scenarios.world import World
from tests.support import fast_yaml as yaml
from tests.support.paths import ROOT

Json = dict[str, Any]


def test_a_kind_that_is_not_switched_on_is_its_own_operators() -> None:
    """Neither its jobs nor the pods that belong to them are looked at."""
    w = World(kinds="tfjobs.kubeflow.org")
    crd = yaml.safe_load((ROOT / "k8s/kinds/pytorchjobs.kubeflow.org/crd.yaml").read_text())
    w.cluster.client.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    made = w.cluster.client.create(JOBS, job(PYTORCH, {"Worker": role(1)}))
    w.create_pod(pod_of_training_operator(made))
    w.run().advance(60)
    assert (list(w.pods()), dict(w.queue.published)) == ([W0], {})


def test_pods_that_training_operator_has_made_are_not_taken_for_ours() -> None:
    w = world()
    made = w.cluster.client.create(JOBS, job(PYTORCH, {"Worker": role(1)}))
    made = w.cluster.client.update(f"{JOBS}/digits/status", made | {"status": by_training_operator("Running")})
    w.create_pod(pod_of_training_operator(made))
    before = w.uids()
    w.run().advance(60)
    assert w.uids() == before
    after = w.cluster.client.get(f"{JOBS}/digits")["status"]["conditions"]
    assert [c["reason"] for c in after if c["type"] == "Failed"] == ["PyTorchJobFailedValidation"]
    assert "another operator has begun this job" in after[-1]["message"]


def pod_of_training_operator(owner: Json) -> Json:
    reference = {"apiVersion": "kubeflow.org/v1", "kind": PYTORCH, "name": "digits", "controller": True}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": W0,
            "labels": {f"{PREFIX}job-name": "digits", f"{PREFIX}replica-type": "worker"},
            "ownerReferences": [{**reference, "uid": owner["metadata"]["uid"]}],
        },
        "spec": {"containers": [{"name": "pytorch", "image": "trainer:1"}]},
    }


def by_training_operator(condition: str) -> Json:
    """As training-operator leaves a status."""
    at = "2026-01-01T00:00:00Z"
    over = condition in ("Succeeded", "Failed")
    told = [("Created", "True"), *([("Running", "False")] if over else []), (condition, "True")]
    return {
        **({"startTime": at} if over or condition == "Running" else {}),
        **({"completionTime": at} if over else {}),
        "conditions": [
            {"type": t, "status": s, "reason": f"PyTorchJob{t}", "lastUpdateTime": at, "lastTransitionTime": at}
            for t, s in dict(told).items()
        ],
    }


def test_a_job_that_waits_in_kueues_queue_is_taken_over_from_training_operator() -> None:
    """Created suspended there: no pods, conditions Created and Suspended."""
    w = world()
    made = w.cluster.client.create(JOBS, job(PYTORCH, {"Master": role(), "Worker": role(1)}, {"suspend": True}))
    w.cluster.client.update(f"{JOBS}/digits/status", made | {"status": by_training_operator("Suspended")})
    w.run().advance(60)
    after = w.cluster.client.get(f"{JOBS}/digits")["status"]
    assert {c["type"] for c in after["conditions"] if c["status"] == "True"} == {"Created", "Suspended"}
    assert "completionTime" not in after
    w.cluster.client.patch(f"{JOBS}/digits", {"spec": {"runPolicy": {"suspend": False}}})
    w.run().advance(30)
    after = w.cluster.client.get(f"{JOBS}/digits")["status"]
    assert (sorted(w.pods()), after["conditions"][-1]["type"]) == ([M, W0], "Running")


def test_apod_of_training_operators_that_is_still_going_holds_its_name_and_not_the_job() -> None:
    """Kueue has evicted the job, and admits it again before its pod is gone."""
    w = world()
    made = w.cluster.client.create(JOBS, job(PYTORCH, {"Worker": role(1)}))
    w.cluster.client.update(f"{JOBS}/digits/status", made | {"status": by_training_operator("Suspended")})
    w.create_pod(pod_of_training_operator(made))
    w.run().advance(30)
    after = w.cluster.client.get(f"{JOBS}/digits")["status"]
    assert "was made for this job by another operator" in after["operator"]["message"]
    w.delete_pod(W0).run().advance(60)
    after = w.cluster.client.get(f"{JOBS}/digits")["status"]
    assert (list(w.pods()), after["conditions"][-1]["type"]) == ([W0], "Running")


@pytest.mark.parametrize("condition", ["Succeeded", "Failed"])
def test_what_training_operator_has_ended_is_not_run_again(condition: str) -> None:
    w = world(nodes=1)
    made = w.cluster.client.create(JOBS, job(PYTORCH, {"Worker": role(1)}))
    w.cluster.client.update(f"{JOBS}/digits/status", made | {"status": by_training_operator(condition)})
    w.run().advance(30)
    assert list(w.pods()) == []
    after = w.cluster.client.get(f"{JOBS}/digits")["status"]
    assert {c["type"]: c["status"] for c in after["conditions"]}[condition] == "True"
    assert after["completionTime"] == "2026-01-01T00:00:00Z"
