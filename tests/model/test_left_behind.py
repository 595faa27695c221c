"""Pods whose ReplicaSet or batch Job a user has deleted, and which the garbage collector forgets: the operator counts
them as the user's and, a minute later, takes them. So it was seen on a real control plane whose API server had just
been killed (`docs/lifecycle.md`, Orphans)."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from localcluster.controllers.garbage import GarbageCollector
from tests.model.judge import Judgement
from tests.simulation.faults.histories import lived
from tests.simulation.histories import Act, History
from tests.simulation.quiet import quiet
from tests.simulation.scenarios import trainingjob
from tests.simulation.scripts import Wish

COUNTED = "a restart is counted for a cause that was"
KEEPERS: Mapping[str, int] = {"a master's ReplicaSet": 0, "a server's ReplicaSet": 1, "the trainers' batch Job": 2}


def _life(number: int) -> History:
    made = trainingjob(Wish(run_seconds=1_000_000), pservers=1, fault_tolerant=True)
    return History(1, made, (Act(60, "object deleted", number),))


@pytest.mark.parametrize("keeper", KEEPERS)
def test_a_pod_that_is_left_behind_counts_as_deleted_by_a_user(keeper: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GarbageCollector, "_delete", lambda self, resource, obj, policy: None)
    said = _said(_life(KEEPERS[keeper]))
    assert said.wrong == ()
    assert said.reached[COUNTED]


def _said(history: History) -> Judgement:
    with quiet():
        return lived(history)[1]
