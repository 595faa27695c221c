"""Judge whether the pods of a gang could ever start together on the existing nodes. Pure.

The judgement takes the nodes as empty, ready and free for any pod. If even that is not enough, the gang waits until
nodes are added. It does not find every reason: for a gang that only fits on tainted nodes, for example, the user has
only the scheduler's message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tjworker.api.model import Role
from tjworker.api.node_room import Amounts, had, shown, shown_apart, take, wanted
from tjworker.api.observed import NodeRecord


def why_too_large(roles: Sequence[Role], needed: int, nodes: Mapping[str, NodeRecord]) -> str:
    """For people, why the cluster has no room for `needed` replicas of these roles together; '' if it may have room."""
    # Not judged: a cluster without nodes, or with a node that has not reported its resources yet.
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
    """Reasons by resource, for the pods that request least of it: any `needed` pods may start first."""
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
    """Reasons by role: the sum of all nodes would be enough, but the pods do not fit on single nodes."""
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
