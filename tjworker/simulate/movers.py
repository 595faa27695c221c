"""The policies of a simulation: those of the autoscaler, through its own `decide`; `off`, which changes no target; and
`tiresias`, a scheduler without elasticity for comparison. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tjworker.api import labels
from tjworker.api.kinds.aitrainingjob import RESOURCE
from tjworker.api.model import Role, TrainingJob
from tjworker.api.node_requests import NOTHING, WAITING, NodeRequests
from tjworker.api.observed import NodeRecord, PodRecord
from tjworker.api.progress import Placement, Progress, Report, with_sample
from tjworker.api.status import JobStatus, ScaleRecord
from tjworker.api.timefmt import to_rfc3339
from tjworker.api.waiting_pods import WaitingPods
from tjworker.autoscale import POLICIES, AutoscaleRules, JobState, decide
from tjworker.base import JobName
from tjworker.simulate.cluster import Pod
from tjworker.simulate.engine import TRAINER, JobRun, Mover, World
from tjworker.simulate.scenario import GPU, Amounts, Scenario, ScenarioError

EPOCH = 1_767_225_600
"""Second 0 of a simulation, in Unix seconds: 2026-01-01T00:00:00Z."""
BASELINES = ("off", "tiresias")
DEMOTED_AT_GPU_SECONDS = 16 * 3600


def mover(policy: str, scenario: Scenario) -> Mover:
    """The mover of that name. Raises ScenarioError if there is none, or if the scenario lacks what it needs."""
    if policy in POLICIES:
        return Autoscaled(policy, scenario)
    if policy == "off":
        return Off()
    if policy == "tiresias":
        return Tiresias(scenario)
    raise ScenarioError(f"policy {policy!r} does not exist; there are {', '.join([*POLICIES, *BASELINES])}")


class Off:
    """Every job keeps its number of replicas."""

    rigid = False

    def targets(self, world: World, now: float) -> Mapping[str, int]:
        return {}


class Tiresias:
    """Gives each job its `rigid` number of replicas or none, first come, first served. Jobs with 16 GPU-hours of
    service or more go to a second queue (Gu et al., NSDI 2019, as in the published simulation of Pollux)."""

    rigid = True

    def __init__(self, scenario: Scenario) -> None:
        for job in scenario.jobs:
            if job.rigid is None:
                raise ScenarioError(f"job {job.name}: tiresias needs the number of replicas that its user chose")
        self._total = scenario.largest().gpus
        self._served: dict[str, float] = defaultdict(float)
        self._demoted: list[str] = []
        self._last = 0.0

    def targets(self, world: World, now: float) -> Mapping[str, int]:
        for name, run in world.runs.items():
            if run.target:
                self._served[name] += run.target * (now - self._last)
            if self._served[name] >= DEMOTED_AT_GPU_SECONDS and name not in self._demoted:
                self._demoted.append(name)
        self._last = now
        # First come, first served in each queue: dicts keep the order of submission.
        order = [name for name in world.runs if name not in self._demoted]
        order += [name for name in self._demoted if name in world.runs]
        free, targets = self._total, {}
        for name in order:
            rigid = world.runs[name].job.rigid
            # `__init__` refuses a scenario with another job.
            assert rigid is not None  # noqa: S101
            targets[name] = rigid.replicas if rigid.replicas <= free else 0
            free -= targets[name]
        return targets


class Autoscaled:
    """A policy of the autoscaler. It sees only what the projection would show."""

    rigid = False

    def __init__(self, policy: str, scenario: Scenario) -> None:
        self._rules = AutoscaleRules(policy, scenario.max_load_desired, scenario.cooldown_seconds, (GPU,))
        self._nodes = {
            node.name: NodeRecord(
                node.name,
                f"uid-{node.name}",
                1,
                ready="True",
                allocatable={
                    "cpu": f"{node.has.cpu_milli}m",
                    "memory": str(node.has.memory_bytes),
                    "pods": str(node.pods),
                    **({GPU: str(node.has.gpus)} if node.has.gpus else {}),
                },
            )
            for node in scenario.nodes
        }
        self._used = {node.name: _requests(node.used, 0) for node in scenario.nodes}
        self._jobs: dict[str, _Record] = {}
        self._reports_progress = scenario.reports_progress

    def targets(self, world: World, now: float) -> Mapping[str, int]:
        states = [self._state(run, world, now) for run in world.runs.values()]
        nodes = {name: self._nodes[name] for name, room in world.cluster.free.items() if room.up}
        requests = {name: self._used[name] for name in nodes}
        sums: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
        for pod in world.all_pods():
            total = sums[pod.node or WAITING]
            total[0] += pod.asks.cpu_milli
            total[1] += pod.asks.memory_bytes
            total[2] += pod.asks.gpus
            total[3] += 1
        for name, (cpu, memory, gpus, pods) in sums.items():
            requests[name] = requests.get(name, NOTHING).plus(_requests(Amounts(cpu, memory, gpus), pods))
        decision = decide(states, nodes, requests, EPOCH + now, self._rules, _waiting(world))
        targets = {}
        for move in decision.moves:
            name = move.state.job.name.name
            targets[name] = move.to
            record = ScaleRecord(
                role=TRAINER, from_=move.from_, to=move.to, time=to_rfc3339(EPOCH + now), cause=move.cause
            )
            # A job's status keeps ten records.
            self._jobs[name].records = (record, *self._jobs[name].records[:9])
        return targets

    def _state(self, run: JobRun, world: World, now: float) -> JobState:
        known = self._jobs.get(run.job.name)
        if known is None:
            known = self._jobs[run.job.name] = _Record(run)
        known.report(run, now)
        state = known.state(run, world.leaving.get(run.job.name, ()), now)
        progress = known.progress
        if progress is not None and not self._reports_progress:
            progress = replace(progress, percentage=None, remaining_seconds=None)
        return replace(state, progress=progress)


class _Record:
    """A job in the form that the API server would have."""

    def __init__(self, run: JobRun) -> None:
        job = run.job
        self.records: tuple[ScaleRecord, ...] = ()
        self.progress: Progress | None = job.reported
        reported = job.reported.samples if job.reported else ()
        newest = max((sample.last_seen for sample in reported), default=0.0)
        # Simulated time begins at EPOCH. Earlier reports are moved before it, so that they are older than new ones.
        self._samples = tuple(replace(sample, last_seen=EPOCH + sample.last_seen - newest) for sample in reported)
        self._uid = f"uid-{job.name}"
        self._created = int(EPOCH + job.submitted_at)
        self._templates = {
            role: _template(asks)
            for role, asks in ((TRAINER, job.asks), *((r, a) for r, (_, a) in job.fixed_roles.items()))
        }
        self._has_run = False
        self._started = ""
        self._at: tuple[int, bool] | None = None
        self._built: JobState | None = None

    def report(self, run: JobRun, now: float) -> None:
        """Make a report, as the job's training program would. A job without progress makes none."""
        # A program reports nothing during its pause.
        if not run.running(now) or run.job.work is None or run.rate.work_per_second <= 0:
            return
        rate = run.rate
        report = Report(
            rate=rate.samples_per_second, batch_size=rate.batch_size, grad_sqr=rate.grad_sqr, grad_var=rate.grad_var
        )
        placement = Placement(sum(run.layout), len(run.layout))
        self._samples = with_sample(self._samples, report, EPOCH + now, placement)
        moved = run.outcome.pauses > 0
        self.progress = Progress(
            percentage=min(100.0, 100 * run.done / run.job.work),
            remaining_seconds=max(0.0, run.job.work - run.done) / rate.work_per_second,
            reported_at=EPOCH + now,
            samples=self._samples,
            rescale_seconds=run.job.rescale_seconds if moved else None,
        )

    def state(self, run: JobRun, leaving: Sequence[Pod], now: float) -> JobState:
        """The job and its pods as the autoscaler would read them."""
        ready = all(pod.ready_at <= now for pods in run.pods.values() for pod in pods)
        mark = (run.changed, ready)
        # Most jobs do not change between two ticks.
        if self._built is not None and self._at == mark:
            return self._built
        self._at = mark
        whole = ready and bool(run.layout) and not leaving
        self._has_run = self._has_run or whole
        if whole and not self._started:
            self._started = to_rfc3339(EPOCH + now)
        # The autoscaler asks only whether a job runs whole; the other phases of a real job are not needed.
        phase = "Running" if whole else "Scaling" if self._has_run else "Creating"
        every = [pod for pods in run.pods.values() for pod in pods]
        self._built = JobState(self._job(run, phase), tuple(self._pod(pod, now) for pod in (*every, *leaving)))
        return self._built

    def _job(self, run: JobRun, phase: str) -> TrainingJob:
        job = run.job
        roles = [
            Role(
                TRAINER,
                "Pod",
                run.target,
                self._templates[TRAINER],
                job.least,
                job.most,
                edl_policy="Auto" if job.elastic else "Manual",
                batch_size=job.batch_size,
            )
        ]
        roles += [Role(name, "Pod", n, self._templates[name]) for name, (n, _) in job.fixed_roles.items()]
        known = {"phase": phase, "scale_records": self.records, "start_running_time": self._started}
        # `model_construct` skips validation: the fields are known to be valid, and a run makes thousands.
        status = JobStatus.model_construct(**{**_BLANK, **known})
        return TrainingJob(
            JobName(RESOURCE, "default", job.name),
            "elasticdeeplearning.ai/v1",
            "AITrainingJob",
            self._uid,
            1,
            1,
            tuple(sorted(roles, key=lambda role: role.name)),
            status,
            created_at=self._created,
        )

    def _pod(self, pod: Pod, now: float) -> PodRecord:
        return PodRecord(
            pod.name,
            f"uid-{pod.serial}",
            1,
            self._uid,
            {labels.REPLICA_NAME: pod.role, labels.REPLICA_INDEX: str(pod.index)},
            "Running" if pod.ready_at <= now or pod.leaves_at is not None else "Pending",
            node=pod.node,
            created_at=int(EPOCH + pod.created_at),
            deleted_at=None if pod.leaves_at is None else int(EPOCH + pod.leaves_at),
            unschedulable="no node has room" if pod.refused else "",
            requests=_amounts(pod.asks),
            priority=pod.priority,
        )


