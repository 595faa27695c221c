"""When the pod of a server, which a ReplicaSet keeps, counts as running: every combination of what is known of it."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from tests.support.builders import make_pod, make_training_job
from tjworker.api.observed import ContainerRecord
from tjworker.api.status import JobStatus, Phase
from tjworker.reconcile.slots import _slot_state

CONTAINERS: dict[str, tuple[tuple[str, str], ...]] = {
    "its program runs": (("pserver", "running"),),
    "its program waits": (("pserver", "waiting"),),
    "its program has ended": (("pserver", "terminated"),),
    "its program runs, and so does a sidecar": (("pserver", "running"), ("sidecar", "running")),
    "its program runs, and a sidecar waits": (("pserver", "running"), ("sidecar", "waiting")),
}
PHASES: tuple[Phase, ...] = ("Creating", "Running", "Restarting")


@pytest.mark.parametrize("sentence", CONTAINERS)
def test_a_server_counts_once_it_is_ready_and_as_long_as_its_program_runs(sentence: str) -> None:
    job = make_training_job().build()
    role = next(role for role in job.roles if role.workload == "ReplicaSet")
    program = CONTAINERS[sentence][0][1]
    for ready, phase in product((True, False), PHASES):
        containers: Any = tuple(ContainerRecord(name, state=state) for name, state in CONTAINERS[sentence])  # type: ignore[arg-type]
        pod = replace(make_pod(job, role.name).running(ready=ready).build(), containers=containers, ready=ready)
        want = "running" if ready or (phase == "Running" and program == "running") else "scheduled"
        assert _slot_state(role, pod, 0, 0, "", JobStatus(phase=phase)) == want, (ready, phase)
