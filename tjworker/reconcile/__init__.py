"""Decide what to do about a job. Pure: no I/O, no clock, no randomness.

Never imports redis, celery, kubernetes, an HTTP library or a clock: import-linter checks that.
"""

from tjworker.reconcile.addons import report_addon_failure
from tjworker.reconcile.core import reconcile
from tjworker.reconcile.gangs import describe_missing_scheduler
from tjworker.reconcile.plan import Plan
from tjworker.reconcile.policies.died_passes import report_died_passes
from tjworker.reconcile.refusals import refuse_child, report_create_failure, report_delete_failure, take_up
from tjworker.reconcile.rules import Rules

__all__ = [
    "Plan",
    "Rules",
    "describe_missing_scheduler",
    "reconcile",
    "refuse_child",
    "report_addon_failure",
    "report_create_failure",
    "report_delete_failure",
    "report_died_passes",
    "take_up",
]
