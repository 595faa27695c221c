"""Which roles give room to others, and what it costs them. Pure; changes nothing: prices are worked out in the head.

A role gives its last replicas. So who can free a node are the roles whose last replica is there, and with each gift the
next of a role's replicas may be on that node, too.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from tjworker.autoscale.fleet import ReplicaSize
from tjworker.autoscale.trial import NOWHERE, Trial

Kind = tuple[bool, bool, bool]
"""Whether a replica takes CPU, memory and GPUs."""
NOTHING: Kind = (False, False, False)

Loss = Callable[[int, int], float]
"""(role, replicas) -> what the role loses with the last of so many."""


class Price(NamedTuple):
    loss: float
    """What the givers lose."""
    givers: Sequence[int]
    """Who gives its last replica, one after the other."""
    pods: int
    """How many of those that wait the node then holds."""


class _Clearance(NamedTuple):
    loss: float
    givers: tuple[int, ...]
    enough: bool
    """False where the node has no room even then, or the search ended at a limit: it takes `loss` or more."""


_NOBODY: frozenset[int] = frozenset()


class Donors:
    """`change` is to be told of each step of the trial, `hold` of each pod that waits and is given a node."""

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
        self._found: dict[tuple[int, Kind], list[int]] = {}
        """What `cheapest` has found since the last change."""
        self._known: dict[int, dict[tuple[int, int, int], _Clearance]] = defaultdict(dict)
        """Node -> (size, replicas, the role that gives nothing) -> what the node costs."""

    def change(self, i: int, node: int) -> None:
        """The role has one replica more or fewer, on that node."""
        self._changed.add(i)
        if node in self._known:
            del self._known[node]

    def hold(self, node: int) -> None:
        """Somebody else takes room there."""
        self._known.pop(node, None)

    def require(self, least: Sequence[int]) -> None:
        """Roles give nothing below these numbers from now on."""
        self._least = least
        self._known.clear()
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
                self._known.pop(self._tail_of[i], None)
                self._known.pop(tail, None)
                self._tail_of[i] = tail
            if now > max(least[i], 0) and self._offered[i] != now:
                heapq.heappush(self._heaps[self._kinds[i]], (self._loss(i, now) / self._share[i], i, now))
                self._offered[i] = now
        self._changed.clear()

    # -- what is short ----------------------------------------------------------------------------
    def short_of(self, size: ReplicaSize, replicas: int, givers: Sequence[int] = ()) -> Kind:
        """What the cluster as a whole has too little of for so many replicas, after these gifts."""
        cpu, memory, gpu = self._over(givers)
        return (
            bool(size.cpu) and cpu + replicas * size.cpu > 0,
            bool(size.memory) and memory + replicas * size.memory > 0,
            bool(size.gpu) and gpu + replicas * size.gpu > 0,
        )

    def helps(self, i: int, short: Kind) -> bool:
        """Whether a replica of the role takes any of that."""
        return _overlap(self._kinds[i], short)

    # -- who loses least ---------------------------------------------------------------------------
    def cheapest(self, most: int, but: int, helps: Kind = NOTHING) -> list[int]:
        """The roles that lose least for their share by giving, the cheapest first; with `helps`, of those that take any
        of these kinds. `but`: the role that gives nothing."""
        self._catch_up()
        found = self._found.get((most, helps))
        if found is None:
            found = self._found[most, helps] = self._look(most + 1, helps)
        return [i for i in found if i != but][:most]

    def _look(self, most: int, helps: Kind) -> list[int]:
        heaps = [heap for kind, heap in self._heaps.items() if helps == NOTHING or _overlap(kind, helps)]
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
        known = self._clearance(size, replicas, node, limit, but)
        if not known.enough or (known.givers and known.loss >= limit):
            return None
        if not sums or self.short_of(size, replicas, known.givers) == NOTHING:
            return Price(known.loss, known.givers, self._pods(size, node, known.givers, wanted))
        return self._with_sums(size, replicas, known, limit, but)

    def _clearance(self, size: ReplicaSize, replicas: int, node: int, limit: float, but: int) -> _Clearance:
        """Of one node, whatever the sums say. It is remembered until something on the node changes: many roles look for
        room on the few nodes where it costs least."""
        self._catch_up()
        tails = self._tails.get(node, _NOBODY)
        known = self._known[node]
        key = id(size), replicas, but if but in tails else NOWHERE
        found = known.get(key)
        if found is None or not (found.enough or found.loss >= limit):
            found = known[key] = self._clear(size, replicas, node, limit, [i for i in tails if i != but])
        return found

    def _clear(self, size: ReplicaSize, replicas: int, node: int, limit: float, tails: Iterable[int]) -> _Clearance:
        nodes, sizes, least = self._trial.nodes, self._trial.sizes, self._least
        lacks = {id(free): replicas * amount - free[node] for free, amount in size.needs}
        loss, givers = 0.0, []
        if max(lacks.values(), default=0) > 0:
            counts = {i: len(nodes[i]) for i in tails}
            ripe = [(self._loss(i, now) / self._share[i], i) for i, now in counts.items() if now > least[i]]
            heapq.heapify(ripe)
            while max(lacks.values()) > 0:
                if not ripe:
                    return _Clearance(math.inf, (), enough=False)
                i = heapq.heappop(ripe)[1]
                loss += self._loss(i, counts[i])
                if loss >= limit:
                    return _Clearance(loss, (), enough=False)
                givers.append(i)
                for free, amount in sizes[i].needs:
                    if id(free) in lacks:
                        lacks[id(free)] -= amount
                left = counts[i] = counts[i] - 1
                if left > max(least[i], 0) and nodes[i][left - 1] == node:
                    heapq.heappush(ripe, (self._loss(i, left) / self._share[i], i))
        return _Clearance(loss, tuple(givers), enough=True)

    def _with_sums(self, size: ReplicaSize, replicas: int, known: _Clearance, limit: float, but: int) -> Price | None:
        """What it takes beyond the node until the cluster as a whole has room."""
        loss, givers = known.loss, list(known.givers)
        given = Counter(givers)
        while (short := self.short_of(size, replicas, givers)) != NOTHING:
            first = self._first_of_all(but, short, given)
            if first is None:
                return None
            loss += self._loss(first, len(self._trial.nodes[first]) - given[first])
            if loss >= limit:
                return None
            given[first] += 1
            givers.append(first)
        return Price(loss, givers, 1)

    def _over(self, givers: Sequence[int]) -> tuple[int, int, int]:
        """The sums of requests beyond the cluster, after these gifts."""
        fleet = self._trial.fleet
        if not givers:
            return fleet.over_cpu, fleet.over_memory, fleet.over_gpu
        gone = [self._trial.sizes[i] for i in givers]
        return (
            fleet.over_cpu - sum(size.cpu for size in gone),
            fleet.over_memory - sum(size.memory for size in gone),
            fleet.over_gpu - sum(size.gpu for size in gone),
        )

    def _pods(self, size: ReplicaSize, node: int, givers: Sequence[int], wanted: int) -> int:
        """How many of so many pods that wait the node holds after these gifts."""
        if wanted == 1:
            return 1
        back = Counter[int]()
        for i in givers:
            back.update({id(free): amount for free, amount in self._trial.sizes[i].needs})
        rooms = [(free[node] + back[id(free)]) // amount for free, amount in size.needs]
        return min(wanted, max(0, min(rooms, default=0)))

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


def _kind(size: ReplicaSize) -> Kind:
    return bool(size.cpu), bool(size.memory), bool(size.gpu)
