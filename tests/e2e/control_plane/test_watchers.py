"""Two watchers, one leads: it leaves in order, and its successor is killed. On the real control plane, with the lease
times of production. What happens without a leader is seen afterwards, and nothing is done twice. `-s` shows how long
it took."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from controlplane.process import Process
from tests.e2e.control_plane.install import kubectl
from tests.e2e.control_plane.operator import Operator
from tests.e2e.control_plane.world import RealWorld
from tests.scenarios.world import job, play, role
from tests.support.waiting import PATIENCE_SECONDS
from tjworker.kube import rbac
from tjworker.settings import Settings

TAKE_OVER_SECONDS = 20.0


def lease(operator: Operator) -> dict[str, Any]:
    text = kubectl(operator.plane.kubeconfig, "-n", rbac.NAMESPACE, "get", "lease", "tj-watcher", "-o", "json")
    spec: dict[str, Any] = json.loads(text)["spec"]
    return spec


def leads(operator: Operator, process: Process) -> bool:
    return f"_{process.pid}_" in str(lease(operator).get("holderIdentity", ""))


def _at(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


@pytest.fixture
def second(operator: Operator) -> Iterator[Process]:
    """A watcher beside the operator's own, which is put back at the end."""
    defaults = Settings()
    made = operator.start_process(
        "second-watcher",
        operator.watcher_command,
        operator.plane.kubeconfig_for(rbac.user("watcher")),
        TJ_LEASE_DURATION_SECONDS=str(defaults.lease_duration_seconds),
        TJ_LEASE_RENEW_SECONDS=str(defaults.lease_renew_seconds),
    )
    yield made
    del operator.processes[made.name]
    if operator.processes["watcher"].ended():
        operator.processes["watcher"].start()
    made.stop(PATIENCE_SECONDS)


def begin(world: RealWorld) -> dict[str, str]:
    """Three jobs run; the pods of the three, by name, with their UIDs."""
    world.apply(
        job({"trainer": role(2, annotations=play(), restartPolicy="OnFailure", restartScope="Pod")}, name="stays")
    )
    world.apply(job({"trainer": role(1, annotations=play())}, name="goes"))
    world.apply(job({"trainer": role(1, annotations=play(run_seconds=25))}, name="ends"))
    world.until(
        "all run",
        lambda: (
            (world.phase("stays"), world.phase("goes")) == ("Running", "Running")
            and world.phase("ends") in ("Running", "Succeed")
        ),
    )  # it ends by itself, maybe before the others run
    return world.uids()


def test_a_leader_leaves_and_the_next_is_killed_and_nothing_is_missed_or_done_twice(
    operator: Operator, second: Process, world: RealWorld
) -> None:
    first = operator.processes["watcher"]
    before = begin(world)

    first.stop(PATIENCE_SECONDS)
    world.apply(job({"trainer": role(1, annotations=play())}, name="between"))
    world.until("the second leads", lambda: leads(operator, second))
    world.until("what came meanwhile runs", lambda: world.phase("between") == "Running")
    said = len(first.log.read_text())
    first.start()
    world.until("the first stands by", lambda: "standing by" in first.log.read_text()[said:])

    second.stop(0)
    last_sign = _at(lease(operator)["renewTime"])
    world.apply(job({"trainer": role(3, annotations=play())}, name="unseen"))
    world.delete_pod("stays-trainer-1")
    world.delete("goes")
    world.until("the first leads", lambda: leads(operator, first))
    took_over = _at(lease(operator)["acquireTime"])
    world.until("the unseen job runs", lambda: world.phase("unseen") == "Running")
    runs = _at(world.condition("Running", "unseen")["lastTransitionTime"])
    world.until(
        "the deleted pod is another one",
        lambda: (
            world.phase("stays") == "Running"
            and world.uids().get("stays-trainer-1", before["stays-trainer-1"]) != before["stays-trainer-1"]
        ),
    )
    world.until("the third has ended", lambda: world.phase("ends") == "Succeed")
    world.until("what was deleted is gone", lambda: not [p for p in world.pods() if p.startswith("goes-")])
    world.quiet()
    print(  # noqa: T201  -s shows it
        f"last sign of the killed leader at 0 s; the other leads at {took_over - last_sign:.1f} s; the job that was"
        f" made meanwhile runs at {runs - last_sign:.0f} s; requests of the workers: {dict(world.requests())}"
    )
    assert took_over - last_sign <= TAKE_OVER_SECONDS + world.late_seconds()
    assert world.uids()["stays-trainer-0"] == before["stays-trainer-0"]
    counts = world.status("stays")["restartCounts"]["trainer"]
    assert (counts["user"], counts["application"], counts["node"]) == (1, 0, 0)
    pods = 2 + 1 + 1 + 1 + 3 + 1  # stays, goes, ends, between, unseen, and the one of `stays` that is made again
    assert world.requests()["create pods"] == pods, "each once"
    assert world.requests()["create services"] == pods - 1, "a service outlives its pod"
