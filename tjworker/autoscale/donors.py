"""Which roles give room to others, and what it costs them. Pure; changes nothing: prices are worked out in the head.

A role gives its last replicas. So who can free a node are the roles whose last replica is there, and with each gift the
next of a role's replicas may be on that node, too.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tjworker.autoscale.fleet import ReplicaSize
from tjworker.autoscale.trial import NOWHERE, Trial

Kind = tuple[bool, bool, bool]
"""Whether a replica takes CPU, memory and GPUs."""

Loss = Callable[[int, int], float]
"""(role, replicas) -> what the role loses with the last of so many."""


class Price(NamedTuple):
    loss: float
    """What the givers lose."""
    givers: Sequence[int]
    """Who gives its last replica, one after the other."""
    pods: int
    """How many of those that wait the node then holds."""


class Donors:
    """`changed` and `placed_at` are told of each step of the trial."""

    def __init__(self, trial: Trial, loss: Loss, share: Sequence[float], least: Sequence[int]) -> None:
        self._trial, self._loss, self._share, self._least = trial, loss, share, least
        count = len(trial.sizes)
        self._kinds = [_kind(size) for size in trial.sizes]
        self._tails: dict[int, set[int]] = defaultdict(set)
        """Node -> roles whose last replica is there."""
        self._tail_of = [NOWHERE] * count
        self._changed = set(range(count))
        """Roles that have changed since the rest was brought up to date. Most steps only take free room, and nobody
        asks in between who could give some."""
        self._heaps: dict[Kind, list[tuple[float, int, int]]] = {kind: [] for kind in self._kinds}
        """(what its last replica is worth for its share, role, replicas), of roles that take the same kinds of
        resources: heaps with outdated entries."""
        self._offered: list[int | None] = [None] * count
        """The replicas of each role's newest entry in its heap."""
        self._found: dict[tuple[int, Kind | None], list[int]] = {}
        """What `cheapest` has found since the last change."""

    def change(self, i: int) -> None:
        """The role has another number of replicas."""
        self._changed.add(i)

    def require(self, least: Sequence[int]) -> None:
        """Roles give nothing below these numbers from now on."""
        self._least = least
        self._heaps = {kind: [] for kind in self._kinds}
        self._offered = [None] * len(least)
        self._changed.update(range(len(least)))

    def _catch_up(self) -> None:
        if not self._changed:
            return
        trial, least = self._trial, self._least
        self._found.clear()
        for i in self._changed:
            nodes = trial.nodes[i]
            now = len(nodes)
            tail = nodes[-1] if now else NOWHERE
            if tail != self._tail_of[i]:
                self._tails[self._tail_of[i]].discard(i)
                self._tails[tail].add(i)
                self._tail_of[i] = tail
            if now > max(least[i], 0) and self._offered[i] != now:
                heapq.heappush(self._heaps[self._kinds[i]], (self._loss(i, now) / self._share[i], i, now))
                self._offered[i] = now
        self._changed.clear()

    # -- who loses least ---------------------------------------------------------------------------
    def cheapest(self, most: int, but: int, helps: Kind | None = None) -> list[int]:
        """The roles that lose least for their share by giving, the cheapest first; with `helps`, of those that take any
        of these kinds. `but`: the role that gives nothing."""
        self._catch_up()
        found = self._found.get((most, helps))
        if found is None:
            found = self._found[most, helps] = self._look(most + 1, helps)
        return [i for i in found if i != but][:most]

    def _look(self, most: int, helps: Kind | None) -> list[int]:
        heaps = [heap for kind, heap in self._heaps.items() if helps is None or _overlap(kind, helps)]
        found: dict[int, tuple[float, int, int]] = {}
        while len(found) < most and (ripe := [heap for heap in heaps if heap]):
            entry = heapq.heappop(min(ripe, key=lambda heap: heap[0]) if len(ripe) > 1 else ripe[0])
            i = entry[1]
            if entry[2] == len(self._trial.nodes[i]):
                found.setdefault(i, entry)
            elif entry[2] == self._offered[i]:
                self._offered[i] = None
        for i, entry in found.items():
            heapq.heappush(self._heaps[self._kinds[i]], entry)
        return list(found)

    # -- what a node costs -------------------------------------------------------------------------
    def price(
        self, size: ReplicaSize, replicas: int, node: int, limit: float, but: int, *, sums: bool, wanted: int = 1
    ) -> Price | None:
        """What it takes until the node has room for so many replicas of that size, and, with `sums`, the cluster as a
        whole has, too. None where it takes `limit` or more. `but`: the role that gives nothing. `wanted`: how many such
        pods wait, of which the price says how many find room."""
        self._catch_up()
        trial = self._trial
        fleet, nodes, sizes = trial.fleet, trial.nodes, trial.sizes
        lacks = {id(free): replicas * amount - free[node] for free, amount in size.needs}
        given: dict[int, int] = {}
        givers: list[int] = []
        loss = 0.0
        if any(lack > 0 for lack in lacks.values()):
            able = [i for i in self._tails.get(node, ()) if i != but and len(nodes[i]) > self._least[i]]
            ripe = [(self._loss(i, len(nodes[i])) / self._share[i], i) for i in able]
            heapq.heapify(ripe)
            while any(lack > 0 for lack in lacks.values()):
                if not ripe:
                    return None
                i = heapq.heappop(ripe)[1]
                given[i] = given.get(i, 0) + 1
                left = len(nodes[i]) - given[i]
                loss += self._loss(i, left + 1)
                if loss >= limit:
                    return None
                givers.append(i)
                for free, amount in sizes[i].needs:
                    if id(free) in lacks:
                        lacks[id(free)] -= amount
                if left > max(self._least[i], 0) and nodes[i][left - 1] == node:
                    heapq.heappush(ripe, (self._loss(i, left) / self._share[i], i))
        if sums:
            over = [fleet.over_cpu, fleet.over_memory, fleet.over_gpu]
            for i in givers:
                over = _less(over, sizes[i])
            while any(_missing(over, size, replicas)):
                first = self._first_of_all(but, _missing(over, size, 1), given)
                if first is None:
                    return None
                given[first] = given.get(first, 0) + 1
                loss += self._loss(first, len(nodes[first]) - given[first] + 1)
                if loss >= limit:
                    return None
                givers.append(first)
                over = _less(over, sizes[first])
        return Price(loss, givers, _pods(size, lacks, replicas, wanted))

    def _first_of_all(self, but: int, helps: Kind, given: Mapping[int, int]) -> int | None:
        """As `cheapest`, after so many gifts of roles."""
        entries = []
        for i in self.cheapest(len(given) + 1, but, helps):
            if i not in given:
                entries.append((self._loss(i, len(self._trial.nodes[i])) / self._share[i], i))
                break
        for i, gifts in given.items():
            left = len(self._trial.nodes[i]) - gifts
            if left > max(self._least[i], 0) and _overlap(self._kinds[i], helps):
                entries.append((self._loss(i, left) / self._share[i], i))
        return min(entries)[1] if entries else None


