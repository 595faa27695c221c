"""An outage is told once, its end once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from structlog.testing import capture_logs

from watcher.outage import Outage


@dataclass(frozen=True)
class Case:
    what: Callable[[Outage], None]
    want: list[str]


def fails_five_times(outage: Outage) -> None:
    for _ in range(5):
        outage.fails("pods", "refused")


def both_fail_and_recover(outage: Outage) -> None:
    for _ in range(5):
        outage.fails("pods", "refused")
        outage.fails("nodes", "refused")
    outage.works("pods")
    outage.works("nodes")


CASES: dict[str, Case] = {
    "A server that works says nothing.": Case(lambda outage: outage.works("pods"), []),
    "Many failures are one warning.": Case(fails_five_times, ["warning"]),
    "An outage of everything is one warning and one end.": Case(both_fail_and_recover, ["warning", "info"]),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_said(name: str) -> None:
    case = CASES[name]
    with capture_logs() as lines:
        case.what(Outage(lambda: 0.0))
    assert [line["log_level"] for line in lines if line["log_level"] != "debug"] == case.want
