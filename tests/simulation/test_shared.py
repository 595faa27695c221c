"""Controllers and agents read the API server's own objects. None changes one, and each is what its JSON says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from localcluster.apiserver import ApiServer
from localcluster.storage import Event, Item
from tests.simulation.oracles import live
from tests.simulation.quiet import quiet
from tests.simulation.scenarios import SCENARIOS
from tests.simulation.scripts import Scenario
from tests.simulation.world import SimWorld


class _Watched(SimWorld):
    """Keeps every version beside what it was when it was stored. With what simulations do without."""

    cluster_options: Mapping[str, Any] = {"endpoints": True, "kubelet_events": True}
    stored: list[tuple[Item, bytes]]

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.stored = type(self).stored = [(item, orjson.dumps(item.obj)) for item in _all_of(self.cluster.apiserver)]
        tell = self.cluster.apiserver.store.on_event

        def see(event: Event) -> None:
            self.stored.append((event.item, orjson.dumps(event.item.obj)))
            tell(event)

        self.cluster.apiserver.store.on_event = see


def _all_of(api: ApiServer) -> list[Item]:
    return [item for bucket in api.store.buckets() for _, item in api.store.items(bucket)]


LIVES = [
    pytest.param(one, id=name, marks=[pytest.mark.long] if n % 4 or one.long else [])
    for n, (name, one) in enumerate(SCENARIOS.items())
    if n % 2 == 0
]


@pytest.mark.parametrize("scenario", LIVES)
def test_no_stored_object_is_changed_by_its_readers(scenario: Scenario) -> None:
    with quiet():
        live(scenario, more_seconds=0, world_type=_Watched)
    watched = {was["kind"] for was in (orjson.loads(text) for _, text in _Watched.stored)}
    assert {scenario.manifest["kind"], "Pod", "Node"} <= watched, "else this test has watched nothing"
    for item, was in _Watched.stored:
        assert orjson.dumps(item.obj) == item.data == was, "a reader has changed it"
        assert _plain(item.obj), f"{was.decode()} is not what its JSON says"


def _plain(value: Any) -> bool:
    """Of the types that JSON gives: a tuple would differ from the list that another reader gets."""
    if isinstance(value, dict):
        return type(value) is dict and all(type(key) is str and _plain(inner) for key, inner in value.items())
    return all(map(_plain, value)) if type(value) is list else value is None or type(value) in (str, int, float, bool)
