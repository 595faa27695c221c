"""Row 17. The job is deleted and created again under its name, at every step of a scenario, among pods with our labels
that are others'. The new job lives as if there had been no other: its objects are made and deleted as often, no
stranger is touched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

from localcluster.kubelet.fake import made_for
from localcluster.kubelet.play import Play, play_of
from localcluster.storage import Event
from tests.simulation.fault import Row, Verdict, spread, verdict
from tests.simulation.ledger import CHILDREN, called
from tests.simulation.oracles import PATIENCE_SECONDS, Allowance, Outcome, judge, live, whole
from tests.simulation.points import Fault, Kind, Step
from tests.simulation.scenarios import SCENARIOS
from tests.simulation.scripts import NAME, Scenario
from tests.simulation.world import SimWorld
from tjworker.api import labels

WITHIN_SECONDS = 120.0
"""Of the second creation: the pods of the first job have their grace to go, and hold the names meanwhile."""
Json = dict[str, Any]
KINDS: Sequence[Kind] = ("write", "redis")
WAYS = ("before", "long-before", "after")
"""`long-before`: the worker stands still past its lease; what it meant for the first job's objects meets the
second's."""
STANDS_STILL_SECONDS = 45.0
MAKES_PODS = ("POST pods/", "POST replicasets/", "POST jobs/", "PATCH replicasets/", "PATCH jobs/")
STRANGER = "another-keeps-it"
_POD = f"pods/ReplicaSet {STRANGER}/*"
"""As the oracles call it."""


class Again(Fault):
    """At this step the user deletes the job and creates it again. Counts what is made and deleted of the new one's."""

    def __init__(self, scenario: Scenario, kind: Kind, number: int, way: str) -> None:
        self._scenario = scenario
        self._at = (kind, number)
        self._way = way
        self._uid = ""
        self.made: Counter[str] = Counter()
        self.deleted: Counter[str] = Counter()
        self.touched: list[str] = []
        self.on_the_way = 0
        """Writes that make pods of the first job, of the pass that was under way when it was deleted: their proof went
        before. Of a worker that stands still it is the one in its hand; for the others its lease has lapsed."""
        self._passing = ""
        self._attempts: Counter[tuple[str | None, str]] = Counter()
        self.at_seconds: float | None = None

    def before(self, world: SimWorld, step: Step) -> None:
        if not world.strangers & {STRANGER}:
            self._begin(world)
        if step.kind == "write" and any(step.what.endswith(f"/{name}") for name in world.strangers):
            self.touched.append(f"{step.actor} asked for {step.what}")
        now = self._way in ("before", "long-before") and (step.kind, step.number) == self._at
        if now:
            self._strike(world)
            self._passing = "" if step.what.endswith("/status") else self._at_work(step)
        if step.actor == self._passing:
            self.on_the_way += step.what.startswith(MAKES_PODS)
            if step.what.startswith("finish "):
                self._passing = ""
        if now and self._way == "long-before" and step.actor.startswith("worker"):
            self._passing = ""
            world.others_go_on(step.actor, STANDS_STILL_SECONDS)

    def after(self, world: SimWorld, step: Step) -> None:
        if self._way == "after" and (step.kind, step.number) == self._at:
            self._strike(world)
            self._passing = self._at_work(step)

    def _at_work(self, step: Step) -> str:
        return step.actor if step.kind == "write" and step.actor.startswith("worker") else ""

    def _begin(self, world: SimWorld) -> None:
        world.strangers.add(STRANGER)
        world.ledger.strangers.add(STRANGER)
        world.cluster.kubelet.script = self._script
        store = world.cluster.apiserver.store
        self._next = store.on_event
        store.on_event = self._see
        self._stranger(world)

    def _stranger(self, world: SimWorld) -> None:
        """With every label of a pod of this very job, kept by another's ReplicaSet: a copied template."""
        job, client = world.the_job(), world.cluster.client
        marks = {
            labels.GROUP_NAME: self._scenario.manifest["apiVersion"].partition("/")[0],
            labels.JOB_NAME: NAME,
            labels.REPLICA_NAME: self._scenario.kind.scale_role,
            labels.REPLICA_TYPE: self._scenario.kind.scale_role,
            labels.REPLICA_INDEX: "0",
            labels.RESTART_ATTEMPT: "0",
            labels.JOB_UID: job["metadata"]["uid"] if job else "none",
            "app": STRANGER,
        }
        spec = {"containers": [{"name": "a", "image": "b"}], "tolerations": [{"operator": "Exists"}]}
        workload = client.create(
            "/apis/apps/v1/namespaces/default/replicasets",
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "metadata": {"name": STRANGER},
                "spec": {
                    "replicas": 1,
                    "selector": {"matchLabels": {"app": STRANGER}},
                    "template": {"metadata": {"labels": marks}, "spec": spec},
                },
            },
        )
        owner = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": STRANGER,
            "uid": workload["metadata"]["uid"],
            "controller": True,
        }
        client.create(
            "/api/v1/namespaces/default/pods",
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "spec": spec,
                "metadata": {"name": STRANGER, "labels": marks, "ownerReferences": [owner]},
            },
        )

    def _script(self, pod: Json, attempt: int) -> Play:
        """What a pod does the first time hangs on how often this job has run it, not one before it of the same name."""
        meta = pod["metadata"]
        run = (meta.get("labels") or {}).get(labels.JOB_UID), made_for(pod) or meta["name"]
        self._attempts[run] += 1
        return play_of(pod, self._attempts[run])

    def _strike(self, world: SimWorld) -> None:
        world.trace.note(world.clock(), "FAULT", "the job is deleted and created again")
        if world.the_job() is not None:
            world.cluster.client.delete(f"{self._scenario.path}/{NAME}")
        made = world.cluster.client.create(self._scenario.path, self._scenario.manifest)
        self._uid = made["metadata"]["uid"]
        world.cluster.client.patch(
            f"/api/v1/namespaces/default/pods/{STRANGER}", {"metadata": {"labels": {labels.JOB_UID: self._uid}}}
        )
        self.at_seconds = world.clock() - world.began_at
        world.acts[:] = [partial(act, world) for act in self._scenario.acts]

    def _see(self, event: Event) -> None:
        if event.bucket in CHILDREN:
            obj = event.item.obj
            counts = {"ADDED": self.made, "DELETED": self.deleted}.get(event.type)
            if (
                counts is not None
                and self._uid
                and (obj["metadata"].get("labels") or {}).get(labels.JOB_UID) == self._uid
            ):
                counts[f"{event.bucket}/{called(obj)}"] += 1
        self._next(event)


