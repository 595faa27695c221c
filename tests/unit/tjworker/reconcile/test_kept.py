"""What the death of a pod means where a ReplicaSet or a batch Job replaces it; and what is written for those workloads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.builders import make_node
from tests.paths import ROOT
from tests.unit.tjworker.reconcile.kept import kept_pod, observed_of, owner, plain, tolerant
from tests.unit.tjworker.reconcile.passes import NOW, NOW_TEXT, SETTINGS, after, created, decide, deleted, status_of
from tjworker.api.model import TrainingJob
from tjworker.api.observed import ContainerRecord, Observed, PodRecord
from tjworker.api.status import Attempts, JobStatus, RoleAttempts
from tjworker.api.timefmt import to_rfc3339
from tjworker.reconcile import Plan
from tjworker.reconcile.plan import Create, Delete, Patch
from tjworker.settings import Settings

SICK = make_node("node-b").not_ready(to_rfc3339(NOW - 60), "False", "KubeletNotReady").build()


def patches(plan: Plan, resource: str = "pods") -> dict[str, Mapping[str, Any]]:
    return {w.name: w.body for w in plan.writes if isinstance(w, Patch) and w.resource == resource}


def body(plan: Plan, name: str) -> Mapping[str, Any]:
    return next(w.body for w in plan.writes if isinstance(w, Create) and w.name == name)


def running(job: TrainingJob, *pods: PodRecord) -> TrainingJob:
    """The job after the pass that has seen these pods run."""
    return after(job, decide(job, observed_of(job, pods)))


def trainers(count: int = 2) -> list[PodRecord]:
    return [kept_pod(f"t{i}", i) for i in range(count)]


# -- deaths ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Death:
    states: tuple[str, str]
    """How trainers 0 and 1 stand now; both ran before. '' for one that is gone without a trace."""
    want_tolerant: dict[str, int]
    """Restarts by cause."""
    want_plain: dict[str, int] | None
    """None: the job ends."""
    want_tolerant_ends: bool = False


DEATHS: dict[str, Death] = {
    "one fails": Death(("failed", "running"), {"application": 1}, None),
    "one is evicted": Death(("evicted", "running"), {"node": 1}, None),
    "one is preempted by the scheduler": Death(("preempted", "running"), {"preemption": 1}, None),
    "one is lost with its node": Death(("lost", "running"), {"node": 1}, None),
    "one is deleted by somebody": Death(("deleting", "running"), {"user": 1}, {"user": 1}),
    "one is deleted and exits with 0": Death(("stopped", "running"), {"user": 1}, {"user": 1}),
    "one vanishes": Death(("", "running"), {"user": 1}, {"user": 1}),
    "one fails and one is deleted": Death(("failed", "deleting"), {"application": 1, "user": 1}, None),
    "one fails and one is evicted": Death(("failed", "evicted"), {"application": 1, "node": 1}, None),
    "both are evicted": Death(("evicted", "evicted"), {"node": 2}, None),
    "both are lost with their node": Death(("lost", "lost"), {"node": 2}, None),
    "both are preempted by the scheduler": Death(("preempted", "preempted"), {"preemption": 2}, None),
    "both fail": Death(("failed", "failed"), {}, None, want_tolerant_ends=True),
    "both are deleted": Death(("deleting", "deleting"), {"user": 2}, {"user": 2}),
    "one succeeds and one fails": Death(("succeeded", "failed"), {"application": 1}, None),
}


def struck(job: TrainingJob, death: Death) -> Observed:
    pods = [kept_pod(f"t{i}", i, state=s) for i, s in enumerate(death.states) if s]
    seen = observed_of(job, pods)
    return replace(seen, nodes={**seen.nodes, "node-b": SICK}, seen={"nodes": 1})


def causes(status: JobStatus) -> dict[str, int]:
    counts = status.restart_counts.get("trainer")
    return {k: v for k, v in counts.model_dump().items() if v} if counts else {}


@pytest.mark.parametrize("death", DEATHS.values(), ids=DEATHS.keys())
def test_a_death_in_a_fault_tolerant_job(death: Death) -> None:
    job = running(tolerant(2), *trainers())
    seen = struck(job, death)
    plan = decide(job, seen)
    status = status_of(plan)
    assert (status.ending is not None) is death.want_tolerant_ends
    if death.want_tolerant_ends:
        assert status.ending is not None
        assert status.ending.phase == "Failed"
        assert "all trainers have failed" in status.ending.message
        return
    assert causes(status) == death.want_tolerant
    assert created(plan) == []
    again = decide(after(job, plan), seen)
    assert again.status is None or causes(again.status) == death.want_tolerant, "a death was counted twice"


@pytest.mark.parametrize("death", DEATHS.values(), ids=DEATHS.keys())
def test_a_death_in_a_job_that_is_not_fault_tolerant(death: Death) -> None:
    job = running(plain(2), *trainers())
    status = status_of(decide(job, struck(job, death)))
    if death.want_plain is None:
        assert status.ending is not None
        assert status.ending.phase == "Failed"
        assert "the job is not fault tolerant" in status.ending.message
    else:
        assert status.ending is None
        assert causes(status) == death.want_plain


@pytest.mark.parametrize(("made_seconds_later", "want"), [(-60, {}), (60, {"user": 1})], ids=["before it ran", "since"])
def test_a_pod_without_a_number_replaces_one_only_if_it_was_made_since_the_job_ran(
    made_seconds_later: float, want: dict[str, int]
) -> None:
    """The pass that was to number it has been cut off; or its controller was faster than our look."""
    job = running(tolerant(2), kept_pod("t0", 0), kept_pod("t1"))
    assert job.status.phase == "Running"
    unnumbered = replace(kept_pod("t1"), created_at=to_rfc3339(NOW + made_seconds_later))
    plan = decide(job, observed_of(job, [kept_pod("t0", 0), unnumbered]), now=NOW + 90)
    assert causes(plan.status or job.status) == want


def _told(counts: dict[str, int] | None, *, ends: bool) -> str:
    if counts is None or ends:
        return "Failed"
    return "replaced, counted as " + " and ".join(
        cause if n == 1 else f"{cause}, {n} times" for cause, n in counts.items()
    )


def test_docs_lifecycle_shows_these_deaths() -> None:
    lines = (ROOT / "docs/lifecycle.md").read_text().splitlines()
    start = lines.index("| of two trainers | with `fault_tolerant` | without |")
    rows = lines[start + 2 : start + 2 + len(DEATHS)]
    assert rows == [
        f"| {what} | {_told(d.want_tolerant, ends=d.want_tolerant_ends)} | {_told(d.want_plain, ends=False)} |"
        for what, d in DEATHS.items()
    ]
    assert not lines[start + 2 + len(DEATHS)].startswith("|")


def test_trainers_that_fail_one_after_the_other_end_the_job_when_none_is_left() -> None:
    job = running(tolerant(2), *trainers())
    first = [kept_pod("t0", 0, state="failed"), kept_pod("t1", 1)]
    job = after(job, decide(job, observed_of(job, first)))
    assert job.status.ending is None
    both = [kept_pod("t0", 0, state="failed"), kept_pod("t1", 1, state="failed")]
    status = status_of(decide(job, observed_of(job, both)))
    assert status.ending is not None
    assert status.ending.phase == "Failed"


def test_nor_does_one_that_failed_count_with_another_that_its_node_takes_later() -> None:
    job = running(tolerant(2), *trainers())
    job = after(job, decide(job, observed_of(job, [kept_pod("t0", 0, state="evicted"), kept_pod("t1", 1)])))
    both = [kept_pod("t0", 0, state="evicted"), kept_pod("t1", 1, state="failed")]
    status = status_of(decide(job, observed_of(job, both)))
    assert status.ending is None
    assert causes(status) == {"application": 1, "node": 1}


def test_but_not_while_a_replacement_lives() -> None:
    job = running(tolerant(2), *trainers())
    job = after(job, decide(job, observed_of(job, [kept_pod("t0", 0, state="failed"), kept_pod("t1", 1)])))
    now = [kept_pod("t0", 0, state="failed"), kept_pod("t2", state="pending"), kept_pod("t1", 1, state="failed")]
    assert status_of(decide(job, observed_of(job, now))).ending is None


def test_a_lost_pod_is_deleted_with_grace_0_since_its_controller_waits_for_a_kubelet_that_is_gone() -> None:
    job = running(tolerant(2), *trainers())
    plan = decide(job, struck(job, DEATHS["one is lost with its node"]))
    gone = [w for w in plan.writes if w.name == "t0"]
    assert [(w.uid, w.grace_seconds) for w in gone] == [("uid-of-t0", 0)]  # type: ignore[union-attr]


# -- servers ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Server:
    restarts: int
    want_end: bool
    limit: int | None = None
    settings: Settings = field(default_factory=Settings)


SERVERS: dict[str, Server] = {
    "four restarts are survived": Server(4, want_end=False),
    "the fifth is the end": Server(5, want_end=True),
    "the setting says how many": Server(2, want_end=True, settings=Settings(restart_limit=2)),
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
        kept_pod("p0", 0, role="pserver"),
        containers=(ContainerRecord("pserver", "running", restarts=case.restarts, ready=True),),
    )
    plan = decide(job, observed_of(job, [server, kept_pod("t0", 0)]), settings=case.settings)
    status = status_of(plan)
    assert (status.ending is not None) is case.want_end
    counts = status.restart_counts.get("pserver")
    assert (counts.application if counts else 0) == case.restarts


def test_a_server_whose_containers_are_not_told_of_yet_has_no_restarts() -> None:
    job = plain(1, pservers=1)
    new = replace(kept_pod("p0", 0, role="pserver", state="pending"), containers=())
    status = status_of(decide(job, observed_of(job, [new, kept_pod("t0", 0)]), settings=Settings(restart_limit=1)))
    assert (status.ending, status.restart_counts) == (None, {})


def test_a_batch_job_that_has_failed_by_itself_ends_the_job_with_its_words() -> None:
    """Somebody has edited it: ours has no limit that it could reach."""
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
    """A ReplicaSet starts what has ended again; only a parameter server has a limit (seed 000)."""
    job = plain(1, pservers=1, fault_tolerant=True)
    master = replace(
        kept_pod("m0", 0, role="master"), containers=(ContainerRecord("master", "running", restarts=100, ready=True),)
    )
    pods = [master, kept_pod("p0", 0, role="pserver"), kept_pod("t0", 0)]
    status = status_of(decide(job, observed_of(job, pods)))
    assert (status.ending, status.phase, status.restart_counts["master"].application) == (None, "Running", 100)


def test_a_server_must_be_ready_for_the_job_to_come_to_run_and_not_to_stay_so() -> None:
    job = plain(1, pservers=1)
    unready = [kept_pod("p0", 0, role="pserver", state="unready"), kept_pod("t0", 0)]
    ready = [kept_pod("p0", 0, role="pserver"), kept_pod("t0", 0)]
    job = after(job, decide(job, observed_of(job, unready)))
    counts = job.status.replica_statuses["pserver"]
    assert (job.status.phase, counts.scheduled, counts.active, counts.pending) == ("Creating", 1, 0, 0)
    job = after(job, decide(job, observed_of(job, ready)))
    assert job.status.phase == "Running"
    assert decide(job, observed_of(job, unready)).status is None


def test_a_server_whose_pod_is_refused_says_so_and_one_that_is_only_not_made_yet_says_less() -> None:
    job = plain(1, pservers=1)
    waits = status_of(decide(job, observed_of(job, [kept_pod("t0", 0)])))
    assert "pod digits-pserver-0 waits to be made by its ReplicaSet, or for a node" in waits.message
    full = observed_of(job, [kept_pod("t0", 0)], reason="FailedCreate", message="exceeded quota")
    refused = decide(job, full)
    want = "pod digits-pserver-0 cannot be made by its ReplicaSet digits-pserver: exceeded quota"
    assert want in status_of(refused).message
    assert [(e.reason, e.message) for e in refused.events] == [("FailedCreate", want)]
    assert decide(after(job, refused), full).status is None
    seen = observed_of(job, [kept_pod("t0", 0), kept_pod("p0", 0, role="pserver")])
    assert status_of(decide(after(job, refused), seen)).phase == "Running"


# -- owners ----------------------------------------------------------------------------------------------------------------


def test_the_owners_are_made_and_never_a_pod() -> None:
    job = plain(2, pservers=2)
    plan = decide(job)
    assert (created(plan, "replicasets"), created(plan, "jobs"), created(plan)) == (
        ["digits-pserver"],
        ["digits-trainer"],
        [],
    )
    roles = (
        ("digits-pserver", "paddle-job-pserver", "Always", ("apps/v1", "ReplicaSet")),
        ("digits-trainer", "paddle-job", "Never", ("batch/v1", "Job")),
    )
    for name, label, restart_policy, kind in roles:
        made = body(plan, name)
        assert (made["apiVersion"], made["kind"], made["metadata"]["namespace"]) == (*kind, "default")
        pod = made["spec"]["template"]
        for labels in (made["metadata"]["labels"], pod["metadata"]["labels"]):
            assert labels[label] == "digits"
            assert labels["elasticdeeplearning.ai/job-uid"] == job.uid
            assert "replica-index" not in labels
        assert made["metadata"]["ownerReferences"][0]["uid"] == job.uid
        assert made["spec"]["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
        assert pod["spec"]["restartPolicy"] == restart_policy
        env = {e["name"]: e for e in pod["spec"]["containers"][0]["env"]}
        assert env["TRAININGJOB_NAME"]["value"] == "digits"
        assert env["TRAININGJOB_REPLICA_INDEX"]["valueFrom"] == {
            "fieldRef": {"fieldPath": "metadata.labels['replica-index']"}
        }
        assert env["TRAINER_INSTANCES_NUM"]["value"] == "2"


def test_a_job_that_can_be_scaled_has_no_completions_and_its_backoff_limit_is_out_of_reach() -> None:
    elastic, fixed = (
        body(decide(tolerant(2)), "digits-trainer")["spec"],
        body(decide(plain(2)), "digits-trainer")["spec"],
    )
    assert (elastic["parallelism"], "completions" in elastic) == (2, False)
    assert (fixed["parallelism"], fixed["completions"]) == (2, 2)
    assert elastic["backoffLimit"] == fixed["backoffLimit"] == 2**31 - 1


def test_scaling_patches_the_number_with_its_proof_and_touches_no_pod() -> None:
    job = running(tolerant(2), *trainers())
    more = replace(job, roles=(replace(job.roles[0], replicas=5),))
    seen = replace(observed_of(job, trainers()))
    plan = decide(more, seen)
    assert patches(plan, "jobs") == {
        "digits-trainer": {
            "metadata": {"uid": "uid-of-digits-trainer", "resourceVersion": "400"},
            "spec": {"parallelism": 5},
        }
    }
    assert (patches(plan), deleted(plan)) == ({}, [])
    assert status_of(plan).phase == "Scaling"


@dataclass(frozen=True)
class AfterSuccess:
    replicas: int
    completed: str
    """Of these trainers the status says that they have succeeded."""
    desired: int
    """What the batch Job keeps."""
    want: int | None
    """What it is told to keep; None: nothing."""
    succeeded: int = 0
    """What its status tells."""
    pods: tuple[PodRecord, ...] = (kept_pod("t0", 0),)


AFTER_SUCCESS: dict[str, AfterSuccess] = {
    "it saw the success: it keeps its number": AfterSuccess(2, "1", 2, None, succeeded=1),
    "its status does not tell yet, and the pod is there": AfterSuccess(
        2, "1", 2, None, pods=(kept_pod("t0", 0), kept_pod("t1", 1, state="succeeded"))
    ),
    "somebody deleted it, and it was made again for the other one": AfterSuccess(2, "1", 1, None),
    "made again, and then scaled up": AfterSuccess(3, "1", 1, 2),
    "made again, and another one has succeeded under it": AfterSuccess(3, "1-2", 2, None, succeeded=1),
}


@pytest.mark.parametrize("case", AFTER_SUCCESS.values(), ids=AFTER_SUCCESS.keys())
def test_the_number_of_a_batch_job_after_a_success(case: AfterSuccess) -> None:
    status = JobStatus(phase="Running", attempts=Attempts(roles={"trainer": RoleAttempts(completed=case.completed)}))
    job = tolerant(case.replicas, status)
    plan = decide(job, observed_of(job, case.pods, desired=case.desired, succeeded=case.succeeded))
    told = patches(plan, "jobs").get("digits-trainer")
    assert (told and told["spec"]["parallelism"]) == case.want


def test_a_pod_that_runs_gets_the_number_of_its_seat_with_its_proof() -> None:
    job = tolerant(2)
    plan = decide(job, observed_of(job, [kept_pod("a", 1), kept_pod("b")]))
    assert patches(plan) == {
        "b": {
            "metadata": {
                "uid": "uid-of-b",
                "resourceVersion": "200",
                "labels": {"replica-index": "0", "restart-attempt": "0", "default/digits-trainer-idx": "0"},
            }
        }
    }


def test_one_that_does_not_run_yet_gets_none() -> None:
    job = tolerant(1)
    assert patches(decide(job, observed_of(job, [kept_pod("a", state="pending")]))) == {}


def test_one_that_is_lost_is_deleted_and_gets_no_number() -> None:
    job = tolerant(1)
    seen = observed_of(job, [kept_pod("a", state="lost")])
    plan = decide(job, replace(seen, nodes={"node-b": SICK}, seen={"nodes": 1}))
    assert (deleted(plan), patches(plan)) == (["a"], {})


def test_one_whose_attempt_is_over_is_deleted_and_gets_no_number() -> None:
    """What is raised in the status is carried out by the next pass, if this one was cut off."""
    job = tolerant(1, JobStatus(attempts=Attempts(roles={"trainer": RoleAttempts(pods={"0": 1})})))
    plan = decide(job, observed_of(job, [kept_pod("a", 0)]))
    assert [(w.name, w.uid, w.why) for w in plan.writes if isinstance(w, Delete)] == [
        ("a", "uid-of-a", "attempt 1 replaces it")
    ]
    assert patches(plan) == {}
    assert deleted(decide(job, observed_of(job, [kept_pod("a", 0, state="deleting")]))) == []


def test_one_that_ended_before_it_had_a_number_gets_it_and_is_judged_by_the_next_pass() -> None:
    job = tolerant(1)
    plan = decide(job, observed_of(job, [kept_pod("a", state="failed")]))
    assert list(patches(plan)) == ["a"]
    assert plan.requeue_after_seconds == 0
    assert status_of(plan).ending is None
    assert status_of(decide(after(job, plan), observed_of(job, [kept_pod("a", 0, state="failed")]))).ending is not None


def test_a_job_as_it_should_be_is_written_no_more() -> None:
    """The seed's operator writes its status every second."""
    job = running(tolerant(2), *trainers())
    assert decide(job, observed_of(job, trainers()), now=NOW + 1000).empty


