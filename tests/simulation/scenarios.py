"""The scenarios that every row is tried on: each way of keeping pods (a `Make`) through each of the four scripts, and a
few more.

A job kind or a workload is one line in `MAKES`; a script that only some can live is one in `ALSO`. What the user does
hangs on what he sees and not on the clock, so that a disturbance delays a script and does not change it. The trainers
run for minutes, so that no script is over before the operator has recovered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from localcluster.objects import seconds_of
from tests.scenarios.world import job, play, role, training_job
from tests.simulation.world import LOOK_SECONDS, SimWorld
from tests.support.kinds import collection_of, resource_of
from tjworker.api.kinds import KINDS

Json = dict[str, Any]
Act = Callable[[SimWorld], bool]
"""Asked at every moment until it says that it has done it."""
Over = Callable[[SimWorld], bool]
Make = Callable[["Wish"], Json]
NAME = "digits"


@dataclass(frozen=True)
class Wish:
    """What a script asks of a job, in no kind's words."""

    trainers: int = 2
    run_seconds: float = 200
    fails_first: bool = False
    """Each trainer's first run ends with 137 after 30 s, and is tried again."""
    fails_for_good: bool = False
    """Each run of it, after 100 s: by then the operator has seen it run, whatever has held it up."""
    elastic: bool = False

    def play(self) -> dict[str, object]:
        """What the pods of its trainers do."""
        told: dict[str, object] = {"start_seconds": 2, "run_seconds": self.run_seconds}
        if self.fails_first:
            told |= {"failing_attempts": 1, "failing_exit_code": 137, "failing_run_seconds": 30}
        if self.fails_for_good:
            told |= {"run_seconds": 100, "failing_attempts": 0, "exit_code": 1}
        return told


@dataclass(frozen=True)
class Scenario:
    name: str
    manifest: Json
    over: Over
    acts: tuple[Act, ...] = ()
    nodes: int = 2
    within_seconds: float = 600
    """Of an undisturbed script, with much to spare."""
    alone: bool = False
    """What becomes of a second job beside it hangs on where its pods happen to be."""
    autoscaled: bool = False
    """The autoscaler runs too. It looks every few seconds, so a script with it costs twice as much."""
    chance: frozenset[str] = frozenset()
    """Conditions that tell, once they are over, of the way and not of the end."""

    chance_seconds: float = 0.0
    """So much earlier may a time be than undisturbed: its cause looks only every now and then."""

    @property
    def path(self) -> str:
        return collection_of(self.manifest)

    @property
    def scaled_role(self) -> str:
        """The one whose pods a script counts."""
        return KINDS[resource_of(self.manifest)].scale_role


# -- what the user does ----------------------------------------------------------------------------


def when_running(
    do: Callable[[SimWorld, Scenario], object], *, trainers: int = 2, for_seconds: float = 0
) -> Callable[[Scenario], Act]:
    """When the job runs, for so long already, with so many trainers."""

    def of(scenario: Scenario) -> Act:
        def act(world: SimWorld) -> bool:
            if world.phase() != "Running" or len(standing(world, scenario.scaled_role)) != trainers:
                return False
            if for_seconds and world.clock() < seconds_of(world.status()["startRunningTime"]) + for_seconds:
                return False
            do(world, scenario)
            return True

        return act

    return of


def patch(body: Json) -> Callable[[SimWorld, Scenario], object]:
    return lambda world, scenario: world.cluster.client.patch(f"{scenario.path}/{NAME}", body)


def scale(replicas: int) -> Callable[[SimWorld, Scenario], object]:
    return lambda world, scenario: world.cluster.client.patch(
        f"{scenario.path}/{NAME}/scale", {"spec": {"replicas": replicas}}
    )


def delete(world: SimWorld, scenario: Scenario) -> None:
    world.cluster.client.delete(f"{scenario.path}/{NAME}")


