"""The scenarios that every row is tried on: each way of keeping pods (a `Make`) through each of the four scripts, and a
few more. Those of other operators' kinds are in `guests.py`.

A job kind or a workload is one line in `MAKES`; a script that only some can live is one in `ALSO`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from tests.scenarios.world import job, play, role, training_job
from tests.simulation.guests import GUESTS
from tests.simulation.scripts import (
    SCRIPTS,
    Act,
    Over,
    Scenario,
    Script,
    Wish,
    delete_pod,
    ended,
    gone,
    lose_the_node,
    patch,
    suspend,
    when_running,
    when_suspended,
)
from tests.simulation.world import LOOK_SECONDS

Json = dict[str, Any]
PLAIN = Wish()

# -- the ways of keeping pods ----------------------------------------------------------------------


def aitrainingjob(wish: Wish, **spec: Any) -> Json:
    more: Json = {"minReplicas": 1, "maxReplicas": 6, "edlPolicy": "Manual"} if wish.elastic else {}
    if wish.fails_first:
        more |= {"restartPolicy": "ExitCode", "restartScope": "Pod"}
    trainer = role(wish.trainers, annotations=play(**wish.play()), **more)
    return job({"ps": role(1, completePolicy="None"), "trainer": {**trainer, **spec.pop("trainer", {})}}, **spec)


def trainingjob(wish: Wish, *, pservers: int = 0, **spec: Any) -> Json:
    spec.setdefault("fault_tolerant", wish.fails_first or wish.elastic)
    return training_job(
        least=wish.trainers, most=6 if wish.elastic else None, pservers=pservers, play={"trainer": wish.play()}, **spec
    )


Make = Callable[[Wish], Json]
MAKES: Mapping[str, Make] = {
    "ai-pod": aitrainingjob,
    "edl-job": trainingjob,
    "edl-replicaset": partial(trainingjob, pservers=1),
}
"""JobKind and workload. A TrainingJob keeps its trainers by a batch Job, its parameter servers by a ReplicaSet."""


def _ai(
    wish: Wish = PLAIN,
    *acts: Callable[[Scenario], Act],
    over: Over = ended,
    trainer: Json | None = None,
    nodes: int = 2,
    alone: bool = False,
    autoscaled: bool = False,
    chance: frozenset[str] = frozenset(),
    **spec: Any,
) -> Scenario:
    return Script(wish, acts, over).of(
        "",
        aitrainingjob(wish, trainer=trainer or {}, **spec),
        nodes=nodes,
        alone=alone,
        autoscaled=autoscaled,
        chance=chance,
        within_seconds=900,
    )


def _edl(
    wish: Wish = PLAIN, *acts: Callable[[Scenario], Act], nodes: int = 2, alone: bool = False, **spec: Any
) -> Scenario:
    return Script(wish, acts).of("", trainingjob(wish, **spec), nodes=nodes, alone=alone, within_seconds=900)


_flaky = Wish(fails_first=True)
_broken = {"restartPolicy": "OnFailure", "restartScope": "Pod", "restartLimit": 1}
_preempt = patch({"metadata": {"annotations": {"Preempted": "room"}}})
_one = replace(_flaky, trainers=1)
"""Two trainers that a crash of ours has kept apart would fail at two times, and rightly restart their job twice."""
ALSO: Mapping[str, Scenario] = {
    "ai-pod-restarts-whole": _ai(_one, trainer={"restartScope": "All"}),
    "ai-pod-restarts-role": _ai(_one, trainer={"restartScope": "Replica"}),
    "ai-pod-fails": _ai(replace(_one, fails_for_good=True), trainer=_broken),
    "ai-pod-times-out": _ai(Wish(run_seconds=2000), timeLimit=150),
    "ai-pod-goes-after-its-end": _ai(over=gone, alone=True, runPolicy={"ttlSecondsAfterFinished": 20}),
    "ai-pod-suspended": _ai(Wish(), when_running(suspend(True)), when_suspended(suspend(False), for_seconds=20)),
    "ai-pod-preempted": _ai(Wish(run_seconds=2000), when_running(_preempt)),
    # Whom the autoscaler lets grow before the operator has seen it run has never been Scaling.
    "ai-pod-autoscaled": _ai(
        Wish(run_seconds=300),
        trainer={"minReplicas": 1, "maxReplicas": 4, "edlPolicy": "Auto"},
        autoscaled=True,
        chance=frozenset({"Scaling"}),
    ),
    "ai-pod-loses-pod": _ai(Wish(), when_running(delete_pod("trainer"))),
    "ai-pod-shares-its-tasks": replace(_ai(Wish()), beside=True),
    "ai-pod-loses-node": _ai(
        Wish(),
        when_running(lose_the_node),
        nodes=3,
        alone=True,
        trainer={"restartPolicy": "OnNodeFail", "restartScope": "Pod"},
    ),
    "edl-job-preempted": _edl(Wish(run_seconds=2000), when_running(_preempt)),
    # Not in the second in which the job came to run: times of Kubernetes have whole seconds, so that a server's pod
    # that its ReplicaSet has replaced by the next look could be one of the first.
    "edl-replicaset-loses-pod": _edl(
        Wish(run_seconds=400), when_running(delete_pod("pserver"), for_seconds=2), pservers=1, fault_tolerant=True
    ),
    "edl-replicaset-loses-node": _edl(
        Wish(run_seconds=400), when_running(lose_the_node), pservers=1, fault_tolerant=True, nodes=3, alone=True
    ),
}


def _chance_seconds(scenario: Scenario) -> float:
    return LOOK_SECONDS if scenario.acts or scenario.autoscaled else 0.0


SCENARIOS: Mapping[str, Scenario] = {
    **{
        f"{name}-{script_name}": script.of(f"{name}-{script_name}", make(script.wish))
        for name, make in MAKES.items()
        for script_name, script in SCRIPTS.items()
    },
    **{name: replace(scenario, name=name) for name, scenario in ALSO.items()},
    **GUESTS,
}
SCENARIOS = {name: replace(one, chance_seconds=_chance_seconds(one)) for name, one in SCENARIOS.items()}
