"""Reads nodes from the API server (`NodeNow`): one GET for each node and pass. Writes nothing."""

from __future__ import annotations

import random
from collections.abc import Iterable

import structlog

from tjworker.api.node_records import node_record
from tjworker.api.observed import NodeRecord
from tjworker.api.resources import NODES
from tjworker.base import OperatorError
from tjworker.execution.lease import Lease
from tjworker.kube.client import KubeClient

log = structlog.get_logger(__name__)

MOST_ASKED = 100
"""Nodes a pass. If a plan needs more, a random choice is read: the next pass reads others."""


def read_nodes(kube: KubeClient, names: Iterable[str], lease: Lease) -> dict[str, NodeRecord | None]:
    """Name -> record; None for a node that does not exist. Raises Fenced."""
    found: dict[str, NodeRecord | None] = {}
    wanted = list(names)
    for name in wanted if len(wanted) <= MOST_ASKED else random.sample(wanted, MOST_ASKED):
        lease.ensure()
        try:
            raw = kube.get(NODES, "", name)
        except OperatorError as error:
            # Not for each of the others, too: the API server is away, or the operator may read no nodes.
            log.warning("cannot ask for a node; its pods stay", node=name, key=lease.key, error=error.message)
            break
        found[name] = None if raw is None else node_record(raw)
    return found