def lose_the_node(world: SimWorld, scenario: Scenario) -> None:
    world.cluster.fail_node(world.pods()[first_pod(world, scenario.scaled_role)]["spec"]["nodeName"])


def delete_pod(role: str) -> Callable[[SimWorld, Scenario], object]:
    return lambda world, scenario: world.cluster.client.delete(
        f"/api/v1/namespaces/default/pods/{first_pod(world, role)}"
    )


def standing(world: SimWorld, role: str) -> list[str]:
    """Its pods without those that have failed: a batch Job keeps these beside their successors."""
    pods = world.pods().items()
    return [n for n, pod in pods if n.startswith(f"{NAME}-{role}") and pod["status"].get("phase") != "Failed"]


def first_pod(world: SimWorld, role: str) -> str:
    return min(name for name in world.pods() if name.startswith(f"{NAME}-{role}"))


def when_suspended(do: Callable[[SimWorld, Scenario], object], *, for_seconds: float) -> Callable[[Scenario], Act]:
    """When it has been that long without pods."""

    def of(scenario: Scenario) -> Act:
        def act(world: SimWorld) -> bool:
            since = world.status().get("suspendTime")
            if (
                world.phase() != "Suspended"
                or mine(world)
                or not since
                or world.clock() < seconds_of(since) + for_seconds
            ):
                return False
            do(world, scenario)
            return True

        return act

    return of


def mine(world: SimWorld) -> list[str]:
    """Pods and services of the job, not those of a companion."""
    return [name for name in (*world.pods(), *world.services()) if name.startswith(NAME)]


def _ended(world: SimWorld) -> bool:
    return not world.acts and bool(world.status().get("completionTime")) and not mine(world)


def _gone(world: SimWorld) -> bool:
    return not world.acts and world.the_job() is None and not mine(world)


# -- the four scripts --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Script:
    wish: Wish
    acts: tuple[Callable[[Scenario], Act], ...] = ()
    over: Over = _ended

    def of(self, name: str, manifest: Json, **more: Any) -> Scenario:
        bare = Scenario(name, manifest, self.over, **more)
        return replace(bare, acts=tuple(act(bare) for act in self.acts))


SCRIPTS: Mapping[str, Script] = {
    "succeeds": Script(Wish()),
    "restarts": Script(Wish(fails_first=True)),
    "scales": Script(Wish(elastic=True, run_seconds=400), (when_running(scale(4)), when_running(scale(1), trainers=4))),
    "deleted": Script(Wish(run_seconds=2000), (when_running(delete),), _gone),
}


# -- the ways of keeping pods ----------------------------------------------------------------------


def aitrainingjob(wish: Wish, **spec: Any) -> Json:
    more: Json = {"minReplicas": 1, "maxReplicas": 6, "edlPolicy": "Manual"} if wish.elastic else {}
    if wish.fails_first:
        more |= {"restartPolicy": "ExitCode", "restartScope": "Pod"}
    trainer = role(wish.trainers, annotations=play(**wish.play()), **more)
    return job({"ps": role(1, completePolicy="None"), "trainer": {**trainer, **spec.pop("trainer", {})}}, **spec)


def trainingjob(wish: Wish, *, pservers: int = 0, **spec: Any) -> Json:
    spec.setdefault("fault_tolerant", wish.fails_first or wish.elastic)
    return training_job(
        least=wish.trainers, most=6 if wish.elastic else None, pservers=pservers, play={"trainer": wish.play()}, **spec
    )


MAKES: Mapping[str, Make] = {
    "ai-pod": aitrainingjob,
    "edl-job": trainingjob,
    "edl-replicaset": partial(trainingjob, pservers=1),
}
"""JobKind and workload. A TrainingJob keeps its trainers by a batch Job, its parameter servers by a ReplicaSet."""


