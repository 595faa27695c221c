"""The life of a job of every kind of another operator's, under watchers that resume one after another: it runs, loses a
pod, is suspended, goes on, and is deleted. What differs by kind has tests of its own.
"""

from __future__ import annotations

import pytest

from tests.scenarios.test_resumes import Restless
from tests.support.guests import GUESTS, KIND_OF, guest_job, suspended
from tjworker.api.kinds.base import MEMORY
from tjworker.base import GroupResource, JobKey


class Guests(Restless):
    def __init__(self, resource: GroupResource) -> None:
        super().__init__(nodes=2, kinds=resource)

    def phase(self, name: str = "digits") -> str:
        return str(self.status(name).get(MEMORY, {}).get("phase", ""))

    def runs(self) -> bool:
        return self.phase() == "Running"

    def last_condition(self) -> str:
        return str(self.status()["conditions"][-1]["type"])


LIVED = [
    # Kubeflow's have lives of their own, in test_kubeflow and test_mpijob.
    pytest.param(resource, id=resource, marks=[pytest.mark.long] if KIND_OF[resource].group == "kubeflow.org" else [])
    for resource in GUESTS
]


@pytest.mark.parametrize("resource", LIVED)
def test_a_job_of_every_kind_lives(resource: GroupResource) -> None:
    w, pods, (role, last) = Guests(resource), sum(GUESTS[resource].values()), [*GUESTS[resource].items()][-1]
    lost = f"digits-{role.lower()}-{last - 1}"
    w.apply(guest_job(resource))
    w.until("it runs", w.runs)
    assert (len(w.pods()), w.last_condition()) == (pods, "Running")
    first = w.uids()
    w.delete_pod(lost)
    w.until("the pod is back", lambda: w.runs() and len(w.pods()) == pods)
    kept = {name for name, uid in w.uids().items() if first.get(name) == uid}
    assert kept == {*first} - {lost}, "the others go on"
    assert w.status()[MEMORY]["restartCounts"][role]["user"] == 1
    w.patch_job("digits", suspended(resource, True))
    w.until("its pods are gone", lambda: w.phase() == "Suspended" and w.pods() == {})
    assert w.last_condition() == "Suspended"
    said = next(c for c in w.status()["conditions"] if c["type"] == "Suspended")["message"]
    assert "suspended" in said
    w.patch_job("digits", suspended(resource, False))
    w.until("it runs again", lambda: w.runs() and len(w.pods()) == pods)
    assert w.status()[MEMORY]["restarts"] == 1, "only the lost pod is a restart"
    w.delete("digits")
    w.until("nothing is left", lambda: w.pods() == {} and w.services() == [])


@pytest.mark.parametrize("resource", GUESTS)
def test_a_job_that_runs_is_left_alone(resource: GroupResource) -> None:
    w = Guests(resource)
    w.apply(guest_job(resource))
    w.until("it runs", w.runs)
    w.advance(1)
    before, passes = w.requests(), len(w.results)
    for _ in range(3):
        w.queue.publish(w.store.queue.add([JobKey(f"{resource}/default/digits")]))
        w.advance(1)
    assert len(w.results) == passes + 3
    assert w.requests() == before, "a pass over it asks for nothing"


@pytest.mark.parametrize("resource", GUESTS)
def test_a_label_that_was_taken_off_its_pod_comes_back(resource: GroupResource) -> None:
    """Theirs as well as ours: their users find pods by it."""
    w = Guests(resource)
    w.apply(guest_job(resource))
    w.until("it runs", w.runs)
    pod = max(w.pods())
    labels = w.pods()[pod]["metadata"]["labels"]
    gone = {name: None for name in labels if name.rpartition("/")[2] in ("replica-type", "job-name")}
    w.patch_pod(pod, {"metadata": {"labels": gone}}).run()
    assert w.pods()[pod]["metadata"]["labels"] == labels


@pytest.mark.parametrize("resource", GUESTS)
def test_a_refusal_names_the_field_that_the_user_wrote(resource: GroupResource) -> None:
    """In the case of its letters, too."""
    made, field = guest_job(resource), KIND_OF[resource].roles_field
    name = [*GUESTS[resource]][-1]
    role = made["spec"][field].pop(name)
    made["spec"][field][name.lower()] = role | {"replicas": 100_000}
    job = KIND_OF[resource].parse(made)
    errors = "; ".join(map(str, getattr(job, "errors", ())))
    assert f"spec.{field}.{name.lower()}.replicas: 100000" in errors or f"spec.{field}: 10" in errors, errors
    assert "spec.replicaSpecs" not in errors
