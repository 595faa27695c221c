"""The job kinds as tests need them: one row a kind. A test that goes through all kinds goes through `TEST_KINDS`.

`tests/unit/tjworker/api/test_kinds.py` says which kind has no row, and what else it lacks.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.builders import JobBuilder, make_job, make_training_job
from tjworker.api.kinds import OWNERS, aitrainingjob, trainingjob
from tjworker.base import GroupResource
from tjworker.kube.resources import RESOURCES

Json = dict[str, Any]
ODD: tuple[Any, ...] = (None, True, 0, -1, 1.5, 2**31, 2**63, "", "x", "1", [], {}, [None], {"a": None})
AITRAININGJOBS = aitrainingjob.RESOURCE
TRAININGJOBS = trainingjob.RESOURCE


def resource_of(manifest: Mapping[str, Any]) -> GroupResource:
    """The resource of a job, by its group and kind."""
    return OWNERS[manifest["apiVersion"].partition("/")[0], manifest["kind"]]


def collection_of(manifest: Mapping[str, Any], namespace: str = "default") -> str:
    """The path that a job is posted to, in the version that it is written in."""
    return f"/apis/{manifest['apiVersion']}/namespaces/{namespace}/{RESOURCES[resource_of(manifest)].plural}"


@dataclass(frozen=True)
class KindOfTests:
    whole: Callable[[], Json]
    """A manifest of everything a little: every map and list of the schema has an entry."""
    random: Callable[[random.Random], Json]
    """A manifest, sound about as often as not, near the bounds and rules of the schema."""
    standing: Callable[[], Json]
    """A job that runs until it is deleted, with more than one role."""


def _manifest(made: JobBuilder) -> Json:
    """For any namespace, and no part of it is there twice."""
    manifest: Json = json.loads(json.dumps(made.manifest()))
    del manifest["metadata"]["namespace"]
    return manifest


# -- AITrainingJob ---------------------------------------------------------------------------------
_CONTAINER: Json = {
    "name": "aitj-main",
    "image": "trainer:1",
    "command": ["train"],
    "env": [{"name": "LR", "value": "0.1"}],
    "ports": [{"name": "aitj-7164", "containerPort": 7164}],
}
_INIT: Json = {**_CONTAINER, "name": "fetch"}


def _whole_aitrainingjob() -> JobBuilder:
    template = {
        "metadata": {"labels": {"team": "vision"}, "annotations": {"note": "a"}},
        "spec": {"containers": [_CONTAINER], "initContainers": [_INIT]},
    }
    policy: Json = {"template": template, "restart": "OnFailure", "scope": "Pod"}
    gang = {"queue": "research", "minResources": {"cpu": "4"}}
    made = make_job().role("ps", 1, **policy).role("trainer", 2, **policy).run_policy(schedulingPolicy=gang)
    made.raw["spec"]["replicaSpecs"]["trainer"]["batchSize"] = {"initial": 8, "max": 64, "perReplicaMax": 8}
    return made


def _any_aitrainingjob(rng: random.Random) -> Json:
    def some(*values: Any) -> Any:
        return rng.choice(values)

    job = make_job(
        "j" * rng.choice([1, 6, 6, 6, 40, 52, 53, 54, 60]) if rng.random() < 0.95 else some("a.b", "9", "A", "a-")
    )
    names = ["trainer", "pserver", "data-loader", "r1"]
    if rng.random() < 0.1:
        names.append(some("Trainer", "a_b", "trainingjob", "-x", "x-"))
    for name in rng.sample(names, rng.randint(1, 3)):
        bounds = sorted(rng.choices([0, 1, 2, 3, 10, 11, 10_000], k=3))
        if rng.random() < 0.15:
            rng.shuffle(bounds)
        job = job.role(
            name,
            bounds[1],
            least=some(None, bounds[0]),
            most=some(None, max(bounds[2], 1)),
            edl=some("", "Auto", "Never"),
            restart=some("", "Always", "ExitCode"),
            limit=some(None, 0, 3),
            complete=some("", "Rank0"),
            containers=some(("a",), ("aitj-a", "b"), ("a", "b")) if rng.random() < 0.97 else ("a", "a"),
        )
    if rng.random() < 0.3:
        job = job.run_policy(
            cleanPodPolicy=some("All", "None"), schedulingPolicy=_any_gang(some(1, 2, 5), job.manifest())
        )
    if rng.random() < 0.3:
        job = job.spec(
            cleanPodPolicy=some("All", "Running"), timeLimit=some(1, 60, 2**31 - 1), priority=some("", "high", "a b")
        )
    if rng.random() < 0.3:
        job = job.spec(restartingExitCode=some("1", "137, 128", "255", "256", "01", ",", "1,", " 7 ", "٣", "1\n"))
    manifest = job.manifest()
    if rng.random() < 0.3:
        _spoil(manifest["spec"], rng)
    return manifest


def _any_gang(least: int, of: Json) -> Json:
    """Draws of its own, by the rest of the manifest: those of everything else stay what they were."""
    rng = random.Random(json.dumps(of))
    gang: Json = {
        "queue": rng.choice(["research", "a.b", "", "A", "a..b", "a" * 254]),
        "priorityClass": rng.choice(["high", "very high"]),
        "minResources": rng.choice([{}, {"cpu": "500m"}, {"nvidia.com/gpu": 8}, {"cpu": "lots"}, {"cpu": -1}]),
        "scheduleTimeoutSeconds": rng.choice([0, 60, -1, 2**31 - 1]),
    }
    return {"minAvailable": least, **{name: gang[name] for name in rng.sample(sorted(gang), rng.randint(0, 2))}}


# -- TrainingJob -----------------------------------------------------------------------------------
def _whole_trainingjob() -> JobBuilder:
    room = {"limits": {"cpu": "1"}, "requests": {"cpu": "100m"}}
    role = {
        "resources": room,
        "envs": {"LR": "0.1"},
        "imagePullSecrets": [{"name": "pull"}],
        "pre_stop_cmd": ["sync"],
        "tolerations": [{"operator": "Exists"}],
        "node_selector": {"kubernetes.io/os": "linux"},
    }
    return make_training_job(
        pservers=1,
        trainer=role,
        pserver=role,
        master=role,
        volumes=[{"name": "data", "emptyDir": {}}],
        VolumeMounts=[{"name": "data", "mountPath": "/data"}],
        podSecurityContext={"runAsNonRoot": True},
        securityContext={"capabilities": {"drop": ["ALL"]}},
        runPolicy={"schedulingPolicy": {"minResources": {"cpu": "4"}}},
    )


def _any_trainingjob(rng: random.Random) -> Json:
    def some(*values: Any) -> Any:
        return rng.choice(values)

    role: Json = {
        "entrypoint": some("", "train", "sh -c 'a'", "a 'b", "\\", 'x "\\""'),
        "workspace": "/w",
        "envs": {"A": some("1", "")},
        "resources": {
            "limits": {
                "cpu": some(1, "1", "500m", "1x", "", "-1", "1e3", ".5", 0.5, 2**63) if rng.random() < 0.3 else 2
            }
        },
        "tolerations": [{"operator": "Exists"}],
        "pre_stop_cmd": ["a"],
        "liveness_probe": {"exec": {"command": ["a"]}},
    }
    job = make_training_job(
        "j" * some(1, 6, 6, 6, 48, 49, 50),
        least=some(1, 1, 2, 3),
        most=some(None, None, 2, 3, 9),
        pservers=some(0, 1, 2),
        pserver={"max-instance": some(2, 2, 1)},
        trainer={k: v for k, v in role.items() if rng.random() < 0.4},
        fault_tolerant=some(True, True, False),
        local_job=some(True, False, False),
        port=some(1, 7164, 7164, 65_534, 65_535),
        ports_num=some(0, 1),
    )
    if rng.random() < 0.4:
        job = job.spec(
            volumes=[{"name": some("a", "b"), "emptyDir": {}}, {"name": "c"}],
            trainer_port=some(1, 65_500),
            trainer_ports_num=some(1, 36, 37),
            VolumeMounts=[{"name": some("a", "c"), "mountPath": "/x"}],
        )
    if rng.random() < 0.3:
        job = job.spec(
            frame_work={"name": "x", "type": some("local", "nccl2", "multi", "other")},
            passes=some(0, 1),
            annotations={"walltime": some(0, 60, -1), "priority": some("", "high", "a b")},
        )
    manifest = job.manifest()
    if rng.random() < 0.3:
        _spoil(manifest["spec"], rng)
    return manifest


def _spoil(value: Any, rng: random.Random) -> None:
    """Put something odd at a random place, or take something away."""
    while True:
        keys: list[Any] = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = rng.choice(keys)
        inner = value[key]
        if isinstance(inner, dict | list) and inner and rng.random() < 0.9:
            value = inner
        elif rng.random() < 0.2:
            del value[key]
            return
        else:
            value[key] = rng.choice(ODD)
            return


TEST_KINDS: Mapping[GroupResource, KindOfTests] = {
    AITRAININGJOBS: KindOfTests(
        whole=lambda: _manifest(_whole_aitrainingjob()),
        random=_any_aitrainingjob,
        standing=lambda: _manifest(make_job().role("ps", 1).role("trainer", 2)),
    ),
    TRAININGJOBS: KindOfTests(
        whole=lambda: _manifest(_whole_trainingjob()),
        random=_any_trainingjob,
        standing=lambda: _manifest(make_training_job(least=2, pservers=1, fault_tolerant=True)),
    ),
}
