"""The policy of PaddlePaddle EDL: one more replica for each job, the least fulfilled first, until the cluster is full;
one fewer, from the most fulfilled, while more is requested than there is. Pure; changes none of its arguments.

It shares out what is free. It takes replicas of a job only as far as pods that wait request their room, so the first of
many jobs may keep most of the cluster.

The plan is that of the loop `dryrun.scale_one_by_one`, step for step, in a fraction of its time:

- Steps up only take room (see `fleet`); where nothing is left for a size, all its jobs are done.
- Steps down happen only while more is requested than there is; once that is over, only steps up are left.
- Rounds that must all go alike are taken at once: down from far beyond the cluster, and up when a single size is left.
"""

from __future__ import annotations

from collections.abc import Sequence

from tjworker.autoscale.dryrun import cpu_reach
from tjworker.autoscale.fitting import keep_what_fits
from tjworker.autoscale.fleet import Fleet, ReplicaSize
from tjworker.autoscale.jobs import ElasticJob, elastic, sorted_jobs
from tjworker.autoscale.obstacle import why_no_room
from tjworker.autoscale.problem import ElasticRole, Plan, Problem, Reason, RoleId
from tjworker.autoscale.resources import ClusterResource


def plan(problem: Problem) -> Plan:
    roles = sorted(problem.roles, key=lambda role: role.id)  # of equal roles the first goes first, in every run
    by_name = {role.elastic.name: role for role in roles}
    rounds = _plan([role.elastic for role in roles], problem.resource, problem.max_load_desired)
    fleet = rounds.fleet
    nodes = list(fleet.index)
    targets: dict[RoleId, int] = {}
    places: dict[RoleId, tuple[str, ...]] = {}
    for job, planned, added in zip(fleet.jobs, fleet.planned, fleet.added, strict=True):
        id_ = by_name[job.name].id
        targets[id_] = planned
        if planned > job.parallelism:
            places[id_] = tuple(nodes[node] for node in added[-(planned - job.parallelism) :])
    made = Plan(targets, places)
    return keep_what_fits(problem, made) if rounds.gave_up else made


def explain(problem: Problem, made: Plan, role: ElasticRole) -> Reason:
    """Why the plan gives the role what it gives it."""
    now, to = role.elastic.parallelism, made.targets.get(role.id, role.elastic.parallelism)
    if to > now:
        return Reason("room", f"room for {to - now} more")
    if to == now:
        return Reason("", role.ceiling_because or why_no_room(problem, role))
    if now > role.elastic.max_instance:
        return Reason("bounds", f"no more than maxReplicas ({role.elastic.max_instance})")
    return Reason("need", f"room is needed{problem.who_needs_room(role)}")


def scale_all_jobs_dry_run(
    jobs: Sequence[ElasticJob], resource: ClusterResource, max_load_desired: float
) -> dict[str, int]:
    """How many replicas more or fewer each elastic job should have: every elastic job has its entry."""
    fleet = _plan(jobs, resource, max_load_desired).fleet
    return {job.name: planned - job.parallelism for job, planned in zip(fleet.jobs, fleet.planned, strict=True)}


def _plan(jobs: Sequence[ElasticJob], resource: ClusterResource, max_load_desired: float) -> _Rounds:
    rounds = _Rounds(Fleet(sorted_jobs(jobs, elastic), resource, cpu_reach(resource, max_load_desired)))
    if rounds.fleet.excess() or any(job.parallelism > job.max_instance for job in rounds.fleet.jobs):
        rounds.settle()
    rounds.fill()
    return rounds


