"""What a client in the API server's own process is given: values of its own, or those that the server has stored."""

from __future__ import annotations

import random

import pytest

from localcluster.apiserver import ApiServer
from localcluster.client import InProcessClient
from localcluster.wire import Json

PATH = "/api/v1/namespaces/default/configmaps"
A: Json = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1"}}


def _stored(api: ApiServer) -> Json:
    item = api.store.get("configmaps", ("default", "a"))
    assert item is not None
    return item.obj


@pytest.mark.parametrize("shares", [False, True], ids=["its own", "shared"])
def test_answers_and_events_tell_what_is_stored(shares: bool) -> None:
    api = ApiServer(lambda: 1_800_000_000.0, random.Random(3))
    client = InProcessClient(api.handle, shares=shares)
    events = client.watch(PATH, str(api.store.revision))
    made = client.create(PATH, A)
    patched = client.patch(f"{PATH}/a", {"data": {"x": "1"}})
    objects = [made, patched, client.get(f"{PATH}/a"), *(event["object"] for event in events.poll())]
    assert objects == [_stored(api)] * 4
    assert [one is _stored(api) for one in objects] == [shares] * 4
    assert client.get(PATH)["items"][0]["data"] == {"x": "1"}


def test_what_is_shared_with_one_watch_is_what_another_reads_as_bytes() -> None:
    api = ApiServer(lambda: 1_800_000_000.0, random.Random(3))
    since = str(api.store.revision)
    shared, own = (InProcessClient(api.handle, shares=shares).watch(PATH, since) for shares in (True, False))
    client = InProcessClient(api.handle)
    client.create(PATH, A)
    client.delete(f"{PATH}/a")
    events = shared.poll()
    assert [event["type"] for event in events] == ["ADDED", "DELETED"]
    assert events == own.poll()
    assert shared.poll() == own.poll() == []
