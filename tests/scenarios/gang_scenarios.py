"""What gang scheduling promises, told once and played in each world (see `tests.scenarios.driver`), with PodGroups of
Kubernetes itself: on the local cluster's scheduler and on Kubernetes' own. A world has three nodes of 8 CPUs, and a pod
asks for 4: there is room for six."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.scenarios.driver import Driver, Json
from tests.scenarios.world import job, play, role
from tjworker.api.resources import POD_GROUPS, PRIORITYCLASSES

ROOM = 6


def gang(replicas: int, name: str = "digits", *, run_seconds: float | None = None, spec: Any = None, **of: Any) -> Json:
    """A job of one role; each of its pods takes half a node. `of`: of the role."""
    plays = {} if run_seconds is None else {"run_seconds": run_seconds}
    made = role(replicas, annotations=of.pop("annotations", play(**plays)), **of)
    made["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "4"}}
    return job({"trainer": made}, name, **(spec or {}))


def group(world: Driver, name: str = "digits") -> Json | None:
    return world.owners(POD_GROUPS).get(name)


def size(world: Driver, name: str = "digits") -> int | None:
    found = group(world, name)
    return int(found["spec"]["schedulingPolicy"]["gang"]["minCount"]) if found else None


def uid(world: Driver) -> str:
    found = group(world)
    return str(found["metadata"]["uid"]) if found else ""


def scheduled(world: Driver, name: str) -> str:
    """By the group's own condition."""
    told = ((group(world, name) or {}).get("status") or {}).get("conditions") or ()
    return next((str(c["status"]) for c in told if c["type"] == "PodGroupScheduled"), "")


def placed(world: Driver, name: str) -> int:
    return sum(bool(p["spec"].get("nodeName")) for n, p in world.pods().items() if n.startswith(f"{name}-"))


def told(world: Driver, *words: str) -> None:
    """By the condition Running."""
    world.until(
        f"the job says {words}", lambda: all(word in world.condition("Running").get("message", "") for word in words)
    )


def runs(world: Driver, name: str = "digits") -> None:
    world.until(f"{name} runs", lambda: world.phase(name) == "Running")


def end_pods(world: Driver, job: str) -> None:
    for name in world.pods():
        if name.startswith(f"{job}-"):
            world.end_pod(name)


def two_gangs_that_would_each_get_half(world: Driver) -> None:
    """Pod by pod each would get three of the six places, and wait for ever."""
    names = ("first", "second")
    for name in names:
        world.apply(gang(4, name))
    world.until("one of them runs", lambda: "Running" in [world.phase(name) for name in names])
    other = next(name for name in names if world.phase(name) != "Running")
    assert placed(world, other) == 0
    ran = next(name for name in names if name != other)
    world.until("the groups say so", lambda: (scheduled(world, ran), scheduled(world, other)) == ("True", "False"))
    end_pods(world, ran)
    world.until("it ends", lambda: world.phase(ran) == "Succeed")
    runs(world, other)
    end_pods(world, other)
    world.until("so does the other", lambda: world.phase(other) == "Succeed")
    world.until("the PodGroups go with the jobs' ends", lambda: world.owners(POD_GROUPS) == {})


def min_available_starts_with_fewer(world: Driver) -> None:
    world.apply(gang(ROOM + 2, spec={"runPolicy": {"schedulingPolicy": {"minAvailable": 5}}}))
    world.until("all that fit are placed", lambda: placed(world, "digits") == ROOM)
    assert size(world) == 5
    told(world, "Insufficient cpu", "5 pods of the job start together")


def an_elastic_jobs_minimum_is_its_gang(world: Driver) -> None:
    world.apply(gang(4, minReplicas=2, maxReplicas=8))
    runs(world)
    made = uid(world)
    assert size(world) == 2
    for replicas in (6, 2, 4):
        world.scale("digits", replicas)
        world.until(f"{replicas} run", lambda n=replicas: placed(world, "digits") == n and world.phase() == "Running")  # type: ignore[misc]
    assert uid(world) == made


def one_that_can_never_fit_is_told_why_and_mended(world: Driver) -> None:
    world.apply(gang(ROOM + 1))
    told(world, "Insufficient cpu", f"{ROOM + 1} pods of the job start together or none does (PodGroup digits")
    told(world, f"has no room for the {ROOM + 1} pods", f"they request cpu {4 * (ROOM + 1)}, and all 3 nodes have 24")
    assert (placed(world, "digits"), world.condition("Running")["reason"]) == (0, "GangTooLarge")
    world.until("an event says so", lambda: world.events().get("GangTooLarge") == 1)
    first = uid(world)
    world.patch_job("digits", {"spec": {"replicaSpecs": {"trainer": {"replicas": 3}}}})
    runs(world)
    assert size(world) == 3, "it was made again: its number cannot be changed"
    assert uid(world) != first


