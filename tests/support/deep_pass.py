"""The app of `benchmarks.support.empty_pass`, with passes that fail as real ones do when Redis goes: from deep inside,
and with one error behind another.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from benchmarks.support.empty_pass import EmptyPass, app, without_a_cluster
from tjworker.base import Transient
from tjworker.controllers.jobs import JobReconciler
from tjworker.controllers.pass_end import EndedPass
from tjworker.worker import tasks
from tjworker.worker.runtime import Runtime

__all__ = ["app"]

FRAMES = 100
"""Pickled as billiard does it, an error from so far below takes more than a pipe holds (64 KiB)."""


class DeepPass(EmptyPass):
    def run(self, key: str, frames: int = FRAMES) -> list[EndedPass]:
        if frames:
            return self.run(key, frames - 1)
        try:
            return super().run(key)
        except Transient as error:
            raise Transient(f"a pass over {key} failed: {error.message}") from error


def _with_deep_passes() -> Runtime:
    made = without_a_cluster()
    return replace(made, jobs=cast(JobReconciler, DeepPass(made.store)))


tasks.use(_with_deep_passes)
