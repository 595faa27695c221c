"""Known objects: what comes out of pages and events, told as a list of steps and what each of them passes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.scripted_api import pod
from tjworker.api.kinds import KNOWN_KINDS
from tjworker.api.observed import PodRecord
from tjworker.api.records_json import decode
from tjworker.api.resources import PODS
from tjworker.base import GroupResource
from watcher.isolation import Skipped
from watcher.known_objects import KnownObjects
from watcher.node_requests import RequestBook
from watcher.projection import Projected

Step = Callable[[KnownObjects], list[Projected] | None]


def page(*shown: tuple[str, int]) -> Step:
    return lambda t: t.page([pod(name, rv) for name, rv in shown])


def event(kind: str, name: str, rv: int, *, ours: bool = True) -> Step:
    return lambda t: t.event(kind, pod(name, rv, ours=ours))


def begin() -> Step:
    return lambda t: t.begin_list()


def end(rv: int) -> Step:
    return lambda t: t.end_list(rv)


def whole(rv: int, *shown: tuple[str, int]) -> tuple[Step, ...]:
    return begin(), page(*shown), end(rv)


@dataclass(frozen=True)
class Case:
    before: tuple[Step, ...]
    then: tuple[Step, ...]
    want: list[str]
    """What `then` passes on: a name with its version, and a minus for what is gone."""


CASES = {
    "a first list is passed on whole": Case((), whole(10, ("a", 3), ("b", 7)), ["a 3", "b 7"]),
    "what a list does not show any more is gone, at the version of the list": Case(
        whole(10, ("a", 3), ("b", 7)), whole(20, ("b", 7)), ["a 20 -"]
    ),
    "what only a page of a list that was given up has shown is gone with the whole one": Case(
        whole(10, ("a", 3)), (begin(), page(("a", 3)), *whole(20, ("b", 15))), ["b 15", "a 20 -"]
    ),
    "what is deleted and made again between two lists is the new one": Case(
        whole(10, ("a", 3)), whole(20, ("a", 18)), ["a 18"]
    ),
    "the event right after the list's version is news": Case(
        whole(10, ("a", 3)), (event("MODIFIED", "a", 11),), ["a 11"]
    ),
    "a deletion of what was never seen is passed on: an earlier watcher may have told of it": Case(
        whole(10), (event("DELETED", "a", 11),), ["a 11 -"]
    ),
    "a stranger's events pass on nothing": Case(whole(10), (event("ADDED", "a", 11, ours=False),), []),
    "what becomes a stranger's is gone for the job that had it": Case(
        whole(10, ("a", 3)), (event("MODIFIED", "a", 11, ours=False),), ["a 11 -"]
    ),
}


def _told(one: Projected) -> str:
    change = one.change
    return f"{change.name} {change.rv}{' -' if change.record is None else ''}"


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_what_is_passed_on(case: Case) -> None:
    known = KnownObjects(PODS, Skipped("pods"))
    for step in case.before:
        step(known)
    told = [_told(one) for step in case.then for one in step(known) or []]
    assert told == case.want


def placed(name: str, rv: int, phase: str = "Running") -> dict[str, Any]:
    """A pod of a job, or of somebody else where it is named so, on a node of its own."""
    made = {**pod(name, rv, ours=name == "ours"), "spec": {"nodeName": f"node-of-{name}", "containers": []}}
    return {**made, "status": {"phase": phase}}


LEAVES: dict[str, Callable[[KnownObjects, str], object]] = {
    "a list does not show it any more": lambda known, name: [step(known) for step in whole(10)],
    "it ends": lambda known, name: known.event("MODIFIED", placed(name, 10, "Succeeded")),
}


@pytest.mark.parametrize("name", ["ours", "theirs"])
@pytest.mark.parametrize("sentence", LEAVES)
def test_a_pod_asks_for_nothing_of_its_node_once(sentence: str, name: str) -> None:
    """Whosever it is: other people's pods are known to the book of requests alone."""
    requests = RequestBook()
    known = KnownObjects(PODS, Skipped("pods"), requests)
    known.begin_list()
    known.page([placed(name, 3)])
    known.end_list(5)
    assert {node: sum_.pods for node, sum_ in requests.touched().items()} == {f"node-of-{name}": 1}
    LEAVES[sentence](known, name)
    assert {node: sum_.pods for node, sum_ in requests.touched().items()} == {f"node-of-{name}": 0}


