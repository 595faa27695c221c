"""When a resumed term says that it is ready: what the last one projected is kept up to date, while the lists come."""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.kinds import TRAININGJOBS
from tjworker.api.resources import BATCH_JOBS, NODES, PODS
from watcher.feed import Feed

NUMBERS = itertools.count()
RUNTIMES = "trainingruntimes.trainer.kubeflow.org"


def reflector(resource: str, resumed: Any = None, *, synced: bool = False) -> Any:
    vitals = SimpleNamespace(synced=synced)
    return SimpleNamespace(resource=resource, source=f"{resource}/{next(NUMBERS)}", resumed=resumed, vitals=vitals)


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
    reflectors: list[Any]
    want: bool


CASES: dict[str, Case] = {
    "every watch goes on": Case([reflector(PODS, ahead(PODS)), reflector(NODES)], True),
    "one is not open yet": Case(
        [reflector(PODS, ahead(PODS)), reflector(BATCH_JOBS, ahead(BATCH_JOBS, opened=False))], False
    ),
    "one has given up, and its list is waited for": Case(
        [reflector(PODS, ahead(PODS)), reflector(BATCH_JOBS, over(BATCH_JOBS))], False
    ),
    "one is over, since its list is in": Case(
        [reflector(PODS, ahead(PODS)), reflector(BATCH_JOBS, over(BATCH_JOBS), synced=True)], True
    ),
    "the list of what jobs only name is not waited for": Case(
        [reflector(PODS, ahead(PODS)), reflector(RUNTIMES, over(RUNTIMES))], True
    ),
    "a kind that was not installed is not waited for": Case(
        [reflector(PODS, ahead(PODS)), reflector(TRAININGJOBS)], True
    ),
    "a namespace that was not watched in the last term is": Case(
        [reflector(PODS, ahead(PODS)), reflector(PODS)], False
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_what_is_followed(case: Case) -> None:
    feed = Feed.__new__(Feed)
    feed.reflectors = case.reflectors
    feed.resumed = {one.source: one.resumed for one in case.reflectors if one.resumed is not None}
    assert feed.follows is case.want
