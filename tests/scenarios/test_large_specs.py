"""A job that Redis keeps without its spec, since it is too large or rests, is operated as any other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.scenarios.world import World, job, role
from tjworker.base import MOST_KEPT_OF_A_JOB
from tjworker.store.keys import REST_TTL_SECONDS


def test_a_job_with_a_very_large_spec_has_its_pods_and_its_owner_is_told_once() -> None:
    world = World(nodes=1, seed=1)
    large = job({"trainer": role(2)})
    large["metadata"].setdefault("annotations", {})["notes"] = "x" * (2 * MOST_KEPT_OF_A_JOB)
    world.apply(large).run()
    assert len(world.pods()) == 2
    assert world.events()["LargeSpec"] == 1


def test_a_suspended_job_is_resumed() -> None:
    world = World(nodes=1, seed=1)
    waiting = job({"trainer": role(2)})
    waiting["spec"]["suspend"] = True
    world.apply(waiting).run()
    assert world.pods() == {}
    assert world.phase() == "Suspended"
    world.patch_job("digits", {"spec": {"suspend": False}}).run()
    assert len(world.pods()) == 2


SUSPENDED_JOBS = 20


def suspended(name: str) -> dict[str, object]:
    return job({"trainer": role(2)}, name, suspend=True)


def gets_of_a_full_resync(world: World) -> int:
    """GETs of jobs by the worker's passes over every unfinished job."""
    before = world.requests()["get aitrainingjobs"]
    world.queue.keys.extend(world.store.queue.resync(lost_after_seconds=30, everything=True))
    world.run()
    return world.requests()["get aitrainingjobs"] - before


def rest(world: World, jobs: int = 1) -> World:
    """Each job is suspended, and a pass has found that there is nothing to do."""
    for n in range(jobs):
        world.apply(suspended(f"digits-{n}"))
    world.run()
    gets_of_a_full_resync(world)
    return world


def test_suspended_jobs_cost_no_get_at_a_full_resync_but_once_a_day() -> None:
    world = World(nodes=1, seed=1)
    rest(world, SUSPENDED_JOBS)
    assert [gets_of_a_full_resync(world) for _ in range(3)] == [0, 0, 0]
    for key, (version, ends) in world.store._redis.tables.rests.items():
        world.store._redis.tables.rests[key] = version, ends - REST_TTL_SECONDS
    assert [gets_of_a_full_resync(world) for _ in range(2)] == [SUSPENDED_JOBS, 0]
    assert world.pods() == {}


@dataclass(frozen=True)
class Act:
    does: Callable[[World], object]
    want: Callable[[World], bool]


ACTS = {
    "it is resumed": Act(lambda w: w.patch_job("digits-0", {"spec": {"suspend": False}}), lambda w: len(w.pods()) == 2),
    "its spec is edited, and the status says that the edit was seen": Act(
        lambda w: w.patch_job("digits-0", {"spec": {"replicaSpecs": {"trainer": {"replicas": 3}}}}),
        lambda w: w.status("digits-0")["observedGeneration"] == 2 and w.phase("digits-0") == "Suspended",
    ),
    "it is ended by an annotation, which is no new generation": Act(
        lambda w: w.patch_job("digits-0", {"metadata": {"annotations": {"Preempted": "by hand"}}}),
        lambda w: w.phase("digits-0") == "Preempted",
    ),
    "it is deleted": Act(lambda w: w.delete("digits-0"), lambda w: w.jobs() == []),
    "it is deleted and made again, not suspended": Act(
        lambda w: w.delete("digits-0").run().apply(job({"trainer": role(2)}, "digits-0")), lambda w: len(w.pods()) == 2
    ),
}


@pytest.mark.parametrize("sentence", ACTS)
def test_what_happens_to_a_suspended_job_that_rests_is_acted_on_at_once(sentence: str) -> None:
    act, world = ACTS[sentence], rest(World(nodes=1, seed=1))
    act.does(world)
    world.run()
    assert act.want(world), world.status("digits-0") if world.jobs() else "there is no job"


def test_a_job_that_the_api_server_refused_costs_no_get_and_starts_once_it_is_mended() -> None:
    """Before an edit it is not asked again (`reconcile.refusals.is_mended`)."""
    world = World(nodes=1, seed=1)
    refused = job({"trainer": role(2)})
    refused["spec"]["replicaSpecs"]["trainer"]["template"]["spec"]["containers"][0]["imagePullPolicy"] = "Sometimes"
    world.apply(refused).run()
    assert world.phase() == "Failed"
    gets_of_a_full_resync(world)
    assert [gets_of_a_full_resync(world) for _ in range(2)] == [0, 0]
    world.patch_job("digits", {"spec": job({"trainer": role(2)})["spec"]}).run()
    assert len(world.pods()) == 2


def test_a_job_whose_spec_cannot_be_used_is_read_at_each_full_resync() -> None:
    """The reason may lie outside of the job, as here in a setting of the operator."""
    world = World(nodes=1, seed=1, own_namespace="default")
    world.apply(job({"trainer": role(2)})).run()
    assert world.phase() == "Failed"
    gets_of_a_full_resync(world)
    assert [gets_of_a_full_resync(world) for _ in range(2)] == [1, 1]
