"""What kubelets, nodes and their controllers do to pods: the ways of row 28. What they write in each case:
docs/internals/kubelet.md; what a restart policy makes of it: docs/lifecycle.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from localcluster.kubelet.node import NodeConfig
from tests.simulation.world import SimWorld
from tjworker.api.resources import NODES
from tjworker.api.timefmt import to_rfc3339

Json = dict[str, Any]
Strike = Callable[[SimWorld, Json], object]
PODS = "/api/v1/namespaces/default/pods"
NEW_NODE = "node-new"
UNSEEN_SECONDS = 150.0
NOT_TOLERANT = "not fault tolerant"
"""Of a TrainingJob, beside the restart policies of the other kind. What is fault tolerant fails for nothing here."""


@dataclass(frozen=True)
class Cause:
    """What befalls a pod, in the words of docs/lifecycle.md."""

    end: str = ""
    """The phase of a job whose pod is not to be restarted after it."""
    fails: frozenset[str] = frozenset()
    """The policies that do not restart it."""


NOTHING = Cause()
"""Under no policy anybody's failure."""
TURNED_AWAY = Cause("Failed", frozenset({NOT_TOLERANT}))
EVICTED = Cause("Failed", frozenset({"Never", NOT_TOLERANT}))
OWN_LIMIT = Cause("Failed", frozenset({"Never", "OnNodeFail", NOT_TOLERANT}))
LOST = Cause("NodeFail", frozenset({"Never", "OnFailure", "ExitCode", NOT_TOLERANT}))


@dataclass(frozen=True)
class Way:
    strikes: Strike
    """At this pod, or at its node."""
    cause: Cause = NOTHING
    when: str = "Running"
    """The phase of the pods that it strikes."""
    times: int = 1
    mends: Callable[[SimWorld, str], object] | None = None
    """The node that was struck is as it was; or what else becomes of it then."""
    after_seconds: float = 0.0
    whole_node: bool = False
    """All pods of the node have it, and not the struck one alone."""
    takes_strangers: bool = False
    """Kubernetes itself deletes every pod of the node."""


# -- one pod -----------------------------------------------------------------------------------------


def kubelet_writes(world: SimWorld, pod: Json, status: Json) -> None:
    world.cluster.kubelet.client.patch(f"{PODS}/{pod['metadata']['name']}/status", {"status": status})


def ended(pod: Json, code: int, at: str) -> list[Json]:
    """Its container statuses, as at their end."""
    end = {"exitCode": code, "reason": "Error" if code else "Completed", "startedAt": at, "finishedAt": at}
    return [
        {**c, "ready": False, "started": False, "state": {"terminated": end}}
        for c in pod["status"].get("containerStatuses") or ()
    ]


def not_admitted(reason: str) -> Strike:
    def strike(world: SimWorld, pod: Json) -> None:
        message = "Pod was rejected: Allocate failed due to no such device"
        empty = {"phase": "Failed", "reason": reason, "message": message, "containerStatuses": None}
        kubelet_writes(world, pod, empty)

    return strike


def by_kubelet(reason: str, message: str, code: int, *, disruption: bool) -> Strike:
    def strike(world: SimWorld, pod: Json) -> None:
        now = to_rfc3339(world.clock())
        target = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet", "message": message}
        told = [*pod["status"].get("conditions", ()), *([{**target, "lastTransitionTime": now}] if disruption else [])]
        kubelet_writes(
            world,
            pod,
            {
                "phase": "Failed",
                "reason": reason,
                "message": message,
                "conditions": told,
                "containerStatuses": ended(pod, code, now),
            },
        )

    return strike


def prompt_exit(skew_seconds: float) -> Strike:
    """A person deletes it; it exits with 0 before anybody looks, on a node whose clock is behind."""

    def strike(world: SimWorld, pod: Json) -> None:
        world.cluster.client.delete(f"{PODS}/{pod['metadata']['name']}")
        at = to_rfc3339(world.clock() - skew_seconds)
        kubelet_writes(world, pod, {"phase": "Succeeded", "containerStatuses": ended(pod, 0, at)})

    return strike


# -- its node ----------------------------------------------------------------------------------------


def node_of(pod: Json) -> str:
    return str(pod["spec"]["nodeName"])


def fails(how: str) -> Strike:
    """One of the ways of `localcluster.kubelet.node`."""
    return lambda world, pod: world.cluster.fail_node(node_of(pod), how)


def every_node_fails(how: str) -> Strike:
    def strike(world: SimWorld, pod: Json) -> None:
        for node in list(world.cluster.kubelet.configs):
            world.cluster.fail_node(node, how)

    return strike


