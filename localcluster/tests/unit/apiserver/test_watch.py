"""Watches: where they start, what they show, when they end."""

from __future__ import annotations

from collections.abc import Callable

import orjson

from unit.apiserver.world import CONFIGS, DEFINITION, World, config, events, rocket, seen


def _put(name: str, value: str = "1", **labels: str) -> Callable[[World], None]:
    def act(world: World) -> None:
        body = config(name, value, labels=labels)
        if world.ask("POST", CONFIGS, body).status == 409:
            assert world.ask("PUT", f"{CONFIGS}/{name}", body).status == 200

    return act


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


def test_two_versions_of_a_definition_show_the_same_object_each_in_its_own_words() -> None:
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
