"""Restart policies. Each is a file, a row of `RESTART_POLICIES` and a name in `api.model.RestartPolicy`.
docs/lifecycle.md shows which failures each of them replaces.

`policies.restart_failed` holds the limits for every policy (restartLimit, backoffLimit) and the scope of a restart.
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
