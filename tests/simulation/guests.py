"""Scenarios of other operators' job kinds, and of what a job may have beside its replicas: a gang, a TensorBoard, code
from git. `make test` plays a few points of them, `make test-long` a sample of every row, `make sim-all` all.

One role of each ends the job and the others run on, so that which of two is done first is no chance.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from tests.scenarios.world import job, play, role, training_job
from tests.simulation.scripts import (
    SCRIPTS,
    Scenario,
    Script,
    Wish,
    delete_pod,
    ended_and_kept,
    suspend,
    when_running,
    when_suspended,
)
from tests.support.guests import KIND_OF
from tests.support.trainer import RUNTIME_PATH, replicated, runtime, train_job
from tjworker.api.labels import ANNOTATION_GIT_SYNC, ANNOTATION_TENSORBOARD
from tjworker.base import GroupResource

Json = dict[str, Any]
FOR_EVER = Wish(run_seconds=100_000)
SUSPENDED = Script(Wish(), (when_running(suspend(True)), when_suspended(suspend(False), for_seconds=20)))
LOSES_WORKER = Script(Wish(), (when_running(delete_pod("worker")),))


def guest(
    resource: str,
    roles: Mapping[str, tuple[int, Wish]],
    restart: str = "ExitCode",
    run: Mapping[str, Any] = MappingProxyType({"cleanPodPolicy": "All"}),
    **spec: Any,
) -> Json:
    """`roles`: how many of each, and what they do; `run`: its run policy."""
    kind = KIND_OF[GroupResource(resource)]
    made = kind.with_run_policy(run)
    made["spec"] |= spec
    made["spec"][kind.roles_field] = {
        name: {
            "replicas": replicas,
            "restartPolicy": restart,
            "template": {
                "metadata": {"annotations": play(**wish.play())},
                "spec": {"containers": [{"name": "main", "image": "trainer:1"}]},
            },
        }
        for name, (replicas, wish) in roles.items()
    }
    return {"apiVersion": kind.api_versions[0], "kind": kind.kind, "metadata": {"name": "digits"}, **made}


def pytorch(wish: Wish) -> Json:
    """Elastic: the first worker to be done ends it. Else its master does."""
    kind = "pytorchjobs.kubeflow.org"
    if wish.elastic:
        return guest(kind, {"Worker": (wish.trainers, wish)}, elasticPolicy={"minReplicas": 1, "maxReplicas": 6})
    worker = replace(wish, run_seconds=FOR_EVER.run_seconds)
    return guest(kind, {"Master": (1, Wish(run_seconds=wish.run_seconds)), "Worker": (wish.trainers, worker)})


def tensorflow(wish: Wish, family: str = "kubeflow.org") -> Json:
    """All its workers end it; what has ended then is kept."""
    roles = {"PS": (1, FOR_EVER), "Worker": (wish.trainers, wish)}
    return guest(f"tfjobs.{family}", roles, run={"cleanPodPolicy": "Running"}, successPolicy="AllWorkers")


def mpi(wish: Wish) -> Json:
    """Its launcher ends it, and may fail first; the pod of the launcher is kept."""
    return guest("mpijobs.kubeflow.org", {"Launcher": (1, wish), "Worker": (wish.trainers, FOR_EVER)}, "OnFailure")


def xdl(wish: Wish) -> Json:
    """KubeDL's, done with half of its workers; the scheduler runs on."""
    return guest(
        "xdljobs.training.kubedl.io",
        {"Scheduler": (1, FOR_EVER), "Worker": (1, wish), "ExtendRole": (1, FOR_EVER)},
        minFinishWorkRate=50,
    )


def trainer(wish: Wish) -> tuple[Json, Json]:
    """A TrainJob of Kubeflow's Trainer with a runtime of its own. Its nodes end it."""
    node = replicated("node", step="trainer")
    node["template"]["spec"]["template"]["metadata"] = {"annotations": play(**wish.play())}
    return train_job(trainer={"numNodes": wish.trainers}), runtime(node)


def restarts_of(kind: str) -> tuple[str, ...]:
    """The restart policies that a role of such a guest may have, those that go on twice as often."""
    return (
        ("OnFailure", "OnFailure", "Never")
        if kind == "MPIJob"
        else ("Always", "Always", "OnFailure", "Never", "ExitCode")
    )


_ROLES: Mapping[str, Mapping[str, int]] = {
    "pytorchjobs.kubeflow.org": {"Master": 1, "Worker": 2},
    "tfjobs.kubeflow.org": {"PS": 1, "Worker": 2},
    "mpijobs.kubeflow.org": {"Launcher": 1, "Worker": 2},
    "xgboostjobs.kubeflow.org": {"Master": 1, "Worker": 1},
    "pytorchjobs.training.kubedl.io": {"Master": 1, "Worker": 2},
    "tfjobs.training.kubedl.io": {"PS": 1, "Worker": 2},
    "xdljobs.training.kubedl.io": {"Scheduler": 1, "Worker": 2, "ExtendRole": 1},
}