def test_an_owner_of_an_earlier_job_of_that_name_is_waited_for() -> None:
    job = tolerant(2)
    seen = replace(observed_of(job, []), jobs=(replace(owner(job, "trainer"), owner_uid="an-earlier-uid"),))
    assert decide(job, seen).writes == ()


def test_an_owner_whose_role_is_not_in_the_spec_is_deleted() -> None:
    job = running(tolerant(2), *trainers())
    seen = observed_of(job, trainers())
    seen = replace(seen, replicasets=(owner(job, "pserver"),))
    assert deleted(decide(job, seen), "replicasets") == ["digits-pserver"]


# -- the end, and suspension -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class End:
    policy: str
    want_released: bool
    want_deleted: list[str]
    autoclean: bool = True
    succeeded: int = 0
    """As the batch Job counts."""


ENDS: dict[str, End] = {
    "All: the controllers take the pods that live, we those that have ended": End("All", True, ["t1"]),
    "Running: those that have ended stay": End("Running", True, []),
    "All, where the batch Job has seen a success: its controller takes nobody any more": End(
        "All", True, ["t0", "t1"], succeeded=1
    ),
    "Running, where it has": End("Running", True, ["t0"], succeeded=1),
    "None: nothing is touched": End("None", False, []),
    "without autoclean nothing is touched": End("All", False, [], autoclean=False),
}


