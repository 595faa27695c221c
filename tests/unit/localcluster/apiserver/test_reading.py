"""Lists: selectors, chunks, and the past."""

from __future__ import annotations

import random

import orjson
import pytest

from localcluster.wire import Request, Response
from tests.unit.localcluster.apiserver.world import CONFIGS, PODS, World, config, pod

SELECTORS: dict[str, tuple[str, list[str]]] = {
    "equality": ("tier=gold", ["a"]),
    "double equality": ("tier==gold", ["a"]),
    "inequality holds for those without the label": ("tier!=gold", ["b", "c"]),
    "a set": ("tier in (gold, tin)", ["a", "b"]),
    "not in a set, or without the label": ("tier notin (gold)", ["b", "c"]),
    "the label is there": ("tier", ["a", "b"]),
    "the label is not there": ("!tier", ["c"]),
    "both requirements": ("tier,tier!=tin", ["a"]),
    "greater than": ("size>5", ["b"]),
}


def test_label_selectors_choose() -> None:
    world = World()
    for name, labels in {"a": {"tier": "gold", "size": "1"}, "b": {"tier": "tin", "size": "10"}, "c": {}}.items():
        world.json("POST", CONFIGS, config(name, labels=labels))
    got = {
        sentence: [item["metadata"]["name"] for item in world.json("GET", CONFIGS, labelSelector=text)["items"]]
        for sentence, (text, _) in SELECTORS.items()
    }
    assert got == {sentence: want for sentence, (_, want) in SELECTORS.items()}


def test_chunks_show_one_moment_whatever_is_written_between_them() -> None:
    seed = random.randrange(10**6)
    rng, world = random.Random(seed), World()
    for index in range(30):
        world.json("POST", CONFIGS, config(f"c{index:02}"))
    whole = world.json("GET", CONFIGS)
    got, token = [], ""
    while True:
        page = world.json("GET", CONFIGS, limit="7", **({"continue": token} if token else {}))
        got += page["items"]
        assert page["metadata"]["resourceVersion"] == whole["metadata"]["resourceVersion"], f"seed {seed}"
        token = page["metadata"].get("continue", "")
        if not token:
            break
        world.json("DELETE", f"{CONFIGS}/c{rng.randrange(30):02}")
        world.json("POST", CONFIGS, config(f"new{rng.randrange(10**6)}"))
    assert got == whole["items"], f"seed {seed}"


def test_a_token_that_is_too_old_comes_with_one_that_goes_on() -> None:
    world = World()
    for name in "abcd":
        world.json("POST", CONFIGS, config(name))
    token = world.json("GET", CONFIGS, limit="2")["metadata"]["continue"]
    world.json("POST", CONFIGS, config("bb"))
    world.api.store.compact_to(world.api.store.revision)
    answer = world.ask("GET", CONFIGS, limit="2", **{"continue": token})
    status = orjson.loads(answer.body)
    assert (answer.status, status["reason"]) == (410, "Expired")
    rest = world.json("GET", CONFIGS, **{"continue": status["metadata"]["continue"]})
    assert [item["metadata"]["name"] for item in rest["items"]] == ["bb", "c", "d"]


def test_items_of_built_in_lists_carry_no_kind() -> None:
    world = World()
    world.json("POST", CONFIGS, config("a"))
    assert set(world.json("GET", CONFIGS)["items"][0]) == {"metadata", "data"}


def test_an_exact_version_is_the_past() -> None:
    world = World()
    world.json("POST", CONFIGS, config("a", "old"))
    version = world.revision
    world.json("PATCH", f"{CONFIGS}/a", {"data": {"a": "new"}}, "application/merge-patch+json")
    items = world.json("GET", CONFIGS, resourceVersion=version, resourceVersionMatch="Exact")["items"]
    assert items[0]["data"] == {"a": "old"}


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
