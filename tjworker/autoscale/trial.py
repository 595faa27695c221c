"""Simulates a plan on the nodes, one replica at a time, with undo. Pure; changes none of its arguments.

A job gives its last replica first. A replica that the plan took can come back only to its own node, because the cluster
still runs it there. So after any sequence of steps the trial shows the cluster as it is after the plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tjworker.autoscale.dryrun import cpu_reach
from tjworker.autoscale.fleet import Fleet, ReplicaSize
from tjworker.autoscale.jobs import ElasticJob
from tjworker.autoscale.problem import Demand, ElasticRole, Problem, RoleId, ScalePlan

NOWHERE = -1
"""The node of a replica that waits for a node."""
NO_ROOM = -2
"""Answer of `Trial.room`: no node has room for one more replica."""


class Trial:
    """Roles are numbered by their place in `roles`, nodes by their place in the cluster."""

    def __init__(self, problem: Problem) -> None:
        # `Values` numbers the roles in this order. It also makes two runs over the same cluster choose alike.
        self.roles: Sequence[ElasticRole] = sorted(problem.roles, key=lambda role: role.id)
        waiting = [_as_job(i, demand) for i, demand in enumerate(problem.demand)]
        jobs = [role.elastic for role in self.roles]
        reach = cpu_reach(problem.resource, problem.max_load_desired)
        self.fleet = fleet = Fleet([*jobs, *waiting], problem.resource, reach)
        self.sizes = fleet.sizes[: len(jobs)]
        self.demand_sizes = fleet.sizes[len(jobs) :]
        self.nodes = [[fleet.index.get(n, NOWHERE) for n in placed_nodes(job)] for job in jobs]
        """For each role: the node of each replica, NOWHERE for a replica that waits."""
        self.on: list[dict[int, int]] = [dict(Counter(nodes)) for nodes in self.nodes]
        """For each role: node -> replicas on it."""
        self._was = [tuple(nodes) for nodes in self.nodes]
        self.had = [len(nodes) for nodes in self.nodes]
        """For each role: its replicas in the cluster. Any replica beyond them is new."""
        self._steps: list[tuple[int, int, int]] = []
        """(role, node, +1 or -1) of each step."""

    def count(self, i: int) -> int:
        return len(self.nodes[i])

    def mark(self) -> int:
        """The present point in the sequence of steps, for `undo` and `touched`."""
        return len(self._steps)

    def undo(self, mark: int) -> None:
        """Revert all steps after the mark."""
        while len(self._steps) > mark:
            i, node, step = self._steps.pop()
            self._change(i, node, -step)

    def touched(self, mark: int) -> list[tuple[int, int]]:
        """(role, node) of each step after the mark, in order."""
        return [(i, node) for i, node, _ in self._steps[mark:]]

    def give(self, i: int) -> int:
        """Remove the role's last replica. Returns its node."""
        node = self.nodes[i][-1]
        self._steps.append((i, node, -1))
        self._change(i, node, -1)
        return node

    def add(self, i: int, node: int) -> None:
        """Add a replica of the role on that node."""
        # `_change` written out: most steps of a plan add a replica.
        self._steps.append((i, node, 1))
        on = self.on[i]
        on[node] = on.get(node, 0) + 1
        self.nodes[i].append(node)
        if node >= 0:
            self.fleet.take(self.sizes[i], node)
        else:
            self._take(self.sizes[i], node, 1)

    def _change(self, i: int, node: int, step: int) -> None:
        """Add (+1) or remove (-1) the role's last replica, on that node."""
        on = self.on[i]
        replicas = on.get(node, 0) + step
        if replicas:
            on[node] = replicas
        else:
            del on[node]
        if step > 0:
            self.nodes[i].append(node)
        else:
            self.nodes[i].pop()
        self._take(self.sizes[i], node, step)

    def own_place(self, i: int) -> int | None:
        """The node that the role's next replica has in the cluster; None if that replica would be new."""
        was, at = self._was[i], len(self.nodes[i])
        return was[at] if at < len(was) else None

    def room(self, i: int) -> int:
        """The node for one more replica of the role. NOWHERE if that replica waits for a node in the cluster, NO_ROOM
        if there is no room."""
        fleet, size, own = self.fleet, self.sizes[i], self.own_place(i)
        if not self.sums_allow(size):
            return NO_ROOM
        if own is None:
            node = fleet.first(size)
            return node if node >= 0 else NO_ROOM
        # A replica that waits takes no room on a node, only in the sums.
        return own if own == NOWHERE or fleet.fits(size, own) else NO_ROOM

    def sums_allow(self, size: ReplicaSize, replicas: int = 1) -> bool:
        """True if the cluster as a whole has room for that many replicas more, on whichever nodes."""
        fleet = self.fleet
        return (
            (not size.cpu or fleet.over_cpu + replicas * size.cpu <= 0)
            and (not size.memory or fleet.over_memory + replicas * size.memory <= 0)
            and (not size.gpu or fleet.over_gpu + replicas * size.gpu <= 0)
        )

    def hold(self, size: ReplicaSize, node: int) -> None:
        """Reserve room on a node for a waiting pod."""
        # The sums count the requests of waiting pods already.
        self.fleet.take_many(size, node, 1)

    def _take(self, size: ReplicaSize, node: int, step: int) -> None:
        fleet = self.fleet
        fleet.over_cpu += step * size.cpu
        fleet.over_memory += step * size.memory
        fleet.over_gpu += step * size.gpu
        if node < 0:
            return
        if step < 0:
            fleet.give_back(size, node)
        else:
            fleet.take_many(size, node, step)

    def plan(self) -> ScalePlan:
        """The targets after all steps, and the nodes that the new replicas have in the trial."""
        names = list(self.fleet.index)
        targets: dict[RoleId, int] = {}
        places: dict[RoleId, tuple[str, ...]] = {}
        for role, was, nodes in zip(self.roles, self._was, self.nodes, strict=True):
            targets[role.id] = len(nodes)
            if len(nodes) > len(was):
                places[role.id] = tuple(names[node] for node in nodes[len(was) :])
        return ScalePlan(targets, places)


def placed_nodes(job: ElasticJob) -> tuple[str, ...]:
    """The node of each replica; '' for a replica without a node."""
    return (*job.placed, *[""] * job.parallelism)[: job.parallelism]


def _as_job(i: int, demand: Demand) -> ElasticJob:
    return ElasticJob(f"waiting/{i}", 0, 0, 0, demand.cpu_milli, demand.memory_mega, demand.gpus, demand.others)
