"""The cluster as it will be when every decision so far is carried out, and which of the pods that wait could have a
node then. Pure.

Without the first each run would repeat the decision of the one before: a trainer that is to be deleted requests its
room until it is gone, and one that is to be created requests none until it exists. Without the second a pod that no
node could ever take would make every elastic job shrink, for nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from tjworker.api import naming
from tjworker.api.node_requests import NOTHING, WAITING, NodeRequests
from tjworker.api.observed import NodeRecord, PodRecord
from tjworker.api.placement import may_go_to
from tjworker.api.quantity import mega
from tjworker.api.waiting_pods import WaitingPods
from tjworker.autoscale.cluster import MOST, PODS, cluster_resource, has, usable_nodes
from tjworker.autoscale.fleet import reserve
from tjworker.autoscale.jobs import ElasticJob
from tjworker.autoscale.problem import Demand, RoleId
from tjworker.autoscale.resources import ClusterResource
from tjworker.autoscale.roles import AutoRole, counted_apart
from tjworker.autoscale.rules import Rules

MOST_LOOKS = 1_000_000
"""How often one run asks whether a pod may go to a node, or has room there: about a second. It takes hundreds of
different constraints or sizes in a cluster of thousands of nodes to reach that. Then the pods that are left are no
demand, and the roles that are left are planned without their constraints."""


@dataclass(frozen=True, slots=True)
class Outlook:
    nodes: Mapping[str, NodeRecord]
    """Those that are ready and schedulable."""
    resource: ClusterResource
    roles: Sequence[AutoRole]
    """Each with its constraints among what it needs of a node."""
    demand: Sequence[Demand]
    """The most urgent first."""
    pending: bool
    """Some pod waits that could have a node."""
    hopeless: int
    """Pods that wait and could have no node, whatever elastic roles give up."""


def look_ahead(
    nodes: Mapping[str, NodeRecord],
    requests: Mapping[str, NodeRequests],
    waiting: Sequence[WaitingPods],
    roles: Sequence[AutoRole],
    rules: Rules,
) -> Outlook:
    """`requests`: of the pods of each node, and under WAITING of those without one. `waiting` has these one by one;
    what is not there, as with an older watcher, counts as pods that could go anywhere."""
    usable = usable_nodes(nodes)
    entries: dict[tuple[str, str], list[WaitingPods]] = defaultdict(list)
    for entry in waiting:
        entries[entry.job_uid, entry.role].append(entry)
    places = _Places(usable)
    roles = [_with_place(auto, entries, places) for auto in roles]
    reach = _Reach(usable, requests, roles)
    demand, hopeless, asked = _strangers(waiting, roles, places, reach, rules)
    asked = asked.plus(unknown := _unknown(requests.get(WAITING, NOTHING), waiting, roles, entries))
    resource = cluster_resource(nodes, {**requests, WAITING: asked}, rules.gpu_resources)
    _add_kinds(resource, usable, requests, roles, demand, places)
    pending = bool(demand or unknown.pods)
    to_place: list[tuple[ElasticJob, int]] = []
    for auto in roles:
        for pod in auto.leaving:
            _free(resource, auto, pod, rules)
        if not (wants := len(auto.waiting) + auto.missing):
            continue
        possible = reach.count(auto.replica, places.by_name.get(place_of(auto.elastic)), wants)
        hopeless += max(0, len(auto.waiting) - possible)
        if possible:
            pending = pending or bool(auto.waiting)
            _ask(resource, auto.elastic, possible)
            to_place.append((auto.elastic, possible))
            demand.append(_demand(_example(auto), possible, auto.replica, auto.priority, rules, auto.id))
    left, placed = reserve(resource, to_place)
    counts = iter(placed)
    demand = [one if one.role is None else replace(one, placed=next(counts)) for one in demand]
    demand.sort(key=lambda one: (-one.priority, one.example))
    return Outlook(usable, left, roles, demand, pending=pending, hopeless=hopeless)


# -- where pods may go -------------------------------------------------------------------------------
_PLACE = "place "
"""Begins the name of the resource that stands for a set of nodes; the name of a real resource has no space."""


class _Places:
    """The usable nodes that constraints leave. To planning, such a set of nodes is one more resource: a replica needs
    one of it, those nodes have plenty, the other nodes have none."""

    def __init__(self, usable: Mapping[str, NodeRecord]) -> None:
        self._usable = usable
        self._known: dict[bytes, frozenset[str] | None] = {}
        self._names: dict[frozenset[str], str] = {}
        self.by_name: dict[str, frozenset[str]] = {}

    def of(self, constraints: Mapping[str, Any]) -> frozenset[str] | None:
        """None: all usable nodes."""
        key = orjson.dumps(constraints, option=orjson.OPT_SORT_KEYS)
        if key not in self._known:
            left = frozenset(name for name, node in self._usable.items() if may_go_to(node, constraints))
            self._known[key] = None if len(left) == len(self._usable) else left
        return self._known[key]

    @property
    def exhausted(self) -> bool:
        return len(self._known) * len(self._usable) > MOST_LOOKS

    def name(self, nodes: frozenset[str]) -> str:
        name = self._names.setdefault(nodes, f"{_PLACE}{len(self._names)}")
        self.by_name[name] = nodes
        return name


def place_of(job: ElasticJob) -> str:
    """The resource that stands for the nodes that it may go to; '' when these are all."""
    return next((kind for kind, _ in job.others if kind.startswith(_PLACE)), "")


def _with_place(auto: AutoRole, entries: Mapping[tuple[str, str], Sequence[WaitingPods]], places: _Places) -> AutoRole:
    """Admission may give pods other tolerations and selectors than their template has: what a pod that waits says goes
    before the template. Where no pod has been made, or one stands on a node that the template excludes, only trying
    tells."""
    known = entries.get((auto.state.job.uid, auto.role.name))
    if places.exhausted or not auto.staying:
        return auto
    nodes = places.of(known[0].constraints if known else auto.constraints)
    if nodes is None or any(pod.node and pod.node not in nodes for pod in auto.staying):
        return auto
    others = (*auto.elastic.others, (places.name(nodes), 1))
    return replace(auto, elastic=replace(auto.elastic, others=others))


def _add_kinds(
    resource: ClusterResource,
    usable: Mapping[str, NodeRecord],
    requests: Mapping[str, NodeRequests],
    roles: Iterable[AutoRole],
    demand: Iterable[Demand],
    places: _Places,
) -> None:
    """What else replicas, and pods that wait, need of a node."""
    free = resource.nodes.others_free
    needs = (*(auto.elastic.others for auto in roles), *(one.others for one in demand))
    for kind in sorted({kind for others in needs for kind, _ in others} - free.keys()):
        if kind in places.by_name:
            free[kind] = dict.fromkeys(places.by_name[kind], MOST)
        else:
            free[kind] = {n: has(node, kind) - requests.get(n, NOTHING).amount(kind) for n, node in usable.items()}


# -- who could have a node ---------------------------------------------------------------------------
class _Reach:
    """The most room that each node could have: what is free, what leaving pods give back, and what elastic roles could
    give up beyond their minima. Pods of others stay where they are: a pod that needs their room waits for them, or
    preempts them, and no elastic role helps it."""

    def __init__(
        self, usable: Mapping[str, NodeRecord], requests: Mapping[str, NodeRequests], roles: Sequence[AutoRole]
    ) -> None:
        self._names = list(usable)
        self._usable = usable
        self._requests = requests
        self._roles = roles
        self._rooms: dict[str, list[int]] = {}
        self._most: dict[str, int] = {}
        """Of each resource the most that a node could have: who needs more is told without a look at the nodes."""
        self._counts: dict[tuple[NodeRequests, frozenset[str] | None], _Count] = {}
        self._looks = 0

    def count(self, requests: NodeRequests, allowed: frozenset[str] | None, most: int) -> int:
        """For how many pods like this there could be room at once, at most `most`; other pods that wait do not
        count."""
        key = (replace(requests, cpu_limit_milli=0, memory_limit_bytes=0), allowed)
        known = self._counts.setdefault(key, _Count())
        wants = [(self._room(name), amount) for name, amount in _named(requests).items() if amount]
        if any(amount > self._most[name] for name, amount in _named(requests).items() if amount):
            return 0
        while known.found < most and known.at < len(self._names) and self._looks < MOST_LOOKS:
            at, known.at = known.at, known.at + 1
            self._looks += 1
            if allowed is None or self._names[at] in allowed:
                known.found += max(0, min((room[at] // amount for room, amount in wants), default=most))
        return min(known.found, most)

    def _room(self, kind: str) -> list[int]:
        """Of every node."""
        if kind not in self._rooms:
            back: dict[str, int] = defaultdict(int)
            for auto in self._roles:
                amount, least = _named(auto.replica).get(kind, 0), auto.elastic.min_instance
                spare = auto.elastic.placed[least:]
                if amount:
                    for node in spare:
                        back[node] += amount
                smaller = [pod for pod, node in zip(auto.staying[least:], spare, strict=True) if pod.node and not node]
                for pod in (*smaller, *auto.leaving):
                    back[pod.node] += _named(_requests_of(auto, pod)).get(kind, 0)
            self._rooms[kind] = [
                has(node, kind) - _named(self._requests.get(name, NOTHING)).get(kind, 0) + back[name]
                for name, node in self._usable.items()
            ]
            self._most[kind] = max(self._rooms[kind], default=0)
        return self._rooms[kind]


@dataclass(slots=True)
class _Count:
    """How many pods of one kind found room on the nodes before `at`."""

    found: int = 0
    at: int = 0


def _named(requests: NodeRequests) -> dict[str, int]:
    return {"cpu": requests.cpu_milli, "memory": requests.memory_bytes, PODS: requests.pods, **dict(requests.extended)}


def _strangers(
    waiting: Sequence[WaitingPods], roles: Sequence[AutoRole], places: _Places, reach: _Reach, rules: Rules
) -> tuple[list[Demand], int, NodeRequests]:
    """The demand of pods that belong to no elastic role, how many have no hope, and the sum of the requests of those
    that have."""
    own = {(auto.state.job.uid, auto.role.name) for auto in roles}
    demand: list[Demand] = []
    hopeless, asked = 0, NOTHING
    for entry in sorted(waiting, key=lambda one: (-one.priority, one.example)):
        if (entry.job_uid, entry.role) in own:
            continue
        allowed = None if places.exhausted else places.of(entry.constraints)
        possible = 0 if places.exhausted else reach.count(entry.requests, allowed, entry.pods)
        hopeless += entry.pods - possible
        if possible:
            asked = asked.plus(entry.requests, possible)
            others = [(PODS, 1), *((kind, n) for kind, n in entry.requests.extended if counted_apart(kind, rules))]
            if allowed is not None:
                others.append((places.name(allowed), 1))
            one = _demand(entry.example, possible, entry.requests, entry.priority, rules)
            demand.append(replace(one, others=tuple(others)))
    return demand, hopeless, asked


def _unknown(
    total: NodeRequests,
    waiting: Sequence[WaitingPods],
    roles: Sequence[AutoRole],
    entries: Mapping[tuple[str, str], Sequence[WaitingPods]],
) -> NodeRequests:
    """What pods without a node request beside those of `waiting` and of elastic roles."""
    left = total
    for entry in waiting:
        left = left.plus(entry.requests, -entry.pods)
    for auto in roles:
        if (auto.state.job.uid, auto.role.name) not in entries:
            for pod in (*auto.staying, *auto.leaving):
                # A pod that is being deleted before it got a node requests nothing any more.
                if not pod.node and not pod.deleted_at:
                    left = left.plus(_requests_of(auto, pod), -1)
    return NodeRequests(
        max(0, left.cpu_milli),
        max(0, left.memory_bytes),
        max(0, left.cpu_limit_milli),
        max(0, left.memory_limit_bytes),
        max(0, left.pods),
        tuple((name, n) for name, n in left.extended if n > 0),
    )


def _requests_of(auto: AutoRole, pod: PodRecord) -> NodeRequests:
    if not pod.requests or pod.requests == auto.amounts:
        return auto.replica
    extended = tuple(sorted((name, n) for name, n in pod.requests.items() if name not in ("cpu", "memory")))
    return NodeRequests(pod.requests.get("cpu", 0), pod.requests.get("memory", 0), pods=1, extended=extended)


def _demand(
    example: str, pods: int, one: NodeRequests, priority: int, rules: Rules, role: RoleId | None = None
) -> Demand:
    gpus = sum(one.amount(gpu) for gpu in rules.gpu_resources)
    return Demand(example, pods, one.cpu_milli, mega(one.memory_bytes), gpus, priority, role)


def _example(auto: AutoRole) -> str:
    """A replica without a node; one that is still to be made goes by the name that it will have."""
    job = auto.state.job.name
    if auto.waiting:
        return f"{job.namespace}/{auto.waiting[0].name}"
    return f"{job.namespace}/{naming.pod_name(job.name, auto.role.name, len(auto.staying))}"


# -- decisions that are not carried out yet ----------------------------------------------------------
def _free(resource: ClusterResource, auto: AutoRole, pod: PodRecord, rules: Rules) -> None:
    """The node without a pod that goes. Of an unusable node neither it nor its pods count."""
    nodes = resource.nodes
    if pod.node not in nodes.cpu_idle_milli:
        return
    its = _requests_of(auto, pod)
    memory, gpus = mega(its.memory_bytes), sum(its.amount(gpu) for gpu in rules.gpu_resources)
    resource.cpu_request_milli -= its.cpu_milli
    resource.memory_request_mega -= memory
    resource.gpu_request -= gpus
    resource.gpu_limit -= gpus
    nodes.cpu_idle_milli[pod.node] += its.cpu_milli
    nodes.memory_free_mega[pod.node] += memory
    nodes.gpu_free[pod.node] += gpus
    for kind, free in nodes.others_free.items():
        if amount := _named(its).get(kind, 0):
            free[pod.node] += amount


def _ask(resource: ClusterResource, job: ElasticJob, replicas: int) -> None:
    resource.cpu_request_milli += replicas * job.cpu_request_milli
    resource.memory_request_mega += replicas * job.memory_request_mega
    resource.gpu_request += replicas * job.gpu_limit
    resource.gpu_limit += replicas * job.gpu_limit
