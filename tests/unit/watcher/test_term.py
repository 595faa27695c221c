"""When a resumed term says that it is ready: what the last one projected is kept up to date, while the lists come."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from watcher.term import Term


def informer(resource: str, forerunner: Any = None, *, synced: bool = False) -> Any:
    vitals = SimpleNamespace(synced=synced)
    return SimpleNamespace(resource=resource, forerunner=forerunner, vitals=vitals, relist=lambda epoch: None)


def ahead(resource: str, *, opened: bool = True) -> Any:
    settled = threading.Event()
    if opened:
        settled.set()
    one = SimpleNamespace(resource=resource, settled=settled, stopped=False)
    one.stop = lambda: setattr(one, "stopped", True)
    return one


def over(resource: str) -> Any:
    one = ahead(resource)
    one.stop()
    return one


@dataclass(frozen=True)
class Case:
    informers: list[Any]
    want: bool


CASES: dict[str, Case] = {
    "nothing is followed": Case([informer("pods"), informer("nodes")], False),
    "every watch goes on": Case([informer("pods", ahead("pods")), informer("nodes")], True),
    "one is not open yet": Case(
        [informer("pods", ahead("pods")), informer("jobs", ahead("jobs", opened=False))], False
    ),
    "one has given up, and its list is waited for": Case(
        [informer("pods", ahead("pods")), informer("jobs", over("jobs"))], False
    ),
    "one is over, since its list is in": Case(
        [informer("pods", ahead("pods")), informer("jobs", over("jobs"), synced=True)], True
    ),
    "a kind that was not installed is not waited for": Case(
        [informer("pods", ahead("pods")), informer("podgroups")], True
    ),
    "a namespace that was not watched in the last term is": Case(
        [informer("pods", ahead("pods")), informer("pods")], False
    ),
    "until it is listed": Case([informer("pods", ahead("pods")), informer("pods", synced=True)], True),
}


def term_of(informers: list[Any]) -> Term:
    term = Term.__new__(Term)
    term.informers, term.forerunners = informers, [i.forerunner for i in informers if i.forerunner is not None]
    return term


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_what_goes_on(case: Case) -> None:
    assert term_of(case.informers)._goes_on() is case.want


def test_after_a_loss_of_redis_nothing_goes_on_though_lists_have_been_in() -> None:
    term = term_of([informer("pods", ahead("pods"), synced=True)])
    followed = term.forerunners[0]
    term._relist(1)
    assert (term._goes_on(), followed.stopped) == (False, True)
