"""Additions to a job of any kind by annotations, with KubeDL's names and JSON. Each is a file and a row of `ADDONS`.

An unusable annotation is refused like an unusable spec (`reconcile.refusals`). No addon is applied in part. An addon
that a job which has begun already has stays as it is. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

from tjworker.api.model import InvalidJob, TrainingJob
from tjworker.api.observed import Observed
from tjworker.reconcile.addons import gitsync, hostnetwork, tensorboard
from tjworker.reconcile.addons.addon import Addon
from tjworker.reconcile.plan import Plan, Write

ADDONS: tuple[Addon, ...] = (gitsync.ADDON, hostnetwork.ADDON, tensorboard.ADDON)


def remove_addons(job: TrainingJob | InvalidJob, observed: Observed, why: str) -> Iterator[Write]:
    """Deletes of all objects that addons have created for the job."""
    for addon in ADDONS:
        yield from addon.remove(job, observed, why)


def report_addon_failure(job: TrainingJob, now: float, message: str) -> Plan:
    """The plan after the API server refused an object of an addon. Only one addon creates objects."""
    return next((plan for addon in ADDONS if not (plan := addon.report_refusal(job, now, message)).empty), Plan())
