"""Projects nodes: their health and their capacity. Pure.

`tjworker.api.node_records` makes the record, since a worker reads nodes, too.
"""

from __future__ import annotations

from tjworker.api.node_records import node_record
from tjworker.api.observed import NodeRecord
from tjworker.api.records_json import encode
from tjworker.api.resources import NODES
from tjworker.base import Json
from tjworker.store.projection import Change
from watcher.projection.base import NO_KEY, Projected


def project_node(obj: Json) -> Projected:
    """The change has an empty key, since a node belongs to no job. The writer stores it where every job finds it."""
    record = node_record(obj)
    return Projected(Change(NO_KEY, NODES, record.name, record.rv, encode(record)), node_record=record)


def node_signal(record: NodeRecord) -> tuple[object, ...]:
    """The facts of a node that its jobs react to at once: readiness, taints, conditions, devices. Heartbeats do not
    change it."""
    devices = tuple(sorted((name, value) for name, value in record.allocatable.items() if "/" in name))
    return (record.ready, record.unreachable_since, record.unschedulable, tuple(sorted(record.conditions)), devices)
