"""Names and what counts in a pod template."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.builders import make_job
from tjworker.api import labels, naming
from tjworker.api.naming import Port


def container(name: str, **ports: int) -> dict[str, Any]:
    """`aitj_7164=7164` is the port aitj-7164."""
    return {"name": name, "ports": [{"name": n.replace("_", "-"), "containerPort": p} for n, p in ports.items()]}


def template(*containers: Any, **spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": list(containers), **spec}}


@dataclass(frozen=True)
class Case:
    template: Any
    want_containers: tuple[str, ...] = ()
    want_ports: tuple[Port, ...] = ()


CASES: dict[str, Case] = {
    "only containers with the prefix count": Case(
        template(container("sidecar"), container("aitj-a"), container("aitj-b")), ("aitj-a", "aitj-b")
    ),
    "without the prefix the first container counts": Case(template(container("main"), container("sidecar")), ("main",)),
    "the prefix in the middle of a name is none": Case(template(container("main"), container("my-aitj-a")), ("main",)),
    "init containers never count": Case(
        template(container("main"), initContainers=[container("aitj-setup", aitj_1=1)]), ("main",)
    ),
    "only ports with the prefix count": Case(
        template(container("aitj-a", metrics=9090, aitj_7164=7164)), ("aitj-a",), (Port("aitj-7164", 7164),)
    ),
    "ports of containers that do not count do not count": Case(
        template(container("sidecar", aitj_1=1), container("aitj-a", aitj_2=2)), ("aitj-a",), (Port("aitj-2", 2),)
    ),
    "ports of the first container count when none has the prefix": Case(
        template(container("main", aitj_1=1, http=80), container("sidecar", aitj_2=2)), ("main",), (Port("aitj-1", 1),)
    ),
    "ports keep their order over containers": Case(
        template(container("aitj-b", aitj_9=9, aitj_3=3), container("aitj-a", aitj_5=5)),
        ("aitj-b", "aitj-a"),
        (Port("aitj-9", 9), Port("aitj-3", 3), Port("aitj-5", 5)),
    ),
    "a number that two containers name counts once": Case(
        template(container("aitj-a", aitj_x=5), container("aitj-b", aitj_y=5)),
        ("aitj-a", "aitj-b"),
        (Port("aitj-x", 5),),
    ),
    "no ports at all": Case(template({"name": "aitj-a"}), ("aitj-a",)),
    "a port without a name does not count": Case(
        template({"name": "aitj-a", "ports": [{"containerPort": 80}]}), ("aitj-a",)
    ),
    "no containers": Case(template()),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_what_counts(case: Case) -> None:
    assert tuple(c["name"] for c in naming.counted_containers(case.template)) == case.want_containers
    assert naming.counted_ports(case.template) == case.want_ports


def test_labels_of_a_pod_are_exactly_those_that_the_projection_keeps() -> None:
    job = make_job("digits").role("trainer").build()
    found = naming.pod_labels(job, "trainer", 3, 2)
    assert found.keys() <= set(labels.OURS)
    assert found == {
        "group-name": "elasticdeeplearning.ai",
        "job-name": "digits",
        "replica-type": "trainer",
        "replica-name": "trainer",
        "replica-index": "3",
        "restart-attempt": "2",
        "elasticdeeplearning.ai/job-uid": job.uid,
    }
