"""Computes what a policy would do with a live cluster: the moves of its next run, and a scenario that begins with the
present jobs, pods and nodes. Pure.

The speed of a job is the curve through its reported speeds. Its remaining work is its reported remaining time at the
present speed. A job that reports no remaining time trains until the end of the simulation; a job that reports no speed
is linear. Pods that belong to no simulated job stay on their nodes; those without a node go on waiting.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tjworker.api.labels import AUTOSCALE_POLICY
from tjworker.api.model import Role
from tjworker.api.node_requests import NOTHING, NodeRequests, pod_requests
from tjworker.api.observed import NodeRecord, PodRecord
from tjworker.api.waiting_pods import WaitingPods
from tjworker.autoscale import POLICIES, AutoscaleRules, Decision, JobState, decide
from tjworker.autoscale.cluster import has, usable_nodes
from tjworker.autoscale.roles import AutoRole, auto_roles
from tjworker.autoscale.speed import SpeedCurve, learned_goodput, learned_throughput
from tjworker.simulate.engine import TRAINER
from tjworker.simulate.scenario import Amounts, Scenario, ScenarioError, SimulatedJob, SimulatedNode, SimulatedService
from tjworker.simulate.speed import LINEAR, Layout, Rate, Speed

MEGA = 1_000_000
UNTIL_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class LiveCluster:
    """A cluster as the autoscaler observes it."""

    states: Sequence[JobState]
    nodes: Mapping[str, NodeRecord]
    requests: Mapping[str, NodeRequests]
    """Node -> sum of its pods' requests; WAITING -> the sum of pods without a node."""
    waiting: Sequence[WaitingPods]
    now: float
    """Unix seconds."""


def decide_once(live: LiveCluster, policy: str, rules: AutoscaleRules) -> Decision:
    """The next decision, if every job had chosen this policy. Raises ScenarioError if the policy does not exist."""
    check_policy(policy)
    states = [_without_choice(state) for state in live.states]
    chosen = replace(rules, policy=policy)
    return decide(states, live.nodes, live.requests, live.now, chosen, live.waiting)


def check_policy(policy: str) -> None:
    """Raises ScenarioError if the policy does not exist in the autoscaler."""
    if policy not in POLICIES:
        raise ScenarioError(f"policy {policy!r} does not decide about a live cluster; there are {', '.join(POLICIES)}")


# The user asks what one policy would do, so the policies that jobs have chosen do not count.
def _without_choice(state: JobState) -> JobState:
    kept = {name: value for name, value in state.job.annotations.items() if name != AUTOSCALE_POLICY}
    return replace(state, job=replace(state.job, annotations=kept), namespace_policy="")


def live_scenario(
    live: LiveCluster, rules: AutoscaleRules, until: float = UNTIL_SECONDS
) -> tuple[Scenario, tuple[str, ...]]:
    """(the scenario that begins now and ends `until` seconds later, its assumptions, one line each)."""
    autos, unplanned = auto_roles(live.states, live.now, rules)
    by_job: dict[str, AutoRole] = {}
    assumed = [str(problem) for problem in unplanned]
    for auto in autos:
        first = by_job.setdefault(auto.state.job.key, auto)
        if first is not auto:
            assumed.append(f"{auto.id}: is taken as fixed; of each job one elastic role is simulated")
    names = Counter(auto.state.job.name.name for auto in by_job.values())
    held: dict[str, NodeRequests] = defaultdict(lambda: NOTHING)
    jobs, endless, unseen = [], 0, 0
    for auto in by_job.values():
        name = auto.state.job.name
        shown = name.name if names[name.name] == 1 else f"{name.namespace}.{name.name}"
        jobs.append(job := _job(auto, shown, rules))
        endless += job.work is None
        unseen += job.speed is LINEAR
        # The simulated pods take room themselves, so it is subtracted from what their nodes have in use.
        for pod in auto.state.pods:
            if pod.node:
                held[pod.node] = held[pod.node].plus(auto.requests_of(pod))
    if endless:
        assumed.append(f"{endless} of {len(jobs)} jobs report no remaining time: they train until the end")
    if unseen:
        assumed.append(f"{unseen} of {len(jobs)} jobs report no speed: each replica is taken to add the same")
    # Waiting pods of others take part as services: they get room that becomes free.
    own = {(auto.state.job.uid, role.name) for auto in by_job.values() for role in auto.state.job.roles}
    strangers = [entry for entry in live.waiting if (entry.job_uid, entry.role) not in own]
    scenario = Scenario(
        [
            _node(node, live.requests.get(name, NOTHING).plus(held[name], -1), rules)
            for name, node in usable_nodes(live.nodes).items()
        ],
        jobs,
        [_service(i, entry, rules) for i, entry in enumerate(strangers)],
        until=until,
        cooldown_seconds=rules.cooldown_seconds,
        max_load_desired=rules.max_load_desired,
    )
    return scenario, tuple(assumed)


