"""When a worker reads the object that a job names, and when what it has read before will do."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, cast

import pytest

from tests.support.trainer import RESOURCE, RUNTIMES
from tjworker.api import kinds
from tjworker.api.model import InvalidJob
from tjworker.api.status import JobStatus
from tjworker.controllers.references import CACHED_SECONDS, References
from tjworker.kube.client import KubeClient
from tjworker.kube.port import ListPage

RUNTIME = RUNTIMES["torch-distributed"]
KIND = kinds.KNOWN_KINDS[RESOURCE].companions[1].resource
READ_AT = 100


NESTED: list[Any] = reduce(lambda inside, _: [inside], range(300), [])


@dataclass
class _Api:
    """A cluster at READ_AT."""

    runtime: dict[str, Any] = field(default_factory=lambda: RUNTIME)

    def list_page(self, *_: object, **__: object) -> ListPage:
        return ListPage((self.runtime,), READ_AT, "")


def waiting(resource_version: int, *, refused: bool = False) -> InvalidJob:
    spec = {"runtimeRef": {"name": "torch-distributed"}}
    metadata = {"name": "digits", "namespace": "default", "resourceVersion": str(resource_version)}
    job = kinds.parse(RESOURCE, {"metadata": metadata, "spec": spec})
    assert isinstance(job, InvalidJob)
    return replace(job, status=JobStatus(phase="Failed", refused="Spec")) if refused else job


@dataclass(frozen=True)
class Case:
    changed: int
    """Of the runtimes, as the watch shows; 0 where they are not watched."""
    job: InvalidJob
    want: bool
    seconds: float = 1.0


CASES: dict[str, Case] = {
    "A newer job gets what was read before, as no runtime has changed since.": Case(90, waiting(150), True),
    "A change after the reading makes even an older job read again.": Case(101, waiting(50), False),
    "A refused job gets what was read, as its runtime has not been mended since.": Case(
        90, waiting(150, refused=True), True
    ),
    "Without a watch, a job from before the reading gets it.": Case(0, waiting(100), True),
    "Without a watch, a newer job reads again: its user may have edited the runtime.": Case(0, waiting(101), False),
    "Without a watch, a refused job reads again: nothing wakes it when the runtime is mended.": Case(
        0, waiting(50, refused=True), False
    ),
    "An old reading is renewed, whatever the watch says.": Case(90, waiting(50), False, seconds=CACHED_SECONDS),
}


@pytest.mark.parametrize("sentence", CASES)
def test_what_was_read_before_will_do(sentence: str) -> None:
    case, now = CASES[sentence], [0.0]
    references = References(cast("KubeClient", _Api()), lambda: now[0])
    assert references.known(case.job, {KIND: case.changed}) is None, "nothing was read yet"
    assert references.find(case.job) == RUNTIME
    now[0] = case.seconds
    assert (references.known(case.job, {KIND: case.changed}) == RUNTIME) == case.want


@pytest.mark.parametrize(("value", "is_kept"), [("x" * 60_000, True), ("x" * 70_000, False), (NESTED, False)])
def test_a_large_object_is_read_each_time(value: object, is_kept: bool) -> None:
    """A tenant's runtimes must not fill the memory of a worker, which serves all tenants."""
    large = {**RUNTIME, "large": value}
    references = References(cast("KubeClient", _Api(large)), lambda: 0.0)
    assert references.find(waiting(50)) == large
    assert (references.known(waiting(50), {KIND: 90}) is not None) == is_kept
