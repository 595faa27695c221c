"""The first status of a job waits for its pods: who reads `status` to know that a job has begun must not be misled
while it is empty and the pods are there (docs/adr/0030)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scenarios.world import CountingTransport, World, job, play, role
from tjworker.api.labels import ANNOTATION_NETWORK_MODE
from tjworker.base import JobKey, Transient
from tjworker.reconcile.first_status import WAIT_SECONDS, YOUNG_SECONDS

KEY = JobKey("aitrainingjobs.elasticdeeplearning.ai/default/digits")
STATUS = "PUT aitrainingjobs/status"
SLOW = play(start_seconds=20, run_seconds=10**6)
"""Pods of which nothing is heard for a while."""


class Room(World):
    """A job whose first pass is over, and none of whose pods has been heard of yet."""

    def __init__(self, *, replicas: int = 2, **role_fields: Any) -> None:
        super().__init__(nodes=1, seed=1)
        self.apply(job({"trainer": role(replicas, annotations=SLOW, **role_fields)}))
        self.before()
        self.turn()

    def before(self) -> None:
        """What comes between the job's creation and its first pass."""

    def turn(self) -> None:
        """One pass over each key that is due; kubelets stand still."""
        self.watch()
        self.work()
        self.watch()

    def later(self, seconds: float) -> None:
        self.clock.now_seconds += seconds
        self.turn()


def test_the_first_pass_makes_the_pods_and_writes_nothing_else() -> None:
    room = Room()
    assert len(room.pods()) == 2
    assert room.status() == {}
    assert {verb for verb in room.transport.counts if not verb.startswith("POST")} == set()


def test_without_news_of_the_pods_the_status_follows_within_a_second_and_counts_from_the_pods() -> None:
    room = Room()
    room.later(WAIT_SECONDS)
    status = room.status()
    assert (status["phase"], room.transport.counts[STATUS]) == ("Pending", 1)
    assert status["startTime"] == min(pod["metadata"]["creationTimestamp"] for pod in room.pods().values())
    assert status["attempts"]["roles"]["trainer"]["made"] == "0-1", "one that vanishes unseen was made"


def test_the_first_news_of_the_pods_is_the_first_status() -> None:
    world = World(nodes=1, seed=1)
    world.apply(job({"trainer": role(1, annotations=play(run_seconds=10**6))}))
    world.until("it runs", lambda: world.phase() == "Running")
    assert world.transport.counts["GET aitrainingjobs"] == 0


class Late(Room):
    def before(self) -> None:
        self.clock.now_seconds += YOUNG_SECONDS


def test_of_an_old_job_the_status_goes_first_as_its_view_may_be_as_old() -> None:
    room = Late()
    assert room.phase() == "Pending"
    assert room.transport.counts[STATUS] == 1


def test_pods_that_vanish_before_the_first_status_are_made_again_after_it() -> None:
    room = Room()
    for name in room.pods():
        room.delete_pod(name, 0)
    room.turn()
    assert (len(room.pods()), room.phase(), room.transport.counts[STATUS]) == (2, "Pending", 1)


def test_a_job_suspended_before_its_first_status_loses_its_pods() -> None:
    room = Room()
    room.patch_job("digits", {"spec": {"suspend": True}})
    room.until("it is suspended", lambda: room.phase() == "Suspended" and not room.pods())


class HostPorts(Room):
    def apply(self, manifest: dict[str, Any]) -> World:
        manifest["metadata"]["annotations"] = {ANNOTATION_NETWORK_MODE: "host"}
        return super().apply(manifest)


def test_of_a_job_with_drawn_ports_the_status_goes_first_as_the_next_pass_may_draw_from_another_range() -> None:
    room = HostPorts()
    assert len(room.pods()) == 2
    assert room.status()["hostPorts"]["attempt"] == 0
    assert next(iter(room.transport.counts)) == STATUS


class Masters(Room):
    def apply(self, manifest: dict[str, Any]) -> World:
        specs = manifest["spec"]["replicaSpecs"]
        return super().apply(job({**specs, "master": {**specs["trainer"], "replicas": 1}}, frameworkType="pytorch"))


def test_a_spec_that_is_spoilt_before_the_first_status_does_not_end_a_job_with_pods() -> None:
    room = Masters()
    room.patch_job("digits", {"spec": {"replicaSpecs": {"master": {"replicas": 2}}}})
    room.turn()
    assert room.phase() != "Failed"
    assert len(room.pods()) == 3
    assert room.condition("Failed")["status"] == "False"
    for name in room.pods():
        room.delete_pod(name, 0)
    room.turn()
    assert room.phase() != "Failed", "what was told is a proof of the start when the pods have gone"
    room.patch_job("digits", {"spec": {"replicaSpecs": {"master": {"replicas": 1}}}})
    room.turn()
    assert len(room.pods()) == 3


def test_a_worker_that_dies_before_it_can_give_the_key_back_has_begun_the_job_once() -> None:
    room = Room()
    uids = room.uids()
    room.store.queue.add([KEY])
    room.queue.publish([KEY])
    room.turn()
    assert room.uids() == uids
    assert room.transport.counts["POST pods"] == 2


class Refused(Room):
    def before(self) -> None:
        self.refuses = True

    def make_transport(self) -> CountingTransport:
        world = self

        class Refusing(CountingTransport):
            def request(self, method: str, path: str, **more: Any) -> Any:
                if method == "POST" and path.endswith("/pods") and world.refuses:
                    raise Transient("exceeded quota", status=403, reason="Forbidden")
                return super().request(method, path, **more)

        return Refusing(self.cluster)

    refuses = True


def test_a_create_that_is_refused_is_told_at_once_with_all_that_the_first_status_says() -> None:
    room = Refused()
    assert (room.phase(), room.condition("Running")["reason"]) == ("Pending", "FailedCreate")
    assert room.condition("Created")["status"] == "True"
    assert "exceeded quota" in room.status()["message"]


@pytest.mark.parametrize("seconds", [0.0, 2.0])
def test_a_view_put_back_to_the_first_moment_makes_no_pods_for_a_job_that_has_ended(seconds: float) -> None:
    """Its minimum observed resourceVersion says that the view is old, and without that the status goes first."""
    world = World(nodes=1, seed=1)
    world.apply(job({"trainer": role(1, annotations=play(run_seconds=1))}))
    world.watch()
    young = world.store.snapshot()
    world.until("it has succeeded", lambda: world.phase() == "Succeed", within_seconds=20)
    tables = world.store.snapshot()
    tables.jobs[KEY] = young.jobs[KEY]
    world.store.restore(tables)
    world.clock.now_seconds += seconds
    world.queue.publish(world.store.queue.add([KEY]))
    made = world.transport.counts["POST pods"]
    world.work()
    assert world.transport.counts["POST pods"] == made
