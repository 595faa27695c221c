"""What the operator of chaos serves: its own job kinds, and four of other operators, each kept in another way."""

from __future__ import annotations

from collections.abc import Mapping

from tjworker.api.kinds import KINDS
from tjworker.base import GroupResource
from tjworker.kube.resources import watched

PYTORCH, MPI, TF = map(GroupResource, ("pytorchjobs.kubeflow.org", "mpijobs.kubeflow.org", "tfjobs.training.kubedl.io"))
TRAINER = GroupResource("trainjobs.trainer.kubeflow.org")
GUESTS = (PYTORCH, MPI, TF, TRAINER)
SETTINGS: Mapping[str, str] = {"TJ_KINDS": ",".join(map(str, GUESTS))}
WATCHED = watched((*KINDS, *GUESTS))
