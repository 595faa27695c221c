"""The end of a failed container's log: how much is read, and where it is kept."""

from __future__ import annotations

import pytest

from tests.unit.tjworker.execution.executing import Room, refusal, status_of
from tjworker.api.status import Failure
from tjworker.base import Transient
from tjworker.execution.executor import LOG_TAIL_BYTES, LOG_TAIL_LINES, LOG_TAILS_A_PASS, LOG_TAILS_SECONDS
from tjworker.kube.port import HttpResponse
from tjworker.reconcile.plan import LogTail


def failures(*pods: str, tail: str = "") -> tuple[Failure, ...]:
    return tuple(Failure(time="2026-01-01T00:00:00Z", pod=p, container="a", log_tail=tail) for p in pods)


def tails(*pods: str) -> tuple[LogTail, ...]:
    return tuple(LogTail(p, "a") for p in pods)


def test_the_end_of_a_log_is_asked_for_with_bounds_and_lands_with_its_failure() -> None:
    room = Room()
    room.api.instead["GET pods/p/log"] = HttpResponse(200, b"loss is nan")
    room.apply(status=status_of(room).model_copy(update={"failures": failures("p", "q")}), log_tails=tails("p"))
    assert [(f["pod"], f.get("logTail", "")) for f in room.world.status()["failures"]] == [
        ("p", "loss is nan"),
        ("q", ""),
    ]
    assert room.api.queries[0] == {
        "container": "a",
        "tailLines": str(LOG_TAIL_LINES),
        "limitBytes": str(LOG_TAIL_BYTES),
    }


def test_a_log_that_cannot_be_had_delays_nothing_and_the_next_one_is_read() -> None:
    room = Room()
    room.api.instead = {"GET pods/p/log": refusal(500, "InternalError"), "GET pods/q/log": HttpResponse(200, b"bye")}
    room.apply(status=status_of(room).model_copy(update={"failures": failures("p", "q")}), log_tails=tails("p", "q"))
    assert [f.get("logTail", "") for f in room.world.status()["failures"]] == ["", "bye"]


@pytest.mark.parametrize("count", [1, 2, LOG_TAILS_A_PASS, LOG_TAILS_A_PASS + 4])
def test_kubelets_that_stay_silent_cost_two_seconds_in_all_and_the_status_is_written(count: int) -> None:
    room = Room()
    room.api.instead["GET pods"] = Transient("timed out")
    pods = [f"p{n}" for n in range(count)]
    room.apply(status=status_of(room).model_copy(update={"failures": failures(*pods)}), log_tails=tails(*pods))
    waited = [t for asked, t in zip(room.api.asked, room.api.timeouts, strict=True) if "/log" in asked]
    assert sum(waited) == pytest.approx(LOG_TAILS_SECONDS)
    assert [f["pod"] for f in room.world.status()["failures"]] == pods


def test_without_log_tails_no_log_is_read_and_none_stands_in_a_status() -> None:
    """They may hold a password, and who reads the job need not be allowed to read logs."""
    room = Room(log_tails=False)
    room.apply(status=status_of(room).model_copy(update={"failures": failures("p")}), log_tails=tails("p"))
    assert [asked for asked in room.api.asked if "/log" in asked] == []
    assert [failure.log_tail for failure in room.read().status.failures] == [""]