def _node(node: NodeRecord, used: NodeRequests, rules: AutoscaleRules) -> SimulatedNode:
    gpus = sum(has(node, gpu) for gpu in rules.gpu_resources)
    room = Amounts(has(node, "cpu"), has(node, "memory"), gpus)
    return SimulatedNode(node.name, room, max(1, has(node, "pods") - max(0, used.pods)), _amounts(used, rules))


def _service(i: int, entry: WaitingPods, rules: AutoscaleRules) -> SimulatedService:
    return SimulatedService(
        f"waiting-{i}", _amounts(replace(entry.requests, pods=1), rules), ((0.0, entry.pods),), entry.priority
    )


def _amounts(requests: NodeRequests, rules: AutoscaleRules) -> Amounts:
    gpus = sum(requests.amount(gpu) for gpu in rules.gpu_resources)
    return Amounts(max(0, requests.cpu_milli), max(0, requests.memory_bytes), max(0, gpus))


# -- jobs ----------------------------------------------------------------------------------------------
def _job(auto: AutoRole, name: str, rules: AutoscaleRules) -> SimulatedJob:
    state, elastic = auto.state, auto.elastic
    now = max(1, elastic.parallelism)
    speed, remaining = _speed(auto), state.progress.remaining_seconds if state.progress else None
    fixed_roles: dict[str, tuple[int, Amounts]] = {}
    running: dict[str, Sequence[str]] = {TRAINER: [pod.node for pod in auto.staying]}
    for role in state.job.roles:
        pods = [pod for pod in state.of_role(role) if pod.deleted_at is None]
        count = max(len(pods), role.replicas - state.finished_replicas(role))
        if role.name == auto.role.name or not count:
            continue
        # The name TRAINER is taken by the elastic role.
        shown = role.name if role.name != TRAINER else f"{TRAINER}-fixed"
        fixed_roles[shown] = (count, _of_role(role, pods, auto, rules))
        running[shown] = [pod.node for pod in pods]
    return SimulatedJob(
        name,
        0.0,
        Amounts(elastic.cpu_request_milli, elastic.memory_request_mega * MEGA, elastic.gpu_limit),
        max(1, elastic.min_instance),
        elastic.max_instance,
        now,
        # A job that reports 0 s and still runs ends after a second.
        work=None if remaining is None else max(1.0, remaining) * speed.rate((now,), 0.0).work_per_second,
        speed=speed,
        fixed_roles=fixed_roles,
        rescale_seconds=30.0
        if state.progress is None or state.progress.rescale_seconds is None
        else state.progress.rescale_seconds,
        priority=auto.priority,
        batch_size=auto.role.batch_size,
        running=running,
        reported=state.progress,
    )


def _of_role(role: Role, pods: Sequence[PodRecord], auto: AutoRole, rules: AutoscaleRules) -> Amounts:
    if pods and pods[0].requests:
        return _amounts(auto.requests_of(pods[0]), rules)
    try:
        return _amounts(pod_requests(role.template.get("spec") or {}), rules)
    except (ValueError, TypeError, AttributeError):
        return Amounts()


def _speed(auto: AutoRole) -> Speed:
    progress = auto.state.progress
    if progress is None or not progress.samples:
        return LINEAR
    newest = max(progress.samples, key=lambda sample: sample.last_seen)
    samples = learned_throughput(progress, auto.role.batch_size)
    # The curve is in speeds of one replica. The newest report gives the unit in samples.
    at = samples.at(newest.replicas)
    return _Learned(
        learned_goodput(progress, auto.role.batch_size),
        samples,
        newest.rate / at if at else newest.rate,
        newest.batch_size,
        newest.grad_sqr,
        newest.grad_var,
    )


@dataclass(frozen=True, slots=True)
class _Learned:
    """The speed of a job from its reports. Work is counted in seconds of one replica."""

    work: SpeedCurve
    samples: SpeedCurve
    samples_of_one: float
    batch_size: int | None
    grad_sqr: float | None
    grad_var: float | None

    def rate(self, layout: Layout, done: float) -> Rate:
        replicas = sum(layout)
        seen = self.samples.at(replicas) * self.samples_of_one
        return Rate(self.work.at(replicas), seen, self.batch_size, self.grad_sqr, self.grad_var)