def _overlap(kind: Kind, helps: Kind) -> bool:
    return any(takes and helps for takes, helps in zip(kind, helps, strict=True))


def _less(over: Sequence[int], size: ReplicaSize) -> list[int]:
    """The sums of requests beyond the cluster, when such a replica has gone."""
    return [over[0] - size.cpu, over[1] - size.memory, over[2] - size.gpu]


def _missing(over: Sequence[int], size: ReplicaSize, replicas: int) -> Kind:
    """Of what the cluster as a whole has too little for so many replicas."""
    cpu, memory, gpu = over
    return (
        bool(size.cpu) and cpu + replicas * size.cpu > 0,
        bool(size.memory) and memory + replicas * size.memory > 0,
        bool(size.gpu) and gpu + replicas * size.gpu > 0,
    )


def _pods(size: ReplicaSize, lacks: Mapping[int, int], replicas: int, wanted: int) -> int:
    """How many of those that wait a node holds that lacks so much for so many replicas."""
    if wanted == 1:
        return 1
    rooms = [(replicas * amount - lacks[id(free)]) // amount for free, amount in size.needs]
    return min(wanted, max(0, min(rooms, default=0)))


def _kind(size: ReplicaSize) -> Kind:
    return bool(size.cpu), bool(size.memory), bool(size.gpu)
