"""Whether the pods of a gang could ever start together on the nodes that there are. Pure.

Judged as if the nodes were empty, ready, and would take any pod: where even that is too little the gang waits for ever,
unless nodes come. What is not said here may still be true, as of a gang that only tainted nodes have room for: then
the scheduler's own words are all there is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tjworker.api.model import Role
from tjworker.api.node_room import Amounts, had, shown, shown_apart, take, wanted
from tjworker.api.observed import NodeRecord


def why_too_large(roles: Sequence[Role], needed: int, nodes: Mapping[str, NodeRecord]) -> str:
    """`needed` of the replicas of these roles start together or none does; '' where the cluster may have the room. A
    cluster without nodes, or with one that has not said yet what it has, is not judged."""
    has = [node.allocatable for node in nodes.values()]
    if not has or not all(has):
        return ""
    try:
        wants = {role.name: wanted(role.template) for role in roles}
    except ValueError:
        return ""
    over = ", ".join(_sums(roles, wants, needed, has)) or ", ".join(_places(roles, wants, needed, has))
    if not over:
        return ""
    pods = "the one pod that must start" if needed == 1 else f"the {needed} pods that must start together"
    return (
        f"the whole cluster, even empty, has no room for {pods}: {over}; lower"
        " replicas, minAvailable or resources.requests, or add nodes"
    )


def _sums(
    roles: Sequence[Role], wants: Mapping[str, Amounts], needed: int, has: Sequence[Mapping[str, str]]
) -> Iterator[str]:
    """By resource: of the pods that ask for least of it, as any `needed` may be the first."""
    nodes = "the only node has" if len(has) == 1 else f"all {len(has)} nodes have"
    for name in sorted({name for asked in wants.values() for name in asked}):
        least, left = 0, needed
        for amount, replicas in sorted((wants[role.name].get(name, 0), role.replicas) for role in roles):
            least, left = least + amount * min(left, replicas), left - min(left, replicas)
        most = sum(had(node, name) for node in has)
        if least > most:
            asked, there = shown_apart(name, least, most)
            yield f"{'it requests' if needed == 1 else 'they request'} {name} {asked}, and {nodes} {there}"


def _places(
    roles: Sequence[Role], wants: Mapping[str, Amounts], needed: int, has: Sequence[Mapping[str, str]]
) -> Iterator[str]:
    """By role: the sum would do, but node by node it does not come out."""
    total = sum(role.replicas for role in roles)
    for role in roles:
        among = needed - (total - role.replicas)
        places = take(has, wants[role.name])
        if among > places:
            each = ", ".join(f"{name} {shown(name, n)}" for name, n in wants[role.name].items() if name != "pods")
            which, of_each = (
                ("it is", "") if needed == 1 else (f"{among} of them {'is' if among == 1 else 'are'}", "each ")
            )
            yield f"{which} of role {role.name}, {of_each}with {each}, and {len(has)} nodes take {places}"
