"""Additions to a job of any kind by annotations, with KubeDL's names and JSON. Each is a file and a row of `ADDONS`.

An unusable annotation is refused like an unusable spec (`reconcile.refusals`). No addon is applied in part. An addon
that a job which has begun already has stays as it is. Pure.
"""

from __future__ import annotations

from tjworker.reconcile.addons import gitsync, hostnetwork, tensorboard
from tjworker.reconcile.addons.addon import Addon

ADDONS: tuple[Addon, ...] = (gitsync.ADDON, hostnetwork.ADDON, tensorboard.ADDON)