_BLANK: dict[str, Any] = dict(JobStatus())


def _waiting(world: World) -> list[WaitingPods]:
    groups: dict[tuple[str, str], list[Pod]] = defaultdict(list)
    for pod in world.queue:
        groups[pod.owner, pod.role].append(pod)
    waiting = []
    for (owner, role), pods in groups.items():
        is_job = owner in world.runs
        waiting.append(
            WaitingPods(
                _requests(pods[0].asks, 1),
                len(pods),
                f"default/{pods[0].name}",
                pods[0].priority,
                # A service has no UID here: to the autoscaler its pods are strangers that wait.
                f"uid-{owner}" if is_job else "",
                role if is_job else "",
            )
        )
    return waiting


def _requests(asks: Amounts, pods: int) -> NodeRequests:
    extended = ((GPU, asks.gpus),) if asks.gpus else ()
    return NodeRequests(asks.cpu_milli, asks.memory_bytes, pods=pods, extended=extended)


def _amounts(asks: Amounts) -> dict[str, int]:
    named = {"cpu": asks.cpu_milli, "memory": asks.memory_bytes, GPU: asks.gpus}
    return {name: amount for name, amount in named.items() if amount}


def _template(asks: Amounts) -> dict[str, Any]:
    limits = {GPU: str(asks.gpus)} if asks.gpus else {}
    requests = {"cpu": f"{asks.cpu_milli}m", "memory": str(asks.memory_bytes), **limits}
    resources = {"requests": requests, "limits": limits}
    return {"spec": {"containers": [{"name": "aitj-main", "image": "simulated", "resources": resources}]}}
