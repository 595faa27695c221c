"""One run of the autoscaler: reads the projection, calls `autoscale.decide`, and writes each new target into the status
of its job.

At most one run is active in the whole system: a period belongs to the run that took it, and that run writes nothing
after the period's end. A run may be repeated, or cut off at any point: each write names the resourceVersion that it was
decided on, and the next run reads the state again. The only lasting result is the status, so an empty Redis loses
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
import structlog

from tjworker.api import kinds
from tjworker.api.kinds.base import LEFT_OUT
from tjworker.api.model import TrainingJob
from tjworker.api.node_requests import NodeRequests, decode_node_requests
from tjworker.api.observed import NodeRecord
from tjworker.api.ownership import own_pods
from tjworker.api.records_json import decode, decode_view
from tjworker.api.resources import BATCH_JOBS, NODES, PODS, REPLICASETS
from tjworker.api.status import END_PHASES, FULL_SIZE, MAX_SCALE_RECORDS, SUSPENDED, ScaleRecord
from tjworker.api.timefmt import to_rfc3339
from tjworker.api.waiting_pods import WaitingPods, decode_waiting_pods, is_waiting_name
from tjworker.autoscale import POLICIES, AutoscaleRules, Decision, JobState, Move, PlanRejected, decide
from tjworker.autoscale.choice import choose_policy
from tjworker.autoscale.decide import Posed
from tjworker.autoscale.size_words import RoleSize, full_size_condition, is_same_size, names_same_sizes, sizes_of
from tjworker.base import Conflict, GroupResource, Invalid, JobKey, parse_key
from tjworker.clock import ClusterClock
from tjworker.controllers.isolation import Isolation
from tjworker.controllers.namespace_policies import NamespacePolicies
from tjworker.execution.stragglers import Stragglers
from tjworker.kube.client import KubeClient
from tjworker.settings import OFF, Settings, turn_seconds
from tjworker.store.port import Store
from tjworker.store.projection import ClusterView
from tjworker.telemetry.metrics import PLANS_REJECTED, SCALE_DECISIONS

log = structlog.get_logger(__name__)
NAME = "autoscale"
EXPLAINS_SECONDS = 0.2
"""The time that one run may spend on explanations for the conditions FullSize."""
MOST_SIZES_WRITTEN = 20
"""The number of conditions FullSize that one run may write."""
SAME_SIZE_SECONDS = 60.0
"""The least time between two writes of a job's condition FullSize while its size is unchanged: a changing load may
change the reason with each run."""
RESTING = END_PHASES | {SUSPENDED}
"""Phases of jobs that have no pods and will get none."""
_OBSERVED = (PODS, REPLICASETS, BATCH_JOBS)
"""Pods, and the controllers between a job and its pods: a pod's job is the owner of the pod's owner."""


@dataclass(slots=True)
class AutoscaleObservation:
    """The input of `autoscale.decide`."""

    states: list[JobState] = field(default_factory=list)
    """The jobs that have an autoscaled role, with their pods."""
    nodes: dict[str, NodeRecord] = field(default_factory=dict)
    requests: dict[str, NodeRequests] = field(default_factory=dict)
    waiting: list[WaitingPods] = field(default_factory=list)


class Autoscaler:
    """One per process. Caches parsed jobs by resourceVersion, and remembers which problems it has logged."""

    def __init__(self, store: Store, kube: KubeClient, settings: Settings, *, clock: ClusterClock) -> None:
        self._store = store
        self._kube = kube
        self._settings = settings
        self._rules = autoscale_rules(settings)
        self._clock = clock
        self._isolation = Isolation(log)
        self._stragglers = Stragglers()
        self._namespaces = NamespacePolicies(kube, clock.monotonic)
        self._parsed: dict[JobKey, tuple[int, TrainingJob | None]] = {}
        self._logged: frozenset[str] = frozenset()
        self._explained_last = JobKey("")
        self._written_sizes: dict[JobKey, tuple[float, tuple[RoleSize, ...]]] = {}
        """Job -> when its condition FullSize was written last, and for which sizes."""
        self.failed = 0
        """The number of objects that the last run could not read, decide on or write."""

    def run(self) -> str:
        """Make one run. Returns its result in words. Raises Transient if Redis or the API server is away."""
        self.failed = 0
        if self._settings.autoscale_policy == OFF:
            return "switched off (TJ_AUTOSCALE_POLICY)"
        turn = turn_seconds(self._settings.autoscale_seconds)
        if not self._store.maintenance.once(NAME, turn):
            return "another run has this period"
        # After the turn another run may begin. Two runs at once would give the same room to two jobs.
        ends = self._clock.monotonic() + turn
        self._clock.see_redis(self._store.maintenance.time())
        cluster = self._store.projection.cluster()
        # While nodes or pods are missing, the free room would be wrong.
        if not cluster.synced:
            return "the projection is not synced yet"
        self._isolation.begin()
        observation = self._observe(cluster)
        decision = self._decide(observation)
        result = self._apply(decision, ends)
        # Explanations come last: they may not delay a move.
        self._write_sizes(observation, decision, ends)
        return result

    # -- observe -----------------------------------------------------------------------------------
    def _observe(self, cluster: ClusterView) -> AutoscaleObservation:
        observation = AutoscaleObservation()
        for node, data in cluster.nodes.items():
            with self._isolation.item("read node", node):
                if isinstance(record := decode(NODES, data), NodeRecord):
                    observation.nodes[node] = record
        for node, data in cluster.node_requests.items():
            if is_waiting_name(node):
                with self._isolation.item("read waiting pods", node):
                    observation.waiting.append(decode_waiting_pods(data))
                continue
            with self._isolation.item("read requests of node", node):
                observation.requests[node] = decode_node_requests(data)
            if node not in observation.requests:
                # The requests cannot be read, so the node's free room is unknown.
                observation.nodes.pop(node, None)
        jobs = self._elastic_jobs()
        children = self._store.projection.children([job.key for job in jobs], _OBSERVED)
        policies = self._namespaces.policies() if jobs else {}
        for job in jobs:
            with self._isolation.item("read pods of", job.key):
                named = policies.get(job.name.namespace, "")
                observation.states.append(_observe_state(job, children.get(job.key, {}), named))
        return observation

    def _elastic_jobs(self) -> list[TrainingJob]:
        """The unfinished jobs with an autoscaled role."""
        unfinished = self._store.projection.unfinished()
        # Each version of a job is parsed once: runs come every few seconds, and most jobs have not changed.
        self._parsed = {key: parsed for key, parsed in self._parsed.items() if key in unfinished}
        for key, (version, record) in unfinished.items():
            known = self._parsed.get(key)
            if known is None or known[0] != version:
                with self._isolation.item("read", key):
                    self._parsed[key] = version, self._parse(key, record)
        return [job for key in unfinished if (job := self._parsed.get(key, (0, None))[1]) is not None]

    def _parse(self, key: JobKey, record: bytes) -> TrainingJob | None:
        """The job; None if it is of no concern to the autoscaler."""
        name = parse_key(key)
        if name.resource not in kinds.KNOWN_KINDS or not self._settings.scope.serves(name.namespace):
            return None
        raw = orjson.loads(record)
        if LEFT_OUT in raw:
            # The projection has this job without its spec.
            status = kinds.KNOWN_KINDS[name.resource].own_status(raw.get("status"))
            if status.get("phase") in RESTING:
                return None
            raw = self._kube.get(name.resource, name.namespace, name.name)
            if raw is None:
                return None
        job = kinds.parse(name.resource, raw)
        return job if isinstance(job, TrainingJob) and job.autoscaled else None

    # -- decide ------------------------------------------------------------------------------------
    def _decide(self, observation: AutoscaleObservation) -> Decision:
        """The decision. It moves nothing if a policy raises, or returns a plan that breaks a rule."""
        states = observation.states
        policies = ", ".join(sorted({choose_policy(s, POLICIES, self._rules.policy).name for s in states}))
        which, why = policies or self._rules.policy, "raised"
        culprit = f"one of the policies {which}" if "," in which else f"the policy {which}"
        decision = Decision(load=f"no role was moved: {culprit} failed")
        with self._isolation.item("plan with the policy", which):
            try:
                decision = decide(
                    states, observation.nodes, observation.requests, self._clock(), self._rules, observation.waiting
                )
                why = ""
            except PlanRejected:
                why = "rejected"
                raise
        if why:
            PLANS_REJECTED.inc(why=why)
        problems = frozenset(map(str, decision.problems))
        # A problem lasts for many runs and is logged once.
        for problem in sorted(problems - self._logged):
            log.warning(problem)
        self._logged = problems
        return decision

    # -- apply -------------------------------------------------------------------------------------
    def _apply(self, decision: Decision, ends: float) -> str:
        """Write the targets of each moved job. Returns the result of the run in words. `ends`: monotonic seconds."""
        counts = {"jobs moved": 0, "changed meanwhile": 0, "failed": 0, "left to the next run": 0}
        for moves in self._stragglers.put_failed_last(_by_job(decision.moves), lambda moves: moves[0].state.job.key):
            if self._clock.monotonic() >= ends:
                counts["left to the next run"] += 1
                continue
            key = moves[0].state.job.key
            # If the run is cut off during this write, the note stays, and the job comes last in the next run.
            self._stragglers.note(key, failed=True)
            with self._isolation.item("write the targets of", key):
                counts["jobs moved" if self._write_move(moves) else "changed meanwhile"] += 1
                self._stragglers.note(key, failed=False)
        counts["failed"] = self.failed = self._isolation.failed
        summary = [f"{decision.roles} roles", decision.load] if decision.roles else [decision.load]
        return ", ".join([*summary, *(f"{n} {what}" for what, n in counts.items() if n)])

    def _write_sizes(self, observation: AutoscaleObservation, decision: Decision, ends: float) -> None:
        """Write the condition FullSize of jobs that keep their size: what each waits for, explained by its policy."""
        posed = decision.posed
        if posed is None:
            return
        moved = {move.state.job.key for move in decision.moves}
        jobs = sorted(
            (s.job for s in observation.states if s.alive and s.job.key not in moved), key=lambda job: job.key
        )
        # An explanation may read every role of the cluster. So each run explains as many jobs as its time allows, and
        # the next run goes on after the last of them.
        after = [job for job in jobs if job.key > self._explained_last]
        stops = min(ends, self._clock.monotonic() + EXPLAINS_SECONDS)
        written, at = 0, to_rfc3339(self._clock())
        # Only jobs that are still there, so that the memory is bounded.
        self._written_sizes = {job.key: self._written_sizes[job.key] for job in jobs if job.key in self._written_sizes}
        for job in (*after, *jobs[: len(jobs) - len(after)]):
            if written >= MOST_SIZES_WRITTEN or self._clock.monotonic() >= stops:
                return
            self._explained_last = job.key
            with self._isolation.item("explain the size of", job.key):
                written += self._write_size(posed, job, at)

    def _write_size(self, posed: Posed, job: TrainingJob, at: str) -> bool:
        """Write the job's condition FullSize if it is worth a write. Returns True if it was written."""
        old = job.status.condition(FULL_SIZE)
        new = full_size_condition(posed, self._rules, job, old, at)
        if new is None or is_same_size(old, new):
            return False
        now, sizes = self._clock.monotonic(), sizes_of(posed, job)
        written_at, written = self._written_sizes.get(job.key, (-SAME_SIZE_SECONDS, ()))
        # Another process may have written another size since.
        if names_same_sizes(old, new) and sizes == written and now - written_at < SAME_SIZE_SECONDS:
            return False
        # A merge patch replaces a list as a whole, so it names all conditions. The resourceVersion in the patch keeps
        # it from undoing a condition that was written meanwhile.
        kept = [c for c in job.status.conditions if c.type != FULL_SIZE]
        conditions = [c.model_dump(mode="json", by_alias=True) for c in (*kept, new)]
        try:
            self._patch_status(job, {"conditions": conditions})
        except (Conflict, Invalid) as error:
            log.debug("a job has changed meanwhile", key=job.key, error=error.message)
            return False
        self._written_sizes[job.key] = now, sizes
        return True

    def _write_move(self, moves: list[Move]) -> bool:
        """Write the targets of one job. False if the job has changed or is gone: the next run decides again."""
        job = moves[0].state.job
        try:
            self._write_targets(job, moves)
        except (Conflict, Invalid) as error:
            log.debug("a job has changed meanwhile", key=job.key, error=error.message)
            return False
        for move in moves:
            SCALE_DECISIONS.inc(direction="up" if move.to > move.from_ else "down")
            log.info(f"target {move.role} {move.from_} -> {move.to}: {move.reason}", key=job.key, uid=job.uid)
        return True

    def _write_targets(self, job: TrainingJob, moves: list[Move]) -> None:
        """Write targets, the replicas declared at this time, and the records with the reasons, in one patch."""
        at = to_rfc3339(self._clock())
        records = [
            ScaleRecord(role=m.role, from_=m.from_, to=m.to, time=at, cause=m.cause, reason=m.reason) for m in moves
        ]
        kept = (*records, *job.status.scale_records)[:MAX_SCALE_RECORDS]
        declared = {r.name: r.replicas if r.declared_replicas is None else r.declared_replicas for r in job.roles}
        status = {
            "targets": {m.role: m.to for m in moves},
            "targetsBeside": {m.role: declared[m.role] for m in moves},
            "scaleRecords": [record.model_dump(mode="json", by_alias=True) for record in kept],
        }
        self._patch_status(job, status)

    def _patch_status(self, job: TrainingJob, status: dict[str, Any]) -> None:
        """Patch the version of the job that was decided on. Raises Conflict if there is a newer one."""
        placed = kinds.KNOWN_KINDS[job.name.resource].placed(status)
        body = {"metadata": {"uid": job.uid, "resourceVersion": str(job.resource_version)}, "status": placed}
        self._kube.merge_patch(job.name.resource, job.name.namespace, job.name.name, body, subresource="status")


def autoscale_rules(settings: Settings) -> AutoscaleRules:
    return AutoscaleRules(
        settings.autoscale_policy,
        settings.max_load_desired,
        settings.autoscale_cooldown_seconds,
        settings.gpu_resource_list,
    )


def _observe_state(
    job: TrainingJob, children: Mapping[GroupResource, Mapping[str, bytes]], namespace_policy: str
) -> JobState:
    return JobState.observe(job, own_pods(job, decode_view(None, children)[1]), namespace_policy)


def _by_job(moves: Iterable[Move]) -> list[list[Move]]:
    """The moves of each job, in the order of the jobs' first moves: those that make room come first."""
    found: dict[JobKey, list[Move]] = {}
    for move in moves:
        found.setdefault(move.state.job.key, []).append(move)
    return list(found.values())
