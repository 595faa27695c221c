"""The policy of PaddlePaddle EDL. Adds one replica to each job, the least fulfilled first, until the cluster is full.
Removes one from each job, the most fulfilled first, while more is requested than the cluster has. Pure; changes none of
its arguments.

It shares out free room. It takes replicas of a job only if waiting pods request their room. So the first of many jobs
may keep most of the cluster.

The plan is the same as that of a loop over `dryrun.scale_dry_run`, step for step, in a fraction of its time:

- Steps up only take room (see `fleet`). If no node has room for a size, all jobs of that size are done.
- Steps down happen only while more is requested than the cluster has. After that only steps up are left.
- Rounds that make the same steps are made at once: down while the excess is large, and up when one size is left.
"""

from __future__ import annotations

from collections.abc import Sequence

from tjworker.autoscale.dryrun import cpu_reach
from tjworker.autoscale.fitting import keep_what_fits
from tjworker.autoscale.fleet import Fleet, ReplicaSize
from tjworker.autoscale.jobs import ElasticJob, elastic, sorted_jobs
from tjworker.autoscale.obstacle import why_no_room
from tjworker.autoscale.policies.words import of_bounds
from tjworker.autoscale.problem import ElasticRole, Problem, Reason, RoleId, ScalePlan
from tjworker.autoscale.resources import ClusterResource


def plan(problem: Problem) -> ScalePlan:
    # Sorted, so that every run serves equal roles in the same order.
    roles = sorted(problem.roles, key=lambda role: role.id)
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
    made = ScalePlan(targets, places)
    # A job may have given replicas up and got others on the way; then some of the places may be taken.
    return keep_what_fits(problem, made) if rounds.gave_up else made


def explain(problem: Problem, made: ScalePlan, role: ElasticRole) -> Reason:
    """Why the plan gives the role its number of replicas."""
    now, to = role.elastic.parallelism, made.targets.get(role.id, role.elastic.parallelism)
    if to > now:
        return Reason("room", f"room for {to - now} more")
    if to == now:
        return Reason("", role.ceiling_because or why_no_room(problem, role))
    return of_bounds(role) or Reason("need", f"room is needed{problem.who_needs_room(role)}")


def scale_all_jobs_dry_run(
    jobs: Sequence[ElasticJob], resource: ClusterResource, max_load_desired: float
) -> dict[str, int]:
    """Name of each elastic job -> how many replicas more (or fewer, below 0) it should have; 0 for no change. The name
    is that of PaddlePaddle EDL (`scaleAllJobsDryRun`)."""
    fleet = _plan(jobs, resource, max_load_desired).fleet
    return {job.name: planned - job.parallelism for job, planned in zip(fleet.jobs, fleet.planned, strict=True)}


def _plan(jobs: Sequence[ElasticJob], resource: ClusterResource, max_load_desired: float) -> _Rounds:
    rounds = _Rounds(Fleet(sorted_jobs(jobs, elastic), resource, cpu_reach(resource, max_load_desired)))
    if rounds.fleet.excess() or any(job.parallelism > job.max_instance for job in rounds.fleet.jobs):
        rounds.settle()
    rounds.fill()
    return rounds


class _Rounds:
    """Rounds in which each job makes one step."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.gave_up = False
        """True once a job has given up replicas."""

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
        """Make many whole rounds of steps down at once, except the round in which the excess ends."""
        fleet = self.fleet
        # Rounds are equal only if no job can go up meanwhile and the same jobs go down: the excess is in CPUs alone.
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
        """Add one replica per round to each job that can grow, until none can."""
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
                    # Steps up only take room: this job will find none in a later round either.
                    continue
                fleet.add(i, node)
                if planned[i] < tops[i]:
                    still.append(i)
            active = still

    def _fill_alike(self, active: Sequence[int], tops: Sequence[int]) -> None:
        """Give jobs of one size as many replicas as there is room for, with the same result as one per round."""
        fleet = self.fleet
        wants = [tops[i] - fleet.planned[i] for i in active]
        rooms = self._rooms(fleet.sizes[active[0]], sum(wants))
        # Binary search for the number of full rounds.
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
        """The nodes for up to `most` replicas of this size, as far as there is room; a node once per replica."""
        fleet = self.fleet
        for over, need in ((fleet.over_cpu, size.cpu), (fleet.over_memory, size.memory), (fleet.over_gpu, size.gpu)):
            if need:
                most = min(most, max(0, -over // need))
        if fleet.over_cpu > 0 or fleet.over_memory > 0:
            return []
        found: list[int] = []
        for node in range(len(fleet.cpu)):
            if len(found) >= most:
                break
            found += [node] * min((max(0, free[node] // need) for free, need in size.needs), default=most)
        return found[:most]