@cache
def points(name: str) -> Sequence[str]:
    """Of a scenario among strangers: their pods draw random names too, so another trainer may be the one that stays
    after scaling down, and the scenario may have a write more or fewer than alone."""
    never = Again(SCENARIOS[name], "write", -1, "before")
    steps = live(SCENARIOS[name], never).steps
    return [
        f"{kind}-{number}-{way}"
        for kind in KINDS
        for number in range(steps[kind])
        for way in WAYS
        if kind == "write" or way != "long-before"
    ]


def play(run: str) -> Verdict:
    name, _, point = run.partition("/")
    kind, number, way = point.split("-", 2)
    scenario, undisturbed = SCENARIOS[name], whole(name)
    again = Again(scenario, kind, int(number), way)  # type: ignore[arg-type]
    longest = max(undisturbed.first.seconds, undisturbed.second.seconds)
    struck = replace(scenario, over=lambda world: again.at_seconds is not None and scenario.over(world))
    outcome = live(struck, again, more_seconds=longest + PATIENCE_SECONDS)
    if again.at_seconds is None:
        return Verdict((f"there was no {point}",), trace=outcome.trace)
    new = replace(
        outcome,
        creates=again.made,
        deletes=again.deleted,
        seconds=outcome.seconds - again.at_seconds,
        state=_without_the_stranger(outcome.state),
    )
    alone = replace(undisturbed, first=_of_the_job(undisturbed.first), second=_of_the_job(undisturbed.second))
    wrong = [*again.touched, *judge(new, alone, Allowance(WITHIN_SECONDS, on_the_way=again.on_the_way))]
    if outcome.state.get(f"{_POD}.metadata.name") != STRANGER:
        wrong.append("the pod that another keeps is gone")
    if f"{_POD}.metadata.deletionTimestamp" in outcome.state:
        wrong.append("the pod that another keeps is being deleted")
    return verdict(new, alone, wrong)


def _of_the_job(run: Outcome) -> Outcome:
    return replace(run, creates={name: count for name, count in run.creates.items() if name != "pods/bystander"})


def _without_the_stranger(state: Any) -> dict[str, Any]:
    theirs = (f"{_POD}.", f"{_POD}#", f"apps/replicasets/{STRANGER}.", f"apps/replicasets/{STRANGER}#")
    return {path: value for path, value in state.items() if not path.startswith(theirs)}


TWICE = tuple(name for name, scenario in SCENARIOS.items() if not (scenario.alone or scenario.beside))
"""In the others a node stays lost, or the job goes by itself: the second scenario has another world than the first. And
a job beside it, which is not made again, would count."""


def _runs() -> Sequence[str]:
    return [f"{name}/{point}" for name in TWICE for point in points(name)]


def _sample(name: str) -> Sequence[str]:
    return [f"{name}/{point}" for point in spread(1)(points(name))]


ROW = Row(
    17,
    "deleted and created again under one name at every step, among strangers with our labels",
    _runs,
    {name: lambda name=name: _sample(name) for name in TWICE},  # type: ignore[misc]
    play,
)
