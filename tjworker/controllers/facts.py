"""Reads the facts that a plan needs beyond the view of its job: one reader for each kind. Writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tjworker.api.model import InvalidJob, TrainingJob
from tjworker.api.needs import ChildNow, Need, NodeNow
from tjworker.api.observed import NodeRecord, Observed
from tjworker.controllers.live_children import read_children
from tjworker.controllers.live_nodes import read_nodes
from tjworker.execution.lease import Lease
from tjworker.kube.client import KubeClient


class Facts:
    """One per process."""

    def __init__(self, kube: KubeClient, every_node: Callable[[], Mapping[str, NodeRecord]], page_size: int) -> None:
        """`every_node` reads all nodes of the projection."""
        self._kube = kube
        self._every_node = every_node
        self._page_size = page_size

    def read(
        self, needs: Sequence[Need], job: TrainingJob | InvalidJob, observed: Observed, lease: Lease
    ) -> tuple[Observed, set[Need]]:
        """Read the first kind of fact among `needs`. Returns `observed` with the answers, and the needs of that kind,
        answered or not. Raises Fenced, and what a request for a required fact raises.

        One kind at a time: a node that turns out to be healthy often makes the other facts unnecessary."""
        nodes = [need for need in needs if isinstance(need, NodeNow)]
        children = [need for need in needs if isinstance(need, ChildNow)]
        if nodes:
            answers = read_nodes(self._kube, [need.name for need in nodes], lease)
            return replace(observed, nodes_now={**observed.nodes_now, **answers}), set(nodes)
        if len(children) < len(needs):
            return replace(observed, every_node=self._every_node()), set(needs).difference(children)
        read = read_children(self._kube, job.name, job.uid, observed, children, lease, self._page_size)
        return read, set(children)
