"""A job that has begun goes on, whatever is written into its spec or annotations: for each class of bad edit the job
still completes, fails, is suspended, meets its limits, is preempted, scales down and is deleted by its TTL, and its
neighbours notice nothing.

The API server here takes any spec, as one does whose CRD is older than the operator, or was loosened by hand.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.hostile.values import TEXTS
from tests.scenarios.world import CRDS, World, guest_crd, job, role, training_job
from tests.support.guests import GUESTS, KIND_OF, guest_job, suspended
from tests.support.kinds import AITRAININGJOBS, TRAININGJOBS
from tests.support.seeds import the_seed
from tests.support.tiers import one_in
from tjworker.api.kinds import KNOWN_KINDS, parse
from tjworker.api.kinds.base import MEMORY
from tjworker.api.labels import ANNOTATION_TENSORBOARD as TENSORBOARD
from tjworker.api.model import InvalidJob
from tjworker.base import GroupResource

Json = dict[str, Any]
ANYTHING: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
PYTORCH = GroupResource("pytorchjobs.kubeflow.org")


def loosened(crd: Json) -> Json:
    """It lets every spec pass that is an object; the scale subresource would look at numbers."""
    crd = copy.deepcopy(crd)
    for version in crd["spec"]["versions"]:
        schema = version["schema"]["openAPIV3Schema"]
        schema.pop("x-kubernetes-validations", None)
        schema["properties"]["spec"] = ANYTHING
        version["subresources"].pop("scale", None)
    return crd


class LooseWorld(World):
    crds = tuple(loosened(crd) for crd in CRDS)

    def __init__(self, resource: GroupResource, **settings: Any) -> None:
        guest = KNOWN_KINDS[resource].guest is not None
        if guest:
            self.crds = (*self.crds, loosened(guest_crd(resource)))
        super().__init__(nodes=2, seed=1)
        if guest:  # the schema is installed already
            self.settings = self.settings.model_copy(update={"kinds": str(resource), **settings})
            self.worker = self.make_worker("worker-1")
            self.start_watcher()

    def own(self, name: str) -> Json:
        status = self.status(name)
        found: Json = status.get(MEMORY) or status
        return found

    def phase(self, name: str = "digits") -> str:
        return str(self.own(name).get("phase", ""))

    def condition(self, type_: str, name: str = "digits") -> Json:
        return next((c for c in self.own(name).get("conditions", ()) if c["type"] == type_), {})

    def path(self, name: str) -> str:
        return self._job(name)

    def pods_of(self, name: str) -> list[str]:
        return sorted(pod for pod in self.pods() if pod.startswith(f"{name}-"))

    def exit(self, name: str, code: int) -> None:
        """All pods of a job, whoever keeps them."""
        for pod in self.pods_of(name):
            if self.pods()[pod].get("status", {}).get("phase") == "Running":
                self.cluster.kubelet.exit("default", pod, code)


@dataclass(frozen=True)
class Edit:
    patch: Json
    want: str
    """In the condition: the field and what is wrong with it."""
    resource: GroupResource = AITRAININGJOBS
    scales: bool = True
    """The edit leaves the numbers of replicas readable."""


def annotation(name: str, text: str) -> Json:
    return {"metadata": {"annotations": {name: text}}}


def of_trainer(**fields: Any) -> Json:
    return {"spec": {"replicaSpecs": {"trainer": fields}}}


def of_worker(**fields: Any) -> Json:
    return {"spec": {"pytorchReplicaSpecs": {"Worker": fields}}}


EDITS: dict[str, Edit] = {
    "replicas above maxReplicas": Edit(of_trainer(replicas=9), "trainer.replicas: 9: must be at most", scales=False),
    "replicas in words": Edit(of_trainer(replicas="many"), "trainer.replicas: 'many'", scales=False),
    "a template without containers": Edit(of_trainer(template={"spec": {"containers": []}}), "spec.containers"),
    "no template": Edit(of_trainer(template=None), "trainer.template: required value"),
    "a restartPolicy that there is not": Edit(of_trainer(restartPolicy="Sometimes"), "restartPolicy: 'Sometimes'"),
    "a runPolicy that is a number": Edit({"spec": {"runPolicy": 5}}, "spec.runPolicy: 5"),
    "a gang larger than the job": Edit(
        {"spec": {"runPolicy": {"schedulingPolicy": {"minAvailable": 40}}}}, "minAvailable: 40: must be at most"
    ),
    "two policies that disagree": Edit(
        {"spec": {"cleanPodPolicy": "All", "runPolicy": {"cleanPodPolicy": "None"}}}, "they must agree"
    ),
    "another framework, whose roles it has not": Edit({"spec": {"frameworkType": "mpi"}}, "has the role launcher"),
    "roles that are a list": Edit({"spec": {"replicaSpecs": ["trainer"]}}, "spec.replicaSpecs", scales=False),
    "a TensorBoard with a typing error": Edit(
        annotation(TENSORBOARD, '{"logdir": "/logs"}'), "has the unknown key 'logdir'"
    ),
    "elastic bounds the wrong way round": Edit(
        {"spec": {"elasticPolicy": {"minReplicas": 3, "maxReplicas": 2}}},
        "elasticPolicy.minReplicas: 3: must be at most maxReplicas (2)",
        PYTORCH,
        scales=False,
    ),
    "a role that a PyTorchJob has not": Edit(
        {"spec": {"pytorchReplicaSpecs": {"Evaluator": {"template": {"spec": {"containers": [{"name": "a"}]}}}}}},
        "Evaluator: is no role of a PyTorchJob",
        PYTORCH,
    ),
    "an entrypoint that does not close": Edit(
        {"spec": {"trainer": {"entrypoint": "sh -c 'x"}}}, "trainer.entrypoint", TRAININGJOBS
    ),
}
LIVES = ("succeeds", "fails", "waits", "times-out", "is-preempted", "scales", "expires")
SECONDS = 8


def manifest(resource: GroupResource, name: str) -> Json:
    if resource == AITRAININGJOBS:
        made = job({"ps": role(1, completePolicy="All"), "trainer": role(3, minReplicas=1, maxReplicas=4)}, name=name)
    elif resource == TRAININGJOBS:
        made = training_job(name, least=3, most=4, fault_tolerant=True)
    else:
        made = guest_job(resource, restart="Never")
        made["spec"]["elasticPolicy"] = {"minReplicas": 1, "maxReplicas": 4}
        made["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = 3
    made["metadata"]["name"] = name
    return made


def run_policy(resource: GroupResource, **fields: Any) -> Json:
    return KNOWN_KINDS[resource].with_run_policy(fields)


def suspend(resource: GroupResource, suspend: bool) -> Json:
    return suspended(resource, suspend) if resource in KIND_OF else {"spec": {"suspend": suspend}}


def scaled_down(resource: GroupResource) -> Json:
    if resource == TRAININGJOBS:
        return {"spec": {"trainer": {"min-instance": 1}}}
    return of_trainer(replicas=1) if resource == AITRAININGJOBS else of_worker(replicas=1)


@pytest.mark.parametrize("sentence", one_in(3, EDITS))
def test_a_job_that_has_begun_goes_on_to_each_of_its_ends(sentence: str) -> None:
    edit, of = EDITS[sentence], EDITS[sentence].resource
    w = LooseWorld(of)
    for name in (*LIVES, "neighbour"):
        w.apply(manifest(of, name))
    every = (*LIVES, "neighbour")
    w.until("all run", lambda: all(w.phase(name) == "Running" for name in every))
    before = w.uids()
    beside = w.status("neighbour")
    for name in LIVES:
        w.patch_job(name, edit.patch)
    w.advance(3)
    assert w.uids() == before, "no pod comes or goes for an edit that cannot be read"
    for name in LIVES:
        told = w.condition("Failed", name)
        assert (told["status"], told["reason"]) == ("False", "InvalidSpec")
        assert edit.want in told["message"]
        assert "goes on with the last values that could be used" in told["message"]
        assert w.phase(name) == "Running"
    w.patch_job("waits", suspend(of, True)).patch_job("times-out", run_policy(of, activeDeadlineSeconds=5))
    w.patch_job("is-preempted", annotation("Preempted", "room for others"))
    w.patch_job("expires", run_policy(of, ttlSecondsAfterFinished=2)).patch_job("scales", scaled_down(of))
    w.exit("succeeds", 0)
    w.exit("expires", 0)
    w.exit("fails", 1)
    w.advance(SECONDS, step_seconds=2)
    ends = {"succeeds": "Succeed", "fails": "Failed", "times-out": "Failed", "is-preempted": "Preempted"}
    assert {name: w.phase(name) for name in ends} == ends
    assert (w.phase("waits"), w.pods_of("waits")) == ("Suspended", [])
    assert w.condition("Failed", "times-out")["reason"] == "DeadlineExceeded"
    assert "goes on" not in w.condition("Failed", "succeeds")["message"]
    assert "expires" not in [each["metadata"]["name"] for each in w.get(of)["items"]]
    all_pods = [pod for pod in before if pod.startswith("scales-")]
    if edit.scales:
        assert len(w.pods_of("scales")) == len(all_pods) - 2
    else:
        assert w.phase("scales") == "Running"
    assert w.status("neighbour") == beside
    assert {pod: uid for pod, uid in w.uids().items() if pod.startswith("neighbour-")} == {
        pod: uid for pod, uid in before.items() if pod.startswith("neighbour-")
    }
    assert not [result for result in w.results if result.startswith("bug")]


@pytest.mark.parametrize("sentence", EDITS)
def test_a_job_with_such_a_spec_does_not_begin_and_starts_when_it_is_mended(sentence: str) -> None:
    edit, of = EDITS[sentence], EDITS[sentence].resource
    w, made = LooseWorld(of), manifest(of, "digits")
    mended = copy.deepcopy(made)
    held = merged(made, edit.patch)
    if (
        not isinstance(parse(of, held), InvalidJob)
        and "metadata" not in edit.patch
        and "frameworkType" not in str(held)
    ):
        pytest.skip("such a job can begin")
    w.apply(held).run().advance(5)
    told = w.condition("Failed")
    assert (w.phase(), told["status"], told["reason"]) == ("Failed", "True", "InvalidSpec")
    assert edit.want in told["message"]
    assert (w.pods(), w.services()) == ({}, [])
    live = w.get(of, "digits")
    live["metadata"]["annotations"] = mended["metadata"].get("annotations", {})
    w.cluster.client.update(w.path("digits"), {**live, "spec": mended["spec"]})
    w.until("it runs", lambda: w.phase() == "Running")
    assert not [c for c in w.own("digits")["conditions"] if c["type"] == "Failed"]
    w.exit("digits", 0)
    w.until("it succeeds", lambda: w.phase() == "Succeed")


def merged(old: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    made = dict(old) if isinstance(old, dict) else {}
    for name, part in patch.items():
        if part is None:
            made.pop(name, None)
        else:
            made[name] = merged(made.get(name), part)
    return made


# -- by chance ---------------------------------------------------------------------------------------

EVERY_KIND = (AITRAININGJOBS, TRAININGJOBS, *GUESTS)


def places(found: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Of the fields of a spec, down to those of a role's template."""
    for name, part in found.items():
        yield (*path, name)
        if isinstance(part, dict) and len(path) < 5:
            yield from places(part, (*path, name))


