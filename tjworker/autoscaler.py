"""The autoscaler's run: read the projection, have `autoscale.decide` decide, write each new target into its job's status.

One run at a time in the whole system: the period belongs to the one that took it, and a run writes no more when its period is
over. Decides nothing itself. Safe to run twice and to be cut off anywhere: each write names the resourceVersion that it was
decided on, and the next run looks at what is. The target in the status is all that stays, so an empty Redis loses nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import orjson
import structlog

from tjworker.api import dialects
from tjworker.api.model import TrainingJob
from tjworker.api.observed import NodeRecord
from tjworker.api.ownership import own_pods
from tjworker.api.podload import decode_load
from tjworker.api.records_json import decode, decode_view
from tjworker.api.status import MAX_SCALE_RECORDS, ScaleRecord
from tjworker.api.timefmt import to_rfc3339
from tjworker.autoscale import Decision, JobState, Move, Rules, decide
from tjworker.base import Conflict, Invalid, JobKey, parse_key
from tjworker.kube.port import KubeApi
from tjworker.settings import OFF, Settings, turn_seconds
from tjworker.store.port import Store

log = structlog.get_logger(__name__)
NAME = "autoscale"
_LOOKED_AT = ("pods", "replicasets", "jobs")
"""Pods, and what keeps them: without their keeper nothing says whose they are."""


class Autoscaler:
    """One a process; it remembers of each job only what it has read of that very version."""

    def __init__(
        self,
        store: Store,
        kube: KubeApi,
        settings: Settings,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._kube = kube
        self._settings = settings
        self._clock = clock
        self._monotonic = monotonic
        self._known: dict[JobKey, tuple[int, TrainingJob | None]] = {}
        self._said: frozenset[str] = frozenset()

    def run(self) -> str:
        """What it came to, in words: Flower shows them. Raises Transient when Redis or the API server is away."""
        if self._settings.autoscale_policy == OFF:
            return "switched off (TJ_AUTOSCALE_POLICY)"
        turn = turn_seconds(self._settings.autoscale_seconds)
        if not self._store.once(NAME, turn):
            return "another run has this period"
        ends = self._monotonic() + turn
        cluster = self._store.cluster()
        if not cluster.synced:
            return "the projection is being filled"
        nodes = {
            name: node for name, data in cluster.nodes.items() if isinstance(node := decode("nodes", data), NodeRecord)
        }
        loads = {node: decode_load(data) for node, data in cluster.loads.items()}
        decision = decide(self._states(), nodes, loads, self._clock(), _rules(self._settings))
        self._tell(decision)
        return self._carry_out(decision, ends)

    # -- what there is ---------------------------------------------------------------------------------------------------
    def _states(self) -> list[JobState]:
        """The jobs with a role to move, with their pods."""
        unfinished = self._store.unfinished()
        self._known = {key: known for key, known in self._known.items() if key in unfinished}
        jobs = [job for key, (rv, record) in unfinished.items() if (job := self._job(key, rv, record)) is not None]
        children = self._store.children([job.key for job in jobs], _LOOKED_AT)
        return [JobState(job, own_pods(job, decode_view(None, children.get(job.key, {}))[1])) for job in jobs]

    def _job(self, key: JobKey, rv: int, record: bytes) -> TrainingJob | None:
        """None for a job that the autoscaler has nothing to do with. Most jobs do not change from run to run."""
        known = self._known.get(key)
        if known is None or known[0] != rv:
            known = self._known[key] = (rv, _parsed(key, record))
        return known[1]

    # -- what is done ----------------------------------------------------------------------------------------------------
    def _tell(self, decision: Decision) -> None:
        for problem in sorted(set(decision.problems) - self._said):
            log.warning(problem)
        self._said = frozenset(decision.problems)

    def _carry_out(self, decision: Decision, ends: float) -> str:
        written = changed = 0
        by_job: dict[JobKey, list[Move]] = {}
        for move in decision.moves:
            by_job.setdefault(move.state.job.key, []).append(move)
        for moves in by_job.values():
            if self._monotonic() >= ends:
                break
            try:
                self._write(moves)
            except (Conflict, Invalid) as error:
                # Somebody wrote first, or the job is gone: the next run sees it as it is then.
                changed += 1
                log.debug("a job has changed meanwhile", key=moves[0].state.job.key, error=error.message)
                continue
            written += 1
            for move in moves:
                log.info(
                    f"target {move.role} {move.from_} -> {move.to}: {move.reason}",
                    key=move.state.job.key,
                    uid=move.state.job.uid,
                )
        told = [f"{decision.roles} roles", decision.load]
        counts = {
            "jobs moved": written,
            "changed meanwhile": changed,
            "left to the next run": len(by_job) - written - changed,
        }
        return ", ".join([*told, *(f"{n} {what}" for what, n in counts.items() if n)])

    def _write(self, moves: list[Move]) -> None:
        """One patch of the status: targets, what they were set beside, and the records that tell why."""
        job = moves[0].state.job
        at = to_rfc3339(self._clock())
        records = [ScaleRecord(role=m.role, from_=m.from_, to=m.to, time=at, reason=m.reason) for m in moves]
        kept = (*records, *job.status.scale_records)[:MAX_SCALE_RECORDS]
        declared = {r.name: r.replicas if r.declared_replicas is None else r.declared_replicas for r in job.roles}
        status = {
            "targets": {m.role: m.to for m in moves},
            "targetsBeside": {m.role: declared[m.role] for m in moves},
            "scaleRecords": [record.model_dump(mode="json", by_alias=True) for record in kept],
        }
        body = {"metadata": {"uid": job.uid, "resourceVersion": str(job.resource_version)}, "status": status}
        self._kube.merge_patch(job.name.plural, job.name.namespace, job.name.name, body, subresource="status")


def _rules(settings: Settings) -> Rules:
    return Rules(
        settings.autoscale_policy,
        settings.max_load_desired,
        settings.autoscale_cooldown_seconds,
        settings.gpu_resource_list,
    )


def _parsed(key: JobKey, record: bytes) -> TrainingJob | None:
    plural = parse_key(key).plural
    if plural not in dialects.DIALECTS:
        return None
    job = dialects.parse(plural, orjson.loads(record))
    return job if isinstance(job, TrainingJob) and any(role.autoscaled for role in job.roles) else None
