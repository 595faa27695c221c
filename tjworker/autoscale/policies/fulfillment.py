"""The policy of PaddlePaddle EDL: one more replica for each job, the least fulfilled first, until the cluster is full;
one fewer, from the most fulfilled, while more is asked for than there is. Pure; changes none of its arguments.

It shares out what is free. For a job's sake it takes replicas of others only as far as that job's own pods ask for
room, so the first of many jobs may keep most of the cluster.

The plan is that of the loop `dryrun.scale_one_by_one`, step for step, in a fraction of its time:

- Steps up only take room (see `fleet`); where nothing is left for a shape, all its jobs are done.
- Steps down happen only while more is asked for than there is; once that is over, only steps up are left.
- Rounds that must all go alike are taken at once: down from far beyond the cluster, and up when a single shape is left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tjworker.autoscale.dryrun import cpu_reach
from tjworker.autoscale.fleet import Fleet, Shape
from tjworker.autoscale.jobs import ElasticJob, elastic, sorted_jobs
from tjworker.autoscale.problem import Problem
from tjworker.autoscale.resources import ClusterResource


def plan(problem: Problem) -> Mapping[str, int]:
    return scale_all_jobs_dry_run(problem.jobs, problem.resource, problem.max_load_desired)


def scale_all_jobs_dry_run(
    jobs: Sequence[ElasticJob], resource: ClusterResource, max_load_desired: float
) -> dict[str, int]:
    """How many replicas more or fewer each elastic job should have: every elastic job has its entry."""
    ordered = sorted_jobs(jobs, elastic)
    rounds = _Rounds(ordered, resource, cpu_reach(resource, max_load_desired))
    if rounds.excess() or any(job.parallelism > job.max_instance for job in ordered):
        rounds.settle()
    rounds.fill()
    return {job.name: planned - job.parallelism for job, planned in zip(ordered, rounds.planned, strict=True)}


class _Rounds(Fleet):
    """Round after round of one step for each job."""

    # -- while requests exceed the cluster -----------------------------------------------------
    def settle(self) -> None:
        """Rounds in both directions until requests fit the cluster, or no job can give up more."""
        everyone = range(len(self.jobs))
        changed = True
        while changed:
            changed = False
            for i in everyone:
                changed = self._up(i) or changed
            for i in reversed(everyone):
                changed = self._down(i) or changed
            if not self.excess():
                return
            self._down_in_bulk()

    def _up(self, i: int) -> bool:
        job = self.jobs[i]
        if self.planned[i] > job.max_instance:
            self.give_up(i, self.planned[i] - job.max_instance)
            return True
        if self.planned[i] >= _top(job) or (node := self.room(self.shapes[i])) < 0:
            return False
        self.take(self.shapes[i], node)
        self.planned[i] += 1
        return True

    def _down(self, i: int) -> bool:
        if self.planned[i] <= self.jobs[i].min_instance or not self._helps(self.shapes[i]):
            return False
        self.give_up(i, 1)
        return True

    def _helps(self, shape: Shape) -> bool:
        return bool(
            (self.over_cpu > 0 and shape.cpu)
            or (self.over_memory > 0 and shape.memory)
            or (self.over_gpu > 0 and shape.gpu)
        )

    def _down_in_bulk(self) -> None:
        """Whole rounds of steps down at once, but for the one in which the excess ends. Only where no job can go up
        meanwhile (the excess is of CPUs) and each round asks the same jobs (of nothing else is there an excess)."""
        if self.over_cpu <= 0 or self.over_memory > 0 or self.over_gpu > 0:
            return
        able = [i for i, shape in enumerate(self.shapes) if shape.cpu and self.planned[i] > self.jobs[i].min_instance]
        if not able:
            return
        a_round = sum(self.shapes[i].cpu for i in able)
        rounds = min((self.over_cpu - 1) // a_round, *(self.planned[i] - self.jobs[i].min_instance for i in able))
        if rounds > 0:
            for i in able:
                self.give_up(i, rounds)

    # -- only steps up -----------------------------------------------------------------------------
    def fill(self) -> None:
        """Rounds of one more for each job that can grow, until none can. Room only falls: a job that found none is
        out."""
        tops = [_top(job) for job in self.jobs]
        active = [i for i, top in enumerate(tops) if self.planned[i] < top]
        planned, shapes = self.planned, self.shapes
        while active:
            if len({id(shapes[i]) for i in active}) == 1:
                self._fill_alike(active, tops)
                return
            still: list[int] = []
            for i in active:
                node = self.room(shapes[i])
                if node < 0:
                    continue
                self.take(shapes[i], node)
                planned[i] += 1
                if planned[i] < tops[i]:
                    still.append(i)
            active = still

    def _fill_alike(self, active: Sequence[int], tops: Sequence[int]) -> None:
        """Jobs of one shape: as many replicas as there is room for, dealt out one a round."""
        wants = [tops[i] - self.planned[i] for i in active]
        room = self._rooms(self.shapes[active[0]], sum(wants))
        level, high = 0, max(wants)
        while level < high:
            middle = (level + high + 1) // 2
            if sum(min(want, middle) for want in wants) <= room:
                level = middle
            else:
                high = middle - 1
        left = room - sum(min(want, level) for want in wants)
        for i, want in zip(active, wants, strict=True):
            self.planned[i] += min(want, level)
            if left and want > level:
                self.planned[i] += 1
                left -= 1

    def _rooms(self, shape: Shape, most: int) -> int:
        """For how many replicas of this shape there is room, at most `most`."""
        for over, need in ((self.over_cpu, shape.cpu), (self.over_memory, shape.memory), (self.over_gpu, shape.gpu)):
            if need:
                most = min(most, max(0, -over // need))
        if self.over_cpu > 0 or self.over_memory > 0:
            return 0
        needs = [
            (free, need) for free, need in ((self.cpu, shape.cpu), (self.memory, shape.memory), *shape.more) if need
        ]
        found = 0
        for node in range(len(self.cpu)):
            if found >= most:
                break
            found += min((max(0, free[node] // need) for free, need in needs), default=most)
        return min(found, most)


def _top(job: ElasticJob) -> int:
    return job.max_instance if job.ceiling is None else min(job.max_instance, job.ceiling)
