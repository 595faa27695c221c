"""A history in a simulated world: its acts when their time comes, its nodes, and the operator's own troubles."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from localcluster.client import ApiError
from localcluster.kubelet.node import NodeConfig
from localcluster.objects import timestamp
from tests.simulation.histories import ACTS, Act, History
from tests.simulation.points import Died, Fault, Step
from tests.simulation.refusals import ANSWERS
from tests.simulation.world import SimWorld
from tests.support.kinds import AITRAININGJOBS, TRAININGJOBS
from tjworker.api.resources import BATCH_JOBS, POD_GROUPS, PODS, REPLICASETS, SERVICES
from tjworker.base import GroupResource, Transient
from tjworker.kube.port import HttpResponse

NODES = 3
GPU_NODE, GPUS = "node-0", 4
"""One node has them."""
CLUSTER = tuple(NodeConfig(f"node-{number}", gpus=0 if number else GPUS) for number in range(NODES))
Json = dict[str, Any]
LEASE_SECONDS = 80.0
"""So long may a key rest whose worker has died: its lease, until the next resync, and longer after each death."""
COVERED_DEATHS = 2
"""In what the model allows anyway."""
WATCHED = (AITRAININGJOBS, TRAININGJOBS, PODS, SERVICES, REPLICASETS, BATCH_JOBS)


class Busy(Fault):
    """Plays a history's acts when their time comes."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._acts = list(history.acts)
        self._rng = random.Random(history.seed)
        self._began: float | None = None
        self._dooms: list[str] = []
        self._deaths = 0
        self._until: dict[str, float] = {}

    def begin(self, world: SimWorld) -> None:
        self._began = world.clock()
        self._history.begin(world)

    def calm(self, world: SimWorld) -> None:
        """From now on nothing fails."""
        self._acts.clear()
        self._until.clear()
        self._dooms.clear()
        for node in world.cluster.kubelet.configs:
            world.cluster.recover_node(node)
        self._give_gpus(world, GPUS)
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
                if act.what in ACTS:
                    ACTS[act.what](world, self._history, act)
                else:
                    _TROUBLES[act.what](self, world, act)
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
            drawn = self._rng.choice(("409", "429", "500", "503"))
            return ANSWERS[
                "503" if drawn == "409" and step.kind == "read" else drawn
            ]  # no server refuses a read for a conflict
        return None

    def deliver(self, world: SimWorld, step: Step) -> tuple[float, ...]:
        return () if self._lasts(world, "tasks lost") else (0.0,)

    def _lasts(self, world: SimWorld, what: str) -> bool:
        return self._until.get(what, 0.0) > world.clock()

    # -- nodes

    def fail_node(self, world: SimWorld, act: Act) -> None:
        world.cluster.fail_node(f"node-{act.number % NODES}", act.value)

    def recover_node(self, world: SimWorld, act: Act) -> None:
        world.cluster.recover_node(f"node-{act.number % NODES}")

    def gpus_ail(self, world: SimWorld, act: Act) -> None:
        """The node problem detector says so, or, the next time, that they are well again."""

        def turn(status: Json) -> None:
            told = {one["type"]: one for one in status["conditions"]}
            ails = told.get("GPUFault", {}).get("status") == "True"
            since = timestamp(world.clock() - 1)
            told["GPUFault"] = {"type": "GPUFault", "status": str(not ails), "lastTransitionTime": since}
            status["conditions"] = list(told.values())

        self._tell_node(world, turn)

    def gpus_fall_away(self, world: SimWorld, act: Act) -> None:
        self._give_gpus(world, act.value)

    def _give_gpus(self, world: SimWorld, count: int) -> None:
        """Of all that there are, the device plugin finds so many."""
        kubelet = world.cluster.kubelet
        kubelet.configs[GPU_NODE] = replace(kubelet.configs[GPU_NODE], gpus=count)
        kubelet.enqueue(f"node:{GPU_NODE}")

    def _tell_node(self, world: SimWorld, change: Callable[[Json], object]) -> None:
        """What another than its kubelet says of the node that has GPUs."""
        path = f"/api/v1/nodes/{GPU_NODE}"
        with suppress(ApiError):  # it may be gone
            node = world.cluster.client.get(path)
            change(node["status"])
            world.cluster.client.update(f"{path}/status", node)

    # -- the operator's own troubles

    def doom(self, world: SimWorld, act: Act, *, who: str) -> None:
        self._deaths += 1
        self.late_seconds = LEASE_SECONDS * max(0, self._deaths - COVERED_DEATHS)
        self._dooms.append(who)

    def wipe(self, world: SimWorld, act: Act) -> None:
        world.memory.flush()
        world.tasks.clear()

    def lose(self, world: SimWorld, act: Act) -> None:
        told = world.settings
        more = [GroupResource(kind) for kind in told.kind_list] + [POD_GROUPS] * (told.gang_scheduler == "kubernetes")
        among = (*WATCHED, *more)
        world.lose(act.value, among[act.number % len(among)])

    def lasts(self, world: SimWorld, act: Act) -> None:
        self._until[act.what] = world.clock() + act.value


_TROUBLES: Mapping[str, Callable[[Busy, SimWorld, Act], None]] = {
    "node fails": Busy.fail_node,
    "node recovers": Busy.recover_node,
    "GPUs ail": Busy.gpus_ail,
    "GPUs fall away": Busy.gpus_fall_away,
    "worker dies": partial(Busy.doom, who="worker"),
    "watcher dies": partial(Busy.doom, who="watcher"),
    "Redis wiped": Busy.wipe,
    "watch lost": Busy.lose,
    "requests refused": Busy.lasts,
    "Redis away": Busy.lasts,
    "tasks lost": Busy.lasts,
}
