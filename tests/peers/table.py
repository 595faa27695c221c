"""What other operators do, as data: one row a rule, made from the operator's source, with the scenarios that show it.

A row whose `here` is empty says: this operator does the same. A row with `here` is a difference on purpose, and says
why. `test_peers.py` plays every scenario of every row in virtual time; `python -m tests.peers` writes the rows into
docs/kinds.md and docs/kubedl.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeVar

import pytest

from localcluster.client import ApiError, ignoring
from localcluster.kubelet.node import NodeConfig
from localcluster.kubelet.play import Play as PodPlay
from tests.scenarios.test_kubeflow import role
from tests.scenarios.world import World, guest_crd
from tests.support.guests import KIND_OF
from tests.support.pod_groups import POD_GROUP_CRDS
from tjworker.api.kinds.base import MEMORY
from tjworker.base import GroupResource
from tjworker.kube.resources import RESOURCES

Json = dict[str, Any]
T = TypeVar("T")
Seen = Mapping[str, Any]
"""What is looked at -> what it is. The names are those of `LOOKS`."""
Step = Callable[[World], object]

DONE: Json = {"run_seconds": 5, "exit_code": 0}
WRONG: Json = {"run_seconds": 5, "exit_code": 1}
KILLED: Json = {"run_seconds": 5, "exit_code": 137}
ONCE: Json = {"failing_attempts": 1, "failing_run_seconds": 5}
"""Fails once with exit code 1, and runs then."""
LATE: Json = {"start_seconds": 600}
HELD: Json = {"start_seconds": 10_000}
"""It never starts by itself: a step writes its status."""

M, C, L, P, S = (f"digits-{name}-0" for name in ("master", "chief", "launcher", "ps", "scheduler"))
W0, W1, W2, E0 = *(f"digits-worker-{i}" for i in range(3)), "digits-evaluator-0"
SETTLES = 40.0
"""Seconds of virtual time after which a scenario is judged."""


@dataclass(frozen=True)
class Has:
    """A text that contains these words, and not those."""

    words: str
    lacks: str = "\0"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and self.words in other and self.lacks not in other

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Play:
    """One scenario: a job, what happens to it, and what is then to be seen."""

    kind: str
    roles: Mapping[str, Json]
    theirs: Seen
    """Under its own operator."""
    ours: Seen | None = None
    """Here, where that is another thing on purpose."""
    run: Mapping[str, Any] = field(default_factory=dict)
    """The run policy."""
    spec: Mapping[str, Any] = field(default_factory=dict)
    version: str = ""
    pods: Mapping[str, Json] = field(default_factory=dict)
    """How single pods are played; the others follow the annotations of their role."""
    steps: tuple[Step, ...] = ()
    nodes: int | Sequence[NodeConfig] = 2
    gang: str = "none"
    meta: Mapping[str, Any] = field(default_factory=dict)

    def manifest(self) -> Json:
        kind = KIND_OF[GroupResource(self.kind)]
        made = kind.with_run_policy(dict(self.run))
        spec = {**made["spec"], kind.roles_field: dict(self.roles), **self.spec}
        version = f"{kind.group}/{self.version}" if self.version else kind.api_versions[0]
        meta = {"name": "digits", **self.meta}
        whole: Json = json.loads(json.dumps({"apiVersion": version, "kind": kind.kind, "metadata": meta, "spec": spec}))
        return whole


@dataclass(frozen=True)
class Row:
    topic: str
    """The group of rows on the page."""
    rule: str
    """What the operator does: a sentence, or, beside `here`, a cell."""
    source: str
    """owner/repository path: function."""
    plays: tuple[Play, ...]
    here: str = ""
    """What this operator does instead, and why; nothing: the same."""
    subject: str = ""
    """Of a difference: what it is about."""


_turns = count()


def some(kinds: Iterable[T]) -> tuple[T, ...]:
    """Two of them, and others at each call: of what kinds share, each kind is played in some of the rows."""
    every = tuple(kinds)
    first = 2 * next(_turns)
    return tuple(every[(first + n) % len(every)] for n in range(min(2, len(every))))


# -- what happens ------------------------------------------------------------------------------------------------------


def after(seconds: float) -> Step:
    return lambda w: w.advance(seconds, step_seconds=2)


def patch(spec: Mapping[str, Any]) -> Step:
    """A merge patch of the job's spec."""
    return lambda w: w.patch_job("digits", {"spec": dict(spec)}).run()


