"""Nodes: their health, and what they have to give. PURE.

The record itself is made by `tjworker.api.node_records`: a worker reads a node, too.
"""

from __future__ import annotations

from tjworker.api.node_records import node_record
from tjworker.api.observed import NodeRecord
from tjworker.api.records_json import encode
from tjworker.api.resources import NODES
from tjworker.store.projection import Change
from watcher.projection.base import NO_KEY, Json, Projected


def project_node(obj: Json) -> Projected:
    """A node belongs to no job: its change has an empty key, and the writer puts it where all jobs find it."""
    record = node_record(obj)
    return Projected(Change(NO_KEY, NODES, record.name, record.rv, encode(record)), node_record=record)


def node_signal(record: NodeRecord) -> tuple[object, ...]:
    """What of a node its pods' jobs must hear of at once: readiness, taints, conditions, devices. Free of
    heartbeats."""
    devices = tuple(sorted((name, value) for name, value in record.allocatable.items() if "/" in name))
    return (record.ready, record.unreachable_since, record.unschedulable, tuple(sorted(record.conditions)), devices)
