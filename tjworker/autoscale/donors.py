"""Finds the roles that lose least by giving room to other roles, and computes what they lose. Pure: it reads the trial
and does not change it.

A role gives its last replica first. So only the roles whose last replica is on a node can free room there. After a role
gave that replica, its next one may be on the same node, too.
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
"""(CPU, memory, GPUs): True for each resource that a replica takes, or that the cluster has too little of."""
NOTHING: Kind = (False, False, False)

Loss = Callable[[int, int], float]
"""(role, replicas) -> the worth of the role's last replica, if it has that many."""


class Price(NamedTuple):
    loss: float
    """Sum of what the givers lose."""
    givers: Sequence[int]
    """Roles that give their last replica, in order. A role that gives two is listed twice."""
    pods: int
    """How many of the waiting pods fit on the node then."""


class _Clearance(NamedTuple):
    loss: float
    givers: tuple[int, ...]
    enough: bool
    """False if the node lacks room even after all gifts, or if the search ended at a limit. The node then costs `loss`
    or more."""


_NO_ROLES: frozenset[int] = frozenset()


class Donors:
    """Caches prices, so the caller reports every step: call `change` after each step of the trial, and `hold` after
    each node that a waiting pod is given.

    `share`: each role's dominant share of the cluster. `least`: the replicas below which a role gives nothing."""

    def __init__(self, trial: Trial, loss: Loss, share: Sequence[float], least: Sequence[int]) -> None:
        self._trial, self._loss, self._share, self._least = trial, loss, share, least
        count = len(trial.sizes)
        self._kinds = [_kind_of(size) for size in trial.sizes]
        self._tails: dict[int, set[int]] = defaultdict(set)
        """Node -> roles whose last replica is there."""
        self._tail_of = [NOWHERE] * count
        """The node of each role's last replica, as `_tails` has it."""
        # `_catch_up` handles these roles when a price is needed: most steps only take free room, and need none.
        self._changed = set(range(count))
        """Roles that changed since the last `_catch_up`."""
        self._heaps: dict[Kind, list[tuple[float, int, int]]] = {kind: [] for kind in self._kinds}
        """Kind -> heap of (worth of the last replica / share, role, replicas), for the roles of that kind. An entry is
        outdated if the role has another number of replicas now."""
        self._offered: list[int | None] = [None] * count
        """The replicas of each role's newest entry in its heap."""
        self._found: dict[tuple[int, Kind], list[int]] = {}
        """Answers of `cheapest` since the last change."""
        # Many roles look for room on the few nodes where it costs least, so costs are kept until the node changes.
        self._known: dict[int, dict[tuple[int, int, int], _Clearance]] = defaultdict(dict)
        """Node -> (id of the size, replicas, the role that gives nothing) -> what the node costs."""

    def change(self, i: int, node: int) -> None:
        """Record that role `i` has one replica more or fewer on that node."""
        self._changed.add(i)
        if node in self._known:
            del self._known[node]

    def hold(self, node: int) -> None:
        """Record that a waiting pod takes room on that node."""
        self._known.pop(node, None)

    def require(self, least: Sequence[int]) -> None:
        """Replace the replicas below which a role gives nothing."""
        self._least = least
        # A role that must keep more may have been a giver in any of these searches.
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

    # -- shortage ----------------------------------------------------------------------------------
    def short_of(self, size: ReplicaSize, replicas: int, givers: Sequence[int] = ()) -> Kind:
        """The resources that the cluster's sums lack for `replicas` more of that size, after these gifts."""
        cpu, memory, gpu = self._excess_after(givers)
        return (
            bool(size.cpu) and cpu + replicas * size.cpu > 0,
            bool(size.memory) and memory + replicas * size.memory > 0,
            bool(size.gpu) and gpu + replicas * size.gpu > 0,
        )

    def helps(self, i: int, short: Kind) -> bool:
        """True if a replica of the role takes one of the resources in `short`."""
        return _overlap(self._kinds[i], short)

    # -- the cheapest donors -----------------------------------------------------------------------
    def cheapest(self, most: int, but: int, helps: Kind = NOTHING) -> list[int]:
        """Up to `most` roles that lose least, relative to their share, by giving their last replica; the cheapest
        first. With `helps`, only roles that take one of these resources. `but`: the role that gives nothing."""
        self._catch_up()
        found = self._found.get((most, helps))
        if found is None:
            # One more than needed, because `but` may be among them: so the answer serves every `but`.
            found = self._found[most, helps] = self._pop_cheapest(most + 1, helps)
        return [i for i in found if i != but][:most]

    def _pop_cheapest(self, most: int, helps: Kind) -> list[int]:
        heaps = [heap for kind, heap in self._heaps.items() if helps == NOTHING or _overlap(kind, helps)]
        found: dict[int, tuple[float, int, int]] = {}
        while len(found) < most and (ripe := [heap for heap in heaps if heap]):
            entry = heapq.heappop(min(ripe, key=lambda heap: heap[0]) if len(ripe) > 1 else ripe[0])
            i = entry[1]
            if entry[2] == len(self._trial.nodes[i]):
                found.setdefault(i, entry)
            elif entry[2] == self._offered[i]:
                # The newest entry is outdated and dropped: `_catch_up` pushes another if the role comes back to it.
                self._offered[i] = None
        for i, entry in found.items():
            heapq.heappush(self._heaps[self._kinds[i]], entry)
        return list(found)

    # -- the price of a node -----------------------------------------------------------------------
    def price(
        self, size: ReplicaSize, replicas: int, node: int, limit: float, but: int, *, sums: bool, wanted: int = 1
    ) -> Price | None:
        """The gifts that make room on the node for `replicas` of that size; with `sums`, also room in the sums of the
        cluster. None if they cost `limit` or more. `but`: the role that gives nothing. `wanted`: how many such pods
        wait; `Price.pods` says how many of them fit."""
        known = self._read_clearance(size, replicas, node, limit, but)
        if not known.enough or (known.givers and known.loss >= limit):
            return None
        if not sums or self.short_of(size, replicas, known.givers) == NOTHING:
            return Price(known.loss, known.givers, self._count_pods(size, node, known.givers, wanted))
        return self._with_sums(size, replicas, known, limit, but)

    def _read_clearance(self, size: ReplicaSize, replicas: int, node: int, limit: float, but: int) -> _Clearance:
        """The gifts that make room on this node, whatever the sums say. Cached."""
        self._catch_up()
        tails = self._tails.get(node, _NO_ROLES)
        known = self._known[node]
        # `but` matters only if it could give here. All other roles share one entry.
        key = id(size), replicas, but if but in tails else NOWHERE
        found = known.get(key)
        # A search that ended at a lower limit is repeated: with this limit it may succeed.
        if found is None or not (found.enough or found.loss >= limit):
            found = known[key] = self._find_gifts(size, replicas, node, limit, [i for i in tails if i != but])
        return found

    def _find_gifts(
        self, size: ReplicaSize, replicas: int, node: int, limit: float, tails: Iterable[int]
    ) -> _Clearance:
        nodes, sizes, least = self._trial.nodes, self._trial.sizes, self._least
        lacks = {id(free): replicas * amount - free[node] for free, amount in size.needs}
        loss, givers = 0.0, []
        if max(lacks.values(), default=0) > 0:
            counts = {i: len(nodes[i]) for i in tails}
            # Per share: a large replica frees more room with one gift.
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
        """The gifts of `known`, and those on any node that the sums of the cluster need beyond them."""
        loss, givers = known.loss, list(known.givers)
        given = Counter(givers)
        while (short := self.short_of(size, replicas, givers)) != NOTHING:
            first = self._cheapest_after(but, short, given)
            if first is None:
                return None
            loss += self._loss(first, len(self._trial.nodes[first]) - given[first])
            if loss >= limit:
                return None
            given[first] += 1
            givers.append(first)
        return Price(loss, givers, 1)

    def _excess_after(self, givers: Sequence[int]) -> tuple[int, int, int]:
        """(CPU, memory, GPUs) by which requests exceed the cluster, after these gifts."""
        fleet = self._trial.fleet
        if not givers:
            return fleet.over_cpu, fleet.over_memory, fleet.over_gpu
        gone = [self._trial.sizes[i] for i in givers]
        return (
            fleet.over_cpu - sum(size.cpu for size in gone),
            fleet.over_memory - sum(size.memory for size in gone),
            fleet.over_gpu - sum(size.gpu for size in gone),
        )

    def _count_pods(self, size: ReplicaSize, node: int, givers: Sequence[int], wanted: int) -> int:
        """How many of `wanted` waiting pods fit on the node after these gifts."""
        if wanted == 1:
            return 1
        back = Counter[int]()
        for i in givers:
            back.update({id(free): amount for free, amount in self._trial.sizes[i].needs})
        rooms = [(free[node] + back[id(free)]) // amount for free, amount in size.needs]
        return min(wanted, max(0, min(rooms, default=0)))

    def _cheapest_after(self, but: int, helps: Kind, given: Mapping[int, int]) -> int | None:
        """The role that loses least by its next gift, after the gifts in `given` (role -> replicas)."""
        entries = []
        for i in self.cheapest(len(given) + 1, but, helps):
            if i not in given:
                # `cheapest` is sorted, so the first role without a gift beats all others without one.
                entries.append((self._loss(i, len(self._trial.nodes[i])) / self._share[i], i))
                break
        for i, gifts in given.items():
            left = len(self._trial.nodes[i]) - gifts
            if left > max(self._least[i], 0) and _overlap(self._kinds[i], helps):
                entries.append((self._loss(i, left) / self._share[i], i))
        return min(entries)[1] if entries else None


def _overlap(kind: Kind, helps: Kind) -> bool:
    return any(takes and helps for takes, helps in zip(kind, helps, strict=True))


def _kind_of(size: ReplicaSize) -> Kind:
    return bool(size.cpu), bool(size.memory), bool(size.gpu)
