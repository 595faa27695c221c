"""Parameter servers and masters under a controller: restarts, readiness, and what a failed batch Job says."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from tests.unit.tjworker.reconcile.managed import made_pod, observed_of, plain, running, trainers
from tests.unit.tjworker.reconcile.passes import NOW_TEXT, RULES, after, decide, status_of
from tjworker.api.observed import ContainerRecord
from tjworker.reconcile import Rules


@dataclass(frozen=True)
class Server:
    restarts: int
    want_end: bool
    limit: int | None = None
    rules: Rules = RULES


SERVERS: dict[str, Server] = {
    "four restarts are survived": Server(4, want_end=False),
    "the fifth is the end": Server(5, want_end=True),
    "without a restart no limit is reached, not even 0": Server(0, want_end=False, limit=0),
    "the job's own limit goes before it": Server(2, want_end=True, limit=2),
}


@pytest.mark.parametrize("case", SERVERS.values(), ids=SERVERS.keys())
def test_a_server_that_restarts_too_often_fails_the_job(case: Server) -> None:
    job = plain(1, pservers=1)
    job = replace(
        job, roles=tuple(replace(r, restart_limit=case.limit) if r.name == "pserver" else r for r in job.roles)
    )
    server = replace(
        made_pod("p0", 0, role="pserver"),
        containers=(ContainerRecord("pserver", "running", restarts=case.restarts, ready=True),),
    )
    plan = decide(job, observed_of(job, [server, made_pod("t0", 0)]), rules=case.rules)
    status = status_of(plan)
    assert (status.ending is not None) is case.want_end
    counts = status.restart_counts.get("pserver")
    assert (counts.application if counts else 0) == case.restarts


def test_the_restarts_of_a_role_are_those_of_all_its_servers() -> None:
    job = plain(1, pservers=3)
    servers = [
        replace(
            made_pod(f"p{i}", i, role="pserver"),
            containers=(ContainerRecord("pserver", "running", restarts=restarts, ready=True),),
        )
        for i, restarts in enumerate((1, 0, 3))
    ]
    status = status_of(decide(job, observed_of(job, [*servers, made_pod("t0", 0)])))
    assert (status.ending, status.restart_counts["pserver"].application, status.restarts) == (None, 4, 4)


def test_a_batch_job_that_has_failed_by_itself_ends_the_job_with_its_words() -> None:
    """It was edited: ours has no limit that it could reach."""
    job = running(plain(2), *trainers())
    failed = observed_of(
        job, trainers(), condition="Failed", reason="DeadlineExceeded", message="Job was active too long"
    )
    status = status_of(decide(job, failed))
    assert status.ending is not None
    assert (status.ending.phase, status.ending.message) == (
        "Failed",
        "pod digits-trainer failed: DeadlineExceeded (Job was active too long); its batch Job has failed",
    )
    assert [(f.pod, f.reason, f.time) for f in status.failures] == [("digits-trainer", "DeadlineExceeded", NOW_TEXT)]


def test_a_master_that_has_done_its_work_before_its_trainers_is_started_again_and_fails_nothing() -> None:
    """A ReplicaSet starts what has ended again; only a parameter server has a limit, as in PaddlePaddle EDL."""
    job = plain(1, pservers=1, fault_tolerant=True)
    master = replace(
        made_pod("m0", 0, role="master"), containers=(ContainerRecord("master", "running", restarts=100, ready=True),)
    )
    pods = [master, made_pod("p0", 0, role="pserver"), made_pod("t0", 0)]
    status = status_of(decide(job, observed_of(job, pods)))
    assert (status.ending, status.phase, status.restart_counts["master"].application) == (None, "Running", 100)


def test_a_server_must_be_ready_for_the_job_to_come_to_run_and_not_to_stay_so() -> None:
    job = plain(1, pservers=1)
    unready = [made_pod("p0", 0, role="pserver", state="unready"), made_pod("t0", 0)]
    ready = [made_pod("p0", 0, role="pserver"), made_pod("t0", 0)]
    job = after(job, decide(job, observed_of(job, unready)))
    counts = job.status.replica_statuses["pserver"]
    assert (job.status.phase, counts.scheduled, counts.active, counts.pending) == ("Creating", 1, 0, 0)
    job = after(job, decide(job, observed_of(job, ready)))
    assert job.status.phase == "Running"
    assert decide(job, observed_of(job, unready)).status is None


def test_a_server_that_takes_anothers_place_must_be_ready_as_the_first_had_to_be() -> None:
    """Trainers that look for it would find nobody there."""
    first, trainer = made_pod("p0", 0, role="pserver"), made_pod("t0", 0)
    job = running(plain(1, pservers=1), first, trainer)
    assert job.status.phase == "Running"
    phases = []
    for server in ([], [made_pod("p1", role="pserver", state="unready")], [made_pod("p1", 0, 1, role="pserver")]):
        job = after(job, decide(job, observed_of(job, [*server, trainer])))
        phases.append(job.status.phase)
    assert phases == ["Restarting", "Restarting", "Running"]


def test_a_server_whose_pod_is_refused_says_so_and_one_that_is_only_not_made_yet_says_less() -> None:
    job = plain(1, pservers=1)
    waits = status_of(decide(job, observed_of(job, [made_pod("t0", 0)])))
    assert "pod digits-pserver-0 waits to be made by its ReplicaSet, or for a node" in waits.message
    full = observed_of(job, [made_pod("t0", 0)], reason="FailedCreate", message="exceeded quota")
    refused = decide(job, full)
    want = "pod digits-pserver-0 cannot be made by its ReplicaSet digits-pserver: exceeded quota"
    assert want in status_of(refused).message
    assert [(e.reason, e.message) for e in refused.events] == [("FailedCreate", want)]
    assert decide(after(job, refused), full).status is None
    seen = observed_of(job, [made_pod("t0", 0), made_pod("p0", 0, role="pserver")])
    assert status_of(decide(after(job, refused), seen)).phase == "Running"