def random_guest(rng: random.Random) -> Json:
    """Of any kind, that runs for as long as it is let; some fail first, and each has some of the limits."""
    resource = rng.choice([*sorted(_ROLES), "mpijobs.kubeflow.org"])
    drawn = {
        "cleanPodPolicy": ("All", "Running", "None"),
        "backoffLimit": (0, 1, 3),
        "activeDeadlineSeconds": (60, 150, 250),
        "ttlSecondsAfterFinished": (0, 30, 100),
        "suspend": (True,),
    }
    run = {name: rng.choice(values) for name, values in drawn.items() if rng.random() < 0.15}
    roles = {
        name: (count, replace(FOR_EVER, fails_first=rng.random() < 0.2)) for name, count in _ROLES[resource].items()
    }
    more: Json = {}
    if resource == "pytorchjobs.kubeflow.org" and rng.random() < 0.5:
        roles, more = {"Worker": roles["Worker"]}, {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 6}}
    made = guest(resource, roles, run=run, **more)
    for one in made["spec"][KIND_OF[GroupResource(resource)].roles_field].values():
        one["restartPolicy"] = rng.choice(restarts_of(made["kind"]))
    return made


def _of_trainer(script: Script, wish: Wish, **more: Any) -> Scenario:
    made, named = trainer(wish)
    return _of(script, made, named=((RUNTIME_PATH, named),), **more)


def _of(script: Script, manifest: Json, **more: Any) -> Scenario:
    more.setdefault("long", True)
    return script.of("", manifest, within_seconds=900, **more)


_GANG: Mapping[str, Any] = {"gang_scheduler": "kubernetes"}
_fails_first = play(**Wish(fails_first=True).play())


ADDONS: Mapping[str, str] = {
    ANNOTATION_TENSORBOARD: json.dumps({"logDir": "/events", "ttlSecondsAfterJobFinished": 30}),
    ANNOTATION_GIT_SYNC: json.dumps({"source": "https://git.example.org/digits.git", "rootPath": "/code"}),
}
"""Code from git, and a TensorBoard that is there for half a minute after the end."""


def _with_addons() -> Json:
    made = job({"trainer": role(2, annotations=play(**Wish().play()))})
    made["metadata"]["annotations"] = dict(ADDONS)
    return made


_flaky = Wish(fails_first=True)
GUESTS: Mapping[str, Scenario] = {
    "pytorch-succeeds": _of(SCRIPTS["succeeds"], pytorch(Wish())),
    "pytorch-restarts": _of(SCRIPTS["restarts"], pytorch(_flaky)),
    "pytorch-scales": _of(SCRIPTS["scales"], pytorch(SCRIPTS["scales"].wish)),
    "pytorch-deleted": _of(SCRIPTS["deleted"], pytorch(SCRIPTS["deleted"].wish)),
    "pytorch-suspended": _of(SUSPENDED, pytorch(Wish())),
    "pytorch-loses-worker": _of(LOSES_WORKER, pytorch(Wish())),
    "tf-succeeds": _of(replace(SCRIPTS["succeeds"], over=ended_and_kept), tensorflow(Wish()), alone=True),
    "tf-restarts": _of(replace(SCRIPTS["restarts"], over=ended_and_kept), tensorflow(_flaky), alone=True),
    "mpi-succeeds": _of(replace(SCRIPTS["succeeds"], over=ended_and_kept), mpi(Wish()), alone=True),
    "mpi-restarts": _of(replace(SCRIPTS["restarts"], over=ended_and_kept), mpi(_flaky), alone=True),
    "mpi-deleted": _of(SCRIPTS["deleted"], mpi(SCRIPTS["deleted"].wish)),
    "mpi-suspended": _of(replace(SUSPENDED, over=ended_and_kept), mpi(Wish()), alone=True),
    "mpi-loses-worker": _of(replace(LOSES_WORKER, over=ended_and_kept), mpi(Wish()), alone=True),
    "kubedl-tf-restarts": _of(
        replace(SCRIPTS["restarts"], over=ended_and_kept), tensorflow(_flaky, "training.kubedl.io"), alone=True
    ),
    "kubedl-xdl-succeeds": _of(SCRIPTS["succeeds"], xdl(Wish())),
    "trainer-restarts": _of_trainer(replace(SCRIPTS["restarts"], over=ended_and_kept), _flaky, alone=True),
    "trainer-suspended": _of_trainer(replace(SUSPENDED, over=ended_and_kept), Wish(), alone=True),
    "ai-pod-gang": _of(
        SCRIPTS["restarts"],
        job({"trainer": role(2, annotations=_fails_first, restartPolicy="ExitCode", restartScope="All")}),
        operator=_GANG,
    ),
    "ai-pod-gang-deleted": _of(
        SCRIPTS["deleted"], job({"trainer": role(2, annotations=play(**FOR_EVER.play()))}), operator=_GANG
    ),
    "pytorch-gang-suspended": _of(SUSPENDED, pytorch(Wish()), operator=_GANG),
    "edl-job-gang": _of(SCRIPTS["succeeds"], training_job(least=2, play={"trainer": Wish().play()}), operator=_GANG),
    "ai-pod-tensorboard": _of(SCRIPTS["succeeds"], _with_addons()),
}
GUESTS = {name: replace(scenario, name=name) for name, scenario in GUESTS.items()}
