"""What ends a role or a job beside the tables of docs/lifecycle.md: evictions of KubeDL's MPIJobs, successes that count
together, and failures that are restarted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import get_args

import pytest

from tests.support.builders import make_job
from tests.unit.tjworker.reconcile.passes import running
from tjworker.api.model import EndPolicy, Enough, TrainingJob
from tjworker.api.observed import PodRecord
from tjworker.api.status import RoleAttempts
from tjworker.reconcile.policies.completion import job_verdict, role_verdict
from tjworker.reconcile.replicas import Replica, RoleView, State

DOES: dict[str, tuple[State, bool]] = {
    "runs": ("running", False),
    "fails, and is to be restarted": ("failed", False),
    "succeeded": ("succeeded", True),
    "failed": ("failed", True),
}
EVICTIONS: dict[str, tuple[State, bool]] = {**DOES, "evicted": ("failed", True)}
"""And one that failed for good as its node needed the room."""
POLICIES: tuple[EndPolicy, ...] = get_args(EndPolicy)


def _view(job: TrainingJob, role: str, does: Sequence[str]) -> RoleView:
    found = replace(job.role(role), replicas=len(does))
    replicas = (Replica(role, i, f"digits-{role}-{i}", 0, *_state(what)) for i, what in enumerate(does))
    return RoleView(found, tuple(replicas), (), RoleAttempts())


def _state(what: str) -> tuple[State, PodRecord | None, bool]:
    state, final = EVICTIONS[what]
    return state, PodRecord("p", "u", 1, reason="Evicted") if what == "evicted" else None, final


def _met(policy: EndPolicy, does: Sequence[str], what: str) -> bool:
    return {"Any": what in does, "Rank0": does[0] == what, "All": set(does) == {what}, "None": False}[policy]


def _rule(complete: EndPolicy, fail: EndPolicy, does: Sequence[str]) -> str:
    if not does:
        return ""  # a role of no replicas is neither
    if _met(complete, does, "succeeded"):
        return "complete"  # goes before failed
    if _met(fail, does, "failed"):
        return "failed"
    if set(does) <= {"succeeded", "failed"} and "failed" in does and complete != "None" and fail != "None":
        return "failed"  # nothing could ever change that
    return ""


@pytest.mark.parametrize("evicted_fails", [True, False])
@pytest.mark.parametrize("complete", POLICIES)
@pytest.mark.parametrize("fail", POLICIES)
def test_an_evicted_pod_fails_a_role_of_kubedls_mpijob_whatever_its_policies_and_no_other(
    complete: EndPolicy, fail: EndPolicy, evicted_fails: bool
) -> None:
    job = make_job().role("trainer", 1, complete=complete, fail=fail).build()
    for does in product(EVICTIONS, repeat=2):
        view = _view(job, "trainer", does)
        view = replace(view, role=replace(view.role, fails_when_evicted=evicted_fails))
        plain = _rule(complete, fail, ["failed" if what == "evicted" else what for what in does])
        want = plain or ("failed" if evicted_fails and "evicted" in does else "")
        assert role_verdict(view) == want, does


@pytest.mark.parametrize("wanted", range(1, 5))
def test_enough_successes_of_these_roles_together_end_a_job_and_those_of_others_do_not(wanted: int) -> None:
    base = make_job().role("extra", 2).role("ps", 2).role("worker", 2).spec(completePolicy="None").build()
    job = replace(base, enough=Enough(("extra", "worker"), wanted))
    for done in product(range(3), repeat=3):
        views = {
            name: _view(job, name, ["succeeded"] * n + ["runs"] * (2 - n))
            for name, n in zip(("extra", "ps", "worker"), done, strict=True)
        }
        verdict = job_verdict(job, views)
        assert verdict.verdict == ("complete" if done[0] + done[2] >= wanted else ""), done
        if verdict.verdict:
            assert verdict.message.startswith(f"{wanted} of extra, worker have succeeded (extra {done[0]}/2")


@pytest.mark.parametrize("together", [True, False], ids=["in one moment", "one after the other"])
def test_a_failure_that_is_restarted_leaves_the_job_alive_whenever_it_is_seen(together: bool) -> None:
    """Beside one that stays failed, with failPolicy All: the job may still come to an end of its own."""
    world = running(restart="ExitCode", scope="Pod", fail="All").set("digits-trainer-0", "failed", exit_code=1)
    if not together:
        world.step()
    world.set("digits-trainer-1", "failed", exit_code=137)
    world.step()
    world.step()
    assert (world.job.status.phase, world.attempts()) == ("Restarting", {"digits-trainer-0": 0, "digits-trainer-1": 1})
    assert world.job.status.restart_counts["trainer"].application == 1
