"""What the tests must know of a new framework, restart policy, autoscaling policy or job kind: here it is named where
its row is missing, in one place for each registry."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import get_args

import pytest

from tests.model.contract import RESTARTS
from tests.support.guests import GUESTS
from tests.support.kinds import TEST_KINDS
from tests.unit.tjworker.autoscale.test_closed_loop import PLAYED
from tests.unit.tjworker.reconcile.frameworks.test_each_replica import ROLES
from tests.unit.tjworker.reconcile.frameworks.test_environments import CASES
from tjworker.api.kinds import GUEST_KINDS, JOB_KINDS
from tjworker.api.model import GuestFramework, RestartPolicy
from tjworker.autoscale.policies import POLICIES
from tjworker.reconcile.frameworks import FRAMEWORKS
from tjworker.reconcile.policies.restart import RESTART_POLICIES

FRAMEWORK_CASES = {sentence.partition(":")[0].partition(",")[0] for sentence in CASES}
REGISTRIES: Mapping[str, tuple[Collection[str], Mapping[str, Collection[str]]]] = {
    "framework": (
        FRAMEWORKS,
        {
            "ROLES in tests/unit/tjworker/reconcile/frameworks/test_each_replica.py: the roles of its jobs": ROLES,
            "CASES in tests/unit/tjworker/reconcile/frameworks/test_environments.py: what its pods are told": (
                FRAMEWORK_CASES | set(get_args(GuestFramework))  # those of other operators alone: tests/scenarios
            ),
        },
    ),
    "restart policy": (
        get_args(RestartPolicy),
        {
            "RESTART_POLICIES in tjworker/reconcile/policies/restart: its rule": RESTART_POLICIES,
            "RESTARTS in tests/model/contract.py: what it restarts after, by docs/lifecycle.md": RESTARTS,
        },
    ),
    "autoscaling policy": (
        POLICIES,
        {"PLAYED in tests/unit/tjworker/autoscale/test_closed_loop.py: three jobs on one node": PLAYED},
    ),
    "job kind": (
        [str(kind.resource) for kind in JOB_KINDS],
        {"TEST_KINDS in tests/support/kinds.py: its manifests": [str(resource) for resource in TEST_KINDS]},
    ),
    "kind of another operator": (
        [str(kind.resource) for kind in GUEST_KINDS if not kind.companions],  # TrainJob: tests/support/trainer.py
        {"GUESTS in tests/support/guests.py: the roles of its jobs": [str(resource) for resource in GUESTS]},
    ),
}


@pytest.mark.parametrize("registry", REGISTRIES)
def test_every_row_of_a_registry_is_known_to_the_tests(registry: str) -> None:
    names, tables = REGISTRIES[registry]
    assert names
    missing = [
        f"{registry} {name!r} has no row in {table}"
        for table, rows in tables.items()
        for name in names
        if name not in rows
    ]
    assert not missing
