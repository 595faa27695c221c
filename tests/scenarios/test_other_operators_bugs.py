"""What users of other operators of this kind reported against them, and what holds here instead.

One row a report. A row is either a test of this file or names the test elsewhere that shows it;
`test_every_row_is_shown` holds that those exist. The rows about gangs (kuberay#4476) and MPI launchers
(mpi-operator#386, #868, #687) come with those.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from tests.scenarios.scenarios import SCENARIOS
from tests.scenarios.test_faults import OVER_QUOTA
from tests.scenarios.world import CRD, CountingTransport, World, job, play, role
from tests.support.passes import reconcile_key
from tjworker.api.resources import EVENTS
from tjworker.kube.port import HttpResponse

HERE = "tests.scenarios.test_other_operators_bugs"
UNIT = "tests.unit.tjworker.reconcile"
SHOWN: Mapping[str, str] = {
    "finished jobs slow new ones down (trainer#965, #1186, volcano#4964)": (
        f"{HERE}.test_ten_thousand_finished_jobs_cost_nothing"
    ),
    "many jobs at once block one another (kuberay#2646, #3909)": (
        f"{HERE}.test_a_big_job_does_not_keep_a_small_one_waiting"
    ),
    "a node dies, the job stays Restarting for ever (trainer#720, #2072)": (
        f"{HERE}.test_a_pod_that_hangs_in_deletion_on_a_dead_node_is_replaced"
    ),
    "a graceful node shutdown leaves failed pods (trainer#1570, jobset#574)": (
        "a node that shuts down in order moves its pods, and fails nobody"
    ),
    "a pod removed early makes a finished job run again (trainer#1186, #3737, #156)": (
        f"{UNIT}.policies.test_completion.test_a_success_that_was_written_down_is_never_run_again"
    ),
    "a child's TTL makes the job run again (trainer#2991, #3737)": "a finished job costs nothing, whatever its pods do",
    "a stale cache makes too many pods (kuberay#715, #704)": "tests.simulation.faults.stale_views.fault",
    "deleted and created again under one name (trainer#1306, volcano#1241)": "tests.simulation.faults.made_again.play",
    "a task delivered twice (celery#5935, #3270)": "tests.simulation.faults.lost_tasks.fault",
    "a status lost on a conflict (mpi-operator#607, trainer#3009, #668)": "tests.simulation.faults.api_refusals.play",
    "a child that cannot be created is not told (trainer#2351)": (
        f"{HERE}.test_a_job_over_its_quota_tries_one_create_a_pass"
    ),
    "limits that miscount (trainer#2045, volcano#2560, #1718)": f"{UNIT}.test_lifecycle_page.test_limits",
    "scaling down restarts those that stay (trainer#1509)": (f"{UNIT}.test_lifecycle_page.test_scaling_from_2_to_3"),
    "a surplus replica keeps the job from completing (trainer#1751)": (
        f"{UNIT}.policies.test_surplus.test_whether_replicas_that_never_started_delay_the_end"
    ),
    "scaling below what has succeeded wedges the job (kueue#12963)": (
        f"{UNIT}.test_phase.test_scaling_below_what_has_succeeded_completes_the_job"
    ),
    "one pod of 100 is Pending for ever (trainer#1282, dlrover#1175)": (
        f"{HERE}.test_one_pod_of_a_hundred_without_room_is_named_and_the_others_go_on"
    ),
    "suspended jobs are queued over and over (kuberay#4443)": (
        "a suspended job costs nothing, resumes and is suspended again"
    ),
    "no exit code, no pod name, no reason (trainer#1749, #869, #2220, katib#848)": (
        f"{UNIT}.policies.test_restart_failed.test_a_failure_says_pod_node_container_code_and_asks_for_the_log"
    ),
    "what moves by itself floods the API server (kueue KEP-168)": (
        f"{UNIT}.test_outcome.test_a_job_that_waits_is_written_no_times"
    ),
    "retries pile up, memory grows (volcano#3597)": f"{HERE}.test_hundreds_of_changes_are_one_entry_in_the_queue",
    "30 deleted pods come back one after another (dlrover#1690)": (
        f"{UNIT}.policies.test_restart_failed.test_every_pod_that_is_deleted_is_counted_however_they_are_seen_to_go"
    ),
    "lists that kill the operator at its start (kuberay#685, kueue#3818)": (
        "tests.unit.watcher.test_sweep.test_what_went_away_without_a_watch_is_swept"
    ),
    "a slow start fails its probe (trainer#1693, #1841)": "tests.unit.watcher.test_health.test_judgement",
    "only cluster-wide installs (trainer#759, kuberay#1106)": (
        "tests.unit.tjworker.kube.test_rbac.test_for_single_namespaces_it_has_nothing_of_the_whole_cluster"
    ),
    "thousands of events for one cause (kueue#13442)": (
        f"{HERE}.test_a_pod_that_fails_again_and_again_is_one_event_with_a_count"
    ),
    "a scale-up and a crash together make copies (kueue#11558, #11553)": "tests.simulation.faults.api_crashes.crash",
    "two paths each start a replacement (dlrover#1259, #1504)": "tests.simulation.faults.purity.play",
    "a new CRD answers 429 (seen)": (
        "tests.unit.tjworker.kube.test_reflector.test_the_wait_that_the_server_names_is_kept_for_lists_and_watches"
    ),
    "an EDL job that is scaled up gets no trainers and is Scaling for ever (seen)": (
        "a TrainingJob that is scaled up gets its trainers and is Running again"
    ),
    "one deleted trainer pod ends the whole EDL job (seen)": (
        "a deleted trainer is replaced, numbered, and ends nothing"
    ),
    "a quiet job is written all the time (seen)": f"{UNIT}.test_outcome.test_a_job_that_waits_is_written_no_times",
    "a quiet EDL job is written all the time, with lists of all pods (seen)": "a quiet TrainingJob is written no more",
    "a CRD that refuses its operator's status (seen)": (
        "tests.integration.test_crd.test_a_whole_status_is_kept_as_written"
    ),
}


@pytest.mark.parametrize("report", SHOWN)
def test_every_row_is_shown(report: str) -> None:
    where = SHOWN[report]
    if where in SCENARIOS:
        return
    module, _, name = where.rpartition(".")
    assert callable(getattr(importlib.import_module(module), name, None)), f"{where} is gone: which test shows it now?"


# -- the work of others ----------------------------------------------------------------------------

FINISHED = 10_000
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def _without_status_subresource() -> Any:
    """So that a job can be made finished, in one request."""
    crd: Any = orjson.loads(orjson.dumps(CRD))
    for version in crd["spec"]["versions"]:
        version.pop("subresources", None)
        version["schema"]["openAPIV3Schema"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return crd


def _finished_world() -> World:
    world = World(seed=1)
    world.cluster.client.patch(
        f"{DEFINITIONS}/{CRD['metadata']['name']}",
        {"spec": {"versions": _without_status_subresource()["spec"]["versions"]}},
    )
    end = {
        "phase": "Succeed",
        "completionTime": "2026-01-01T00:00:00Z",
        "startTime": "2026-01-01T00:00:00Z",
        "observedGeneration": 1,
    }
    for number in range(FINISHED):
        world.apply(job({"trainer": role(1)}, name=f"done-{number}") | {"status": end})
    world.cluster.client.patch(
        f"{DEFINITIONS}/{CRD['metadata']['name']}", {"spec": {"versions": CRD["spec"]["versions"]}}
    )
    return world


@pytest.mark.long
def test_ten_thousand_finished_jobs_cost_nothing() -> None:
    world = _finished_world()
    world.start_watcher()
    world.run().advance(61, step_seconds=20)
    world.queue.publish(world.store.queue.resync(lost_after_seconds=0, everything=True))
    world.run()
    assert world.results == [], "no task ran"
    assert sum(world.transport.counts.values()) == 0, "no worker asked for anything"
    assert world.queue.published == Counter()
    stats = world.store.queue.stats()
    assert (stats.queued, stats.delayed, stats.running, stats.unfinished) == (0, 0, 0, 0)
    world.apply(job({"trainer": role(1)}, name="new")).run()
    assert world.phase("new") == "Running"
    assert len(world.results) <= 3
    assert {key.rpartition("/")[2] for key in world.queue.published} == {"new"}


def test_a_big_job_does_not_keep_a_small_one_waiting() -> None:
    world = World(nodes=4, writes_per_pass=50).apply(job({"trainer": role(200)}, name="big"))
    world.watch()
    world.apply(job({"trainer": role(1)}, name="small"))
    world.watch()
    world.results.append(reconcile_key(world.worker, world.queue.keys.popleft()))
    assert 0 < len(world.pods()) <= 50, "the first turn of the big one"
    world.results.append(reconcile_key(world.worker, world.queue.keys.popleft()))
    assert "small-trainer-0" in world.pods(), "then it is the small one's turn"
    world.run()
    assert (world.phase("small"), world.phase("big"), len(world.pods())) == ("Running", "Running", 201)


@pytest.mark.long
def test_hundreds_of_changes_are_one_entry_in_the_queue() -> None:
    world = World().apply(job({"trainer": role(1)})).run()
    world.queue.published.clear()
    for number in range(200):
        world.patch_job("digits", {"metadata": {"annotations": {"n": str(number)}}})
    world.watch()
    assert sum(world.queue.published.values()) == 1
    assert world.store.queue.stats().queued == 1


# -- nodes -----------------------------------------------------------------------------------------


def test_a_pod_that_hangs_in_deletion_on_a_dead_node_is_replaced() -> None:
    world = World(nodes=2).apply(job({"trainer": role(2, restartPolicy="OnNodeFail", restartScope="Pod")})).run()
    before, node = world.uids(), world.pods()["digits-trainer-0"]["spec"]["nodeName"]
    world.cluster.fail_node(node)
    world.advance(10)
    world.delete_pod("digits-trainer-0")  # by a user, or by the taint manager: no kubelet will confirm it
    world.run().advance(90)
    assert world.phase() == "Running"
    assert world.uids()["digits-trainer-0"] != before["digits-trainer-0"]
    assert world.uids()["digits-trainer-1"] == before["digits-trainer-1"]
    assert world.pods()["digits-trainer-0"]["spec"]["nodeName"] != node


# -- what cannot be had ----------------------------------------------------------------------------


def test_a_job_over_its_quota_tries_one_create_a_pass() -> None:
    class Full(CountingTransport):
        def request(self, method: str, path: str, **more: Any) -> HttpResponse:
            if method == "POST" and path.endswith("/pods"):
                self.counts["refused"] += 1
                return OVER_QUOTA
            return super().request(method, path, **more)

    world = World()
    world.settings = world.settings.model_copy(update={"write_concurrency": 4})
    full = Full(world.cluster)
    world.api._transport = full
    world.worker = world.make_worker("worker-2")
    world.apply(job({"trainer": role(64, ports=())})).run()
    first, passes = full.counts["refused"], len(world.results)
    assert first <= 4, "no more than are under way at once, before it is known"
    world.advance(120, step_seconds=5)
    assert 0 < full.counts["refused"] - first <= len(world.results) - passes
    condition = world.condition("Running")
    assert condition["reason"] == "FailedCreate"
    assert "exceeded quota" in condition["message"]
    assert "exceeded quota" in world.status()["message"]


def test_one_pod_of_a_hundred_without_room_is_named_and_the_others_go_on() -> None:
    big = role(1)
    big["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "9000"}}
    world = World(nodes=4).apply(job({"trainer": role(99), "whale": big})).run()
    before = world.uids()
    world.advance(1200, step_seconds=60)
    assert world.phase() == "Pending"
    assert world.uids() == before
    assert world.condition("Running")["reason"] == "Unschedulable"
    assert world.status()["message"].startswith(
        "pod digits-whale-0 has no node: 0/4 nodes are available: 4 Insufficient cpu."
    )
    assert world.status()["active"] == "99/100"
    assert world.events() == {"Unschedulable": 1}


def test_a_pod_that_fails_again_and_again_is_one_event_with_a_count() -> None:
    crashing = play(run_seconds=1, exit_code=1)
    world = (
        World().apply(job({"trainer": role(1, annotations=crashing, restartPolicy="OnFailure", restartLimit=4)})).run()
    )
    world.advance(90)
    assert world.phase() == "Failed"
    events = [e for e in world.get(EVENTS)["items"] if e["reason"] == "Restarting"]
    assert [e["count"] for e in events] == [4]
