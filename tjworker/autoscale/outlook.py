"""Computes the cluster as it will be when all earlier decisions are carried out, and which waiting pods could have a
node then. Pure.

Without the first each run would repeat the decision of the last run: a trainer that is to be deleted requests its room
until it is gone, and one that is to be created requests none until it exists. Without the second a pod that fits on no
node would make every elastic job shrink, for nothing.
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
from tjworker.autoscale.dryrun import account
from tjworker.autoscale.fleet import reserve
from tjworker.autoscale.jobs import ElasticJob
from tjworker.autoscale.problem import Demand, RoleId
from tjworker.autoscale.resources import ClusterResource
from tjworker.autoscale.roles import AutoRole, counted_apart
from tjworker.autoscale.rules import AutoscaleRules

MOST_LOOKS = 1_000_000
"""The most checks of one run whether a pod may go to a node, or has room there; they take about a second. Only hundreds
of different constraints or sizes in a cluster of thousands of nodes reach it. Then the remaining pods do not count as
demand, and the remaining roles are planned without their constraints."""


@dataclass(frozen=True, slots=True)
class Outlook:
    nodes: Mapping[str, NodeRecord]
    """The nodes that are ready and schedulable."""
    resource: ClusterResource
    roles: Sequence[AutoRole]
    """The elastic roles. Their constraints are among the resources that they need of a node (`_Places`)."""
    demand: Sequence[Demand]
    """The most urgent first."""
    pending: bool
    """True if a waiting pod could have a node."""
    hopeless: int
    """The number of waiting pods that no node could hold, whatever elastic roles give up."""


def look_ahead(
    nodes: Mapping[str, NodeRecord],
    requests: Mapping[str, NodeRequests],
    waiting: Sequence[WaitingPods],
    roles: Sequence[AutoRole],
    rules: AutoscaleRules,
) -> Outlook:
    """The outlook for the next plan. `requests`: node -> sum of its pods' requests; WAITING -> the sum of pods without
    a node. `waiting`: the pods without a node, in groups of equal pods. Requests that `waiting` lacks, as with an older
    watcher, count as pods that could go to any node."""
    usable = usable_nodes(nodes)
    entries: dict[tuple[str, str], list[WaitingPods]] = defaultdict(list)
    for entry in waiting:
        entries[entry.job_uid, entry.role].append(entry)
    places = _Places(usable)
    roles = [_with_place(auto, entries, places) for auto in roles]
    reach = _Reach(usable, requests, roles)
    demand, hopeless, asked = _find_strangers(waiting, roles, places, reach, rules)
    asked = asked.plus(unknown := _find_unlisted(requests.get(WAITING, NOTHING), waiting, roles, entries))
    resource = cluster_resource(nodes, {**requests, WAITING: asked}, rules.gpu_resources)
    _add_kinds(resource, usable, requests, roles, demand, places)
    pending = bool(demand or unknown.pods)
    to_place: list[tuple[ElasticJob, int]] = []
    for auto in roles:
        # A leaving pod requests its room until it is gone. The plan may use that room already.
        for pod in auto.leaving:
            _free_room(resource, auto, pod, rules)
        if not (wants := len(auto.waiting) + auto.missing):
            continue
        possible = reach.count(auto.replica, places.by_name.get(place_of(auto.elastic)), wants)
        hopeless += max(0, len(auto.waiting) - possible)
        if possible:
            # A replica without a pod is no pending pod: it waits for its controller, not for room.
            pending = pending or bool(auto.waiting)
            account(resource, auto.elastic, possible)
            to_place.append((auto.elastic, possible))
            demand.append(_make_demand(_name_example(auto), possible, auto.replica, auto.priority, rules, auto.id))
    # Replicas that are expected hold their room: otherwise the plan would give it to another role.
    left, placed = reserve(resource, to_place)
    counts = iter(placed)
    demand = [pods if pods.role is None else replace(pods, placed=next(counts)) for pods in demand]
    demand.sort(key=lambda pods: (-pods.priority, pods.example))
    return Outlook(usable, left, roles, demand, pending=pending, hopeless=hopeless)


# -- constraints -------------------------------------------------------------------------------------
_PLACE = "place "
"""Prefix of the resource that represents a set of nodes. The name of a real resource has no space."""


class _Places:
    """Sets of usable nodes that constraints allow. The planner treats such a set as one more resource: a replica needs
    one unit of it, the nodes of the set have plenty, and other nodes have none."""

    def __init__(self, usable: Mapping[str, NodeRecord]) -> None:
        self._usable = usable
        self._known: dict[bytes, frozenset[str] | None] = {}
        self._names: dict[frozenset[str], str] = {}
        self.by_name: dict[str, frozenset[str]] = {}

    def of(self, constraints: Mapping[str, Any]) -> frozenset[str] | None:
        """The usable nodes that the constraints allow; None if they allow all."""
        # All pods of a template have equal constraints, so that a job of 1,000 waiting pods costs one look at the
        # nodes.
        key = orjson.dumps(constraints, option=orjson.OPT_SORT_KEYS)
        if key not in self._known:
            left = frozenset(name for name, node in self._usable.items() if may_go_to(node, constraints))
            # A set of all nodes would only be one more resource to check for each replica.
            self._known[key] = None if len(left) == len(self._usable) else left
        return self._known[key]

    @property
    def exhausted(self) -> bool:
        """True if this run has made MOST_LOOKS checks of constraints."""
        return len(self._known) * len(self._usable) > MOST_LOOKS

    def name(self, nodes: frozenset[str]) -> str:
        """The name of the resource that represents these nodes."""
        name = self._names.setdefault(nodes, f"{_PLACE}{len(self._names)}")
        self.by_name[name] = nodes
        return name


def place_of(job: ElasticJob) -> str:
    """The resource that represents the nodes that the job may use; '' if it may use all."""
    return next((kind for kind, _ in job.others if kind.startswith(_PLACE)), "")


def _with_place(auto: AutoRole, entries: Mapping[tuple[str, str], Sequence[WaitingPods]], places: _Places) -> AutoRole:
    """The role with its constraints as a resource that it needs; unchanged if they are unknown or allow all nodes."""
    known = entries.get((auto.state.job.uid, auto.role.name))
    # Admission may give pods other tolerations and selectors than the template has. The first pod shows them.
    if places.exhausted or not auto.staying:
        return auto
    # The constraints of a waiting pod are better known than those of the template.
    nodes = places.of(known[0].constraints if known else auto.constraints)
    # A pod on an excluded node shows that the template's constraints are not those of the pods.
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
    """Add what each node has left of the further resources that replicas and waiting pods need."""
    free = resource.nodes.others_free
    needs = (*(auto.elastic.others for auto in roles), *(pods.others for pods in demand))
    for kind in sorted({kind for others in needs for kind, _ in others} - free.keys()):
        if kind in places.by_name:
            free[kind] = dict.fromkeys(places.by_name[kind], MOST)
        else:
            free[kind] = {n: has(node, kind) - requests.get(n, NOTHING).amount(kind) for n, node in usable.items()}


# -- pods that could have a node ---------------------------------------------------------------------
class _Reach:
    """The most room that each node could have: free room, room of leaving pods, and room that elastic roles could give
    up above their minima. All other pods stay: a pod that needs their room waits for them or preempts them, and no
    elastic role can help it."""

    def __init__(
        self, usable: Mapping[str, NodeRecord], requests: Mapping[str, NodeRequests], roles: Sequence[AutoRole]
    ) -> None:
        self._names = list(usable)
        self._usable = usable
        self._requests = requests
        self._roles = roles
        self._rooms: dict[str, list[int]] = {}
        self._most: dict[str, int] = {}
        """Resource -> the most that any node could have. A pod that needs more is refused without looking at nodes."""
        self._counts: dict[tuple[NodeRequests, frozenset[str] | None], _Count] = {}
        self._looks = 0

    def count(self, requests: NodeRequests, allowed: frozenset[str] | None, most: int) -> int:
        """How many pods with these requests could have room at the same time, at most `most`. Other waiting pods do not
        count. `allowed`: the nodes that they may use; None for all."""
        # The scheduler does not look at limits, so that pods that differ in them alone share a search.
        key = (replace(requests, cpu_limit_milli=0, memory_limit_bytes=0), allowed)
        known = self._counts.setdefault(key, _Count())
        wants = [(self._room(name), amount) for name, amount in _by_name(requests).items() if amount]
        if any(amount > self._most[name] for name, amount in _by_name(requests).items() if amount):
            return 0
        # The answer grows with `most`, so an earlier search goes on where it ended.
        while known.found < most and known.at < len(self._names) and self._looks < MOST_LOOKS:
            at, known.at = known.at, known.at + 1
            self._looks += 1
            if allowed is None or self._names[at] in allowed:
                known.found += max(0, min((room[at] // amount for room, amount in wants), default=most))
        return min(known.found, most)

    def _room(self, kind: str) -> list[int]:
        """The most room of each node, in the order of the usable nodes."""
        if kind not in self._rooms:
            back: dict[str, int] = defaultdict(int)
            for auto in self._roles:
                amount, least = _by_name(auto.replica).get(kind, 0), auto.elastic.min_instance
                spare = auto.elastic.placed[least:]
                if amount:
                    for node in spare:
                        back[node] += amount
                # A pod that takes less than a new replica has no entry in `placed`: it gives back what it takes.
                smaller = [pod for pod, node in zip(auto.staying[least:], spare, strict=True) if pod.node and not node]
                for pod in (*smaller, *auto.leaving):
                    back[pod.node] += _by_name(auto.requests_of(pod)).get(kind, 0)
            self._rooms[kind] = [
                has(node, kind) - _by_name(self._requests.get(name, NOTHING)).get(kind, 0) + back[name]
                for name, node in self._usable.items()
            ]
            self._most[kind] = max(self._rooms[kind], default=0)
        return self._rooms[kind]


@dataclass(slots=True)
class _Count:
    """State of a search: `found` pods have room on the nodes before `at`."""

    found: int = 0
    at: int = 0


def _by_name(requests: NodeRequests) -> dict[str, int]:
    return {"cpu": requests.cpu_milli, "memory": requests.memory_bytes, PODS: requests.pods, **dict(requests.extended)}


def _find_strangers(
    waiting: Sequence[WaitingPods], roles: Sequence[AutoRole], places: _Places, reach: _Reach, rules: AutoscaleRules
) -> tuple[list[Demand], int, NodeRequests]:
    """For pods that belong to no elastic role: (their demand, the number of hopeless pods, the sum of the requests of
    all others)."""
    own = {(auto.state.job.uid, auto.role.name) for auto in roles}
    demand: list[Demand] = []
    hopeless, asked = 0, NOTHING
    # The most urgent first: MOST_LOOKS may end the search before the last.
    for entry in sorted(waiting, key=lambda group: (-group.priority, group.example)):
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
            pods = _make_demand(entry.example, possible, entry.requests, entry.priority, rules)
            demand.append(replace(pods, others=tuple(others)))
    return demand, hopeless, asked


def _find_unlisted(
    total: NodeRequests,
    waiting: Sequence[WaitingPods],
    roles: Sequence[AutoRole],
    entries: Mapping[tuple[str, str], Sequence[WaitingPods]],
) -> NodeRequests:
    """The requests of pods without a node that are neither in `waiting` nor in an elastic role. `total`: of all pods
    without a node."""
    left = total
    for entry in waiting:
        left = left.plus(entry.requests, -entry.pods)
    for auto in roles:
        if (auto.state.job.uid, auto.role.name) not in entries:
            for pod in (*auto.staying, *auto.leaving):
                # A pod that is being deleted before it got a node requests nothing any more.
                if not pod.node and pod.deleted_at is None:
                    left = left.plus(auto.requests_of(pod), -1)
    # The projection may show a pod's record and the sums at different moments, so a difference may be below 0.
    return NodeRequests(
        max(0, left.cpu_milli),
        max(0, left.memory_bytes),
        max(0, left.cpu_limit_milli),
        max(0, left.memory_limit_bytes),
        max(0, left.pods),
        tuple((name, n) for name, n in left.extended if n > 0),
    )


def _make_demand(
    example: str, pods: int, one: NodeRequests, priority: int, rules: AutoscaleRules, role: RoleId | None = None
) -> Demand:
    gpus = sum(one.amount(gpu) for gpu in rules.gpu_resources)
    return Demand(example, pods, one.cpu_milli, mega(one.memory_bytes), gpus, priority, role)


def _name_example(auto: AutoRole) -> str:
    """`namespace/name` of a replica without a node: of a pod that waits, or of the pod that is created next."""
    job = auto.state.job.name
    if auto.waiting:
        return f"{job.namespace}/{auto.waiting[0].name}"
    return f"{job.namespace}/{naming.pod_name(job.name, auto.role.name, len(auto.staying))}"


# -- decisions that are not carried out yet ----------------------------------------------------------
def _free_room(resource: ClusterResource, auto: AutoRole, pod: PodRecord, rules: AutoscaleRules) -> None:
    """Give the room of a leaving pod back to its node and to the sums."""
    nodes = resource.nodes
    # An unusable node does not count, and neither do its pods.
    if pod.node not in nodes.cpu_idle_milli:
        return
    released = auto.requests_of(pod)
    memory, gpus = mega(released.memory_bytes), sum(released.amount(gpu) for gpu in rules.gpu_resources)
    resource.cpu_request_milli -= released.cpu_milli
    resource.memory_request_mega -= memory
    resource.gpu_request -= gpus
    resource.gpu_limit -= gpus
    nodes.cpu_idle_milli[pod.node] += released.cpu_milli
    nodes.memory_free_mega[pod.node] += memory
    nodes.gpu_free[pod.node] += gpus
    for kind, free in nodes.others_free.items():
        if amount := _by_name(released).get(kind, 0):
            free[pod.node] += amount
