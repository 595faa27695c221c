"""What cannot be done: specs and children that are refused, and a plan that is always the same."""

from __future__ import annotations

from dataclasses import replace

from tests.support.builders import make_job, make_pod, make_service, observe
from tests.unit.tjworker.reconcile.passes import (
    NOW,
    NOW_TEXT,
    RULES,
    World,
    after,
    condition,
    created,
    decide,
    everything,
    status_of,
)
from tjworker.api.model import InvalidJob
from tjworker.api.observed import Observed
from tjworker.api.status import JobStatus
from tjworker.reconcile import reconcile, refuse_child, report_create_failure


def invalid(status: JobStatus | None = None) -> InvalidJob:
    job = make_job().role("trainer", 2).spec(restartingExitCode="1,999").status(status or JobStatus()).parse()
    assert isinstance(job, InvalidJob)
    return job


def test_a_spec_that_only_the_operator_can_refuse_ends_the_job_and_creates_nothing() -> None:
    plan = decide(invalid())
    condition = status_of(plan).condition("Failed")
    assert condition is not None
    assert (condition.status, condition.reason) == ("True", "InvalidSpec")
    assert "spec.restartingExitCode" in condition.message
    assert "999" in condition.message
    assert plan.writes == ()
    assert status_of(plan).phase == "Failed"
    assert decide(invalid(status_of(plan))).empty


def test_a_job_that_has_begun_goes_on_when_its_spec_becomes_unusable() -> None:
    world = World(make_job().role("trainer", 2).build()).settle().all("running").settle()
    plan = decide(invalid(world.job.status), observe(*world.pods.values(), *world.services.values()))
    assert (status_of(plan).phase, plan.writes) == ("Running", ())
    told = condition(status_of(plan), "Failed")
    assert told[:2] == ("False", "InvalidSpec")
    assert told[2].startswith("spec.restartingExitCode: '1,999': must be a list of exit codes from 0 to 255")
    assert "the job goes on with the last values that could be used, or the defaults" in told[2]
    assert ("Warning", "InvalidSpec") in [(e.type, e.reason) for e in plan.events]
    world.job = invalid(world.job.status).rest or world.job
    world.all("succeeded")
    ended = decide(invalid(status_of(plan)), observe(*world.pods.values(), *world.services.values()))
    assert status_of(ended).ending is not None
    world.job = make_job().role("trainer", 2).status(status_of(plan)).build()
    world.all("running").settle()
    assert condition(world.job.status, "Failed")[:2] == ("False", "SpecMended")


WORDS = 'Pod "digits-trainer-1" is invalid: spec.containers[0].image: Required value'


def test_a_job_whose_first_pods_the_api_server_calls_invalid_is_failed_with_its_words_and_not_for_good() -> None:
    job = make_job().role("trainer", 2).build()
    plan, goes_on = refuse_child(after(job, decide(job)), Observed(), NOW, WORDS, made_pods=False)
    status = status_of(plan)
    assert not goes_on
    assert (status.phase, status.refused, status.completion_time) == ("Failed", "Create", NOW_TEXT)
    assert condition(status, "Failed") == (
        "True",
        "InvalidSpec",
        f"{WORDS}; the job has no pods: edit the job, and it starts",
    )
    assert [c.type for c in status.conditions] == ["Failed"]
    refused = replace(job, status=status)
    assert refuse_child(refused, Observed(), NOW + 60, WORDS, made_pods=False)[0].empty, "told once"
    again = decide(refused, observe(make_service(refused, "trainer", 0)), now=NOW + 60)
    assert (again.status, [w.name for w in again.writes]) == (None, ["digits-trainer-0"]), "nothing of it stays"
    for edited in (replace(refused, generation=2), replace(refused, annotations={"note": "mended"})):
        plan = decide(edited, now=NOW + 60)
        assert (status_of(plan).phase, created(plan)) == ("Pending", ["digits-trainer-0", "digits-trainer-1"])
    expires = replace(refused, ttl_seconds_after_finished=60)
    assert decide(expires, now=NOW + 59).requeue_after_seconds == 1
    assert [w.name for w in decide(expires, now=NOW + 60).writes] == ["digits"]


