"""Watches: where they start, what they show, when they end."""

from __future__ import annotations

from collections.abc import Callable

from localcluster_tests.unit.apiserver.world import CONFIGS, DEFINITION, World, config, events, rocket, seen


def _put(name: str, value: str = "1", **labels: str) -> Callable[[World], None]:
    def act(world: World) -> None:
        body = config(name, value, labels=labels)
        if world.ask("POST", CONFIGS, body).status == 409:
            assert world.ask("PUT", f"{CONFIGS}/{name}", body).status == 200

    return act


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
