"""Row 28. Kubelets and nodes as they are: each way of theirs strikes in each life, of AITrainingJobs and of
TrainingJobs, and is over after a while.

The job comes to the end that it comes to undisturbed, or to the one that the way itself means to a role that is not to
be restarted after it; no pod too many is alive; what is not the job's is left alone; passes after the end write
nothing; and the operator makes at most fifteen requests a pod a minute.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import orjson

from tests.scenarios.world import LEAN
from tests.scenarios.world import play as told
from tests.simulation.fault import Row, Verdict
from tests.simulation.kubelet_ways import LOST, NOT_TOLERANT, WAYS, Way, node_of
from tests.simulation.oracles import Outcome, live, whole
from tests.simulation.points import Fault, Step
from tests.simulation.scenarios import SCENARIOS
from tests.simulation.scripts import NAME, Scenario, has_ended
from tests.simulation.state import phase_of
from tests.simulation.world import SimWorld
from tjworker.kube.port import HttpResponse

Json = dict[str, Any]
REQUESTS_A_POD_A_MINUTE = 15
"""A pod that is turned away, made again, fails and is made again costs a GET, two deletes, two creates and a status
write after each. They rest longer and longer, so that no minute has many of them."""
WITHIN_SECONDS = 1500.0
"""Later than undisturbed, at most: rests after rejections double."""


class BeatingWorld(SimWorld):
    """Its kubelets renew as often as real ones do: how long a node is silent is the subject."""

    cluster_options: Mapping[str, Any] = {**LEAN, "lease_renew_seconds": 10.0}


@dataclass
class Kubelets(Fault):
    """The way strikes the lowest pod of the role that there is, or its node, each pod once, so many times. All log
    ports stay silent."""

    way: Way
    role: str = "trainer"
    """As the names of its pods have it."""
    struck: set[str] = field(default_factory=set)
    """UIDs."""
    roles: set[str] = field(default_factory=set)
    """Those that have lost a pod by it."""
    node: str = ""
    strangers: bool = False
    """The bystander was on that node."""
    mended_at: float | None = None
    world: SimWorld | None = None
    most_pods: int = 1
    minutes: Counter[int] = field(default_factory=Counter)
    """Minute -> requests of workers in it."""

    def next_due(self, now_seconds: float) -> float | None:
        """A pod is Pending for two seconds, and then nobody would look."""
        pods = self.world.pods().values() if self.world is not None and self._left else ()
        if any(pod["status"].get("phase") == "Pending" for pod in pods):
            return now_seconds + 1.0
        return self.mended_at

    @property
    def _left(self) -> int:
        return self.way.times - len(self.struck)

    def passes(self, world: SimWorld) -> None:
        pods = world.pods()
        self.most_pods = max(self.most_pods, len(pods))
        if self.mended_at is not None and world.clock() >= self.mended_at and self.way.mends is not None:
            self.mended_at = None
            world.trace.note(world.clock(), "FAULT", f"{self.node}: time is up")
            self.way.mends(world, self.node)
        for name, pod in sorted(pods.items()) if self._left else ():
            if name.startswith(f"{NAME}-{self.role}") and self._can_be_struck(pod):
                self._strike(world, pod)
                return

    def _strike(self, world: SimWorld, pod: Json) -> None:
        self.struck.add(pod["metadata"]["uid"])
        self.node = node_of(pod)
        beside = [one for one in world.objects("pods").values() if one["spec"].get("nodeName") == self.node]
        self.strangers = any(one["metadata"]["name"] in world.strangers for one in beside)
        hit = beside if self.way.whole_node else [pod]
        self.roles |= {one["metadata"]["labels"]["replica-name"] for one in hit if "labels" in one["metadata"]}
        world.trace.note(world.clock(), "FAULT", f"strikes {pod['metadata']['name']} on {self.node}")
        self.way.strikes(world, pod)
        if self.way.mends is not None:
            self.mended_at = world.clock() + self.way.after_seconds

    def _can_be_struck(self, pod: Json) -> bool:
        meta, phase = pod["metadata"], pod["status"].get("phase", "Pending")
        placed = bool(pod["spec"].get("nodeName"))
        return (
            placed
            and phase == self.way.when
            and not {"deletionTimestamp"} & set(meta)
            and meta["uid"] not in self.struck
        )

    def before(self, world: SimWorld, step: Step) -> None:
        self.world = world
        if step.kind in ("read", "write") and step.actor.startswith("worker"):
            self.minutes[int(world.clock() // 60)] += 1

    def answers(self, world: SimWorld, step: Step) -> HttpResponse | None:
        return HttpResponse(504, b"{}") if step.kind == "read" and step.what.endswith("/log") else None

    def ends(self, scenario: Scenario) -> frozenset[str]:
        """Phases of the job that this way may mean, beside the undisturbed one."""
        policies = {_policy(scenario, role) for role in self.roles}
        found = {self.way.cause.end} if policies & self.way.cause.fails else set()
        if self.way.whole_node and scenario.name.endswith("loses-node"):
            found.add(LOST.end)  # its pods have come together on the node that is lost next
        return frozenset(found)


def _policy(scenario: Scenario, role: str) -> str:
    """How the role is restarted."""
    spec = scenario.manifest["spec"]
    if (roles := spec.get(scenario.kind.roles_field)) is not None:
        return str(roles.get(role, {}).get("restartPolicy", "Never"))
    return NOT_TOLERANT if role == "trainer" and not spec.get("fault_tolerant") else ""


def judged(outcome: Outcome, fault: Kubelets, scenario: Scenario, want: str) -> list[str]:
    mine, ends = phase_of(outcome.state), fault.ends(scenario)
    wrong = [*outcome.surplus[:3], *(() if fault.strangers and fault.way.takes_strangers else outcome.touched)]
    wrong += outcome.unlike_the_model[:3]
    wrong += [f"a pass after the end wrote: {write}" for write in outcome.restless]
    wrong += [] if fault.struck else ["it has struck nobody"]
    # A user who waits for a job that has ended waits for ever.
    wrong += [] if outcome.over or mine in ends else [f"not over after {outcome.seconds:.0f} s: {mine or 'no job'}"]
    wrong += [] if mine in (want, *ends) else [f"ends in {mine}, undisturbed {want}"]
    most = REQUESTS_A_POD_A_MINUTE * fault.most_pods
    wrong += [f"{n} requests in a minute, {most} allowed" for n in fault.minutes.values() if n > most]
    return wrong


def _seen_to_end(scenario: Scenario) -> Scenario:
    """Its pods take two seconds to end, as real ones do: so that the operator sees why they are asked to."""
    manifest: Json = orjson.loads(orjson.dumps(scenario.manifest))
    for container in ("", "trainer.", "pserver.", "master."):
        slow = {f"{container}{key}": value for key, value in told(terminate_seconds=2).items()}
        places = (
            [manifest]
            if container
            else [r["template"] for r in manifest["spec"].get(scenario.kind.roles_field, {}).values()]
        )
        for one in places:
            one["metadata"].setdefault("annotations", {}).update(slow)
    return replace(scenario, manifest=manifest)


def play(run: str) -> Verdict:
    name, _, word = run.partition("/")
    undisturbed, fault = whole(name), Kubelets(WAYS[word], SCENARIOS[name].scaled_role)
    scenario = _seen_to_end(SCENARIOS[name])
    over = scenario.over
    # Pods that are turned away for minutes may run no more when the job ends: their user comes to nothing.
    scenario = replace(scenario, over=lambda world: over(world) or (bool(world.acts) and has_ended(world)))
    outcome = live(scenario, fault, more_seconds=WITHIN_SECONDS, world_type=BeatingWorld)
    wrong = judged(outcome, fault, scenario, phase_of(undisturbed.first.state))
    return Verdict(tuple(wrong), len(outcome.surplus), outcome.trace)


LIVES = tuple(SCENARIOS)


def plays(name: str, way: str) -> bool:
    """Not one that nobody has promised: a job is deleted while a node is silent for good. Its pods there are left to
    Kubernetes, which waits for the node."""
    return not (name.endswith("-deleted") and way == "silent-for-good")


def runs(name: str, ways: Sequence[str] = tuple(WAYS)) -> Sequence[str]:
    return [f"{name}/{way}" for way in ways if plays(name, way)]


def _sample(number: int) -> Sequence[str]:
    """Of each life two ways, each way in some lives."""
    ways = list(WAYS)
    return [ways[(number * 2 + n) % len(ways)] for n in range(2)]


ROW = Row(
    28,
    "kubelets and nodes as they are: pods are turned away and evicted, nodes are tainted, flap, fall silent, vanish "
    "and come back, clocks are wrong",
    lambda: [run for name in LIVES for run in runs(name)],
    {name: partial(runs, name, _sample(number)) for number, name in enumerate(LIVES)},
    play,
)
