"""Which pods of lower priority must go so that a pod fits: kube-scheduler's default preemption, without budgets.
Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from localcluster.objects import seconds_of
from localcluster.scheduler.filters import Against, reasons_against
from localcluster.scheduler.nodeinfo import Demand, NodeInfo
from localcluster.wire import Json

NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"


@dataclass(frozen=True, slots=True)
class Candidate:
    node: str
    victims: tuple[tuple[Demand, Json], ...]
    """Sorted by priority, highest first."""


def victims_on(demand: Demand, node: NodeInfo, reserved: Sequence[Demand]) -> Candidate | None:
    """The fewest pods of lower priority whose going makes room, None when even all of them are not enough."""
    # `SelectVictimsOnNode` takes only pods of lower priority: equals never preempt each other.
    lower = [pair for pair in node.pods.values() if pair[0].priority < demand.priority]
    if not lower:
        return None
    kept_out = {pair[0].key for pair in lower}
    if reasons_against(demand, node.without(kept_out), reserved).reasons:
        return None
    # Give room back to the most important first: what then still fits is reprieved.
    for pair in sorted(lower, key=_rank_importance):
        if not reasons_against(demand, node.without(kept_out - {pair[0].key}), reserved).reasons:
            kept_out.discard(pair[0].key)
    victims = tuple(sorted((p for p in lower if p[0].key in kept_out), key=_rank_importance))
    return Candidate(node.name, victims) if victims else None


def choose_best(candidates: Iterable[Candidate]) -> Candidate | None:
    """Lowest top priority, lowest sum of priorities, fewest victims, the top victim that started last."""

    def rank(candidate: Candidate) -> tuple[float, ...]:
        # The order of `pickOneNodeForPreemption`. Adding 2**31 makes every priority positive, so that more victims
        # cost more.
        tops = [d.priority for d, _ in candidate.victims]
        started = min(_started_at(pair) for pair in candidate.victims if pair[0].priority == tops[0])
        return (tops[0], sum(p + 2**31 for p in tops), len(tops), -started)

    return min(candidates, key=rank, default=None)


def find_candidate(
    demand: Demand, nodes: Iterable[NodeInfo], against: dict[str, Against], reserved: Callable[[str], Sequence[Demand]]
) -> tuple[Candidate | None, dict[str, str]]:
    """The best candidate, and why each other node is none."""
    why: dict[str, str] = {}
    candidates = []
    for node in nodes:
        if not against[node.name].resolvable:
            why[node.name] = NOT_HELPFUL
        elif (candidate := victims_on(demand, node, reserved(node.name))) is None:
            why[node.name] = NO_VICTIMS
        else:
            candidates.append(candidate)
    return choose_best(candidates), why


def _rank_importance(pair: tuple[Demand, Json]) -> tuple[float, float]:
    return (-pair[0].priority, _started_at(pair))


def _started_at(pair: tuple[Demand, Json]) -> float:
    text = (pair[1].get("status") or {}).get("startTime")
    return seconds_of(text) if text else pair[0].created_seconds
