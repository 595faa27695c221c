"""Schema and parser agree on random jobs: what the API server stores can be used, and what it refuses is refused again."""

from __future__ import annotations

import os
import random
import time
from typing import Any

import pytest

from localcluster.schema import StructuralSchema
from tests.builders import make_job, make_training_job
from tjworker.api import crd
from tjworker.api.dialects import DIALECTS, parse
from tjworker.api.model import TrainingJob

ROUNDS = 400
ODD: tuple[Any, ...] = (None, True, 0, -1, 1.5, 2**31, 2**63, "", "x", "1", [], {}, [None], {"a": None})


@pytest.mark.parametrize("plural", DIALECTS)
def test_what_is_stored_can_be_used_and_what_is_refused_is_refused_again(plural: str) -> None:
    seed = int(os.environ.get("TJ_TEST_SEED", time.time_ns() % 10**9))
    rng = random.Random(seed)
    schema = StructuralSchema(crd.schema(DIALECTS[plural]))
    accepted = 0
    for i in range(ROUNDS):
        job = ANY[plural](rng)
        schema.prune(job)
        schema.default(job)
        causes = [str(cause) for cause in schema.validate(job)]
        parsed = parse(plural, job)
        usable = isinstance(parsed, TrainingJob)
        where = f"seed {seed}, round {i}: {job['spec']}\n schema: {causes}\n parser: {getattr(parsed, 'errors', 'accepts it')}"
        assert usable == (not causes), where
        accepted += usable
    assert ROUNDS // 10 < accepted < ROUNDS * 9 // 10, (
        f"seed {seed}: the random jobs show nothing, {accepted} were accepted"
    )


def _any_job(rng: random.Random) -> dict[str, Any]:
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
        job = job.run_policy(cleanPodPolicy=some("All", "None"), schedulingPolicy={"minAvailable": some(1, 2, 5)})
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


def _any_training_job(rng: random.Random) -> dict[str, Any]:
    def some(*values: Any) -> Any:
        return rng.choice(values)

    role: dict[str, Any] = {
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


ANY = {"aitrainingjobs": _any_job, "trainingjobs": _any_training_job}


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