@pytest.mark.parametrize("case", ENDS.values(), ids=ENDS.keys())
def test_what_an_end_gives_back(case: End) -> None:
    job = replace(plain(2, pservers=1), annotations={"Failed": "enough"}, clean_pod_policy=case.policy)  # type: ignore[arg-type]
    pods = [kept_pod("p0", 0, role="pserver"), kept_pod("t0", 0), kept_pod("t1", 1, state="succeeded")]
    settings = Settings(autoclean=case.autoclean)
    plan = decide(job, observed_of(job, pods, succeeded=case.succeeded), settings=settings)
    zero = {"digits-pserver": 0} if case.want_released else {}
    assert {n: b["spec"]["replicas"] for n, b in patches(plan, "replicasets").items()} == zero
    assert [b["spec"]["parallelism"] for b in patches(plan, "jobs").values()] == ([0] if case.want_released else [])
    assert deleted(plan) == case.want_deleted
    left = [p for p in pods if p.phase == "Succeeded"] if case.policy == "Running" else []
    done = decide(after(job, plan), observed_of(job, left, desired=0 if case.want_released else 1), settings=settings)
    status = status_of(plan if not case.want_released else done)
    assert (status.phase, status.released) == ("Failed", case.want_released)


def test_the_end_looks_again_after_releasing_a_batch_job_since_nobody_answers_that() -> None:
    """Its own controller writes nothing more about a Job that is Complete: the job was Terminating until the next resync."""
    job = running(tolerant(1), kept_pod("t0", 0))
    plan = decide(job, observed_of(job, [], condition="Complete"))
    assert (list(patches(plan, "jobs")), plan.requeue_after_seconds) == (["digits-trainer"], 0)
    released = observed_of(job, [], condition="Complete", desired=0)
    assert status_of(decide(after(job, plan), released)).phase == "Succeed"


