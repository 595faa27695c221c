"""What a job's annotations add to it, by KubeDL's names and in its JSON. `ADDONS` is the one place: an addon is a file
and a row here, whatever the kind of the job.

An annotation that cannot be acted on is refused as a wrong spec is (`reconcile.refusals`): nothing is made half, and
what it has added to a job that has begun stays as it is. Pure.
"""

from __future__ import annotations

from tjworker.reconcile.addons import gitsync, hostnetwork, tensorboard
from tjworker.reconcile.addons.addon import Addon

ADDONS: tuple[Addon, ...] = (gitsync.ADDON, hostnetwork.ADDON, tensorboard.ADDON)