def tried(step: Step) -> Step:
    """The API server may refuse the step, which then changes nothing."""

    def run(w: World) -> None:
        with ignoring(422):
            step(w)

    return run


def scaled(replicas: int) -> Step:
    return lambda w: w.scale("digits", replicas).run()


def node_fails(name: str) -> Step:
    return lambda w: w.fail_node(name).run()


def evicted(name: str) -> Step:
    """By the kubelet, of a node under pressure."""
    return lambda w: (w.patch_pod(name, {"metadata": {"annotations": {"localcluster/evict": "pressure"}}}), w.run())


def with_priority_class(name: str) -> Step:
    body = {"metadata": {"name": name}, "value": 1000}
    return lambda w: w.cluster.client.create("/apis/scheduling.k8s.io/v1/priorityclasses", body)


def pod_status(
    name: str, phase: str, exits: Mapping[str, int | None], init: Mapping[str, int] | None = None, reason: str = "Error"
) -> Step:
    """As a kubelet writes it. `exits`: container -> its exit code, None while it runs."""

    def state(code: int | None) -> Json:
        if code is None:
            return {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
        return {"terminated": {"exitCode": code, "reason": "Completed" if code == 0 else reason}}

    def of(codes: Mapping[str, int | None]) -> list[Json]:
        common = {"image": "trainer:1", "imageID": "", "restartCount": 0}
        return [
            {"name": container, "ready": code is None, "state": state(code), **common}
            for container, code in codes.items()
        ]

    status: Json = {"phase": phase, "containerStatuses": of(exits)}
    if init:
        status["initContainerStatuses"] = of(init)

    def write(w: World) -> None:
        w.cluster.client.patch(f"/api/v1/namespaces/default/pods/{name}/status", {"status": status})
        w.watch()  # before the kubelet of the fake node writes its own
        w.work()
        w.run()

    return write


# -- what is to be seen ------------------------------------------------------------------------------------------------


def _conditions(w: World, rest: str) -> Any:
    return [f"{c['type']} {c['status']} {c['reason']}" for c in w.status().get("conditions", ())]


def _state(w: World, rest: str) -> Any:
    """The last condition that is true; `deleted` when there is no job."""
    with ignoring(404):
        return next((c["type"] for c in reversed(w.status().get("conditions", ())) if c["status"] == "True"), "")
    return "deleted"


def _is_true(w: World, type_: str) -> Any:
    return w.condition(type_).get("status") == "True"


def _counts(w: World, rest: str) -> Any:
    counted = w.status().get("replicaStatuses") or {}
    return {name: {k: v for k, v in of.items() if k != "selector"} for name, of in counted.items()}


def _environment(w: World, pod: str) -> dict[str, Any]:
    containers = w.pods()[pod]["spec"]["containers"]
    env = {e["name"]: e.get("value") for e in containers[0].get("env", ())}
    return {name: json.loads(v) if isinstance(v, str) and v[:1] == "{" else v for name, v in env.items()}


def _env(w: World, rest: str) -> Any:
    pod, name = rest.split()
    return _environment(w, pod).get(name)


def _pod(w: World, rest: str) -> Any:
    name, path = rest.split()
    return _at(w.pods()[name], path)


def _at(of: Any, path: str) -> Any:
    """`spec.containers.0.env`: None where there is no such field. Keys with dots stand in brackets."""
    for part in re.findall(r"\[([^\]]+)\]|([^.\[\]]+)", path):
        key = part[0] or part[1]
        if isinstance(of, list):
            of = of[int(key)] if key.isdigit() and int(key) < len(of) else None
        else:
            of = (of or {}).get(key)
    return of


def _object(w: World, rest: str) -> Any:
    """`services digits-worker-0 spec.selector`"""
    resource, name, path = rest.split()
    found = {o["metadata"]["name"]: o for o in w.get(GroupResource(resource))["items"]}
    return _at(found.get(name), path)


def _exists(w: World, rest: str) -> Any:
    """`jobs.batch digits-launcher`. A resource that the operator does not know has no objects of its."""
    resource, name = rest.split()
    if GroupResource(resource) not in RESOURCES:
        return False
    return name in {o["metadata"]["name"] for o in w.get(GroupResource(resource))["items"]}


def _file(w: World, rest: str) -> Any:
    """Of /etc/mpi, as the kubelet shows it to a pod."""
    pod, name = rest.split()
    found = w.pods()[pod]
    for volume in found["spec"].get("volumes", ()):
        for item in volume.get("downwardAPI", {}).get("items", ()):
            if item["path"] == name:
                return found["metadata"]["annotations"][item["fieldRef"]["fieldPath"].split("'")[1]]
    return None


def _column(w: World, name: str) -> Any:
    """The path that a column of `kubectl get` shows."""
    crd = guest_crd(w.settings.kind_list[0])
    found = {c["name"]: c["jsonPath"] for c in crd["spec"]["versions"][0]["additionalPrinterColumns"]}
    return found.get(name)


def _scale(w: World, rest: str) -> Any:
    """Wanted and told replicas of the scale subresource."""
    found = w.cluster.client.get(f"{w._job('digits')}/scale")
    return {part: found[part]["replicas"] for part in ("spec", "status")}


LOOKS: Mapping[str, Callable[[World, str], Any]] = {
    "state": _state,
    "conditions": _conditions,
    "true": _is_true,
    "says": lambda w, type_: w.condition(type_).get("message", ""),
    "waits": lambda w, rest: w.status()[MEMORY].get("message", ""),
    "reason": lambda w, type_: w.condition(type_).get("reason", ""),
    "pods": lambda w, rest: tuple(sorted(w.pods())),
    "services": lambda w, rest: tuple(w.services()),
    "counts": _counts,
    "restarted": lambda w, rest: w.status()[MEMORY].get("restarts", 0) > 0,
    "time": lambda w, name: w.status().get(name) is not None,
    "env": _env,
    "pod": _pod,
    "object": _object,
    "exists": _exists,
    "file": _file,
    "column": _column,
    "scale": _scale,
    "job": lambda w, path: _at(w.cluster.client.get(w._job("digits")), path),
}


def look(w: World, what: str) -> Any:
    name, _, rest = what.partition(" ")
    return LOOKS[name](w, rest)


def then(**wanted: Any) -> Step:
    """Judged in the middle of a scenario. Names of `LOOKS` that take no words."""

    def check(w: World) -> None:
        wrong = mismatches(w, wanted)
        assert not wrong, "; ".join(wrong)

    return check


def mismatches(w: World, wanted: Seen) -> list[str]:
    found = {what: look(w, what) for what in wanted if what != "refused"}
    return [f"{what}: {value!r}, want {wanted[what]!r}" for what, value in found.items() if value != wanted[what]]


# -- playing it --------------------------------------------------------------------------------------------------------


def world_of(play: Play) -> World:
    class PeerWorld(World):
        crds = (*World.crds, *([POD_GROUP_CRDS[play.gang]] if play.gang in POD_GROUP_CRDS else []))

    w = PeerWorld(kinds=play.kind, nodes=play.nodes, gang_scheduler=play.gang)
    if play.pods:
        w.cluster.kubelet.script = lambda pod, attempt: (
            PodPlay(**play.pods[pod["metadata"]["name"]]) if pod["metadata"]["name"] in play.pods else None
        )
    return w


def live(w: World, play: Play) -> None:
    w.apply(play.manifest()).run()
    for step in play.steps or (after(SETTLES),):
        step(w)


def judge(play: Play) -> None:
    """Plays it, and compares. A difference that is none any more is an error, too: its row must go."""
    wanted = play.theirs if play.ours is None else play.ours
    w = world_of(play)
    if "refused" in wanted:
        with pytest.raises(ApiError) as refused:
            live(w, play)
        assert refused.value.code == 422, refused.value
        assert wanted["refused"] == refused.value.message, refused.value.message
        return
    live(w, play)
    wrong = mismatches(w, wanted)
    assert not wrong, f"{'; '.join(wrong)} (seed {w.seed}, {_conditions(w, '')})"
    if play.ours is not None and "refused" not in play.theirs:
        assert mismatches(w, play.theirs), "this operator does the same now: make the row a row of what is the same"


def roles(first: str, *, of_first: Json | None = None, workers: int = 2, of_workers: Json | None = None) -> Json:
    """One replica of the first role and some workers. The play of a role: `DONE`, `WRONG` ..."""
    made = {first: role(**(of_first or {}))} if first else {}
    return made | ({"Worker": role(workers, **(of_workers or {}))} if workers else {})
