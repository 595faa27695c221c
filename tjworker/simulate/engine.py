"""Plays a scenario under one policy, from event to event. Pure and deterministic: no clock, no randomness.

The events of one instant run in this order: arrivals, nodes, services, pods. Then the scheduler places waiting pods. At
a tick the policy decides, and pods follow the targets. A job progresses at the speed of the layout of its ready
replicas. After a change of the layout it makes no progress for its `rescale_seconds`. Its speed is computed when the
layout changes, when `Rate.until` is reached, and at each tick. As in Kubernetes, the last replicas of a role go first,
and a lost replica gets a new pod.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

from tjworker.simulate.cluster import Pod, SimulatedCluster
from tjworker.simulate.results import JobOutcome, Sample, SimulationOutcome
from tjworker.simulate.scenario import LONGEST_SECONDS, Amounts, Scenario, SimulatedJob, SimulatedService
from tjworker.simulate.speed import NO_SPEED, Layout, Rate

TRAINER = "trainer"
"""Name of the elastic role: a policy may change its number of replicas."""


@dataclass(slots=True, eq=False)
class JobRun:
    """A job that has been submitted and has not ended."""

    job: SimulatedJob
    outcome: JobOutcome
    target: int
    pods: dict[str, list[Pod]] = field(default_factory=dict)
    """Role -> its pods by index, without pods that are being deleted."""
    done: float = 0.0
    layout: Layout = ()
    rate: Rate = NO_SPEED
    paused_until: float = 0.0
    service: float = 0.0
    """Replica-seconds so far."""
    changed: int = 0
    """Version of the pods and the target. What is computed from them may be cached by it."""

    @property
    def trainers(self) -> list[Pod]:
        return self.pods[TRAINER]

    def running(self, now: float) -> bool:
        return bool(self.layout) and self.paused_until <= now


def _reached(done: float, work: float) -> bool:
    # With a tolerance, because `done` is a sum of many products.
    return done >= work - 1e-9 * max(1.0, work)


class Mover(Protocol):
    """Chooses the targets of jobs: a policy."""

    rigid: bool
    """True if jobs run in their `rigid` form."""

    def targets(self, world: World, now: float) -> Mapping[str, int]:
        """Name of each job that should change -> its new number of replicas."""


class World:
    """The state of a simulation."""

    def __init__(self, scenario: Scenario, mover: Mover, policy: str) -> None:
        self.scenario = scenario
        self.mover = mover
        self.cluster = SimulatedCluster(scenario.nodes, scenario.placement)
        self.runs: dict[str, JobRun] = {}
        self.services: dict[str, list[Pod]] = {service.name: [] for service in scenario.services}
        self.service_targets: dict[str, int] = {}
        self.leaving: dict[str, list[Pod]] = {}
        """Owner -> its pods that are being deleted and still hold their room."""
        self.queue: list[Pod] = []
        """Pods without a node. The scheduler sorts them, the most urgent first."""
        self.now = 0.0
        self.outcomes = {job.name: JobOutcome(job.name, job.submitted_at) for job in scenario.jobs}
        self.outcome = SimulationOutcome(
            policy,
            0.0,
            sum(n.has.cpu_milli for n in scenario.nodes),
            sum(n.has.gpus for n in scenario.nodes),
            list(self.outcomes.values()),
            [],
        )
        self._cpu = sum(n.used.cpu_milli for n in scenario.nodes)
        self._gpus = sum(n.used.gpus for n in scenario.nodes)
        self._serials = count()
        self._events: list[tuple[float, int, int, Callable[[], None]]] = []
        self._dirty: set[str] = set()
        """Jobs whose ready replicas may have changed."""
        self._layouts: dict[str, tuple[tuple[str, int], ...]] = {}
        """Job -> (node, ready replicas on it) of its present layout."""
        self._left = 0
        """The number of jobs that have not ended."""
        self._reported: Callable[[float, int], None] | None = None
        self._to_place = False

    # -- time ------------------------------------------------------------------------------------------
    def at(self, second: float, do: Callable[[], None], order: int = 0) -> None:
        """Call `do` at that second. Of one second, a lower `order` comes first, then the earlier call of `at`."""
        # The serial makes the order of equal events certain, and keeps functions from being compared.
        heapq.heappush(self._events, (second, order, next(self._serials), do))

    def play(self, progress: Callable[[float, int], None] | None = None) -> SimulationOutcome:
        """Play the scenario to its end. `progress(second, jobs done)` is called at each tick."""
        scenario = self.scenario
        for job in scenario.jobs:
            # As a default: each function must keep the job of its own turn.
            self.at(job.submitted_at, lambda job=job: self._submit(job))  # type: ignore[misc]
        for event in scenario.events:
            self.at(event.at, lambda event=event: self._node(event.node, up=event.up))  # type: ignore[misc]
        for service in scenario.services:
            for second, replicas in service.steps:
                self.at(second, lambda s=service, n=replicas: self._scale_service(s, n))  # type: ignore[misc]
        self._left = len(scenario.jobs)
        self._reported = progress
        self.at(0.0, self._tick, order=1)
        end = LONGEST_SECONDS if scenario.until is None else scenario.until
        # With `until` the services go on after the last job.
        while self._left or scenario.until is not None:
            # There is always an event: each tick adds the next.
            second = min(self._events[0][0], self._next_progress())
            if second >= end:
                break
            self._advance(second)
            self._end_jobs()
            while self._events and self._events[0][0] <= self.now:
                if self._events[0][1] and self._to_place:
                    # A tick comes after the scheduler has handled the other events of the same instant.
                    self._settle()
                    continue
                heapq.heappop(self._events)[3]()
            self._settle()
        if scenario.until is not None:
            self._advance(end)
        self.outcome.ended_at = self.now
        return self.outcome

    def _next_progress(self) -> float:
        return min((self._worked_until(run) for run in self.runs.values()), default=float("inf"))

    def _worked_until(self, run: JobRun) -> float:
        """The second at which the job ends or its speed changes; infinity if it makes no progress."""
        work = min(float("inf") if run.job.work is None else run.job.work, run.rate.until)
        if work == float("inf") or not run.layout or run.rate.work_per_second <= 0:
            return float("inf")
        left = max(0.0, work - run.done)
        return max(self.now, run.paused_until) + left / run.rate.work_per_second

    def _advance(self, second: float) -> None:
        """Let time pass: add service and work to each job."""
        for run in self.runs.values():
            if run.layout:
                run.service += sum(run.layout) * (second - self.now)
                run.done += max(0.0, second - max(self.now, run.paused_until)) * run.rate.work_per_second
        self.now = second

    def _end_jobs(self) -> None:
        """End the jobs whose work is done, and update the speeds that hold no longer."""
        for run in list(self.runs.values()):
            work = run.job.work
            if work is not None and run.layout and _reached(run.done, work):
                self._end(run)
            elif run.layout and _reached(run.done, run.rate.until):
                # The mark is reached exactly: a rounding error would make this event come again for ever.
                run.done = max(run.done, run.rate.until)
                run.rate = self._speed(run)

    # -- events ----------------------------------------------------------------------------------------
    def _submit(self, job: SimulatedJob) -> None:
        # A scheduler without elasticity admits the job first, with all of its replicas.
        run = JobRun(job, self.outcomes[job.name], 0 if self.mover.rigid else job.replicas)
        self.runs[job.name] = run
        run.pods = {TRAINER: [], **{role: [] for role in job.fixed_roles}}
        self._follow(run)
        # In a scenario of a live cluster some pods run already.
        for role, nodes in job.running.items():
            for pod, node in zip(run.pods[role], nodes, strict=False):
                if node in self.cluster.nodes:
                    self.queue.remove(pod)
                    self._start(pod, node)
                    pod.ready_at = self.now

    def _end(self, run: JobRun) -> None:
        self._left -= 1
        run.outcome.ended_at = self.now
        run.outcome.replicas.append((self.now, 0))
        for pods in run.pods.values():
            for pod in reversed(pods):
                # The program has ended, so the pod needs no grace period.
                self._delete(pod, 0.0)
        del self.runs[run.job.name]

    def _node(self, name: str, *, up: bool) -> None:
        self.cluster.set_up(name, up=up)
        self._to_place = True
        if up:
            return
        for run in self.runs.values():
            for pods in run.pods.values():
                for pod in [p for p in pods if p.node == name]:
                    self._lose(run, pod)
        for service_pods in self.services.values():
            for pod in [p for p in service_pods if p.node == name]:
                service_pods.remove(pod)
                self._delete(pod, 0.0)
        for service in self.scenario.services:
            self._scale_service(service, self.service_targets.get(service.name, 0))

    def _lose(self, run: JobRun, pod: Pod) -> None:
        """Replace a pod whose node is lost, or that is preempted. The new pod has the same index."""
        pods = run.pods[pod.role]
        place = pods.index(pod)
        self._delete(pod, 0.0)
        run.outcome.restarts += 1
        pods[place] = self._new_pod(run.job.name, pod.role, pod.index, pod.asks, pod.priority)
        self._changed(run)

    def _scale_service(self, service: SimulatedService, replicas: int) -> None:
        self.service_targets[service.name] = replicas
        pods = self.services[service.name]
        while len(pods) > replicas:
            self._delete(pods.pop(), self.scenario.stop_seconds)
        while len(pods) < replicas:
            pods.append(self._new_pod(service.name, "pod", len(pods), service.asks, service.priority))

    def _follow(self, run: JobRun) -> None:
        """Create or delete pods until each role has its target."""
        wanted = {role: (n, asks) for role, (n, asks) in run.job.fixed_roles.items()}
        wanted[TRAINER] = (run.target, run.job.asks)
        for role, (replicas, _) in wanted.items():
            while len(run.pods[role]) > replicas:
                self._delete(run.pods[role].pop(), self.scenario.stop_seconds)
        # Each role has its own controller, and the controllers work at the same time: so by index, not by role.
        missing = [(i, role) for role, (replicas, _) in wanted.items() for i in range(len(run.pods[role]), replicas)]
        for index, role in sorted(missing):
            run.pods[role].append(self._new_pod(run.job.name, role, index, wanted[role][1], run.job.priority))
        self._changed(run)

    def _changed(self, run: JobRun) -> None:
        """Note that the pods of the job have changed."""
        run.changed += 1
        self._dirty.add(run.job.name)

    def _tick(self) -> None:
        self.at(self.now + self.scenario.tick_seconds, self._tick, order=1)
        # The policy decides on the present speeds, as a live job would report them.
        for run in self.runs.values():
            if run.layout:
                run.rate = self._speed(run)
        self._settle()
        self.outcome.decisions += 1
        for name, replicas in self.mover.targets(self, self.now).items():
            run = self.runs[name]
            if replicas != run.target:
                run.target = replicas
                run.outcome.moves += 1
                self._follow(run)
        if self._reported is not None:
            self._reported(self.now, len(self.outcomes) - self._left)

    # -- pods ------------------------------------------------------------------------------------------
    def _new_pod(self, owner: str, role: str, index: int, asks: Amounts, priority: int) -> Pod:
        pod = Pod(owner, role, index, asks, self.now, priority, next(self._serials))
        self.queue.append(pod)
        self._to_place = True
        return pod

    def _delete(self, pod: Pod, seconds: float) -> None:
        """Delete a pod; its room is free after that many seconds."""
        if not pod.node:
            self.queue.remove(pod)
            return
        # It works no more, and keeps its room until its grace period is over.
        pod.ready_at = float("inf")
        pod.leaves_at = self.now + seconds
        if seconds <= 0:
            self._free(pod)
            return
        self.leaving.setdefault(pod.owner, []).append(pod)
        self.at(pod.leaves_at, lambda: self._leave(pod))

    def _leave(self, pod: Pod) -> None:
        self.leaving[pod.owner].remove(pod)
        self._free(pod)
        if run := self.runs.get(pod.owner):
            run.changed += 1

    def _free(self, pod: Pod) -> None:
        self.cluster.release(pod)
        self._cpu -= pod.asks.cpu_milli
        self._gpus -= pod.asks.gpus
        self._to_place = True

    # -- the scheduler ---------------------------------------------------------------------------------
    def _settle(self) -> None:
        """Place the pods that find a node. Then update the layouts of the jobs."""
        if self._to_place:
            self._to_place = False
            self._schedule()
        for name in sorted(self._dirty):
            # The job may have ended since it was marked.
            if run := self.runs.get(name):
                self._update_layout(run)
        self._dirty.clear()
        self._sample()

    def _schedule(self) -> None:
        # As kube-scheduler's queue (PrioritySort): by priority, then by age.
        self.queue.sort(key=lambda pod: (-pod.priority, pod.created_at, pod.serial))
        held: set[str] = set()
        """Jobs whose gang has no room: the rest of their pods is skipped."""
        for pod in list(self.queue):
            if pod.node or pod.owner in held or pod.leaves_at is not None:
                continue
            run = self.runs.get(pod.owner)
            if run is not None and run.job.gang and pod.role == TRAINER and not self._gang_fits(run):
                # No pod of a gang gets a node before all of them can, whatever its place in the queue.
                held.add(pod.owner)
                pod.refused = True
                continue
            # Only `pack` looks at the nodes of other replicas.
            siblings = (
                (run.pods[pod.role] if run is not None else self.services[pod.owner])
                if (self.scenario.placement == "pack")
                else []
            )
            placed = [p.node for p in siblings if p.node]
            node = self.cluster.choose(pod, placed, len(siblings) - len(placed))
            if not node and self.scenario.preempts:
                node = self._preempt(pod)
            if not node:
                if not pod.refused and run is not None:
                    run.changed += 1
                pod.refused = True
                continue
            self._start(pod, node)
        self.queue = [pod for pod in self.queue if not pod.node]

    def _start(self, pod: Pod, node: str) -> None:
        self.cluster.place(pod, node)
        self._cpu += pod.asks.cpu_milli
        self._gpus += pod.asks.gpus
        pod.ready_at = self.now + self.scenario.start_seconds
        if run := self.runs.get(pod.owner):
            self._changed(run)
            if self.scenario.start_seconds > 0:
                self.at(pod.ready_at, lambda: self._dirty.add(pod.owner))
        elif self.scenario.start_seconds > 0:
            # Each event ends with a sample, which counts the ready pods of services.
            self.at(pod.ready_at, lambda: None)

    def _gang_fits(self, run: JobRun) -> bool:
        """True if the job's quorum has nodes already, or finds room for all missing replicas together."""
        missing = run.job.quorum - sum(bool(pod.node) for pod in run.trainers)
        return missing <= 0 or self.cluster.count(run.job.asks, missing) >= missing

    def _preempt(self, pod: Pod) -> str:
        """Preempt pods of lower priority for this one, on the node where the fewest have to go. Returns the node; '' if
        no node can be freed. The room is free at once: grace periods of preempted pods are not simulated."""
        best: tuple[int, str, list[tuple[JobRun, Pod]]] | None = None
        for name, room in self.cluster.free.items():
            if not room.up:
                continue
            lower = [
                (run, p)
                for run in self.runs.values()
                for pods in run.pods.values()
                for p in pods
                if p.node == name and p.priority < pod.priority
            ]
            # As kube-scheduler chooses its victims: the lowest priority first, and of equals the youngest.
            lower.sort(key=lambda entry: (entry[1].priority, -entry[1].serial))
            cpu, memory, gpus = room.cpu, room.memory, room.gpus
            for n, (_, victim) in enumerate(lower, 1):
                cpu, memory = cpu + victim.asks.cpu_milli, memory + victim.asks.memory_bytes
                gpus += victim.asks.gpus
                if cpu >= pod.asks.cpu_milli and memory >= pod.asks.memory_bytes and gpus >= pod.asks.gpus:
                    if best is None or n < best[0]:
                        best = (n, name, lower[:n])
                    break
        if best is None:
            return ""
        for run, victim in best[2]:
            self._lose(run, victim)
        return best[1]

    # -- jobs ------------------------------------------------------------------------------------------
    def _update_layout(self, run: JobRun) -> None:
        """Make the replicas that are ready now the layout of the job. A change of the layout begins a pause."""
        ready = [pod.node for pod in run.trainers if pod.ready_at <= self.now]
        others_ready = all(pod.ready_at <= self.now for role in run.job.fixed_roles for pod in run.pods[role])
        outcome = run.outcome
        if (outcome.replicas[-1][1] if outcome.replicas else 0) != len(ready):
            outcome.replicas.append((self.now, len(ready)))
        if ready and outcome.first_replica_at is None:
            outcome.first_replica_at = self.now
        layout: Layout = ()
        quorum = run.job.rigid.replicas if self.mover.rigid and run.job.rigid else run.job.quorum
        if others_ready and ready and len(ready) >= quorum:
            counts: dict[str, int] = {}
            for node in ready:
                counts[node] = counts.get(node, 0) + 1
            layout = tuple(sorted(counts.values()))
            key = tuple(sorted(counts.items()))
        else:
            key = ()
        if key == self._layouts.get(run.job.name, ()):
            return
        self._layouts[run.job.name] = key
        run.layout = layout
        run.changed += 1
        if not layout:
            run.rate = NO_SPEED
            return
        # A job that ran before the simulation began does not start again.
        ran_before = outcome.started_at is None and self.now == run.job.submitted_at and bool(run.job.running)
        if outcome.started_at is None:
            outcome.started_at = self.now
        elif run.job.rescale_seconds:
            outcome.pauses += 1
        run.paused_until = self.now + (0.0 if ran_before else run.job.rescale_seconds)
        run.rate = self._speed(run)

    def _speed(self, run: JobRun) -> Rate:
        speed = run.job.rigid.speed if self.mover.rigid and run.job.rigid else run.job.speed
        return speed.rate(run.layout, run.done)

    def _sample(self) -> None:
        missing = 0
        for name, pods in self.services.items():
            up = sum(pod.ready_at <= self.now for pod in pods)
            missing += max(0, self.service_targets.get(name, 0) - up)
        sample = Sample(self.now, self._cpu, self._gpus, missing)
        # Of several states at one instant only the last takes any time.
        if self.outcome.samples and self.outcome.samples[-1].at == self.now:
            self.outcome.samples[-1] = sample
        else:
            self.outcome.samples.append(sample)

    def all_pods(self) -> Iterator[Pod]:
        """All pods, including those that are being deleted."""
        for run in self.runs.values():
            for pods in run.pods.values():
                yield from pods
        for pods in self.services.values():
            yield from pods
        for pods in self.leaving.values():
            yield from pods
