"""A container that cannot be created: the message of its restart."""

from __future__ import annotations

from dataclasses import replace

from tests.support.builders import make_job, make_pod, make_service, observe
from tests.unit.tjworker.reconcile.passes import RULES, condition, decide, status_of


def test_a_container_that_could_not_be_created_is_named_with_its_node_and_for_how_long() -> None:
    rules = replace(RULES, creating_duration_seconds=60, creating_restart_seconds=300)
    job = make_job().role("trainer", 1).build()
    pod = (
        make_pod(job, "trainer", 0)
        .on("node-7")
        .creating("ErrImagePull", "no such image")
        .but(created_at="2026-01-01T00:58:59Z")
    )
    status = status_of(decide(job, observe(pod, make_service(job, "trainer", 0)), rules=rules))
    words = "pod digits-trainer-0 on node node-7 cannot start container aitj-main: ErrImagePull no such image"
    assert f"{words} for 60 s" in condition(status, "Restarting")[2]
