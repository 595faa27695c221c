"""A restart policy is one function and one row of RESTART_POLICIES; its name is in the API's list."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest

from tests.support.builders import make_job, make_pod
from tests.unit.tjworker.reconcile.passes import World, decide, everything, status_of
from tjworker.api.model import RestartPolicy
from tjworker.reconcile.policies import restart_failed
from tjworker.reconcile.policies.restart import RESTART_POLICIES
from tjworker.reconcile.policies.restart.rule import FailedReplica, RestartRefusal


def test_each_policy_of_the_api_has_its_rule_and_no_rule_is_unknown_to_the_api() -> None:
    assert set(RESTART_POLICIES) == set(get_args(RestartPolicy))


def once_a_replica(failed: FailedReplica) -> RestartRefusal | None:
    """It looks at the memory in the status, and has a limit and words of its own."""
    if failed.diagnosis.kind != "exit" or not failed.attempts.pods.get(str(failed.replica.index)):
        return None
    return RestartRefusal(f"replica {failed.replica.index} has had its one restart", "OneRestartUsed")


def test_a_policy_is_a_function_and_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    once: Any = "OnFullMoon"
    monkeypatch.setattr(restart_failed, "RESTART_POLICIES", {**RESTART_POLICIES, once: once_a_replica})
    job = make_job().role("trainer", 2, scope="Pod").build()
    job = replace(job, roles=tuple(replace(r, restart_policy=once) for r in job.roles))
    world = World(job).settle().all("running").settle()
    for name in ("digits-trainer-0", "digits-trainer-1"):
        world.set(name, "failed").settle().all("running").settle()
    assert world.attempts() == {"digits-trainer-0": 1, "digits-trainer-1": 1}
    status = world.set("digits-trainer-0", "failed").settle().job.status
    assert status.phase == "Failed"
    assert "OneRestartUsed" in [c.reason for c in status.conditions]
    assert status.message.endswith("replica 0 has had its one restart")


REFUSED = {
    "Never": ("Never", "restartPolicy is Never"),
    "ExitCode": ("ExitCode", "restartPolicy ExitCode: exit code 1 is not retryable"),
    "OnNodeFail": ("OnNodeFail", "restartPolicy is OnNodeFail"),
    "OnNodeFailWithExitCode": (
        "OnNodeFailWithExitCode",
        "restartPolicy OnNodeFailWithExitCode: exit code 1 is not retryable",
    ),
}


def test_every_restart_policy_that_refuses_an_exit_has_its_words() -> None:
    refusing = set()
    for policy in get_args(RestartPolicy):
        job = make_job().role("trainer", 1, restart=policy).build()
        if status_of(decide(job, everything(job, make_pod(job, "trainer", 0).failed(1)))).ending is not None:
            refusing.add(policy)
    assert refusing == REFUSED.keys(), "add its words to REFUSED"