def test_a_job_that_was_refused_at_once_is_deleted_after_its_ttl() -> None:
    spec = make_job().role("trainer", 2).spec(restartingExitCode="1,999").run_policy(ttlSecondsAfterFinished=3)
    plan = decide(spec.parse())
    assert plan.requeue_after_seconds == 3
    refused = spec.status(status_of(plan)).parse()
    assert decide(refused, now=NOW + 2).requeue_after_seconds == 1
    assert [w.name for w in decide(refused, now=NOW + 3).writes] == ["digits"]


def test_a_refused_pod_of_a_job_that_has_one_is_told_and_takes_nothing_away() -> None:
    job = make_job().role("trainer", 2).build()
    started = after(job, decide(job))
    made = observe(make_pod(job, "trainer", 0).running(), make_service(job, "trainer", 0))
    for observed, made_pods in ((made, False), (Observed(), True)):
        plan, goes_on = refuse_child(started, observed, NOW, WORDS, made_pods=made_pods)
        assert goes_on
        assert (status_of(plan).phase, plan.writes) == ("Pending", ())
        assert condition(status_of(plan), "Running") == ("False", "FailedCreate", WORDS)
        assert status_of(plan).condition("Failed") is None


def test_a_child_that_cannot_be_made_for_now_puts_the_servers_words_into_a_condition_once() -> None:
    job = make_job().role("trainer", 2).build()
    started = after(job, decide(job))
    words = 'pods "digits-trainer-0" is forbidden: exceeded quota: gpus'
    plan = report_create_failure(started, NOW, words)
    status = plan.status
    assert status is not None
    condition = status.condition("Running")
    assert condition is not None
    assert (condition.reason, condition.message) == ("FailedCreate", words)
    refused = replace(started, status=status)
    assert [(e.type, e.reason, e.message) for e in plan.events] == [("Warning", "FailedCreate", words)]
    assert report_create_failure(refused, NOW + 60, words).empty
    assert report_create_failure(refused, NOW + 60, f"{words}, still").events == (), (
        "one event, however the words change"
    )
    again = decide(refused, now=NOW + 60)
    assert again.status is None
    assert len(created(again)) == 2
    made = decide(refused, everything(refused, *(make_pod(refused, "trainer", i).running() for i in range(2))))
    condition = status_of(made).condition("Running")
    assert condition is not None
    assert condition.status == "True"


def test_a_job_that_runs_says_what_cannot_be_made_beside_it_until_that_is_there() -> None:
    """Such as the service of a pod: it is Running, and its peers do not find each other."""
    job = make_job().role("trainer", 1).build()
    pod = make_pod(job, "trainer").running()
    job = after(job, decide(job, everything(job, pod)))
    said = status_of(report_create_failure(job, NOW, "name is taken"))
    assert (said.phase, condition(said, "Running")) == ("Running", ("True", "FailedCreate", "name is taken"))
    assert report_create_failure(replace(job, status=said), NOW + 60, "name is taken").empty
    told = replace(job, status=said)
    again = decide(told, observe(pod))
    assert (again.status, created(again, "services")) == (None, ["digits-trainer-0"]), "it stays, and is tried again"
    there = status_of(decide(told, everything(job, pod)))
    assert condition(there, "Running")[:2] == ("True", "AllReplicasRunning")


def test_a_job_in_the_operators_own_namespace_is_refused_whatever_its_state() -> None:
    """Its pods could take the labels of the operator's Redis, its accounts and its Secrets."""
    served = make_job().role("trainer", 2).build()
    own = replace(RULES, own_namespace=served.name.namespace)
    plan = reconcile(served, Observed(), NOW, own)
    said = status_of(plan).condition("Failed")
    assert said is not None
    assert (said.status, said.reason) == ("True", "InvalidSpec")
    assert "metadata.namespace: default is the operator's own namespace" in said.message
    assert "create the job in another" in said.message
    assert plan.writes == ()
    assert reconcile(replace(served, status=status_of(plan)), Observed(), NOW, own).empty, "it is over"
    assert reconcile(served, Observed(), NOW, replace(RULES, own_namespace="other")).writes != ()
    running = World(served).settle().all("running").settle()
    observed = observe(*running.pods.values(), *running.services.values())
    assert reconcile(running.job, observed, NOW, own).writes == (), "what ran before runs on"