def spoil(resource: GroupResource, live: Json, rng: random.Random) -> Json:
    """A patch after which the spec cannot be used."""
    for _ in range(500):
        path = rng.choice([("spec", *path) for path in places(live["spec"])])
        patch: Any = rng.choice([None, 5, -1, "x", [], {}, 1.5, 10**6, rng.choice(TEXTS)])
        for step in reversed(path):
            patch = {step: patch}
        if isinstance(parse(resource, merged(live, patch)), InvalidJob) and "spec" in merged(live, patch):
            return patch  # type: ignore[no-any-return]
    raise AssertionError("no edit spoils it")


@pytest.mark.parametrize("seed", [the_seed(), *(pytest.param(the_seed() + n, marks=pytest.mark.long) for n in (1,))])
@pytest.mark.parametrize("resource", EVERY_KIND)
def test_whatever_is_spoilt_in_the_spec_of_a_job_that_runs(resource: GroupResource, seed: int) -> None:
    rng, w = random.Random(f"{resource} {seed}"), LooseWorld(resource)
    names = ("digits", "letters")
    for name in names:
        made = guest_job(resource) if resource in KIND_OF else manifest(resource, name)
        made["metadata"]["name"] = name
        w.apply(made)
    w.until("both run", lambda: all(w.phase(name) == "Running" for name in names))
    before = w.uids()
    edits = {name: spoil(resource, w.get(resource, name), rng) for name in names}
    told = f"seed {seed}: {edits}"
    for name in names:
        w.patch_job(name, edits[name])
    w.advance(3)
    assert w.uids() == before, told
    assert {w.condition("Failed", name).get("reason") for name in names} == {"InvalidSpec"}, told
    w.patch_job("letters", suspend(resource, True))
    w.exit("digits", 0)
    w.advance(SECONDS)
    assert (w.phase("digits"), w.phase("letters")) == ("Succeed", "Suspended"), told
    assert w.pods_of("letters") == [], told
    assert not [result for result in w.results if result.startswith("bug")], told