def test_the_end_waits_until_the_replicaset_controller_has_seen_that_it_wants_no_more() -> None:
    job = replace(plain(1, pservers=1), annotations={"Failed": "enough"})
    behind = observed_of(job, [], desired=0, generation=2, observed_generation=1)
    assert status_of(decide(job, behind)).phase == "Terminating"


def test_suspending_takes_the_numbers_to_0_and_resuming_brings_them_back_as_nobodys_restart() -> None:
    job = running(tolerant(2), *trainers())
    plan = decide(replace(job, suspend=True), observed_of(job, trainers()))
    assert [b["spec"]["parallelism"] for b in patches(plan, "jobs").values()] == [0]
    job = after(job, plan)
    assert job.status.phase == "Suspended"
    going = [kept_pod("t0", 0, state="deleting"), kept_pod("t1", 1, state="deleting")]
    plan = decide(job, observed_of(job, going, desired=0))
    assert [b["spec"]["parallelism"] for b in patches(plan, "jobs").values()] == [2]
    status = status_of(plan)
    assert causes(status) == {}
    new = [kept_pod("t2"), kept_pod("t3")]
    plan = decide(after(job, plan), observed_of(job, [*going, *new]))
    assert sorted(patches(plan)) == ["t2", "t3"]
    assert {b["metadata"]["labels"]["restart-attempt"] for b in patches(plan).values()} == {"1"}
    assert status_of(plan).phase == "Running"


def test_a_job_that_ended_before_stays_as_it_is() -> None:
    job = tolerant(1, JobStatus(phase="Succeed", completion_time=NOW_TEXT))
    assert decide(job, observed_of(job, trainers()), settings=SETTINGS).empty
