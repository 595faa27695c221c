"""One look at a gang: all of its pods that wait are placed, if with those that have a node they are enough, or none is.
Where pods of lower priority would have to go, they go only when enough of the gang then fit."""

from __future__ import annotations

from typing import Protocol

from localcluster.client import Client, ignoring
from localcluster.informer import Informer, Informers
from localcluster.objects import condition, is_terminal, timestamp, with_condition
from localcluster.scheduler import gang
from localcluster.scheduler.filters import Against, fit_error
from localcluster.scheduler.nodeinfo import Demand, NodeInfo
from localcluster.wire import Json


class Placing(Protocol):
    """What the scheduler does with a pod of its own."""

    def demand(self, pod: Json) -> Demand: ...
    def ready(self, pod: Json) -> bool: ...
    def choose(self, demand: Demand) -> tuple[NodeInfo | None, dict[str, Against]]: ...
    def bind(self, pod: Json, demand: Demand, node: NodeInfo) -> None: ...
    def could_preempt(self, demand: Demand, against: dict[str, Against]) -> bool: ...
    def no_room(self, pod: Json, demand: Demand, against: dict[str, Against], now: float) -> str: ...
    def unschedulable(self, pod: Json, message: str, now: float) -> None: ...
    def wait(self, key: str) -> None: ...
    def nodes_available(self) -> str: ...


class GangRound:
    def __init__(self, client: Client, informers: Informers, pods: Informer, placing: Placing) -> None:
        self._client = client
        self._informers = informers
        self._pods = pods
        self._placing = placing

    def schedule(self, pod: Json, demand: Demand, now: float) -> None:
        path, name = gang.split_group(demand.gang)
        informer = self._informers.peek(path)
        group = informer.get(name) if informer is not None else None
        if group is None:
            self._too_early(pod, demand, f"pod group {name} of pod {demand.key} does not exist", now)
            return
        minimum = gang.min_member(group)
        members = [
            p
            for p in self._pods.store.values()
            if p["metadata"]["namespace"] == demand.namespace and not is_terminal(p) and gang.group_of(p) == demand.gang
        ]
        bound = sum(bool(p["spec"].get("nodeName")) for p in members)
        pending = sorted(
            (self._placing.demand(p) for p in members if not p["spec"].get("nodeName") and self._placing.ready(p)),
            key=lambda d: (-d.priority, d.created_seconds, d.key),
        )
        if bound + len(pending) < minimum:
            message = gang.too_few(demand.key, bound + len(pending), minimum)
            self._too_early(pod, demand, f"{self._placing.nodes_available()} {message}.", now)
            return
        complete = self._place_members(demand.gang, pending, bound, minimum, now)
        if gang.is_own(demand.gang):
            self._write_condition(path, group, complete, now)

    def _too_early(self, pod: Json, demand: Demand, message: str, now: float) -> None:
        """Kubernetes' own scheduler does not even look at such a pod, and says nothing."""
        if gang.is_own(demand.gang):
            self._placing.wait(demand.key)
        else:
            self._placing.unschedulable(pod, message, now)

    def _place_members(self, group_key: str, pending: list[Demand], bound: int, minimum: int, now: float) -> bool:
        """Binds the pods of the gang if enough of them fit; returns whether they do."""
        placed: list[tuple[Demand, NodeInfo]] = []
        unfit: list[tuple[Demand, dict[str, Against]]] = []
        for member in pending:
            chosen, against = self._placing.choose(member)
            if chosen is None:
                unfit.append((member, against))
                continue
            chosen.add(member, self._pods.store[member.key])
            placed.append((member, chosen))
        if bound + len(placed) >= minimum:
            for member, chosen in placed:
                self._placing.bind(self._pods.store[member.key], member, chosen)
            for member, against in unfit:
                self._placing.unschedulable(self._pods.store[member.key], fit_error(against), now)
            return True
        helped = [member.key for member, against in unfit if self._placing.could_preempt(member, against)]
        preempts = bound + len(placed) + len(helped) >= minimum
        messages = {
            member.key: self._placing.no_room(self._pods.store[member.key], member, against, now)
            if preempts
            else fit_error(against)
            for member, against in unfit
        }
        for member, chosen in placed:
            chosen.remove(member.key)
        own, short = (
            gang.is_own(group_key),
            gang.not_together(gang.split_group(group_key)[1], bound + len(placed), minimum),
        )
        why = fit_error(unfit[0][1]) if unfit else ""
        for member in pending:
            words = messages.get(member.key, gang.ENOUGH_THERE) if own else f"{short}. {why}"
            self._placing.unschedulable(self._pods.store[member.key], words, now)
        return False

    def _write_condition(self, path: str, group: Json, scheduled: bool, now: float) -> None:
        """A gang that has been placed once stays so by its condition, as in Kubernetes."""
        meta = group["metadata"]
        had = condition(group, "PodGroupScheduled") or {}
        if had.get("status") in ("True", str(scheduled)):
            return
        verdict = {
            "type": "PodGroupScheduled",
            "status": str(scheduled),
            "reason": "Scheduled" if scheduled else "Unschedulable",
            "message": "" if scheduled else "pod group is unschedulable",
        }
        conditions = with_condition((group.get("status") or {}).get("conditions") or (), verdict, timestamp(now))
        where = path.replace("/podgroups", f"/namespaces/{meta['namespace']}/podgroups/{meta['name']}/status")
        with ignoring(404, 409):
            self._client.patch(where, {"metadata": {"uid": meta["uid"]}, "status": {"conditions": conditions}})
