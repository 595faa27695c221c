"""What a scenario is, and the scripts that one is made of: what its job is to do, what its user does, when it is over.

What the user does hangs on what he sees and not on the clock, so that a disturbance delays a script and does not change
it. The trainers run for minutes, so that no script is over before the operator has recovered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from localcluster.objects import seconds_of
from tests.simulation.world import GROUPS, SimWorld
from tests.support.kinds import collection_of, resource_of
from tjworker.api.kinds import KINDS, KNOWN_KINDS
from tjworker.api.kinds.base import JobKind

Json = dict[str, Any]
Act = Callable[[SimWorld], bool]
"""Asked at every moment until it says that it has done it."""
Over = Callable[[SimWorld], bool]
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
    beside: bool = False
    """Beside a second job of the same spec, so that one task works on both."""
    autoscaled: bool = False
    """The autoscaler runs too. It looks every few seconds, so a script with it costs twice as much."""
    chance: frozenset[str] = frozenset()
    """Conditions that tell, once they are over, of the way and not of the end."""

    chance_seconds: float = 0.0
    """So much earlier may a time be than undisturbed: its cause looks only every now and then."""
    operator: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the operator beside the default ones."""
    long: bool = False
    """`make test` plays a few points of it alone."""
    named: tuple[tuple[str, Json], ...] = ()
    """Objects that the job names in its spec, which are there before it: collection, object."""

    @property
    def path(self) -> str:
        return collection_of(self.manifest)

    @property
    def kind(self) -> JobKind:
        return KNOWN_KINDS[resource_of(self.manifest)]

    @property
    def settings(self) -> Mapping[str, Any]:
        """Of the operator: it serves the job's kind."""
        return {**({} if self.kind.resource in KINDS else {"kinds": str(self.kind.resource)}), **self.operator}

    @property
    def world(self) -> Mapping[str, Any]:
        """What a world of it is made of."""
        return {"nodes": self.nodes, "autoscaled": self.autoscaled, **self.settings}

    @property
    def scaled_role(self) -> str:
        """The one whose pods a script counts, as their names have it."""
        return self.kind.scale_role.lower()


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


def suspend(value: bool) -> Callable[[SimWorld, Scenario], object]:
    def do(world: SimWorld, scenario: Scenario) -> None:
        body: Any = value
        for step in reversed(scenario.kind.suspend_path):
            body = {step: body}
        patch(body)(world, scenario)

    return do


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
    """Pods, services and PodGroups of the job, not those of a companion."""
    return [name for name in (*world.pods(), *world.services(), *world.objects(GROUPS)) if name.startswith(NAME)]


def ended(world: SimWorld) -> bool:
    over = not world.acts and has_ended(world)
    return over and not world.status().get("tensorboardUntil")  # else that it has gone is still to be told


def has_ended(world: SimWorld) -> bool:
    """Whatever its user still meant to do."""
    return bool(world.status().get("completionTime")) and not mine(world)


def ended_and_kept(world: SimWorld) -> bool:
    """What has ended stays."""
    over = not world.acts and bool(world.status().get("completionTime"))
    return over and all(pod["status"].get("phase") in ("Succeeded", "Failed") for pod in world.pods().values())


def gone(world: SimWorld) -> bool:
    return not world.acts and world.the_job() is None and not mine(world)


# -- the four scripts --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Script:
    wish: Wish
    acts: tuple[Callable[[Scenario], Act], ...] = ()
    over: Over = ended

    def of(self, name: str, manifest: Json, **more: Any) -> Scenario:
        bare = Scenario(name, manifest, self.over, **more)
        return replace(bare, acts=tuple(act(bare) for act in self.acts))


SCRIPTS: Mapping[str, Script] = {
    "succeeds": Script(Wish()),
    "restarts": Script(Wish(fails_first=True)),
    "scales": Script(Wish(elastic=True, run_seconds=400), (when_running(scale(4)), when_running(scale(1), trainers=4))),
    "deleted": Script(Wish(run_seconds=2000), (when_running(delete),), gone),
}
