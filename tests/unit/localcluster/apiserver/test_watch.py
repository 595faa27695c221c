"""Watches: where they start, what they show, when they end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import orjson
import pytest

from tests.unit.localcluster.apiserver.world import CONFIGS, PODS, World, config, events, pod, seen

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


@dataclass(frozen=True)
class Case:
    act: Callable[[World], None]
    want: list[str]
    query: tuple[tuple[str, str], ...] = ()
    path: str = CONFIGS


def _put(name: str, value: str = "1", **labels: str) -> Callable[[World], None]:
    def act(world: World) -> None:
        body = config(name, value, labels=labels)
        if world.ask("POST", CONFIGS, body).status == 409:
            assert world.ask("PUT", f"{CONFIGS}/{name}", body).status == 200

    return act


def _delete(name: str) -> Callable[[World], None]:
    return lambda world: _ok(world.ask("DELETE", f"{CONFIGS}/{name}").status)


def _ok(status: int) -> None:
    assert status == 200


def _all(*acts: Callable[[World], None]) -> Callable[[World], None]:
    def act(world: World) -> None:
        for one in acts:
            one(world)

    return act


CASES: dict[str, Case] = {
    "a create, an update and a delete are one event each": Case(
        _all(_put("n"), _put("n", "2"), _delete("n")), ["ADDED n", "MODIFIED n", "DELETED n"]
    ),
    "an update that changes nothing is no event": Case(_all(_put("n"), _put("n"), _put("n")), ["ADDED n"]),
    "an object that comes into the selector is added": Case(
        _all(_put("n"), _put("n", tier="gold")), ["ADDED n"], (("labelSelector", "tier=gold"),)
    ),
    "an object that leaves the selector is deleted": Case(
        _all(_put("n", tier="gold"), _put("n", tier="tin"), _delete("n")),
        ["ADDED n", "DELETED n"],
        (("labelSelector", "tier=gold"),),
    ),
    "a watch of one name sees that name only": Case(
        _all(_put("n"), _put("m")), ["ADDED m"], (("fieldSelector", "metadata.name=m"),)
    ),
    "a watch of another namespace sees nothing": Case(_put("n"), [], path="/api/v1/namespaces/kube-system/configmaps"),
    "a watch of all namespaces sees it": Case(_put("n"), ["ADDED n"], path="/api/v1/configmaps"),
}


@pytest.mark.parametrize("sentence", CASES)
def test_a_watch_sees_what_comes_after_it(sentence: str) -> None:
    case, world = CASES[sentence], World()
    watch = world.watch(case.path, resourceVersion=world.revision, **dict(case.query))
    case.act(world)
    assert seen(watch) == case.want


@pytest.mark.parametrize("sentence", CASES)
def test_a_watch_from_the_past_sees_the_same(sentence: str) -> None:
    case, world = CASES[sentence], World()
    start = world.revision
    case.act(world)
    assert seen(world.watch(case.path, resourceVersion=start, **dict(case.query))) == case.want


def test_a_watch_without_a_version_begins_with_what_is_there() -> None:
    world = World()
    _put("a")(world)
    watch = world.watch(CONFIGS)
    _put("b")(world)
    assert seen(watch) == ["ADDED a", "ADDED b"]


def test_a_streaming_list_ends_with_a_marked_bookmark() -> None:
    world = World()
    _put("a")(world)
    watch = world.watch(
        CONFIGS, sendInitialEvents="true", resourceVersionMatch="NotOlderThan", allowWatchBookmarks="true"
    )
    (first, _), (second, mark) = events(watch)
    assert (first, second) == ("ADDED", "BOOKMARK")
    assert mark["metadata"] == {"resourceVersion": world.revision, "annotations": {"k8s.io/initial-events-end": "true"}}


def test_the_event_of_a_deletion_carries_its_own_version() -> None:
    world = World()
    _put("a")(world)
    watch = world.watch(CONFIGS, resourceVersion=world.revision)
    _delete("a")(world)
    assert events(watch)[0][1]["metadata"]["resourceVersion"] == world.revision


def test_history_that_is_gone_is_told_as_410_in_the_stream() -> None:
    world = World()
    start = world.revision
    _put("a")(world)
    world.api.store.compact_to(world.api.store.revision)
    watch = world.watch(CONFIGS, resourceVersion=start)
    assert watch.closed
    assert [(kind, obj["code"], obj["reason"]) for kind, obj in events(watch)] == [("ERROR", 410, "Expired")]


def test_time_compacts_and_ends_watches_and_sends_bookmarks() -> None:
    world = World()
    start = world.revision
    _put("a")(world)
    watch = world.watch(CONFIGS, resourceVersion=world.revision, timeoutSeconds="200", allowWatchBookmarks="true")
    world.advance(61)
    assert seen(watch) == ["BOOKMARK"]
    due = world.api.next_due()
    assert due is not None
    assert due <= world.now + 60
    world.advance(140)
    assert watch.closed
    world.advance(400)
    assert world.watch(CONFIGS, resourceVersion=start).closed
    assert world.api.next_due() is None


def test_a_table_watch_sends_its_columns_once() -> None:
    world = World()
    watch = world.watch(PODS, TABLE)
    for name in ("a", "b"):
        world.json("POST", PODS, pod(name))
    first, second = (obj for _, obj in events(watch))
    assert [column["name"] for column in first["columnDefinitions"]][:3] == ["Name", "Ready", "Status"]
    assert second["columnDefinitions"] is None
    assert second["rows"][0]["cells"][:4] == ["b", "0/1", "Pending", "0"]


def test_two_versions_of_a_definition_show_the_same_object_each_in_its_own_words() -> None:
    from tests.contract.kubectl.requests import DEFINITION, rocket

    world = World()
    world.json("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION)
    old = world.watch("/apis/space.example.com/v1alpha1/rockets")
    new = world.watch("/apis/space.example.com/v1/rockets")
    world.json("POST", "/apis/space.example.com/v1/namespaces/default/rockets", rocket("r", pilot="ann"))
    assert [obj["apiVersion"] for watch in (old, new) for _, obj in events(watch)] == [
        "space.example.com/v1alpha1",
        "space.example.com/v1",
    ]


def test_a_hundred_watchers_share_the_bytes_of_an_event() -> None:
    world = World()
    watches = [world.watch(CONFIGS, resourceVersion=world.revision) for _ in range(100)]
    _put("a")(world)
    lines = [watch.poll()[0] for watch in watches]
    assert len({id(line) for line in lines}) == 1
    assert orjson.loads(lines[0])["type"] == "ADDED"
