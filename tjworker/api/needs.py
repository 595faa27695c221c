"""Facts that a decision rests on and for which the view of a job does not suffice. Data only.

A Plan lists its needs. `tjworker.controllers.facts` reads each kind of fact in its own way and puts the answers into
`Observed`; then the job is decided again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tjworker.api.resources import PODS
from tjworker.base import GroupResource


@dataclass(frozen=True, slots=True, order=True)
class NodeNow:
    """A node as the API server has it now. The view may be a minute late, and a pass may force-delete pods because of
    their node. Without an answer the plan takes the node for healthy."""

    name: str
    required: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class EveryNode:
    """All nodes of the cluster, as the projection has them. Without them the plan does not say whether a gang fits into
    the cluster."""

    required: ClassVar[bool] = False


@dataclass(frozen=True, slots=True, order=True)
class ChildNow:
    """An object of the job as the API server has it now, or that it does not exist. The plan must not be executed
    without the answer."""

    resource: GroupResource
    name: str
    """"*": every one of the job."""
    required: ClassVar[bool] = True


Need = NodeNow | EveryNode | ChildNow
ALL_PODS = ChildNow(PODS, "*")
