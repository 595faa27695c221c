"""The status's one line: why the job is in its phase."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.support.builders import make_job
from tests.unit.tjworker.reconcile.passes import World


@dataclass
class Line:
    prepare: Callable[[World], object]
    want: str


def _unschedulable(world: World) -> None:
    world.pods["digits-trainer-0"] = world.pods["digits-trainer-0"].unschedulable("0/2 nodes are available.")
    world.settle()


def _restart_without_room(world: World) -> None:
    world.all("running").settle().set("digits-trainer-0", "failed", exit_code=3).settle()
    _unschedulable(world)


LINES = {
    "Pending: the scheduler's words": Line(
        _unschedulable, "pod digits-trainer-0 has no node: 0/2 nodes are available."
    ),
    "Restarting: why, and what it still waits for": Line(
        _restart_without_room,
        "pod digits-trainer-0 on node node-a failed: container aitj-main exited with code 3; restart, scope Pod; "
        "pod digits-trainer-0 has no node: 0/2 nodes are available.",
    ),
    "Running": Line(lambda w: w.all("running").settle(), "the replica is running"),
    "Succeed": Line(lambda w: w.all("succeeded").settle(), "all roles are complete (trainer 1/1)"),
}


@pytest.mark.parametrize("case", LINES.values(), ids=LINES.keys())
def test_the_message_of_the_status_says_why(case: Line) -> None:
    world = World(make_job().role("trainer", 1, restart="OnFailure", scope="Pod").build()).settle()
    case.prepare(world)
    assert world.job.status.message == case.want