class _Rounds:
    """Round after round of one step for each job."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.gave_up = False
        """Some job has given replicas up."""

    def _give_up(self, i: int, replicas: int) -> None:
        self.gave_up = True
        self.fleet.give_up(i, replicas)

    # -- while requests exceed the cluster -----------------------------------------------------
    def settle(self) -> None:
        """Rounds in both directions until requests fit the cluster, or no job can give up more."""
        jobs = range(len(self.fleet.jobs))
        changed = True
        while changed:
            changed = False
            for i in jobs:
                changed = self._up(i) or changed
            for i in reversed(jobs):
                changed = self._down(i) or changed
            if not self.fleet.excess():
                return
            self._down_in_bulk()

    def _up(self, i: int) -> bool:
        fleet, job = self.fleet, self.fleet.jobs[i]
        if fleet.planned[i] > job.max_instance:
            self._give_up(i, fleet.planned[i] - job.max_instance)
            return True
        if fleet.planned[i] >= job.highest or (node := fleet.room(fleet.sizes[i])) < 0:
            return False
        fleet.add(i, node)
        return True

    def _down(self, i: int) -> bool:
        fleet = self.fleet
        if fleet.planned[i] <= fleet.jobs[i].lowest or not self._helps(fleet.sizes[i]):
            return False
        self._give_up(i, 1)
        return True

    def _helps(self, size: ReplicaSize) -> bool:
        fleet = self.fleet
        return bool(
            (fleet.over_cpu > 0 and size.cpu)
            or (fleet.over_memory > 0 and size.memory)
            or (fleet.over_gpu > 0 and size.gpu)
        )

    def _down_in_bulk(self) -> None:
        """Whole rounds of steps down at once, but for the one in which the excess ends. Only where no job can go up
        meanwhile (the excess is of CPUs) and each round asks the same jobs (of nothing else is there an excess)."""
        fleet = self.fleet
        if fleet.over_cpu <= 0 or fleet.over_memory > 0 or fleet.over_gpu > 0:
            return
        spare = [planned - job.lowest for planned, job in zip(fleet.planned, fleet.jobs, strict=True)]
        able = [i for i, size in enumerate(fleet.sizes) if size.cpu and spare[i] > 0]
        if not able:
            return
        a_round = sum(fleet.sizes[i].cpu for i in able)
        rounds = min((fleet.over_cpu - 1) // a_round, *(spare[i] for i in able))
        if rounds > 0:
            for i in able:
                self._give_up(i, rounds)

    # -- only steps up -----------------------------------------------------------------------------
    def fill(self) -> None:
        """Rounds of one more for each job that can grow, until none can. Room only falls: a job that found none is
        out."""
        fleet = self.fleet
        planned, sizes = fleet.planned, fleet.sizes
        tops = [job.highest for job in fleet.jobs]
        active = [i for i, top in enumerate(tops) if planned[i] < top]
        while active:
            if len({id(sizes[i]) for i in active}) == 1:
                self._fill_alike(active, tops)
                return
            still: list[int] = []
            for i in active:
                node = fleet.room(sizes[i])
                if node < 0:
                    continue
                fleet.add(i, node)
                if planned[i] < tops[i]:
                    still.append(i)
            active = still

    def _fill_alike(self, active: Sequence[int], tops: Sequence[int]) -> None:
        """Jobs of one size: as many replicas as there is room for, dealt out one a round."""
        fleet = self.fleet
        wants = [tops[i] - fleet.planned[i] for i in active]
        rooms = self._rooms(fleet.sizes[active[0]], sum(wants))
        level, high = 0, max(wants)
        while level < high:
            middle = (level + high + 1) // 2
            if sum(min(want, middle) for want in wants) <= len(rooms):
                level = middle
            else:
                high = middle - 1
        left = len(rooms) - sum(min(want, level) for want in wants)
        at = 0
        for i, want in zip(active, wants, strict=True):
            more = min(want, level)
            if left and want > level:
                more += 1
                left -= 1
            fleet.planned[i] += more
            fleet.added[i] += rooms[at : at + more]
            at += more

    def _rooms(self, size: ReplicaSize, most: int) -> list[int]:
        """The nodes for as many replicas of this size as there is room for, at most `most`."""
        fleet = self.fleet
        for over, need in ((fleet.over_cpu, size.cpu), (fleet.over_memory, size.memory), (fleet.over_gpu, size.gpu)):
            if need:
                most = min(most, max(0, -over // need))
        if fleet.over_cpu > 0 or fleet.over_memory > 0:
            return []
        needs = [
            (free, need) for free, need in ((fleet.cpu, size.cpu), (fleet.memory, size.memory), *size.more) if need
        ]
        found: list[int] = []
        for node in range(len(fleet.cpu)):
            if len(found) >= most:
                break
            found += [node] * min((max(0, free[node] // need) for free, need in needs), default=most)
        return found[:most]
