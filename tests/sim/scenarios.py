"""The lives that every row is tried on: each way of keeping pods (a `Make`) through each of the four lives, and a few more.

A dialect or a workload is one line in `MAKES`; a life that only some can live is one in `ALSO`. What the user does hangs on
what he sees and not on the clock, so that a disturbance delays a life and does not change it. The trainers run for minutes,
so that no life is over before the operator has recovered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from localcluster.objects import seconds_of
from tests.lives.world import job, play, role
from tests.sim.world import SimWorld

Json = dict[str, Any]
Act = Callable[[SimWorld], bool]
"""Asked at every moment until it says that it has done it."""
Make = Callable[["Wish"], Json]
NAME = "digits"


@dataclass(frozen=True)
class Wish:
    """What a life asks of a job, in no dialect's words."""

    trainers: int = 2
    run_seconds: float = 200
    fails_first: bool = False
    """Each trainer's first run ends with 137 after 30 s, and is tried again."""
    elastic: bool = False


@dataclass(frozen=True)
class Scenario:
    name: str
    manifest: Json
    over: Callable[[SimWorld], bool]
    acts: tuple[Act, ...] = ()
    nodes: int = 2
    within_seconds: float = 600
    """Of an undisturbed life, with much to spare."""
    alone: bool = False
    """What becomes of a second job beside it hangs on where its pods happen to be."""

    @property
    def path(self) -> str:
        return f"/apis/{self.manifest['apiVersion']}/namespaces/default/{self.manifest['kind'].lower()}s"


# -- what the user does ------------------------------------------------------------------------------------------------------

def when_running(do: Callable[[SimWorld, Scenario], object], *, pods: int = 0) -> Callable[[Scenario], Act]:
    """As soon as the job runs, with so many pods (0: whatever)."""
    def of(scenario: Scenario) -> Act:
        def act(world: SimWorld) -> bool:
            if world.phase() != "Running" or (pods and sum(name.startswith(NAME) for name in world.pods()) != pods):
                return False
            do(world, scenario)
            return True
        return act
    return of


def patch(body: Json) -> Callable[[SimWorld, Scenario], object]:
    return lambda world, scenario: world.cluster.client.patch(f"{scenario.path}/{NAME}", body)


def scale(replicas: int) -> Callable[[SimWorld, Scenario], object]:
    return lambda world, scenario: world.cluster.client.patch(f"{scenario.path}/{NAME}/scale", {"spec": {"replicas": replicas}})


def delete(world: SimWorld, scenario: Scenario) -> None:
    world.cluster.client.delete(f"{scenario.path}/{NAME}")


def lose_the_node(world: SimWorld, scenario: Scenario) -> None:
    world.cluster.fail_node(world.pods()[f"{NAME}-trainer-0"]["spec"]["nodeName"])


def when_suspended(do: Callable[[SimWorld, Scenario], object], *, for_seconds: float) -> Callable[[Scenario], Act]:
    """When it has been that long without pods."""
    def of(scenario: Scenario) -> Act:
        def act(world: SimWorld) -> bool:
            since = world.status().get("suspendTime")
            if world.phase() != "Suspended" or mine(world) or not since or world.clock() < seconds_of(since) + for_seconds:
                return False
            do(world, scenario)
            return True
        return act
    return of


def mine(world: SimWorld) -> list[str]:
    """Pods and services of the job, not those of a companion."""
    return [name for name in (*world.pods(), *world.services()) if name.startswith(NAME)]


def _ended(world: SimWorld) -> bool:
    return bool(world.status().get("completionTime")) and not mine(world)


def _gone(world: SimWorld) -> bool:
    return not world.acts and world.the_job() is None and not mine(world)


# -- the four lives ----------------------------------------------------------------------------------------------------------

@dataclass(frozen=True)
class Life:
    wish: Wish
    acts: tuple[Callable[[Scenario], Act], ...] = ()
    over: Callable[[SimWorld], bool] = _ended

    def of(self, name: str, manifest: Json, **more: Any) -> Scenario:
        bare = Scenario(name, manifest, self.over, **more)
        return replace(bare, acts=tuple(act(bare) for act in self.acts))


LIVES: Mapping[str, Life] = {
    "succeeds": Life(Wish()),
    "restarts": Life(Wish(fails_first=True)),
    "scales": Life(Wish(elastic=True, run_seconds=400), (when_running(scale(4), pods=3), when_running(scale(1), pods=5))),
    "deleted": Life(Wish(run_seconds=2000), (when_running(delete),), _gone),
}


# -- the ways of keeping pods --------------------------------------------------------------------------------------------------

def aitrainingjob(wish: Wish, **spec: Any) -> Json:
    more: Json = {"minReplicas": 1, "maxReplicas": 6, "edlPolicy": "Manual"} if wish.elastic else {}
    if wish.fails_first:
        more |= {"restartPolicy": "ExitCode", "restartScope": "Pod"}
    fails = {"failing_attempts": 1, "failing_exit_code": 137, "failing_run_seconds": 30} if wish.fails_first else {}
    trainer = role(wish.trainers, annotations=play(start_seconds=2, run_seconds=wish.run_seconds, **fails), **more)
    return job({"ps": role(1, completePolicy="None"), "trainer": {**trainer, **spec.pop("trainer", {})}}, **spec)


MAKES: Mapping[str, Make] = {
    "ai-pod": aitrainingjob,
}

_flaky = Wish(fails_first=True)
ALSO: Mapping[str, Scenario] = {
    # One trainer: two that a crash of ours has kept apart would fail at two times, and rightly restart the job twice.
    "ai-pod-restarts-whole": Life(_flaky).of("", aitrainingjob(replace(_flaky, trainers=1), trainer={"restartScope": "All"})),
    "ai-pod-suspended": Life(Wish(), (
        when_running(patch({"spec": {"suspend": True}})), when_suspended(patch({"spec": {"suspend": False}}), for_seconds=20),
    )).of("", aitrainingjob(Wish())),
    "ai-pod-loses-node": Life(Wish(), (when_running(lose_the_node),)).of("", aitrainingjob(
        Wish(), trainer={"restartPolicy": "OnNodeFail", "restartScope": "Pod"}), nodes=3, within_seconds=900, alone=True),
}

SCENARIOS: Mapping[str, Scenario] = {
    **{f"{name}-{lived}": life.of(f"{name}-{lived}", make(life.wish))
       for name, make in MAKES.items() for lived, life in LIVES.items()},
    **{name: replace(scenario, name=name) for name, scenario in ALSO.items()},
}
