"""What the view says against a node, and what the API server itself says when it is asked: nothing is forced out on the
word of a watch that may be late."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.builders import NodeBuilder, PodBuilder, make_job, make_node, make_pod, make_service, observe
from tests.unit.tjworker.reconcile.passes import (
    NOW,
    RULES,
    UNANSWERED,
    after,
    ago,
    decide,
    deleted,
    nodes_needed,
    status_of,
)
from tjworker.api.model import TrainingJob
from tjworker.api.observed import NodeRecord, Observed
from tjworker.api.resources import NODES
from tjworker.api.timefmt import to_rfc3339
from tjworker.reconcile import Plan, reconcile
from tjworker.reconcile.nodes import ASK_AGAIN_SECONDS

GRACE = RULES.node_failure_grace_seconds
GPU = "nvidia.com/gpu"


def one(restart: str = "OnNodeFail", **status: Any) -> TrainingJob:
    job = make_job().role("trainer", 1, restart=restart, scope="Pod")
    return job.status(phase="Running", start_time=ago(900), **status).build()


def on_node_b(job: TrainingJob, **fields: object) -> PodBuilder:
    return make_pod(job, "trainer", 0).on("node-b").running().but(**fields)


def seen(job: TrainingJob, pod: PodBuilder, *nodes: NodeBuilder, gone: bool = False) -> Observed:
    return observe(pod, make_service(job, "trainer", 0), *nodes, gone=("node-b",) if gone else (), seen={NODES: 50})


ILL = make_node("node-b").not_ready(ago(40))
WELL = make_node("node-b")


@dataclass(frozen=True, slots=True)
class Asked:
    view: NodeBuilder | None
    live: NodeRecord | None
    want_deleted: bool
    want_next_seconds: float | None = GRACE
    pod: Callable[[PodBuilder], PodBuilder] = lambda p: p


GPU_POD: Callable[[PodBuilder], PodBuilder] = lambda p: p.but(gpus={GPU: 2})  # noqa: E731
NO_GPU, ALL_GPUS = make_node("node-b", **{GPU: "0"}), make_node("node-b", **{GPU: "2"})
FAULT = NO_GPU.but(allocatable={GPU: "8"}).condition("GPUFault", "Xid 79")
ANSWERS = {
    "not Ready in the view, and so says the API server: forced out": Asked(ILL, ILL.build(), True),
    "not Ready in the view, and Ready again since: left alone": Asked(ILL, WELL.build(), False),
    "not Ready in the view, Ready since, and not Ready again for 5 s: its grace counts from there": Asked(
        ILL, make_node("node-b").not_ready(ago(5)).build(), False, GRACE - 5
    ),
    "not Ready in the view, and gone since: its grace counts from when that is seen": Asked(ILL, None, False, None),
    "gone from the view, and from the API server: forced out": Asked(None, None, True),
    "a node that the view has never shown, and that is there: left alone": Asked(None, WELL.build(), False),
    "gone from the view, there, and not Ready for longer than the grace: forced out": Asked(None, ILL.build(), True),
    "gone from the view, and nodes have become forbidden: left alone": Asked(
        None, UNANSWERED, False, ASK_AGAIN_SECONDS
    ),
    "not Ready in the view, and the API server does not answer: left alone": Asked(
        ILL, UNANSWERED, False, ASK_AGAIN_SECONDS
    ),
    "short of GPUs in the view, and so says the API server: replaced": Asked(NO_GPU, NO_GPU.build(), True, pod=GPU_POD),
    "short of GPUs in the view, and its plugin is back since: left alone": Asked(
        NO_GPU, ALL_GPUS.build(), False, pod=GPU_POD
    ),
    "a GPU fault in the view, and so says the API server: replaced": Asked(FAULT, FAULT.build(), True, pod=GPU_POD),
    "a GPU fault in the view, mended since: left alone": Asked(FAULT, ALL_GPUS.build(), False, pod=GPU_POD),
}


@pytest.mark.parametrize("case", ANSWERS.values(), ids=ANSWERS.keys())
def test_what_the_api_server_says_of_a_node_decides(case: Asked) -> None:
    job = one(missing_nodes={} if case.view else {"node-b": ago(40)}, short_nodes={"node-b": {GPU: ago(40)}})
    view = seen(job, case.pod(on_node_b(job)), *([case.view] if case.view else []), gone=case.view is None)
    plan = decide(job, view, live={"node-b": case.live})
    assert (deleted(plan) == ["digits-trainer-0"]) is case.want_deleted
    if not case.want_deleted and case.want_next_seconds is not None:
        assert plan.requeue_after_seconds == case.want_next_seconds


NOT_ASKED = {
    "a healthy node": (WELL, {}),
    "a node whose grace is not over": (make_node("node-b").not_ready(ago(GRACE - 1)), {}),
    "an ill node, whose pod has already been forced out": (ILL, {"deleted_at": ago(5), "deletion_asked_at": ago(5)}),
    "a cordoned node": (WELL.cordoned(), {}),
}


@pytest.mark.parametrize(("node", "pod"), NOT_ASKED.values(), ids=NOT_ASKED.keys())
def test_a_node_is_asked_for_only_where_a_pod_would_be_taken_away_for_it(
    node: NodeBuilder, pod: dict[str, object]
) -> None:
    job = one()
    assert nodes_needed(reconcile(job, seen(job, on_node_b(job, **pod), node), NOW, RULES)) == ()


def test_a_node_that_the_view_does_not_show_is_asked_for_once_in_a_grace() -> None:
    job = one(missing_nodes={"node-b": ago(40)})
    view = seen(job, on_node_b(job), gone=True)
    plan = decide(job, view, live={"node-b": WELL.build()})
    assert status_of(plan).missing_nodes == {"node-b": to_rfc3339(NOW)}
    assert nodes_needed(reconcile(after(job, plan), view, NOW + GRACE - 1, RULES)) == ()
    assert nodes_needed(reconcile(after(job, plan), view, NOW + GRACE, RULES)) == ("node-b",)


# -- GPUs that are away ----------------------------------------------------------------------------


def passes(job: TrainingJob, *seconds_and_gpus: tuple[float, str]) -> tuple[TrainingJob, Plan]:
    """Of one pod with two GPUs, on a node that has so many left at these times."""
    plan = Plan()
    for seconds, gpus in seconds_and_gpus:
        view = seen(job, GPU_POD(on_node_b(job)), make_node("node-b", **{GPU: gpus}))
        plan = decide(job, view, now=NOW + seconds)
        job = after(job, plan)
    return job, plan


@dataclass(frozen=True, slots=True)
class Away:
    seen: tuple[tuple[float, str], ...]
    want_deleted: bool


AWAY = {
    "for a moment: nothing happens": Away(((0, "0"),), False),
    "until its plugin is back: nothing happens": Away(((0, "0"), (10, "2"), (60, "2")), False),
    "for the grace: its pod is replaced": Away(((0, "0"), (GRACE, "0")), True),
    "just short of the grace: nothing happens": Away(((0, "0"), (GRACE - 1, "0")), False),
    "twice, each time for less than the grace: nothing happens": Away(
        ((0, "0"), (GRACE - 1, "2"), (GRACE, "1"), (2 * GRACE - 1, "1")), False
    ),
}


@pytest.mark.parametrize("case", AWAY.values(), ids=AWAY.keys())
@pytest.mark.parametrize("restart", ["Always", "OnNodeFail"])
def test_gpus_of_a_node_are_away(case: Away, restart: str) -> None:
    job, plan = passes(one(restart), *case.seen)
    assert (deleted(plan) == ["digits-trainer-0"]) is case.want_deleted
    if case.want_deleted:
        assert job.status.failures[0].message == (f"node node-b has 0 {GPU} since {to_rfc3339(NOW)}, its pods hold 2")


# -- taints ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tainted:
    node: NodeBuilder
    want_lost: bool


TAINTED = {
    "a taint NoExecute for the maintenance of a healthy node: a disruption": Tainted(WELL, False),
    "a node that is unreachable, though not for the grace: lost": Tainted(
        make_node("node-b").unreachable(ago(5)), True
    ),
    "a node that is not Ready: lost": Tainted(make_node("node-b").not_ready(ago(5), "False"), True),
}


@pytest.mark.parametrize("case", TAINTED.values(), ids=TAINTED.keys())
@pytest.mark.parametrize("restart", ["OnFailure", "ExitCode", "OnNodeFail", "Always", "Never"])
def test_a_pod_that_the_taint_manager_deletes(case: Tainted, restart: str) -> None:
    """What is lost with its node fails under OnFailure and ExitCode; what is disrupted restarts under all but Never."""
    job = one(restart)
    pod = on_node_b(job, deleted_at=to_rfc3339(NOW + 25), deletion_asked_at=ago(5), disruption="DeletionByTaintManager")
    status = status_of(decide(job, seen(job, pod, case.node)))
    replaced = {"OnNodeFail", "Always"} if case.want_lost else {"OnFailure", "ExitCode", "OnNodeFail", "Always"}
    assert (status.ending is None) is (restart in replaced)
    if status.ending is None:
        assert (status.restart_counts["trainer"].node, status.restart_counts["trainer"].application) == (1, 0)


def test_a_node_that_is_healthy_again_while_the_watch_is_late_has_lost_no_tainted_pod() -> None:
    job = one("OnFailure")
    pod = on_node_b(job, deleted_at=to_rfc3339(NOW + 25), deletion_asked_at=ago(5), disruption="DeletionByTaintManager")
    plan = decide(job, seen(job, pod, make_node("node-b").not_ready(ago(5))), live={"node-b": WELL.build()})
    assert status_of(plan).ending is None
