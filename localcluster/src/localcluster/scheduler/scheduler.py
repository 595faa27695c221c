"""The scheduler: binds pending pods to nodes, by priority; preempts; places gangs all at once or not at all.

Schedules only pods of its scheduler names. A pod that fits nowhere gets its condition and event once
(`PodScheduled=False/Unschedulable`), and is tried again when a node or another pod has changed. Deletes pods only to
preempt them, gracefully and by UID. Running twice is safe: the API server refuses to bind a pod a second time.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable, Sequence

from localcluster.client import ApiError, Client, ignoring
from localcluster.controllers.common import pods_path
from localcluster.controllers.volumes import claims_of
from localcluster.informer import Informers, key_of
from localcluster.objects import condition, is_terminal, timestamp, with_condition
from localcluster.recorder import Recorder
from localcluster.scheduler import gang, preemption
from localcluster.scheduler.claims import Claims
from localcluster.scheduler.filters import Against, fit_error, reasons_against, score_node
from localcluster.scheduler.gang_round import GangRound
from localcluster.scheduler.nodeinfo import Demand, NodeInfo, asks_of, demand_of
from localcluster.wire import Json

log = logging.getLogger("localcluster")

SCHEDULER_NAMES = ("default-scheduler", "volcano", "scheduler-plugins-scheduler")
PODS_A_STEP = 64
RETRY_SECONDS = 1.0
PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


_NO_CLAIMS = "no new claims to deallocate,"
"""The message of the plug-in for device claims, which precedes that of preemption (`DynamicResources.PostFilter`)."""


class Scheduler:
    """A step machine (`localcluster.machine.Machine`)."""

    name = "scheduler"

    def __init__(
        self,
        client: Client,
        informers: Informers,
        clock: Callable[[], float],
        scheduler_names: Sequence[str] = SCHEDULER_NAMES,
        *,
        events: bool = True,
    ) -> None:
        self._client = client
        self._informers = informers
        self._names = frozenset(scheduler_names)
        self._recorders = {name: Recorder(client if events else None, clock, name) for name in scheduler_names}
        self._nodes: dict[str, NodeInfo] = {}
        self._bound: dict[str, str] = {}
        self._queue: list[tuple[int, float, str]] = []
        self._queued: set[str] = set()
        self._waiting: dict[str, None] = {}
        """Pods that fit nowhere, until something changes."""
        self._refused: dict[str, str] = {}
        """Signature -> message, for as long as nothing has changed that could help."""
        self._nominated: dict[str, dict[str, Demand]] = {}
        self._retry_at: float | None = None
        self._pods = informers.get("/api/v1/pods")
        self._classes = informers.get(PRIORITY_CLASSES)
        self._gangs = GangRound(client, informers, self._pods, self)
        self._pods.subscribe(self._pod_changed)
        informers.get(gang.OWN).subscribe(self._group_changed)
        informers.get("/api/v1/nodes").subscribe(self._node_changed)
        informers.get(CRDS).subscribe(self._crd_changed)
        self._claims = Claims(informers)
        self._claims.informer.subscribe(self._claim_changed)

    # --- what has changed ------------------------------------------------------------------------------------------

    def _crd_changed(self, _: Json | None, new: Json | None) -> None:
        path = gang.POD_GROUP_CRDS.get(new["metadata"]["name"]) if new else None
        established = condition(new, "Established") if new else None
        if path and established and established["status"] == "True":
            informer = self._informers.get(path)
            if self._group_changed not in informer.handlers:
                informer.subscribe(self._group_changed)

    def _claim_changed(self, _: Json | None, new: Json | None) -> None:
        for key in list(self._waiting):
            if (pod := self._pods.get(key)) is not None and new is not None and key_of(new) in claims_of(pod):
                del self._waiting[key]
                self._queue_pod(key, pod)

    def _group_changed(self, old: Json | None, new: Json | None) -> None:
        if old is None or new is None or old.get("spec") != new.get("spec"):
            self._something_freed()

    def _node_changed(self, old: Json | None, new: Json | None) -> None:
        node = new or old or {}
        name = node["metadata"]["name"]
        info = self._nodes.setdefault(name, NodeInfo(name))
        if new is None:
            info.known = False
            if not info.pods:
                del self._nodes[name]
            return
        before = (info.known, info.labels, info.taints, info.unschedulable, info.allocatable)
        info.set_node(new)
        if before != (info.known, info.labels, info.taints, info.unschedulable, info.allocatable):
            self._something_freed()

    def _pod_changed(self, old: Json | None, new: Json | None) -> None:
        pod = new or old or {}
        key = key_of(pod)
        node = pod["spec"].get("nodeName")
        if new is None or is_terminal(new):
            self._forget_pod(key)
            return
        if node:
            self._forget_pending(key)
            # Deleted and made again on another node, without an event in between.
            if self._bound.get(key) not in (None, node):
                self._forget_pod(key)
            self._bound[key] = node
            info = self._nodes.setdefault(node, NodeInfo(node))
            had = info.pods.get(key)
            same = had is not None and had[0].uid == new["metadata"]["uid"]
            info.add(had[0] if had is not None and same else self.demand(new), new)
            return
        # The scheduler's own status writes must not wake the pod, or it would be tried for ever.
        if self._is_mine(new) and (old is None or asks_of(old) != asks_of(new) or key not in self._waiting):
            self._waiting.pop(key, None)
            self._queue_pod(key, new)

    def _is_mine(self, pod: Json) -> bool:
        spec = pod["spec"]
        return (
            spec.get("schedulerName", "default-scheduler") in self._names
            and not spec.get("schedulingGates")
            and "deletionTimestamp" not in pod["metadata"]
        )

    def ready(self, pod: Json) -> bool:
        return self._is_mine(pod) and not self._claims.reason_against(pod)

    def _queue_pod(self, key: str, pod: Json) -> None:
        if key not in self._queued:
            self._queued.add(key)
            demand = self.demand(pod)
            heapq.heappush(self._queue, (-demand.priority, demand.created_seconds, key))

    def _forget_pod(self, key: str) -> None:
        self._forget_pending(key)
        node = self._bound.pop(key, None)
        if node is not None and (info := self._nodes.get(node)) is not None:
            info.remove(key)
            if not info.known and not info.pods:
                del self._nodes[node]
            self._something_freed()

    def _forget_pending(self, key: str) -> None:
        self._waiting.pop(key, None)
        for nominated in self._nominated.values():
            if nominated.pop(key, None) is not None:
                self._refused.clear()

    def _something_freed(self) -> None:
        self._refused.clear()
        # `MoveAllToActiveOrBackoffQueue`: any of the waiting pods may fit now.
        for key in self._waiting:
            pod = self._pods.get(key)
            if pod is not None:
                self._queue_pod(key, pod)
        self._waiting.clear()

    def demand(self, pod: Json) -> Demand:
        spec = pod["spec"]
        priority = spec.get("priority")
        if priority is None:
            named = self._classes.get(spec.get("priorityClassName") or "")
            priority = named["value"] if named else 0
        return demand_of(pod, priority, gang.group_of(pod))

    # --- the step --------------------------------------------------------------------------------------------------

    def step(self, now: float) -> bool:
        if self._retry_at is not None and now >= self._retry_at:
            self._retry_at = None
            self._something_freed()
        done = 0
        while self._queue and done < PODS_A_STEP:
            key = heapq.heappop(self._queue)[2]
            self._queued.discard(key)
            done += 1
            self._informers.pump()
            pod = self._pods.get(key)
            if pod is None or pod["spec"].get("nodeName") or is_terminal(pod) or not self._is_mine(pod):
                continue
            try:
                self._schedule_pod(pod, self.demand(pod), now)
            except ApiError as error:
                # Another scheduler has bound the pod, it was deleted, or the API server is away: try again later.
                log.info("scheduler: %s: %s", key, error)
                self._waiting[key] = None
                self._refused.clear()
                self._retry_at = now + RETRY_SECONDS
        return done > 0

    def next_due(self) -> float | None:
        return 0.0 if self._queue else self._retry_at

    def _schedule_pod(self, pod: Json, demand: Demand, now: float) -> None:
        if unready := self._claims.reason_against(pod):
            self.unschedulable(pod, f"{self.nodes_available()} {unready}. not found", now)
            return
        if demand.gang:
            self._gangs.schedule(pod, demand, now)
            return
        # One of many equal pods is tried against all nodes; the result holds for the others.
        message = self._refused.get(demand.signature)
        if message is None:
            chosen, against = self.choose(demand)
            if chosen is not None:
                self.bind(pod, demand, chosen)
                return
            message = self.no_room(pod, demand, against, now)
        self.unschedulable(pod, message, now)

    def choose(self, demand: Demand) -> tuple[NodeInfo | None, dict[str, Against]]:
        against: dict[str, Against] = {}
        found: NodeInfo | None = None
        best_score = 0.0
        for node in self._nodes.values():
            if not node.known:
                continue
            found_against = reasons_against(demand, node, self._reserved_on(node.name, demand))
            against[node.name] = found_against
            if not found_against.reasons:
                value = score_node(demand, node)
                if found is None or value > best_score:
                    found, best_score = node, value
        return found, against

    def _reserved_on(self, node: str, demand: Demand) -> list[Demand]:
        # `RunFilterPluginsWithNominatedPods` reserves a nominee's room against pods of lower or equal priority.
        nominated = self._nominated.get(node)
        if not nominated:
            return []
        return [d for d in nominated.values() if d.key != demand.key and d.priority >= demand.priority]

    def bind(self, pod: Json, demand: Demand, node: NodeInfo) -> None:
        meta = pod["metadata"]
        # PreBind of VolumeBinding: a provisioner makes the volume for this node first.
        if self._claims.select_node(self._client, pod, node.name):
            node.remove(demand.key)
            self._waiting[demand.key] = None
            return
        self._client.create(
            pods_path(meta["namespace"], meta["name"], "binding"),
            {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"]},
                "target": {"apiVersion": "v1", "kind": "Node", "name": node.name},
            },
        )
        self._forget_pending(demand.key)
        self._bound[demand.key] = node.name
        node.add(demand, pod)
        self._recorder_of(pod).normal(
            pod, "Scheduled", f"Successfully assigned {demand.key} to {node.name}", action="Binding"
        )

    def _recorder_of(self, pod: Json) -> Recorder:
        return self._recorders[pod["spec"].get("schedulerName", "default-scheduler")]

    # --- no room ---------------------------------------------------------------------------------------------------

    def no_room(self, pod: Json, demand: Demand, against: dict[str, Against], now: float) -> str:
        """Preempts where that helps; the scheduler's words."""
        message = fit_error(against)
        if not against:
            return message
        if not demand.preempts:
            return f"{message} {_NO_CLAIMS} preemption: not eligible due to preemptionPolicy=Never."
        # `PodEligibleToPreemptOthers`: while victims of an earlier preemption terminate, the pod preempts no others.
        nominated = (pod.get("status") or {}).get("nominatedNodeName")
        if (
            nominated
            and (info := self._nodes.get(nominated)) is not None
            and any(
                "deletionTimestamp" in p["metadata"] and d.priority < demand.priority for d, p in info.pods.values()
            )
        ):
            self._nominated.setdefault(nominated, {})[demand.key] = demand
            return f"{message} {_NO_CLAIMS} preemption: not eligible due to terminating pod on the nominated node."
        nodes = [n for n in self._nodes.values() if n.known]
        candidate, why = preemption.find_candidate(demand, nodes, against, lambda name: self._reserved_on(name, demand))
        if candidate is None:
            message = (
                f"{message} {_NO_CLAIMS} preemption:"
                f" {fit_error({n: Against((reason,), False) for n, reason in why.items()})}"
            )
            self._refused[demand.signature] = message
            return message
        self._preempt_victims(pod, demand, candidate, now)
        return message

    def could_preempt(self, demand: Demand, against: dict[str, Against]) -> bool:
        nodes = [n for n in self._nodes.values() if n.known]
        if not demand.preempts or not against:
            return False
        return (
            preemption.find_candidate(demand, nodes, against, lambda name: self._reserved_on(name, demand))[0]
            is not None
        )

    def wait(self, key: str) -> None:
        """Until something changes."""
        self._waiting[key] = None

    def _preempt_victims(self, pod: Json, demand: Demand, candidate: preemption.Candidate, now: float) -> None:
        meta = pod["metadata"]
        for _, victim in candidate.victims:
            gone = victim["metadata"]
            if "deletionTimestamp" in gone:
                continue
            latest = self._pods.get(key_of(victim)) or victim
            scheduler = pod["spec"].get("schedulerName", "default-scheduler")
            target = {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "PreemptionByScheduler",
                "message": f"{scheduler}: preempting to accommodate a higher priority pod",
            }
            # `Executor.PreemptPod` writes the condition before it deletes: a Job's podFailurePolicy reads it.
            conditions = with_condition((latest.get("status") or {}).get("conditions") or (), target, timestamp(now))
            with ignoring(404, 409):
                self._client.patch(
                    pods_path(gone["namespace"], gone["name"], "status"),
                    {"metadata": {"uid": gone["uid"]}, "status": {"conditions": conditions}},
                )
                self._client.delete(pods_path(gone["namespace"], gone["name"]), {"preconditions": {"uid": gone["uid"]}})
            self._recorder_of(pod).normal(
                victim, "Preempted", f"Preempted by pod {meta['uid']} on node {candidate.node}", action="Preempting"
            )
        self._nominated.setdefault(candidate.node, {})[demand.key] = demand
        self._client.patch(
            pods_path(meta["namespace"], meta["name"], "status"),
            {"metadata": {"uid": meta["uid"]}, "status": {"nominatedNodeName": candidate.node}},
        )
        # The next pod must see the victims as terminating, or it would preempt for the same room.
        self._informers.pump()

    def unschedulable(self, pod: Json, message: str, now: float) -> None:
        key = key_of(pod)
        self._waiting[key] = None
        pod = self._pods.get(key) or pod
        had = condition(pod, "PodScheduled") or {}
        # Written only on change: a write in each round would wake every watcher of pods.
        if (had.get("status"), had.get("reason"), had.get("message")) == ("False", "Unschedulable", message):
            return
        meta = pod["metadata"]
        verdict = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
            "lastProbeTime": None,
        }
        conditions = with_condition((pod.get("status") or {}).get("conditions") or (), verdict, timestamp(now))
        self._client.patch(
            pods_path(meta["namespace"], meta["name"], "status"),
            {"metadata": {"uid": meta["uid"]}, "status": {"conditions": conditions}},
        )
        self._recorder_of(pod).warning(pod, "FailedScheduling", message, action="Scheduling")

    def nodes_available(self) -> str:
        return f"0/{sum(n.known for n in self._nodes.values())} nodes are available:"
