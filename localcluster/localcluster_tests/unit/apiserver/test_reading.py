"""Lists: selectors, chunks, and the past."""

from __future__ import annotations

import orjson
import pytest

from localcluster.wire import Request, Response
from localcluster_tests.unit.apiserver.world import CONFIGS, PODS, World, config, pod


def test_a_token_that_is_too_old_comes_with_one_that_goes_on() -> None:
    world = World()
    for name in "abcd":
        world.json("POST", CONFIGS, config(name))
    token = world.json("GET", CONFIGS, limit="2")["metadata"]["continue"]
    world.json("POST", CONFIGS, config("bb"))
    world.api.store.compact(older_than_seconds=-1.0)
    answer = world.ask("GET", CONFIGS, limit="2", **{"continue": token})
    status = orjson.loads(answer.body)
    assert (answer.status, status["reason"]) == (410, "Expired")
    rest = world.json("GET", CONFIGS, **{"continue": status["metadata"]["continue"]})
    assert [item["metadata"]["name"] for item in rest["items"]] == ["bb", "c", "d"]


def _field(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2, len(data)]) + data


def test_protobuf_bodies_are_read() -> None:
    kind = _field(1, b"v1") + _field(2, b"Namespace")
    raw = b"k8s\0" + _field(1, kind) + _field(2, _field(1, _field(1, b"lab")))
    world = World()
    answer = world.api.handle(
        Request("POST", "/api/v1/namespaces", {}, raw, {"content-type": "application/vnd.kubernetes.protobuf"})
    )
    assert isinstance(answer, Response)
    assert (answer.status, orjson.loads(answer.body)["metadata"]["name"]) == (201, "lab")
    broken = world.api.handle(
        Request("POST", "/api/v1/namespaces", {}, raw[:-2], {"content-type": "application/vnd.kubernetes.protobuf"})
    )
    assert isinstance(broken, Response)
    assert broken.status == 400


def test_logs_come_from_whoever_registered_for_them() -> None:
    world = World()
    world.json("POST", PODS, pod("a", nodeName="n1"))
    assert world.ask("GET", f"{PODS}/a/log").status == 500
    asked = []

    def source(namespace: str, name: str, container: str, query: object) -> Response:
        asked.append((namespace, name, container, query))
        return Response(200, b"line\n", "text/plain")

    world.api.log_source = source
    assert world.ask("GET", f"{PODS}/a/log", tailLines="3").body == b"line\n"
    assert asked == [("default", "a", "c", {"tailLines": "3"})]


def test_a_bug_is_a_500_and_not_the_end() -> None:
    world = World()
    world.api._reader = None  # type: ignore[assignment]
    assert world.ask("GET", CONFIGS).status == 500
    assert world.ask("GET", "/version").status == 200


def test_events_are_forgotten_an_hour_after_their_last_change() -> None:
    world = World()
    path = "/api/v1/namespaces/default/events"
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "namespace": "default"},
    }
    world.json("POST", path, event)
    world.advance(3_500)
    assert len(world.json("GET", path)["items"]) == 1
    world.advance(200)
    assert world.json("GET", path)["items"] == []


def test_memory_of_the_past_is_bounded_without_anybody_calling_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("localcluster.storage.HISTORY_EVENTS", 5)
    world = World()
    for index in range(40):
        world.json("POST", CONFIGS, config(f"c{index}"))
    assert len(world.api.store.since("configmaps", world.api.store.compacted)) <= 10
    assert len(world.json("GET", CONFIGS)["items"]) == 40
