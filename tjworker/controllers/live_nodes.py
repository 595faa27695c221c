"""Nodes as the API server has them now: what a view says against one may be a minute old, and pods are forced out for
it.

One GET a node a pass. Reads only.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

import structlog

from tjworker.api.node_records import node_record
from tjworker.api.observed import NodeRecord
from tjworker.api.resources import NODES
from tjworker.base import OperatorError
from tjworker.kube.client import KubeClient
from tjworker.lease import Lease

log = structlog.get_logger(__name__)

MOST_ASKED = 100
"""Nodes a pass; of more, any: the next pass asks for others."""


def read_nodes(kube: KubeClient, names: Iterable[str], lease: Lease) -> dict[str, NodeRecord | None]:
    """None for a node that there is not. One that could not be read is left out, and so are those after it: an API
    server that is away, or that lets us read no nodes, is not asked for each. Raises Fenced."""
    found: dict[str, NodeRecord | None] = {}
    asked = list(names)
    for name in asked if len(asked) <= MOST_ASKED else random.sample(asked, MOST_ASKED):
        lease.ensure()
        try:
            raw = kube.get(NODES, "", name)
        except OperatorError as error:
            log.warning("cannot ask for a node; its pods stay", node=name, key=lease.key, error=error.message)
            break
        found[name] = None if raw is None else node_record(raw)
    return found
