"""Which answers of the API server say that a PriorityClass is not there, and for how long an answer counts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.scenarios.world import World, job, role
from tjworker.api.resources import PRIORITYCLASSES
from tjworker.base import Invalid, OperatorError, Terminal, Transient
from tjworker.controllers.priorities import CACHED_SECONDS, PriorityClasses

ANSWERS: dict[str, tuple[Any, str | type[OperatorError]]] = {
    "it is there": ({"metadata": {"name": "high"}}, "high"),
    "there is none": (None, ""),
    "it may not be read": (Terminal("forbidden", status=403), ""),
    "no answer came": (Transient("no answer"), Transient),
    "the server has too much to do": (Transient("too many", status=429, retry_after_seconds=1), Transient),
    "the request is none": (Invalid("no", status=400), Invalid),
}


class Asked:
    """What the API server says from now on, and how often it was asked."""

    def __init__(self, answer: Any = None) -> None:
        self.answer, self.times, self.now = answer, 0, 0.0
        kube: Any = SimpleNamespace(get=self._get)
        self.classes = PriorityClasses(kube, lambda: self.now)

    def _get(self, *_: str) -> Any:
        self.times += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def find(self) -> str | type[OperatorError]:
        try:
            return self.classes.find("high")
        except OperatorError as error:
            return type(error)


@pytest.mark.parametrize("sentence", ANSWERS)
@pytest.mark.parametrize("then", ANSWERS)
def test_an_answer_counts_for_a_minute_and_what_is_none_for_no_time(sentence: str, then: str) -> None:
    asked = Asked(ANSWERS[sentence][0])
    want, counts = ANSWERS[sentence][1], isinstance(ANSWERS[sentence][1], str)
    assert asked.find() == want
    asked.answer, next_want = ANSWERS[then]
    asked.now += CACHED_SECONDS - 1
    assert (asked.find(), asked.times) == ((want, 1) if counts else (next_want, 2))
    asked.now += CACHED_SECONDS
    assert asked.find() == next_want


def test_no_pod_is_made_without_its_class_for_want_of_an_answer() -> None:
    """It would have none for good, and be the first to go."""
    world = World(nodes=1, seed=1)
    world.cluster.client.create(
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9},
    )
    get = world.api.get

    def away(resource: Any, namespace: str, name: str) -> Any:
        if resource == PRIORITYCLASSES:
            raise Transient("no answer")
        return get(resource, namespace, name)

    world.api.get = away  # type: ignore[method-assign]
    world.apply(job({"trainer": role(2)}, priority="high"))
    world.run()
    assert not world.pods()
    world.api.get = get  # type: ignore[method-assign]
    world.advance(10)
    assert [pod["spec"].get("priorityClassName") for pod in world.pods().values()] == ["high", "high"]