def recovers(world: SimWorld, node: str) -> None:
    world.cluster.recover_node(node)


def _spec(world: SimWorld, node: str, spec: Json) -> None:
    world.cluster.client.patch(f"/api/v1/nodes/{node}", {"spec": spec})


def tainted(key: str) -> Strike:
    return lambda world, pod: _spec(world, node_of(pod), {"taints": [{"key": key, "effect": "NoExecute"}]})


def untainted(world: SimWorld, node: str) -> None:
    _spec(world, node, {"taints": []})


def out_of_service(world: SimWorld, node: str) -> None:
    """The machine is off, and a person says so, as the documentation of Kubernetes asks for."""
    _spec(world, node, {"taints": [{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]})


def cordoned(world: SimWorld, pod: Json) -> None:
    _spec(world, node_of(pod), {"unschedulable": True})


def uncordoned(world: SimWorld, node: str) -> None:
    _spec(world, node, {"unschedulable": None})


def deleted_and_made_again(world: SimWorld, pod: Json) -> None:
    """By a person; its kubelet registers it anew at once, and its pods run on."""
    world.cluster.client.delete(f"/api/v1/nodes/{node_of(pod)}")


def moves_where_nobody_looks(world: SimWorld, pod: Json) -> None:
    """A person deletes the pod, and only a node has room that came when the watch of nodes was silent."""
    world.blind[NODES] = world.clock() + UNSEEN_SECONDS
    for node in list(world.cluster.kubelet.configs):
        _spec(world, node, {"unschedulable": True})
    world.cluster.kubelet.add_nodes([NodeConfig(NEW_NODE)])
    world.cluster.client.delete(f"{PODS}/{pod['metadata']['name']}")


def room_again(world: SimWorld, node: str) -> None:
    for name in list(world.cluster.kubelet.configs):
        _spec(world, name, {"unschedulable": None})


_SHUTDOWN = "Pod was terminated in response to imminent node shutdown."
_node = partial(Way, whole_node=True)
_back = partial(_node, mends=recovers)
WAYS: Mapping[str, Way] = {
    "device-plugin-rejects": Way(not_admitted("UnexpectedAdmissionError"), TURNED_AWAY, when="Pending", times=4),
    "out-of-cpu": Way(not_admitted("OutOfcpu"), TURNED_AWAY, when="Pending", times=2),
    "topology-affinity": Way(not_admitted("TopologyAffinityError"), TURNED_AWAY, when="Pending", times=2),
    "node-shutting-down": Way(not_admitted("NodeShutdown"), TURNED_AWAY, when="Pending", times=2),
    "pressure": Way(by_kubelet("Evicted", "The node was low on resource: memory.", 137, disruption=True), EVICTED),
    "own-limit": Way(by_kubelet("Evicted", "Usage of EmptyDir volume exceeds", 137, disruption=False), OWN_LIMIT),
    "graceful-shutdown": Way(by_kubelet("Terminated", _SHUTDOWN, 143, disruption=True), EVICTED),
    "prompt-exit-clock-1s-behind": Way(prompt_exit(1)),
    "prompt-exit-clock-300s-behind": Way(prompt_exit(300)),
    "maintenance": _node(tainted("maintenance"), EVICTED, mends=untainted, after_seconds=60),
    "cordoned": _node(cordoned, mends=uncordoned, after_seconds=60),
    "flaps": _back(fails("Flapping"), after_seconds=130),
    "silent-for-less-than-its-grace": _back(fails("NotReady"), after_seconds=55),
    "silent-and-back": _back(fails("NotReady"), LOST, after_seconds=120),
    "silent-for-good": _node(fails("NotReady"), LOST),
    "silent-and-out-of-service": _node(
        fails("NotReady"), LOST, mends=out_of_service, after_seconds=50, takes_strangers=True
    ),
    "shuts-down-and-boots": _back(fails("NodeShutdown"), EVICTED, after_seconds=90),
    "object-deleted-and-made-again": _node(deleted_and_made_again),
    "machine-away-for-less-than-its-grace": _back(fails("gone"), after_seconds=20),
    "machine-away-and-back": _back(fails("gone"), LOST, after_seconds=120, takes_strangers=True),
    "machine-gone": _node(fails("gone"), LOST, takes_strangers=True),
    "never-seen-by-the-watch": Way(moves_where_nobody_looks, mends=room_again, after_seconds=UNSEEN_SECONDS),
    "clocks-2s-behind": Way(every_node_fails("ClockSkew=-2"), when="Pending"),
    "clocks-90s-ahead": Way(every_node_fails("ClockSkew=90"), when="Pending"),
    "clocks-90s-behind": Way(every_node_fails("ClockSkew=-90"), when="Pending"),
}
