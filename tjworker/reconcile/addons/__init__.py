"""What a job's annotations add to it, by KubeDL's names and in its JSON. `ADDONS` is the one place: an addon is a file
and a row here, whatever the kind of the job.

An annotation that cannot be acted on is refused as a wrong spec is: nothing is made half. Pure.
"""

from __future__ import annotations

from tjworker.api.model import InvalidJob, TrainingJob
from tjworker.reconcile.addons import gitsync, hostnetwork, tensorboard
from tjworker.reconcile.addons.addon import Addon
from tjworker.reconcile.rules import Rules

ADDONS: tuple[Addon, ...] = (gitsync.ADDON, hostnetwork.ADDON, tensorboard.ADDON)


def add_all(job: TrainingJob, rules: Rules) -> TrainingJob | InvalidJob:
    """The job as its annotations want it, or what is wrong with these."""
    chosen = [addon for addon in ADDONS if addon.annotation in job.annotations]
    errors = tuple(error for addon in chosen for error in addon.errors(job, rules))
    if errors:
        return InvalidJob.of(job, errors)
    for addon in chosen:
        job = addon.apply(job, rules)
    return job
