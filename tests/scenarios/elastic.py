"""How elastic jobs share a cluster, told once and played in each world (see `tests.scenarios.driver`): eight CPUs are
free, a trainer takes one, and the autoscaler fills them as far as it may (97 %: seven trainers).
"""

from __future__ import annotations

from typing import Any

from tests.scenarios.driver import Driver, Json
from tests.scenarios.world import job, play, role

ONE_CPU = {"requests": {"cpu": "1", "memory": "100Mi"}}
TICK_SECONDS = 5
COOLDOWN_SECONDS = 10
FULL = 7
WEB = "web"


def elastic(name: str, replicas: int, least: int, most: int, **more: Any) -> Json:
    trainer = role(
        replicas, minReplicas=least, maxReplicas=most, edlPolicy="Auto", restartPolicy="OnFailure", restartScope="Pod"
    )
    trainer["template"]["spec"]["containers"][0]["resources"] = ONE_CPU
    trainer["template"]["spec"]["terminationGracePeriodSeconds"] = 1
    return job({"trainer": trainer}, name, **more)


def foreign(name: str, cpu: str = "1", **spec: Any) -> Json:
    """A pod of another owner."""
    container = {"name": "c", "image": "web:1", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": play()},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1, **spec},
    }


def trainers(world: Driver, name: str) -> dict[str, str]:
    """Those that run and stay: name -> UID."""
    return {
        n: p["metadata"]["uid"]
        for n, p in world.pods().items()
        if n.startswith(f"{name}-trainer-")
        and p["status"].get("phase") == "Running"
        and "deletionTimestamp" not in p["metadata"]
    }


def wants(world: Driver, name: str) -> int:
    """How many trainers the job should have, as its status says."""
    return int(world.status(name).get("replicaStatuses", {}).get("trainer", {}).get("desired", 0))


SLACK_SECONDS = 3
"""What it takes beside the ticks until pods are made, started and gone."""


def two_jobs_and_a_burst_of_others_share_it(world: Driver) -> None:
    world.apply(elastic("first", 1, 1, 10))
    world.until("the first fills the cluster", lambda: len(trainers(world, "first")) == FULL)
    alone = trainers(world, "first")

    world.apply(elastic("second", 2, 2, 10))
    world.until("the second has its share", lambda: len(trainers(world, "second")) == 2, within_seconds=40)
    world.until("the first has given way", lambda: len(trainers(world, "first")) == FULL - 2)
    stayed = trainers(world, "first")
    assert stayed.items() <= alone.items(), "who stays is not restarted"
    assert sorted(stayed) == [f"first-trainer-{i}" for i in range(FULL - 2)], "the highest indices go"
    world.stays(
        "both as they are",
        lambda: (wants(world, "first"), wants(world, "second")) == (FULL - 2, 2),
        for_seconds=2 * TICK_SECONDS,
    )

    for i in range(3):
        world.create_pod(foreign(f"web-{i}", priorityClassName=WEB))
    world.until(
        "a burst of others, of higher priority, has its room within two ticks",
        lambda: all(world.pods()[f"web-{i}"]["status"].get("phase") == "Running" for i in range(3)),
        within_seconds=2 * TICK_SECONDS + SLACK_SECONDS,
    )
    world.until("at the first's cost", lambda: len(trainers(world, "first")) == FULL - 5)
    assert len(trainers(world, "second")) == 2, "no job goes below its minimum"

    for i in range(3):
        world.delete_pod(f"web-{i}")
    world.until(
        "everything grows back",
        lambda: len(trainers(world, "first")) + len(trainers(world, "second")) == FULL,
        within_seconds=60,
    )
    assert {n: alone[n] for n in ("first-trainer-0", "first-trainer-1")}.items() <= trainers(world, "first").items()
    for name in ("first", "second"):
        status = world.status(name)
        assert all(set(counts.values()) == {0} for counts in status.get("restartCounts", {}).values()), status
        assert all(record["reason"].startswith("autoscaler: ") for record in status["scaleRecords"]), status[
            "scaleRecords"
        ]