def test_what_was_seen_of_a_deletion_is_told_until_the_pod_is_gone() -> None:
    """Its kubelet's confirmation sets the grace period to 0."""
    known = KnownObjects(PODS, Skipped("pods"))

    def told(kind: str, rv: int, uid: str = "first", **meta: Any) -> bool | None:
        obj = pod("a", rv, uid=uid)
        obj["metadata"] |= meta
        (projected,) = known.event(kind, obj)
        record = projected.change.record
        if record is None:
            return None
        decoded = decode(PODS, record)
        assert isinstance(decoded, PodRecord)
        return decoded.was_told_to_go

    going: dict[str, Any] = {"deletionTimestamp": "2026-01-01T00:00:40Z", "deletionGracePeriodSeconds": 30}
    confirmed: dict[str, Any] = {"deletionTimestamp": "2026-01-01T00:00:12Z", "deletionGracePeriodSeconds": 0}
    assert told("ADDED", 1) is False
    assert told("MODIFIED", 2, **going) is True
    assert told("MODIFIED", 3, **confirmed) is True
    assert told("MODIFIED", 4, **confirmed) is True, "for as long as it is there"
    assert told("DELETED", 5, **confirmed) is None
    assert told("ADDED", 6, uid="second", **confirmed) is False, "another pod of that name"


STATUS = {"phase": "Running", "conditions": [{"type": "Running", "status": "True"}], "observedGeneration": 1}
REPORTED = {"trainerStatus": {"progressPercentage": 5}, "speed": [], "rescaleSeconds": 3.5}
REFUSED = {"type": "ReportRefused", "status": "True", "reason": "TooLarge"}
QUIET: dict[str, tuple[dict[str, Any], dict[str, Any], bool]] = {
    # (metadata, status) of the event after the one with STATUS; whether it is quiet
    "a report of progress": ({}, {**STATUS, **REPORTED}, True),
    "the condition of a report that was refused": (
        {},
        {**STATUS, "conditions": [*STATUS["conditions"], REFUSED]},  # type: ignore[misc]
        True,
    ),
    "another phase": ({}, {**STATUS, **REPORTED, "phase": "Scaling"}, False),
    "a target of the autoscaler": ({}, {**STATUS, "targets": {"trainer": 3}}, False),
    "an annotation": ({"annotations": {"Preempted": "now"}}, {**STATUS, **REPORTED}, False),
    "a deletion that has begun": ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, STATUS, False),
    "a status that somebody has emptied": ({}, {}, False),
    "an end": ({}, {**STATUS, "phase": "Succeed", "completionTime": "2026-01-01T00:00:00Z"}, False),
}


def a_job(rv: int, metadata: dict[str, Any], status: dict[str, Any], resource: GroupResource) -> dict[str, Any]:
    kind = KNOWN_KINDS[resource]
    meta = {"name": "a", "namespace": "default", "uid": "u", "resourceVersion": str(rv), "generation": 1, **metadata}
    return {
        "apiVersion": kind.api_versions[0],
        "kind": kind.kind,
        "metadata": meta,
        "spec": {},
        "status": kind.placed(status),
    }


@pytest.mark.parametrize("resource", ["aitrainingjobs.elasticdeeplearning.ai", "pytorchjobs.kubeflow.org"])
@pytest.mark.parametrize("sentence", QUIET)
def test_of_a_job_a_change_is_quiet_that_no_pass_decides_on(sentence: str, resource: GroupResource) -> None:
    metadata, status, want = QUIET[sentence]
    known = KnownObjects(resource, Skipped(resource))
    [first] = known.event("ADDED", a_job(1, {}, STATUS, resource))
    [then] = known.event("MODIFIED", a_job(2, metadata, status, resource))
    assert (first.change.quiet, then.change.quiet) == (False, want)
    assert then.change.record
    [again] = known.event("MODIFIED", a_job(3, {}, {**STATUS, "phase": "Restarting"}, resource))
    assert not again.change.quiet
