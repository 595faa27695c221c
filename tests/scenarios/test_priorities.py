"""`spec.priority` is the label `priority` of the pods, and their PriorityClass where the cluster has one of that
name."""

from __future__ import annotations

from typing import Any

from tests.scenarios.world import CountingTransport, World, job, role
from tjworker.controllers.priorities import MOST_CACHED, PriorityClasses
from tjworker.kube.client import KubeClient
from tjworker.kube.port import HttpResponse

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
REFUSED = (
    b'{"kind":"Status","reason":"Forbidden","code":403,"message":"priorityclasses.scheduling.k8s.io is forbidden: '
    b'User \\"worker\\" cannot get resource \\"priorityclasses\\" in API group \\"scheduling.k8s.io\\" at the cluster '
    b'scope","details":{"name":"urgent","group":"scheduling.k8s.io","kind":"priorityclasses"}}'
)


def make_class(world: World, name: str, value: int = 1000) -> None:
    world.cluster.client.create(
        CLASSES,
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value},
    )


def spec_of(world: World, pod: str = "digits-trainer-0") -> dict[str, Any]:
    found = world.pods()[pod]
    assert found["metadata"]["labels"].get("priority") == "urgent"
    spec: dict[str, Any] = found["spec"]
    return spec


def test_pods_get_the_class_and_one_look_is_enough_for_many() -> None:
    world = World()
    make_class(world, "urgent")
    for number in range(5):
        world.apply(job({"trainer": role(2)}, name=f"digits-{number}", priority="urgent"))
    world.run()
    found = [spec_of(world, f"digits-{n}-trainer-1") for n in range(5)]
    assert [(s["priorityClassName"], s["priority"]) for s in found] == [("urgent", 1000)] * 5
    assert world.transport.counts["GET priorityclasses"] == 1


def test_without_such_a_class_the_label_stands_alone() -> None:
    world = World().apply(job({"trainer": role(1)}, priority="urgent")).run()
    assert world.phase() == "Running"
    assert "priorityClassName" not in spec_of(world)


def test_the_templates_own_class_goes_before() -> None:
    world = World()
    make_class(world, "urgent")
    make_class(world, "mine", 5)
    mine = role(1)
    mine["template"]["spec"]["priorityClassName"] = "mine"
    world.apply(job({"trainer": mine}, priority="urgent")).run()
    assert spec_of(world)["priorityClassName"] == "mine"


def test_a_job_without_priority_costs_no_look() -> None:
    world = World().apply(job({"trainer": role(1)})).run()
    assert not [what for what in world.transport.counts if "priorityclasses" in what]


def test_who_may_not_look_goes_on_without() -> None:
    class Refusing(CountingTransport):
        def request(self, method: str, path: str, **more: Any) -> HttpResponse:
            return HttpResponse(403, REFUSED) if path.startswith(CLASSES) else super().request(method, path, **more)

    world = World()
    make_class(world, "urgent")
    world.api._transport = Refusing(world.cluster)
    world.apply(job({"trainer": role(1)}, priority="urgent")).run()
    assert world.phase() == "Running"
    assert "priorityClassName" not in spec_of(world)


def test_what_is_remembered_is_bounded() -> None:
    world = World()
    known = PriorityClasses(KubeClient(world.transport), world.clock)
    for number in range(MOST_CACHED + 1):
        assert known.find(f"a{number}") == ""
    assert len(known._known) <= MOST_CACHED