def _ai(
    wish: Wish = Wish(),
    *acts: Callable[[Scenario], Act],
    over: Over = _ended,
    trainer: Json | None = None,
    nodes: int = 2,
    alone: bool = False,
    autoscaled: bool = False,
    chance: frozenset[str] = frozenset(),
    **spec: Any,
) -> Scenario:
    return Script(wish, acts, over).of(
        "",
        aitrainingjob(wish, trainer=trainer or {}, **spec),
        nodes=nodes,
        alone=alone,
        autoscaled=autoscaled,
        chance=chance,
        within_seconds=900,
    )


def _edl(
    wish: Wish = Wish(), *acts: Callable[[Scenario], Act], nodes: int = 2, alone: bool = False, **spec: Any
) -> Scenario:
    return Script(wish, acts).of("", trainingjob(wish, **spec), nodes=nodes, alone=alone, within_seconds=900)


_flaky = Wish(fails_first=True)
_broken = {"restartPolicy": "OnFailure", "restartScope": "Pod", "restartLimit": 1}
_preempt = patch({"metadata": {"annotations": {"Preempted": "room"}}})
_one = replace(_flaky, trainers=1)
"""Two trainers that a crash of ours has kept apart would fail at two times, and rightly restart their job twice."""
ALSO: Mapping[str, Scenario] = {
    "ai-pod-restarts-whole": _ai(_one, trainer={"restartScope": "All"}),
    "ai-pod-restarts-role": _ai(_one, trainer={"restartScope": "Replica"}),
    "ai-pod-fails": _ai(replace(_one, fails_for_good=True), trainer=_broken),
    "ai-pod-times-out": _ai(Wish(run_seconds=2000), timeLimit=150),
    "ai-pod-goes-after-its-end": _ai(over=_gone, alone=True, runPolicy={"ttlSecondsAfterFinished": 20}),
    "ai-pod-suspended": _ai(
        Wish(),
        when_running(patch({"spec": {"suspend": True}})),
        when_suspended(patch({"spec": {"suspend": False}}), for_seconds=20),
    ),
    "ai-pod-preempted": _ai(Wish(run_seconds=2000), when_running(_preempt)),
    # Whom the autoscaler lets grow before the operator has seen it run has never been Scaling.
    "ai-pod-autoscaled": _ai(
        Wish(run_seconds=300),
        trainer={"minReplicas": 1, "maxReplicas": 4, "edlPolicy": "Auto"},
        autoscaled=True,
        chance=frozenset({"Scaling"}),
    ),
    "ai-pod-loses-pod": _ai(Wish(), when_running(delete_pod("trainer"))),
    "ai-pod-loses-node": _ai(
        Wish(),
        when_running(lose_the_node),
        nodes=3,
        alone=True,
        trainer={"restartPolicy": "OnNodeFail", "restartScope": "Pod"},
    ),
    "edl-job-preempted": _edl(Wish(run_seconds=2000), when_running(_preempt)),
    # Not in the second in which the job came to run: times of Kubernetes have whole seconds, so that a server's pod
    # that its ReplicaSet has replaced by the next look could be one of the first.
    "edl-replicaset-loses-pod": _edl(
        Wish(run_seconds=400), when_running(delete_pod("pserver"), for_seconds=2), pservers=1, fault_tolerant=True
    ),
    "edl-replicaset-loses-node": _edl(
        Wish(run_seconds=400), when_running(lose_the_node), pservers=1, fault_tolerant=True, nodes=3, alone=True
    ),
}


def _chance_seconds(scenario: Scenario) -> float:
    return LOOK_SECONDS if scenario.acts or scenario.autoscaled else 0.0


SCENARIOS: Mapping[str, Scenario] = {
    **{
        f"{name}-{script_name}": script.of(f"{name}-{script_name}", make(script.wish))
        for name, make in MAKES.items()
        for script_name, script in SCRIPTS.items()
    },
    **{name: replace(scenario, name=name) for name, scenario in ALSO.items()},
}
SCENARIOS = {name: replace(one, chance_seconds=_chance_seconds(one)) for name, one in SCENARIOS.items()}
