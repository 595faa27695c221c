"""Three elastic jobs come to a node of 16 CPUs, and one leaves. A run each 5 s; a pod that goes takes 10 s, one that is
made starts as soon as there is room. Each policy of the registry plays it, and one that redistributes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from tests.support.builders import make_node, make_pod
from tests.unit.tjworker.autoscale.test_decide import NOW, an_elastic, used
from tjworker.api.node_requests import WAITING
from tjworker.api.observed import PodRecord
from tjworker.api.status import Phase, ScaleRecord
from tjworker.api.timefmt import to_rfc3339
from tjworker.api.waiting_pods import WaitingPods
from tjworker.autoscale import AutoscaleRules, JobState, decide
from tjworker.autoscale.fitting import keep_what_fits
from tjworker.autoscale.policies import POLICIES, Policy
from tjworker.autoscale.problem import ElasticRole, Problem, Reason, ScalePlan

CPUS, RUN_SECONDS, GOING_SECONDS = 16, 5, 10
RULES = AutoscaleRules(max_load_desired=1.0)


def equal_shares(problem: Problem) -> ScalePlan:
    """All CPUs in equal parts, one after the other: it takes from who has more, at once."""
    targets = {role.id: role.elastic.lowest for role in problem.roles}
    free = CPUS - sum(demand.pods for demand in problem.demand if demand.role is None) - sum(targets.values())
    while free > 0:
        able = [r for r in problem.roles if targets[r.id] < max(r.elastic.lowest, r.elastic.highest)]
        if not able:
            break
        targets[min(able, key=lambda role: (targets[role.id], -role.elastic.parallelism, role.id)).id] += 1
        free -= 1
    return keep_what_fits(problem, ScalePlan(targets))


def say(problem: Problem, plan: ScalePlan, role: ElasticRole) -> Reason:
    return Reason("room", "its part")


@dataclass
class Job:
    target: int = 1
    records: tuple[ScaleRecord, ...] = ()
    pods: dict[int, bool] = field(default_factory=dict)
    """Index -> it runs."""
    going: dict[int, float] = field(default_factory=dict)
    """Index -> until when."""


@dataclass
class Loop:
    arrive: Mapping[int, str]
    leave: Mapping[int, str]
    jobs: dict[str, Job] = field(default_factory=dict)
    moves: list[tuple[int, str, int, int]] = field(default_factory=list)
    """When, which job, from, to."""
    crowded: set[int] = field(default_factory=set)
    """When more was requested than there is."""
    idle_cpu_seconds: int = 0
    most_wanted: int = 0

    def play(self, seconds: int) -> Loop:
        for at in range(0, seconds, RUN_SECONDS):
            if at in self.arrive:
                self.jobs[self.arrive[at]] = Job()
            if at in self.leave:
                del self.jobs[self.leave[at]]
            self._kubelet(at)
            self._run(at)
        return self

    def _kubelet(self, at: int) -> None:
        for job in self.jobs.values():
            job.going = {i: until for i, until in job.going.items() if until > at}
            for i in [i for i in job.pods if i >= job.target]:
                if job.pods.pop(i):
                    job.going[i] = at + GOING_SECONDS
            for i in range(job.target):
                if i not in job.going:
                    job.pods.setdefault(i, False)
        free = CPUS - self._held()
        for job in self.jobs.values():
            for i, runs in sorted(job.pods.items()):
                if not runs and free > 0:
                    job.pods[i], free = True, free - 1
        self.idle_cpu_seconds += (CPUS - self._held()) * RUN_SECONDS

    def _held(self) -> int:
        return sum(sum(job.pods.values()) + len(job.going) for job in self.jobs.values())

    def _run(self, at: int) -> None:
        if sum(job.target for job in self.jobs.values()) > CPUS:
            self.crowded.add(at)
        states, waiting = [], []
        for name, job in self.jobs.items():
            state = self._state(name, job, at)
            states.append(state)
            if count := sum(not pod.node for pod in state.pods):
                example = next(f"default/{pod.name}" for pod in state.pods if not pod.node)
                waiting.append(WaitingPods(used(1), count, example, 0, state.job.uid, "trainer"))
        requests = {"a": used(self._held()), WAITING: used(sum(entry.pods for entry in waiting))}
        nodes = {"a": make_node("a", cpu=str(CPUS), memory="64G").build()}
        for move in decide(states, nodes, requests, NOW + at, RULES, waiting).moves:
            name = move.state.job.name.name
            job = self.jobs[name]
            job.target = move.to
            record = ScaleRecord(
                role="trainer",
                from_=move.from_,
                to=move.to,
                time=to_rfc3339(NOW + at),
                cause=move.cause,
                reason=move.reason,
            )
            job.records = (record, *job.records)
            self.moves.append((at, name, move.from_, move.to))
        self.most_wanted = max(self.most_wanted, sum(job.target for job in self.jobs.values()))

    def _state(self, name: str, job: Job, at: int) -> JobState:
        phase: Phase = "Running" if all(job.pods.values()) and len(job.pods) == job.target else "Scaling"
        built = an_elastic(job.target, most=CPUS, name=name, phase=phase, scale_records=job.records)
        model = built.metadata(uid=f"uid-of-{name}").build()
        made: list[PodRecord] = []
        for i, runs in sorted(job.pods.items()):
            pod = make_pod(model, "trainer", i).but(created_at=to_rfc3339(NOW + at))
            made.append((pod.on("a").running() if runs else pod.unschedulable()).build())
        made += [make_pod(model, "trainer", i).on("a").running().deleting().build() for i in job.going]
        return JobState(model, tuple(made))


PLAYED = {**POLICIES, "equal shares": Policy(equal_shares, say)}


@pytest.fixture(params=PLAYED)
def policy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(POLICIES, "fulfillment", PLAYED[request.param])
    return str(request.param)


def test_no_plan_promises_room_that_its_holder_keeps(policy: str) -> None:
    """Jobs come while others rest from their last growth: what these keep is not given away a second time."""
    loop = Loop(arrive={0: "a", 15: "b", 20: "c"}, leave={}).play(120)
    keeps_the_cool_down(loop)
    assert loop.most_wanted <= CPUS + 2, "two jobs came to a full cluster, and request their minimum"
    ends = {name: job.target for name, job in loop.jobs.items()}
    assert sum(ends.values()) == CPUS
    assert loop.moves
    assert all(at <= 90 for at, *_ in loop.moves), f"it comes to rest: {loop.moves}"


@pytest.mark.long
def test_jobs_come_and_one_leaves_and_the_cluster_stays_full(policy: str) -> None:
    loop = Loop(arrive={0: "a", 60: "b", 180: "c"}, leave={400: "a"}).play(600)
    keeps_the_cool_down(loop)
    assert sum(job.target for job in loop.jobs.values()) == CPUS
    assert loop.idle_cpu_seconds <= 200, "of 9,600"
    assert len(loop.moves) <= 14, loop.moves
    if policy == "equal shares":
        assert {job.target for job in loop.jobs.values()} == {8}


def keeps_the_cool_down(loop: Loop) -> None:
    """A role is not moved back within it unless room is needed."""
    for name in "abc":
        mine = [(at, to > from_) for at, moved, from_, to in loop.moves if moved == name]
        for (before, grew), (after, grows) in pairwise(mine):
            if grew != grows and after - before < RULES.cooldown_seconds:
                assert after in loop.crowded, mine