def a_gang_of_higher_priority_takes_the_room_of_another(world: Driver) -> None:
    name = f"urgent-{len(world.owners(PRIORITYCLASSES))}"
    world.create(
        PRIORITYCLASSES,
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": 1000},
    )
    world.apply(gang(4, "lowly", restartPolicy="OnNodeFail"))
    runs(world, "lowly")
    world.apply(gang(4, "urgent", spec={"priority": name}))
    runs(world, "urgent")
    assert placed(world, "urgent") == 4
    assert {pod["spec"]["priority"] for n, pod in world.pods().items() if n.startswith("urgent-")} == {1000}


def a_replica_is_replaced_in_its_gang(world: Driver) -> None:
    world.apply(gang(3))
    runs(world)
    before, made = world.uids(), uid(world)
    world.delete_pod("digits-trainer-1")
    gone = (None, before["digits-trainer-1"])
    world.until("another is in its place", lambda: world.uids().get("digits-trainer-1") not in gone)
    runs(world)
    assert world.pods()["digits-trainer-1"]["spec"]["schedulingGroup"] == {"podGroupName": "digits"}
    assert uid(world) == made


def one_that_restarts_beside_others_that_have_succeeded_does_not_wait_for_them(world: Driver) -> None:
    """Pods that have ended are in no gang any more: for those that are left its number is out of reach."""
    flaky = play(failing_attempts=1, failing_exit_code=137, failing_run_seconds=6, run_seconds=3)
    both = job(
        {
            "quick": gang(2, annotations=play(run_seconds=2))["spec"]["replicaSpecs"]["trainer"],
            "slow": gang(1, annotations=play(run_seconds=60))["spec"]["replicaSpecs"]["trainer"],
            "flaky": gang(1, annotations=flaky, restartPolicy="ExitCode", restartScope="Pod")["spec"]["replicaSpecs"][
                "trainer"
            ],
        }
    )
    world.apply(both)
    world.until("the flaky one has failed", lambda: world.status().get("restarts", {}) != {})
    world.until("it ends", lambda: world.status()["replicaStatuses"]["flaky"].get("succeeded") == 1)


def a_suspended_gang_gives_its_room_and_comes_back_whole(world: Driver) -> None:
    world.apply(gang(4))
    runs(world)
    world.patch_job("digits", {"spec": {"suspend": True}})
    world.until("its pods and its group are gone", lambda: (world.pods(), group(world)) == ({}, None))
    world.patch_job("digits", {"spec": {"suspend": False}})
    runs(world)
    assert (size(world), placed(world, "digits")) == (4, 4)


def a_group_that_somebody_deletes_is_made_again_when_it_is_needed(world: Driver) -> None:
    """Its pods hold it until the last of them is gone."""
    world.apply(gang(2, restartPolicy="ExitCode", restartScope="All"))
    runs(world)
    first = uid(world)
    world.delete_pod_group("digits")
    world.end_pod("digits-trainer-0", 137)
    world.until("both were restarted", lambda: uid(world) not in ("", first) and world.phase() == "Running")
    assert size(world) == 2


def a_group_of_somebody_else_is_left_alone(world: Driver) -> None:
    theirs = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "digits"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}},
    }
    world.create(POD_GROUPS, theirs)
    world.apply(gang(2))
    told(world, 'PodGroup "digits" exists already and does not belong to this job: delete it, or rename the job')
    assert (world.condition("Running")["reason"], world.pods(), world.services()) == ("FailedCreate", {}, [])
    found = group(world)
    assert found is not None
    assert "ownerReferences" not in found["metadata"]


GANG_SCENARIOS: Mapping[str, Callable[[Driver], None]] = {
    scenario.__name__.replace("_", " "): scenario
    for scenario in (
        two_gangs_that_would_each_get_half,
        min_available_starts_with_fewer,
        an_elastic_jobs_minimum_is_its_gang,
        one_that_can_never_fit_is_told_why_and_mended,
        a_gang_of_higher_priority_takes_the_room_of_another,
        a_replica_is_replaced_in_its_gang,
        one_that_restarts_beside_others_that_have_succeeded_does_not_wait_for_them,
        a_suspended_gang_gives_its_room_and_comes_back_whole,
        a_group_that_somebody_deletes_is_made_again_when_it_is_needed,
        a_group_of_somebody_else_is_left_alone,
    )
}
