"""The line of a status that waits for a pod to go, and the block of ports of a job on the host network."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from tjworker.api.status import Condition, ConditionType, Ending, HostPorts, JobStatus, Phase

AT = "2026-01-01T00:00:00Z"
SHOWS: dict[Phase, str] = {
    "": "of Running",
    "Pending": "of Running",
    "Creating": "of Running",
    "Running": "of Running",
    "Restarting": "of Restarting; of Running",
    "Scaling": "of Scaling; of Running",
    "Suspended": "of Suspended",
    "Terminating": "the job ends in Failed: of the end",
    "Succeed": "of Succeeded",
    "Failed": "of Failed",
    "Timeout": "of Failed",
    "Preempted": "of Failed",
    "NodeFail": "of Failed",
}


def _condition(type_: Any, reason: str = "X", message: str = "") -> Condition:
    return Condition(
        type=type_,
        status="True",
        observed_generation=1,
        last_transition_time=AT,
        reason=reason,
        message=message or f"of {type_}",
    )


def _status(phase: Phase, **fields: Any) -> JobStatus:
    ending = Ending(phase="Failed", reason="X", message="of the end", time=AT) if phase == "Terminating" else None
    conditions = tuple(_condition(type_) for type_ in get_args(ConditionType))
    return JobStatus(phase=phase, ending=ending, conditions=conditions).model_copy(update=fields)


@pytest.mark.parametrize("reason", ["PodNotGone", "FailedDelete"])
@pytest.mark.parametrize("phase", ["Terminating", "Suspended"])
def test_who_waits_for_a_pod_to_go_says_what_holds_it(phase: Phase, reason: str) -> None:
    held = (_condition("Running", reason, "a finalizer holds it"), _condition("Suspended"))
    assert _status(phase, conditions=held).summarised().message == f"{SHOWS[phase]}; a finalizer holds it"


def test_a_block_of_ports_goes_on_at_the_beginning_of_its_range_and_has_each_port_once() -> None:
    for first in (100, 104, 109):
        block = HostPorts(first=first, low=100, high=109)
        ports = [block.at(place) for place in range(10)]
        assert ports == [*range(first, 110), *range(100, first)]
        assert block.at(10) == first
