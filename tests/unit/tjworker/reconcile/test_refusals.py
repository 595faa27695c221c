"""What cannot be done: specs and children that are refused, and a plan that is always the same."""

from __future__ import annotations

import random
from dataclasses import replace

import orjson

from tests.builders import make_job, make_pod
from tests.unit.tjworker.reconcile.passes import NOW, World, after, created, decide, deleted, everything, status_of
from tjworker.api.model import InvalidJob
from tjworker.api.observed import Observed
from tjworker.api.status import JobStatus
from tjworker.reconcile import Plan, refuse_child, report_create_failure
from tjworker.reconcile.conditions import get_condition


def invalid(status: JobStatus | None = None) -> InvalidJob:
    job = make_job().role("trainer", 2).spec(restartingExitCode="1,999").status(status or JobStatus()).parse()
    assert isinstance(job, InvalidJob)
    return job


def test_a_spec_that_only_the_operator_can_refuse_ends_the_job_and_creates_nothing() -> None:
    plan = decide(invalid())
    condition = get_condition(status_of(plan), "Failed")
    assert condition is not None
    assert (condition.status, condition.reason) == ("True", "InvalidSpec")
    assert "spec.restartingExitCode" in condition.message
    assert "999" in condition.message
    assert plan.writes == ()
    assert status_of(plan).phase == "Failed"
    assert decide(invalid(status_of(plan))).empty


def test_a_running_job_whose_spec_becomes_unusable_is_left_as_it_is_until_it_is_mended() -> None:
    world = World(make_job().role("trainer", 2).build()).settle().all("running").settle()
    plan = decide(invalid(world.job.status))
    assert status_of(plan).phase == "Running"
    assert plan.writes == ()
    condition = get_condition(status_of(plan), "Failed")
    assert condition is not None
    assert (condition.status, condition.reason) == ("False", "InvalidSpec")
    world.job = make_job().role("trainer", 2).status(status_of(plan)).build()
    world.settle()
    condition = get_condition(world.job.status, "Failed")
    assert condition is not None
    assert (condition.status, condition.reason) == ("False", "SpecMended")


def test_a_child_that_the_api_server_calls_invalid_ends_the_job_with_its_words() -> None:
    job = make_job().role("trainer", 2).build()
    plan = refuse_child(job, Observed(), NOW, 'Pod "digits-trainer-0" is invalid: spec.containers[0].image: Required value')
    status = status_of(plan)
    assert (status.phase, status.ending.reason if status.ending else "") == ("Terminating", "InvalidSpec")
    assert "Required value" in (status.ending.message if status.ending else "")


def test_a_child_that_cannot_be_made_for_now_puts_the_servers_words_into_a_condition_once() -> None:
    job = make_job().role("trainer", 2).build()
    started = after(job, decide(job))
    words = 'pods "digits-trainer-0" is forbidden: exceeded quota: gpus'
    status = report_create_failure(started, NOW, words)
    assert status is not None
    condition = get_condition(status, "Running")
    assert condition is not None
    assert (condition.reason, condition.message) == ("FailedCreate", words)
    refused = replace(started, status=status)
    assert report_create_failure(refused, NOW + 60, words) is None
    again = decide(refused, now=NOW + 60)
    assert again.status is None
    assert len(created(again)) == 2
    made = decide(refused, everything(refused, *(make_pod(refused, "trainer", i).running() for i in range(2))))
    condition = get_condition(status_of(made), "Running")
    assert condition is not None
    assert condition.status == "True"


def canonical(plan: Plan) -> bytes:
    return orjson.dumps((plan.status.to_json() if plan.status else None, plan.writes, plan.events, plan.decisions))


def test_the_same_input_in_any_order_gives_the_same_plan_byte_for_byte() -> None:
    seed = random.SystemRandom().randrange(2**32)
    rng = random.Random(seed)
    letters = ["running", "succeeded", "failed", "creating", "evicted", "deleting"]
    for _ in range(300):
        job = make_job().role("b", rng.randrange(1, 5), restart="OnFailure", scope=rng.choice(["Pod", "Replica", "All"]))
        built = job.role("a", rng.randrange(1, 5), restart="Always", scope="Pod").build()
        pods = [
            getattr(make_pod(built, role.name, index), rng.choice(letters))()
            for role in built.roles for index in range(role.replicas) if rng.random() < 0.8
        ]
        seen = everything(built, *pods)
        want = canonical(decide(built, seen))
        shuffled = replace(
            seen,
            pods=tuple(rng.sample(seen.pods, len(seen.pods))),
            services=tuple(rng.sample(seen.services, len(seen.services))),
        )
        assert canonical(decide(built, shuffled)) == want, f"seed {seed}"


def test_any_prefix_of_a_plan_leads_to_the_same_end() -> None:
    seed = random.SystemRandom().randrange(2**32)
    rng = random.Random(seed)
    for _ in range(200):
        base = make_job().role("ps", 1).role("trainer", rng.randrange(1, 4), restart="OnFailure", scope=rng.choice(
            ["Pod", "Replica", "All"]), limit=3)
        worlds = [World(base.build()) for _ in range(2)]
        script = [rng.choice(["running", "fail", "succeed"]) for _ in range(3)]
        for world, cut in zip(worlds, (False, True), strict=True):
            _live(world, script, rng if cut else None)
        whole, cut_off = worlds
        assert whole.job.status.phase == cut_off.job.status.phase, f"seed {seed}"
        assert sorted(whole.pods) == sorted(cut_off.pods), f"seed {seed}"
        assert whole.job.status.restart_counts == cut_off.job.status.restart_counts, f"seed {seed}"


def _live(world: World, script: list[str], crashes: random.Random | None) -> None:
    """Play a script of a life; with `crashes`, the operator dies after a random part of some passes."""
    for what in script:
        for _ in range(8):
            if crashes is not None and crashes.random() < 0.5:
                _crashing_step(world, crashes)
            else:
                world.step()
        world.settle(40)
        if world.job.status.ended or not world.pods:
            break
        if what == "fail":
            first = sorted(n for n in world.pods if "trainer" in n)[0]
            world.set(first, "failed", exit_code=1)
        else:
            world.all("running" if what == "running" else "succeeded")
    world.settle(40)


def _crashing_step(world: World, rng: random.Random) -> None:
    seen = everything(world.job, *world.pods.values())
    plan = decide(world.job, replace(seen, services=tuple(world.services.values())), now=world.now)
    if rng.random() < 0.3:
        return  # before the status write
    world.job = after(world.job, plan)
    for write in plan.writes[: rng.randrange(len(plan.writes) + 1)]:
        world.carry_out(write)


def test_deletes_name_the_uid_that_was_seen() -> None:
    job = make_job().role("trainer", 1, restart="OnFailure", scope="Pod").build()
    plan = decide(job, everything(job, make_pod(job, "trainer", 0).uid("seen-this-one").failed()))
    assert deleted(plan) == ["digits-trainer-0"]
    assert {w.uid for w in plan.writes if hasattr(w, "uid")} == {"seen-this-one"}
