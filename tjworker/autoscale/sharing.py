"""Shares a cluster out by the worth of each replica. The policies `fair`, `throughput` and `goodput` use this search.
Pure; changes none of its arguments.

A policy says what a step is worth to a role (`Values`). The search starts from the cluster as it is. It repeatedly
makes the step with the greatest worth per share of the cluster: into free room, or into the room of roles that lose
less than the step gains. Each step raises the total worth. So the search ends, and a plan that has been carried out
leads to no other plan.

The rules that these policies share apply in this order: maxima, room for waiting pods, the excess of requests over the
cluster, shares.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from functools import cached_property
from itertools import islice
from typing import Protocol

from tjworker.autoscale.donors import NOTHING, Donors, Kind
from tjworker.autoscale.dryrun import cpu_reach
from tjworker.autoscale.fleet import ReplicaSize
from tjworker.autoscale.jobs import ElasticJob
from tjworker.autoscale.problem import Problem, RoleId, ScalePlan
from tjworker.autoscale.resources import ClusterResource
from tjworker.autoscale.trial import NO_ROOM, NOWHERE, Trial

MOST_DONORS = 16
"""How many roles are considered as donors for one step: those that lose least."""
MOST_PASSES = 8
NEGLIGIBLE = 0.005
"""A pass is the last one if it makes at most this fraction of the number of roles as steps. The next plan gains the
rest. In clusters of fewer than 200 roles, the last pass makes no step."""
LEAST_SHARE = 1e-9


class Values(Protocol):
    """The worth of replicas, in one unit for all roles. `i`: the place of the role in the order of role ids."""

    def steps(self, i: int, now: int) -> Sequence[int]:
        """The numbers of replicas above `now` that a role may grow to in one step, ascending."""

    def gain(self, i: int, low: int, high: int) -> float:
        """The worth of `high` replicas minus that of `low`. The gain per replica falls as `low` rises."""

    def disturbance(self, i: int) -> float:
        """The worth that a role loses by the first move of a plan, because its training pauses meanwhile."""


def dominant_share(job: ElasticJob, resource: ClusterResource, max_load_desired: float) -> float:
    """The greatest fraction of any resource of the cluster that one replica takes."""
    shares = (
        (job.cpu_request_milli, cpu_reach(resource, max_load_desired)),
        (job.memory_request_mega, resource.memory_total_mega),
        (job.gpu_limit, resource.gpu_total),
    )
    # Never 0, because worth is divided by it: a replica may request nothing.
    return max((LEAST_SHARE, *(amount / total for amount, total in shares if total > 0)))


def share_out(problem: Problem, values: Values, *, hysteresis: float = 1.0, compact: bool = False) -> ScalePlan:
    """The plan with the greatest worth that the search finds. `values` counts roles in the order of their ids.
    `hysteresis`: a role gives room only if another role gains this many times its loss. `compact`: a step that needs
    more nodes than necessary is not made."""
    kept: dict[RoleId, int] = {}
    for attempt in range(MOST_PASSES):
        sharing = _Sharing(problem, values, hysteresis, compact, kept)
        sharing.settle()
        # Try again if the next run would give roles some replicas back: their jobs would be disturbed twice.
        regrets = sharing.regrets(all_of_it=attempt >= MOST_PASSES // 2)
        if not regrets:
            break
        kept |= regrets
    return sharing.trial.plan()


class _Sharing:
    def __init__(
        self, problem: Problem, values: Values, hysteresis: float, compact: bool, kept: dict[RoleId, int]
    ) -> None:
        self.problem, self.values, self.compact = problem, values, compact
        # Room that is worth the same to two roles stays with its role.
        self.hysteresis = hysteresis * (1 + 1e-9)
        self.trial = trial = Trial(problem)
        jobs = [role.elastic for role in trial.roles]
        load = problem.max_load_desired
        self.share = [dominant_share(job, problem.resource, load) for job in jobs]
        self.least = [job.lowest for job in jobs]
        self._kept = kept
        self.most = [job.highest for job in jobs]
        self.was = [job.parallelism for job in jobs]
        self.losses: dict[tuple[int, int], float] = {}
        """(role, replicas) -> the worth of the role's last replica: a cache."""
        self.too_little: dict[Kind, dict[tuple[int, int], dict[int, float]]] = {}
        """Refused steps: what the cluster's sums lack -> (id of the size, replicas) -> role -> the greatest loss at
        which no other role gave it room. Valid until a role gives room, or a role grows that could give such room."""
        self.open: list[tuple[int, list[int]]] = [(-1, [])] * len(jobs)
        """For each role: (the length of `Fleet.freed` at the time, those of its own nodes that may have room for one
        more replica)."""
        self.donors = Donors(trial, self._loss, self.share, self.least)

    # -- steps -------------------------------------------------------------------------------------
    def _give(self, i: int) -> None:
        self.donors.change(i, self.trial.give(i))

    def _add(self, i: int, node: int) -> None:
        trial = self.trial
        trial.add(i, node)
        self.donors.change(i, node)
        if self.compact:
            freed, known = self.open[i]
            if freed == len(trial.fleet.freed) and node not in known:
                known.append(node)

    def _undo(self, mark: int) -> None:
        if mark == self.trial.mark():
            return
        for i, node in self.trial.touched(mark):
            self.donors.change(i, node)
        self.trial.undo(mark)

    # -- worth -------------------------------------------------------------------------------------
    def _loss(self, i: int, now: int) -> float:
        """The worth that the role loses with its last replica, if it has `now`."""
        loss = self.losses.get((i, now))
        if loss is None:
            loss = self.losses[i, now] = self.values.gain(i, now - 1, now) + self._first_move(i, now)
        return loss

    def _first_move(self, i: int, now: int) -> float:
        return self.values.disturbance(i) if now == self.was[i] and now else 0.0

    def _best_step(self, i: int, now: int, tried: set[int]) -> tuple[float, int, float] | None:
        """(gain per share of the cluster, replicas, gain) of the best step not in `tried`; None if no step gains
        anything."""
        most, share, values = self.most[i], self.share[i], self.values
        best: tuple[float, int, float] | None = None
        moving = values.disturbance(i) if now == self.was[i] and now else 0.0
        for to in values.steps(i, now):
            if to > most:
                break
            if to in tried:
                continue
            gain = values.gain(i, now, to) - moving
            rate = gain / ((to - now) * share)
            if gain > 0 and (best is None or rate > best[0]):
                best = rate, to, gain
            if not moving:
                # Each further replica gains less, so no larger step has a greater rate.
                break
        return best

    def _open_node(self, i: int) -> int:
        """The first of the role's own nodes with room for one more replica; NOWHERE if there is none."""
        fleet, size = self.trial.fleet, self.trial.sizes[i]
        freed, nodes = self.open[i]
        # A full node stays full until some node is freed, so the candidates are listed again only then.
        if freed != len(fleet.freed):
            nodes = [node for node in self.trial.on[i] if node >= 0]
            self.open[i] = len(fleet.freed), nodes
        while nodes:
            node = min(nodes) if len(nodes) > 1 else nodes[0]
            if fleet.fits(size, node):
                return node
            nodes.remove(node)
        return NOWHERE

    @cached_property
    def per_node(self) -> dict[int, int]:
        return replicas_per_node(self.trial)

    # -- the plan ----------------------------------------------------------------------------------
    def settle(self) -> None:
        """Make the whole plan: each rule of all policies, then the shares."""
        for i, role in enumerate(self.trial.roles):
            while self.trial.count(i) > max(role.elastic.max_instance, 0):
                self._give(i)
        self._serve_demand()
        self._end_excess()
        # The replicas before roles trade room by worth: `regrets` compares the result with them.
        self.owed = [self.trial.count(i) for i in range(len(self.was))]
        self.least = [
            max(least, min(n, self._kept.get(role.id, 0)))
            for least, n, role in zip(self.least, self.owed, self.trial.roles, strict=True)
        ]
        self.donors.require(self.least)
        for _ in range(MOST_PASSES):
            if self._trade_shares() <= len(self.was) * NEGLIGIBLE:
                return

    def regrets(self, *, all_of_it: bool) -> dict[RoleId, int]:
        """Role -> the replicas that it should keep in the next attempt. These roles gave replicas to other roles, but
        the cluster has room for one more replica, which the next plan would add. `all_of_it`: they keep all that they
        had."""
        trial, found = self.trial, {}
        for i, owed in enumerate(self.owed):
            now, most = trial.count(i), min(owed, self.most[i])
            size = trial.sizes[i]
            if now < most and trial.sums_allow(size) and trial.fleet.first(size) >= 0:
                found[trial.roles[i].id] = most if all_of_it else now + 1
        return found

    def _serve_demand(self) -> None:
        """Reserve a node for each waiting pod, as far as roles can give room."""
        trial = self.trial
        by_id = {role.id: i for i, role in enumerate(trial.roles)}
        for demand, own in zip(self.problem.demand, trial.demand_sizes, strict=True):
            left, size, but = demand.pods - demand.placed, own, -1
            if demand.role in by_id:
                but = by_id[demand.role]
                size = trial.sizes[but]
                held = trial.count(but) - left
                # An elastic role may wait like any pod, but only up to its minimum: above it, shares decide.
                left = min(left, max(0, trial.roles[but].elastic.min_instance - held))
            for more in range(max(0, left), 0, -1):
                node = trial.fleet.first(size)
                if node < 0:
                    node = self._free_a_node(size, but, float("inf"), 1, wanted=more)
                if node < 0:
                    break
                trial.hold(size, node)
                self.donors.hold(node)

    def _end_excess(self) -> None:
        fleet = self.trial.fleet
        while fleet.excess():
            # A replica helps if it takes any of the resources that are requested beyond the cluster.
            helps = fleet.over_cpu > 0, fleet.over_memory > 0, fleet.over_gpu > 0
            cheapest = self.donors.cheapest(1, -1, helps)
            if not cheapest:
                return
            self._give(cheapest[0])

    # -- shares ------------------------------------------------------------------------------------
    def _trade_shares(self) -> int:
        """One pass over all roles, the step with the greatest rate first. Returns the number of steps made."""
        moves = 0
        trial, nodes, had, most, best_step = self.trial, self.trial.nodes, self.trial.had, self.most, self._best_step
        tried: list[set[int]] = [set() for _ in nodes]
        self.too_little.clear()
        hopeless: dict[tuple[int, int], float] = {}
        """(id of the size, replicas) -> the greatest rate that found no room since a role last gave room."""

        def offer(i: int) -> tuple[float, bool, int, int, float] | None:
            now = len(nodes[i])
            step = best_step(i, now, tried[i]) if now < most[i] else None
            return (-step[0], now >= had[i], i, step[1], step[2]) if step is not None else None

        heap = [entry for i in range(len(nodes)) if (entry := offer(i)) is not None]
        heapq.heapify(heap)
        while heap:
            rate, _, i, to, gain = heap[0]
            # Read again: the role may have given replicas since the offer.
            new = len(nodes[i]) >= had[i]
            found = gave = False
            # Whether such a step finds room depends on the role's own nodes, so another role's failure says nothing.
            if self.compact or not new:
                found, gave = self._grow_to(i, to, gain)
            else:
                key = id(trial.sizes[i]), to - len(nodes[i])
                if -rate > hopeless.get(key, -1.0):
                    found, gave = self._grow_to(i, to, gain)
                    if not found:
                        hopeless[key] = -rate
            if found:
                moves += 1
                if gave:
                    hopeless.clear()
                if self.too_little:
                    self._forget_refusals(i, gave=gave)
                if tried[i]:
                    tried[i].clear()
            else:
                tried[i].add(to)
            after = offer(i)
            if after is None:
                heapq.heappop(heap)
            else:
                heapq.heapreplace(heap, after)
        return moves

    def _forget_refusals(self, i: int, *, gave: bool) -> None:
        """Drop the refusals that no longer hold, because the role has grown; `gave`: into the room of other roles."""
        if gave:
            self.too_little.clear()
        for short, refusals in self.too_little.items():
            # The role has a replica more, and may give it.
            if not any(short) or self.donors.helps(i, short):
                refusals.clear()

    def _grow_to(self, i: int, to: int, gain: float) -> tuple[bool, bool]:
        """Grow the role to `to` replicas. Returns (whether they found room, whether other roles gave it)."""
        now, size = len(self.trial.nodes[i]), self.trial.sizes[i]
        if to == now + 1 and now >= self.trial.had[i] and self._add_new(i, size):
            return True, False
        more, own = to - now, self.trial.own_place(i)
        short = self.donors.short_of(size, more)
        if self._place_in_free_room(i, to, short):
            return True, False
        # A replica that the plan took comes back to its own node, one at a time. If it had no node, there is none to
        # free.
        if own is not None and (own < 0 or more > 1):
            return False, False
        limit = gain / self.hysteresis
        refused = self._refused(i, more, short)
        if own is None and self._must_fail(i, limit, refused):
            return False, False
        node = self._free_a_node(size, i, limit, more, short, only=own)
        if node < 0:
            if own is None:
                refused[i] = limit
            return False, False
        for _ in range(more):
            self._add(i, node)
        return True, True

    def _add_new(self, i: int, size: ReplicaSize) -> bool:
        """Add one new replica in free room; True on success. Most steps of a plan end here."""
        trial = self.trial
        if not trial.sums_allow(size):
            return False
        node = self._open_node(i) if self.compact else NOWHERE
        if node < 0 and (node := trial.fleet.first(size)) < 0:
            return False
        self._add(i, node)
        return True

    def _place_in_free_room(self, i: int, to: int, short: Kind) -> bool:
        """Grow the role to `to` replicas in free room; True on success. `short`: what the sums lack for them."""
        now = len(self.trial.nodes[i])
        if now < self.trial.had[i] or (to > now + 1 and short == NOTHING):
            mark = self.trial.mark()
            if self._place(i, to):
                return True
            self._undo(mark)
        elif short == NOTHING and (node := self._node_for_one(i)) >= 0:
            self._add(i, node)
            return True
        return False

    def _refused(self, i: int, more: int, short: Kind) -> dict[int, float]:
        """The part of `too_little` that applies to `more` replicas of the role: role -> loss limit."""
        return self.too_little.setdefault(short, {}).setdefault((id(self.trial.sizes[i]), more), {})

    def _must_fail(self, i: int, limit: float, refused: dict[int, float]) -> bool:
        """True if earlier refusals show that no other role gives room for less than `limit`."""
        loss = 0.0
        for by in islice(reversed(refused), MOST_DONORS):
            if refused[by] >= limit:
                if by == i:
                    return True
                # The search for `by` saw the same donors, except `by` itself. So any room that it missed needs a gift
                # of `by`, and the same is true of every other role that was refused.
                loss += self._loss(by, self.trial.count(by)) if self.trial.count(by) else limit
                if loss >= limit:
                    return True
        return False

    def _node_for_one(self, i: int) -> int:
        """The node for one new replica, whatever the sums say; below 0 if there is none."""
        if self.compact and (own := self._open_node(i)) >= 0:
            return own
        return self.trial.fleet.first(self.trial.sizes[i])

    def _place(self, i: int, to: int) -> bool:
        """Add replicas in free room up to `to`. On False the caller undoes the replicas added so far."""
        trial, size = self.trial, self.trial.sizes[i]
        nodes = trial.nodes[i]
        while (now := len(nodes)) < to:
            if not self.compact or trial.own_place(i) is not None:
                if (node := trial.room(i)) == NO_ROOM:
                    return False
                self._add(i, node)
                continue
            if not trial.sums_allow(size, to - now):
                return False
            if (node := self._open_node(i)) >= 0:
                self._add(i, node)
                continue
            # Compact: replicas go to a new node together, as many as one node can hold.
            chunk = min(to - now, self.per_node[id(size)])
            node = trial.fleet.first(trial.fleet.block(size, chunk))
            if node < 0:
                return False
            for _ in range(chunk):
                self._add(i, node)
        return True

    def _free_a_node(
        self,
        size: ReplicaSize,
        but: int,
        limit: float,
        replicas: int,
        short: Kind | None = None,
        *,
        only: int | None = None,
        wanted: int = 1,
    ) -> int:
        """Free room for `replicas` of that size on one node. Returns the node. Returns NOWHERE and changes nothing if
        every node would cost roles `limit` or more. `but`: the role that gives nothing. `short`: what the cluster's
        sums lack for these replicas; None if the sums count them already. `wanted`: how many such pods wait. `only`:
        the node to free."""
        trial = self.trial
        cheap = self.donors.cheapest(MOST_DONORS, but, short or NOTHING)
        if not cheap or min(self._loss(i, trial.count(i)) for i in cheap) >= limit:
            # Each gift of the roles that are considered costs `limit` or more.
            return NOWHERE
        nodes = [only] if only is not None else list(dict.fromkeys(trial.nodes[i][-1] for i in cheap))
        fitting = trial.fleet.first(trial.fleet.block(size, replicas)) if only is None else NOWHERE
        if fitting >= 0 and fitting not in nodes:
            nodes.insert(0, fitting)
        best, where, least = None, NOWHERE, limit
        for node in nodes:
            if node < 0:
                continue
            price = self.donors.price(
                size, replicas, node, least * wanted if best else limit, but, sums=short is not None, wanted=wanted
            )
            # The cost counts per waiting pod: a replica is often larger than a waiting pod, so the node may hold two.
            if price is not None and (best is None or price.loss / price.pods < least):
                best, where, least = price, node, price.loss / price.pods
                # Nodes come in the order of their cheapest donor: a node that needs one gift is good enough.
                if len(price.givers) <= 1 and wanted == 1 and not self.compact:
                    break
        if best is None:
            return NOWHERE
        for i in best.givers:
            self._give(i)
        return where


def replicas_per_node(trial: Trial) -> dict[int, int]:
    """id of each size -> how many replicas of that size the best node would hold if all elastic replicas were gone; at
    least 1."""
    taken = {id(amounts): amounts for size in trial.sizes for amounts, _ in size.needs}
    free = {key: list(amounts) for key, amounts in taken.items()}
    for size, nodes in zip(trial.sizes, trial.nodes, strict=True):
        for node in nodes:
            if node >= 0:
                for amounts, amount in size.needs:
                    free[id(amounts)][node] += amount
    found: dict[int, int] = {}
    for size in trial.sizes:
        if id(size) not in found:
            # Nodes with equal room count once: large clusters have few kinds of nodes.
            kinds = set(zip(*(free[id(amounts)] for amounts, _ in size.needs), strict=True))
            asked = [need for _, need in size.needs]
            most = max((min(h // n for h, n in zip(has, asked, strict=True)) for has in kinds), default=1)
            found[id(size)] = max(1, most)
    return found
