"""Row 10's histories: a job of any shape, and what users, nodes, pods and the operator's own troubles do to it for five
minutes; all drawn from one seed. After that it is quiet: nodes are well, nothing fails.

An act is data, so that a history can be told, played without some of its acts, and cut down to those that matter.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from localcluster.client import ApiError
from tests.lives.world import job, play, role
from tests.sim.inputs import POLICIES
from tests.sim.points import Died, Fault, Step
from tests.sim.rows.api_refusals import ANSWERS
from tests.sim.scenarios import NAME, Wish, trainingjob
from tests.sim.world import SimWorld
from tjworker.base import Transient
from tjworker.kube.port import HttpResponse

Json = dict[str, Any]
NODES = 3
BUSY_SECONDS = 300.0
ROLES = ("ps", "trainer", "worker")
WATCHED = ("aitrainingjobs", "trainingjobs", "pods", "services", "replicasets", "jobs")
PODS = "/api/v1/namespaces/default/pods"
FOR_EVER: Mapping[str, object] = {"start_seconds": 1, "run_seconds": 1_000_000}


@dataclass(frozen=True)
class Act:
    at_seconds: float
    what: str
    number: int = 0
    """Which of those that there are then, or how many."""
    value: Any = None

    def __str__(self) -> str:
        return f"{self.at_seconds:5.1f} s  {self.what} {self.number} {'' if self.value is None else self.value}"


@dataclass(frozen=True)
class History:
    seed: int
    manifest: Json
    acts: tuple[Act, ...]

    @property
    def path(self) -> str:
        return f"/apis/{self.manifest['apiVersion']}/namespaces/default/{self.manifest['kind'].lower()}s"

    def __str__(self) -> str:
        return "\n".join([f"history {self.seed}", str(self.manifest), *map(str, self.acts)])


def make_history(seed: int) -> History:
    rng = random.Random(seed)
    manifest = _aitrainingjob(rng) if rng.random() < 0.65 else _trainingjob(rng)
    kinds, weights = zip(*CHANCES.items(), strict=True)
    acts = [
        Act(round(rng.uniform(0, BUSY_SECONDS), 1), what, rng.randrange(1000), _value(rng, what))
        for what in rng.choices(kinds, weights, k=rng.randint(4, 16))
    ]
    return History(seed, manifest, tuple(sorted(acts, key=lambda act: act.at_seconds)))


def _aitrainingjob(rng: random.Random) -> Json:
    roles = {}
    for name in rng.sample(ROLES, rng.randint(1, 3)):
        policies = {key: value for key, values in POLICIES.items()
                    if rng.random() < 0.6 and (value := rng.choice(values)) is not None}
        if rng.random() < 0.5:
            policies |= {"restartPolicy": "Always", "restartLimit": 100}  # so that not every history ends early
        roles[name] = role(rng.randint(1, 3), annotations=play(**FOR_EVER), **policies)
    spec: Json = {}
    if rng.random() < 0.3:
        spec["cleanPodPolicy"] = rng.choice(("All", "Running", "None"))
    return job(roles, **spec)


def _trainingjob(rng: random.Random) -> Json:
    wish = Wish(trainers=rng.randint(1, 3), run_seconds=1_000_000, elastic=rng.random() < 0.6)
    return trainingjob(wish, pservers=rng.choice((0, 1, 2)), fault_tolerant=wish.elastic or rng.random() < 0.7)


def _value(rng: random.Random, what: str) -> Any:
    if what == "edit":
        return rng.choice((("restartPolicy", rng.choice(POLICIES["restartPolicy"])), ("failPolicy", "None"),
                           ("restartScope", rng.choice(POLICIES["restartScope"])), ("image", "trainer:2")))
    values: Mapping[str, tuple[Any, ...]] = {
        "scale": (0, 1, 2, 3, 4), "suspend": (True, False), "pod deleted": (None, 0, 5), "pod exits": (0, 1, 1, 137, 137),
        "node fails": ("NotReady", "gone"), "watch lost": (0.0, 5.0, 20.0), "requests refused": (5.0, 20.0),
        "Redis away": (3.0, 20.0), "tasks lost": (5.0, 30.0),
    }
    return rng.choice(values[what]) if what in values else None


# -- the acts ----------------------------------------------------------------------------------------------------------------


class Busy(Fault):
    """Plays a history's acts when their time comes."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._acts = list(history.acts)
        self._rng = random.Random(history.seed)
        self._began: float | None = None
        self._dooms: list[str] = []
        self._until: dict[str, float] = {}

    def begin(self, world: SimWorld) -> None:
        self._began = world.clock()
        world.cluster.client.create(self._history.path, self._history.manifest)

    def calm(self, world: SimWorld) -> None:
        """From now on nothing fails."""
        self._acts.clear()
        self._until.clear()
        self._dooms.clear()
        for node in world.cluster.agent.configs:
            world.cluster.recover_node(node)
        world.trace.note(world.clock(), "FAULT", "no more: all is calm")

    def next_due(self, now_seconds: float) -> float | None:
        dues = [self._began + act.at_seconds for act in self._acts[:1]] if self._began is not None else []
        dues += self._until.values()
        return min((due for due in dues if due > now_seconds), default=None)

    def passes(self, world: SimWorld) -> None:
        while self._acts and self._began is not None and self._began + self._acts[0].at_seconds <= world.clock():
            act = self._acts.pop(0)
            world.trace.note(world.clock(), "ACT", f"{act.what} {act.number} {act.value}")
            try:
                _ACTS[act.what](self, world, act)
            except ApiError as error:
                world.trace.note(world.clock(), "ACT", f"refused: {error.message[:200]}")

    # -- what the operator's processes meet

    def before(self, world: SimWorld, step: Step) -> None:
        for doomed in self._dooms:
            if step.actor.startswith(doomed) and (doomed == "watcher" or step.kind == "write"):
                self._dooms.remove(doomed)
                raise Died
        if step.kind == "redis" and self._lasts(world, "Redis away"):
            raise Transient("Redis cannot be reached; trying again", reason="RedisAway")

    def answers(self, world: SimWorld, step: Step) -> HttpResponse | None:
        if self._lasts(world, "requests refused") and self._rng.random() < 0.4:
            return ANSWERS[self._rng.choice(("409", "429", "500", "503"))]
        return None

    def deliver(self, world: SimWorld, step: Step) -> tuple[float, ...]:
        return () if self._lasts(world, "tasks lost") else (0.0,)

    def _lasts(self, world: SimWorld, what: str) -> bool:
        return self._until.get(what, 0.0) > world.clock()

    # -- what users do

    def scale(self, world: SimWorld, act: Act) -> None:
        roles = self._history.manifest["spec"].get("replicaSpecs")
        if roles is not None:
            self._patch_role(world, act.number, {"replicas": act.value})
        elif "max-instance" in self._history.manifest["spec"]["trainer"]:  # else the CRD's rules refuse it: not in this world
            world.cluster.client.patch(f"{self._history.path}/{NAME}/scale", {"spec": {"replicas": max(1, act.value)}})

    def edit(self, world: SimWorld, act: Act) -> None:
        field, value = act.value
        if "replicaSpecs" not in self._history.manifest["spec"]:
            self._patch(world, {"spec": {"image": "trainer:2"}})
        elif field == "image":
            self._patch_role(world, act.number, {"template": {"metadata": {"labels": {"edited": "yes"}}}})
        else:
            self._patch_role(world, act.number, {field: value})

    def suspend(self, world: SimWorld, act: Act) -> None:
        self._patch(world, {"spec": {"suspend": act.value}})

    def again(self, world: SimWorld, act: Act) -> None:
        if world.the_job() is not None:
            world.cluster.client.delete(f"{self._history.path}/{NAME}")
        world.cluster.client.create(self._history.path, self._history.manifest)

    def _patch_role(self, world: SimWorld, number: int, body: Json) -> None:
        names = sorted(self._history.manifest["spec"]["replicaSpecs"])
        self._patch(world, {"spec": {"replicaSpecs": {names[number % len(names)]: body}}})

    def _patch(self, world: SimWorld, body: Json) -> None:
        world.cluster.client.patch(f"{self._history.path}/{NAME}", body)

    # -- what happens to pods, nodes and other objects

    def delete_pod(self, world: SimWorld, act: Act) -> None:
        if pod := _one(sorted(world.pods()), act.number):
            world.cluster.client.delete(f"{PODS}/{pod}", None if act.value is None else {"gracePeriodSeconds": act.value})

    def exit(self, world: SimWorld, act: Act) -> None:
        running = sorted(name for name, pod in world.pods().items() if pod["status"].get("phase") == "Running")
        if pod := _one(running, act.number):
            world.cluster.agent.exit("default", pod, act.value)

    def evict(self, world: SimWorld, act: Act) -> None:
        alive = sorted(name for name, pod in world.pods().items() if pod["status"].get("phase") in ("Pending", "Running"))
        if pod := _one(alive, act.number):
            world.cluster.client.patch(f"{PODS}/{pod}/status", {
                "status": {"phase": "Failed", "reason": "Evicted", "message": "the node was low on memory"}})

    def delete_other(self, world: SimWorld, act: Act) -> None:
        """A service, a ReplicaSet or a batch Job, by hand."""
        roots = {"services": "/api/v1", "apps/replicasets": "/apis/apps/v1", "batch/jobs": "/apis/batch/v1"}
        found = sorted((bucket, name) for bucket in roots for name in world.objects(bucket) if name != "kubernetes")
        if found:
            bucket, name = found[act.number % len(found)]
            plural = bucket.rpartition("/")[2]
            world.cluster.client.delete(f"{roots[bucket]}/namespaces/default/{plural}/{name}",
                                        {"propagationPolicy": "Background"})

    def fail_node(self, world: SimWorld, act: Act) -> None:
        world.cluster.fail_node(f"node-{act.number % NODES}", act.value)

    def recover_node(self, world: SimWorld, act: Act) -> None:
        world.cluster.recover_node(f"node-{act.number % NODES}")

    # -- the operator's own troubles

    def doom(self, world: SimWorld, act: Act, *, who: str) -> None:
        self._dooms.append(who)

    def wipe(self, world: SimWorld, act: Act) -> None:
        world.memory.flush()
        world.tasks.clear()

    def lose(self, world: SimWorld, act: Act) -> None:
        world.lose(act.value, WATCHED[act.number % len(WATCHED)])

    def lasts(self, world: SimWorld, act: Act) -> None:
        self._until[act.what] = world.clock() + act.value


