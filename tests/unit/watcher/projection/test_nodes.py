"""Nodes to records, and which changes of them wake jobs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.watcher.projection.objects import NODE, changed
from tjworker.api.node_records import node_record
from tjworker.api.observed import NodeRecord
from tjworker.api.records_json import decode
from tjworker.api.resources import NODES
from tjworker.api.timefmt import unix_seconds
from watcher.projection import node_signal, project_node


def test_a_node_keeps_its_health_and_what_it_has() -> None:
    assert node_record(NODE) == NodeRecord(
        "node-a",
        "n1",
        9,
        ready="Unknown",
        ready_since=unix_seconds("2026-01-01T00:00:30Z"),
        reason="NodeStatusUnknown",
        unschedulable=True,
        unreachable_since=unix_seconds("2026-01-01T00:00:40Z"),
        conditions={"GpuXid": "Xid 79"},
        allocatable={"cpu": "4", "memory": "8Gi", "pods": "110", "nvidia.com/gpu": "8"},
        labels={"kubernetes.io/hostname": "a", "disk": "ssd"},
        taints=(("node.kubernetes.io/unreachable", "", "NoExecute"),),
    )
    change = project_node(NODE).change
    assert change.record is not None
    assert decode(NODES, change.record) == node_record(NODE)


SIGNALS: dict[str, tuple[dict[str, Any], bool]] = {
    "A heartbeat is no news.": (changed("status.conditions.0.lastHeartbeatTime", "2026-01-01T01:00:00Z"), False),
    "A change of readiness is.": (changed("status.conditions.0.status", "True"), True),
    "A taint that goes is.": (changed("spec.taints", []), True),
    "A condition that appears is.": (changed("status.conditions.1.status", "True"), True),
    "A device that goes is.": (changed("status.allocatable", {"cpu": "4", "nvidia.com/gpu": "7"}), True),
    "Less memory for pods is not.": (changed("status.allocatable", {"cpu": "3", "nvidia.com/gpu": "8"}), False),
}


@pytest.mark.parametrize("name", SIGNALS)
def test_what_of_a_node_wakes_its_jobs(name: str) -> None:
    node, want = SIGNALS[name]
    assert (node_signal(node_record(node)) != node_signal(node_record(NODE))) is want
