"""Restart policies. `RESTART_POLICIES` is the one place: a policy is a file and a row here, and its name in
`api.model.RestartPolicy`. docs/lifecycle.md shows what each one replaces.

The limits that hold for every policy (restartLimit, backoffLimit) and the reach of a restart are in
`policies.restart_failed`.
"""

from __future__ import annotations

from collections.abc import Mapping

from tjworker.api.model import RestartPolicy
from tjworker.reconcile.policies.restart import (
    always,
    exit_code,
    never,
    on_failure,
    on_node_fail,
    on_node_fail_with_exit_code,
)
from tjworker.reconcile.policies.restart.rule import Rule

RESTART_POLICIES: Mapping[RestartPolicy, Rule] = {
    "Never": never.refuse,
    "Always": always.refuse,
    "OnFailure": on_failure.refuse,
    "OnNodeFail": on_node_fail.refuse,
    "ExitCode": exit_code.refuse,
    "OnNodeFailWithExitCode": on_node_fail_with_exit_code.refuse,
}