def _one(names: list[str], number: int) -> str:
    return names[number % len(names)] if names else ""


_ACTS: Mapping[str, Callable[[Busy, SimWorld, Act], None]] = {
    "scale": Busy.scale, "edit": Busy.edit, "suspend": Busy.suspend, "deleted and created again": Busy.again,
    "pod deleted": Busy.delete_pod, "pod exits": Busy.exit, "pod evicted": Busy.evict, "object deleted": Busy.delete_other,
    "node fails": Busy.fail_node, "node recovers": Busy.recover_node,
    "worker dies": partial(Busy.doom, who="worker"), "watcher dies": partial(Busy.doom, who="watcher"),
    "Redis wiped": Busy.wipe, "watch lost": Busy.lose, "requests refused": Busy.lasts, "Redis away": Busy.lasts,
    "tasks lost": Busy.lasts,
}
CHANCES: Mapping[str, int] = {
    "scale": 12, "edit": 6, "suspend": 8, "deleted and created again": 2, "pod deleted": 10, "pod exits": 10, "pod evicted": 5,
    "object deleted": 6, "node fails": 6, "node recovers": 6, "worker dies": 8, "watcher dies": 4, "Redis wiped": 4,
    "watch lost": 8, "requests refused": 6, "Redis away": 4, "tasks lost": 6,
}
"""How often each is drawn."""
