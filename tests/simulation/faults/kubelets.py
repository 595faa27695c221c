"""Row 28. Kubelets and nodes as they are: each way of theirs strikes a trainer in each life, and is over after a while.

The job comes to the end that it comes to undisturbed, or to the one that the way itself means (a role that is not to be
restarted has failed); no pod too many is alive; and the operator makes at most ten requests a pod a minute. What a
kubelet writes in each case: docs/internals/kubelet.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tests.simulation.fault import Row, Verdict
from tests.simulation.oracles import live, whole
from tests.simulation.points import Fault, Step
from tests.simulation.scenarios import NAME, SCENARIOS
from tests.simulation.world import SimWorld
from tjworker.api.timefmt import to_rfc3339
from tjworker.kube.port import HttpResponse

Json = dict[str, Any]
REQUESTS_A_POD_A_MINUTE = 10
WITHIN_SECONDS = 1500.0
"""Later than undisturbed, at most: rests after rejections double."""
PODS = "/api/v1/namespaces/default/pods"


def kubelet_writes(world: SimWorld, pod: Json, status: Json) -> None:
    world.cluster.client.patch(f"{PODS}/{pod['metadata']['name']}/status", {"status": status})


def ended(pod: Json, code: int, at: str) -> list[Json]:
    """Its container statuses, as at their end."""
    return [
        {**c, "ready": False, "started": False, "state": {"terminated": _end(code, at)}}
        for c in pod["status"].get("containerStatuses") or ()
    ]


def _end(code: int, at: str) -> Json:
    return {"exitCode": code, "reason": "Error" if code else "Completed", "startedAt": at, "finishedAt": at}


def not_admitted(reason: str) -> Callable[[SimWorld, Json], None]:
    def strike(world: SimWorld, pod: Json) -> None:
        message = "Pod was rejected: Allocate failed due to no such device"
        empty = {"phase": "Failed", "reason": reason, "message": message, "containerStatuses": None}
        kubelet_writes(world, pod, empty)

    return strike


def by_kubelet(reason: str, message: str, code: int, *, disruption: bool) -> Callable[[SimWorld, Json], None]:
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


def prompt_exit(skew_seconds: float) -> Callable[[SimWorld, Json], None]:
    """A person deletes it; it exits with 0 before anybody looks, on a node whose clock is behind."""

    def strike(world: SimWorld, pod: Json) -> None:
        world.cluster.client.delete(f"{PODS}/{pod['metadata']['name']}")
        at = to_rfc3339(world.clock() - skew_seconds)
        kubelet_writes(world, pod, {"phase": "Succeeded", "containerStatuses": ended(pod, 0, at)})

    return strike


@dataclass(frozen=True)
class Way:
    strikes: Callable[[SimWorld, Json], None]
    when: str = "Running"
    """The phase of the pods that it strikes."""
    times: int = 1
    ends: frozenset[str] = frozenset()
    """Phases of the job that this way may mean, beside the undisturbed one."""


FAILS = frozenset({"Failed"})
WAYS: Mapping[str, Way] = {
    "device-plugin-rejects": Way(not_admitted("UnexpectedAdmissionError"), "Pending", 4),
    "out-of-cpu": Way(not_admitted("OutOfcpu"), "Pending", 2),
    "topology-affinity": Way(not_admitted("TopologyAffinityError"), "Pending", 2),
    "node-shutting-down": Way(not_admitted("NodeShutdown"), "Pending", 2),
    "pressure": Way(by_kubelet("Evicted", "The node was low on resource: memory.", 137, disruption=True), ends=FAILS),
    "own-limit": Way(by_kubelet("Evicted", "Usage of EmptyDir volume exceeds", 137, disruption=False), ends=FAILS),
    "graceful-shutdown": Way(
        by_kubelet("Terminated", "Pod was terminated in response to imminent node shutdown.", 143, disruption=True),
        ends=FAILS,
    ),
    "prompt-exit-clock-1s-behind": Way(prompt_exit(1)),
    "prompt-exit-clock-300s-behind": Way(prompt_exit(300)),
}


@dataclass
class Kubelets(Fault):
    """The way strikes the lowest trainer that there is, each pod once, so many times. All log ports stay silent."""

    way: Way
    struck: set[str] = field(default_factory=set)
    """UIDs."""
    world: SimWorld | None = None
    most_pods: int = 1
    minutes: Counter[int] = field(default_factory=Counter)
    """Minute -> requests of workers in it."""

    def next_due(self, now_seconds: float) -> float | None:
        """A pod is Pending for two seconds, and then nobody would look."""
        pods = self.world.pods().values() if self.world is not None and self._left else ()
        return now_seconds + 1.0 if any(pod["status"].get("phase") == "Pending" for pod in pods) else None

    @property
    def _left(self) -> int:
        return self.way.times - len(self.struck)

    def passes(self, world: SimWorld) -> None:
        pods = world.pods()
        self.most_pods = max(self.most_pods, len(pods))
        for name, pod in sorted(pods.items()) if self._left else ():
            if name.startswith(f"{NAME}-trainer") and self._can_be_struck(pod):
                self.struck.add(pod["metadata"]["uid"])
                world.trace.note(world.clock(), "FAULT", f"strikes {name}")
                self.way.strikes(world, pod)
                return

    def _can_be_struck(self, pod: Json) -> bool:
        meta, phase = pod["metadata"], pod["status"].get("phase", "Pending")
        placed = bool(pod["spec"].get("nodeName"))
        return (
            placed
            and phase == self.way.when
            and not {"deletionTimestamp"} & set(meta)
            and meta["uid"] not in self.struck
        )

    def before(self, world: SimWorld, step: Step) -> None:
        self.world = world
        if step.kind in ("read", "write") and step.actor.startswith("worker"):
            self.minutes[int(world.clock() // 60)] += 1

    def answers(self, world: SimWorld, step: Step) -> HttpResponse | None:
        return HttpResponse(504, b"{}") if step.kind == "read" and step.what.endswith("/log") else None


def _phase(state: Mapping[str, Any]) -> str:
    """Of the job; '' when it is gone."""
    return next((str(v) for p, v in state.items() if p.endswith(".status.phase") and not p.startswith("pods/")), "")


def play(run: str) -> Verdict:
    name, _, word = run.partition("/")
    way, undisturbed = WAYS[word], whole(name)
    fault = Kubelets(way)
    outcome = live(SCENARIOS[name], fault, more_seconds=WITHIN_SECONDS)
    mine, want = _phase(outcome.state), _phase(undisturbed.first.state)
    wrong = [*outcome.surplus[:3], *outcome.touched]
    wrong += [f"a pass after the end wrote: {write}" for write in outcome.restless]
    wrong += [] if fault.struck else ["it has struck nobody"]
    # A user who waits for a job that has ended waits for ever.
    wrong += [] if outcome.over or mine in way.ends else [f"not over after {outcome.seconds:.0f} s: {mine or 'no job'}"]
    wrong += [] if mine in (want, *way.ends) else [f"ends in {mine}, undisturbed {want}"]
    most = REQUESTS_A_POD_A_MINUTE * fault.most_pods
    wrong += [f"{n} requests in a minute, {most} allowed" for n in fault.minutes.values() if n > most]
    return Verdict(tuple(wrong), len(outcome.surplus), outcome.trace)


LIVES = tuple(name for name in SCENARIOS if name.startswith("ai-pod"))
"""The pods of the others are replaced by controllers, which wait as they please."""


def runs(name: str, ways: Sequence[str] = tuple(WAYS)) -> Sequence[str]:
    return [f"{name}/{way}" for way in ways]


def _sample(number: int) -> Sequence[str]:
    """Of each life three ways, each way in some lives."""
    ways = list(WAYS)
    return [ways[(number * 3 + n) % len(ways)] for n in range(3)]


ROW = Row(
    28,
    "kubelets as they are: they turn pods away, evict them, shut down, are silent, and their clocks are behind",
    lambda: [run for name in LIVES for run in runs(name)],
    {name: partial(runs, name, _sample(number)) for number, name in enumerate(LIVES)},
    play,
)
