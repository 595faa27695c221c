"""KubeDL's RunPolicy of a job that ReplicaSets and a batch Job keep (of one whose pods are the operator's own, see the
single policies), and what of the job API is not acted on yet."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.builders import make_job, make_training_job
from tests.support.builders.job import JobBuilder
from tests.unit.tjworker.reconcile.managed import made_pod, observed_of, running, tolerant, trainers
from tests.unit.tjworker.reconcile.passes import condition, decide, status_of
from tjworker.api.labels import ignored_queue
from tjworker.api.model import InvalidJob
from tjworker.api.observed import ContainerRecord

FAILED = ("failed", "running")
ONCE = [made_pod(f"t{i}", i, state=state) for i, state in enumerate(FAILED)]


@pytest.mark.parametrize(
    ("limit", "want"),
    [(0, "backoffLimit 0 of the job is used up"), (1, ""), (None, "")],
    ids=["no trainer is replaced", "the first is replaced", "without a limit all are replaced"],
)
def test_backoff_limit_counts_trainers_that_were_replaced(limit: int | None, want: str) -> None:
    job = replace(running(tolerant(2), *trainers()), backoff_limit=limit)
    ending = status_of(decide(job, observed_of(job, ONCE, active=2))).ending
    assert (ending is not None) is bool(want)
    if ending is not None:
        assert (ending.phase, ending.reason) == ("Failed", "BackoffLimitExceeded")
        assert want in ending.message


@pytest.mark.parametrize(("limit", "want_end"), [(3, True), (4, False)], ids=["used up", "not yet"])
def test_backoff_limit_is_used_up_by_servers_too(limit: int, want_end: bool) -> None:
    """Two servers were restarted three times between them; then a trainer fails."""
    made = make_training_job(least=2, most=4, pservers=2, fault_tolerant=True, frame_work={"type": "multi"}).build()
    servers = [
        replace(
            made_pod(f"p{i}", i, role="pserver"),
            containers=(ContainerRecord("pserver", "running", restarts=restarts, ready=True),),
        )
        for i, restarts in enumerate((1, 2))
    ]
    master = made_pod("m0", 0, role="master")
    job = replace(running(made, master, *servers, *trainers()), backoff_limit=limit)
    status = status_of(decide(job, observed_of(job, [master, *servers, *ONCE], active=2)))
    assert status.restart_counts["pserver"].application == 3
    assert (status.ending is not None) is want_end


CLEAN = "paddlepaddle.org/clean-pod-policy"


@pytest.mark.parametrize(
    ("policy", "annotation", "want"),
    [
        ("Running", None, "Running"),
        (None, "None", "None"),
        ("None", "None", "None"),
        ("All", "None", "they must agree"),
    ],
)
def test_clean_pod_policy_and_the_annotation_agree(policy: str | None, annotation: str | None, want: str) -> None:
    built = make_training_job().annotate({} if annotation is None else {CLEAN: annotation})
    job = (built if policy is None else built.run_policy(cleanPodPolicy=policy)).parse()
    if isinstance(job, InvalidJob):
        assert [e.path for e in job.errors] == ["spec.runPolicy.cleanPodPolicy"]
        assert want in str(job.errors[0])
    else:
        assert job.clean_pod_policy == want


# -- what is not acted on yet ------------------------------------------------------------------------

ONE_BY_ONE = "pods are scheduled one by one, as TJ_GANG_SCHEDULER is none"
QUEUED = {"kueue.x-k8s.io/queue-name": "research"}
TENANCY = '{"tenant": "research", "user": "ada", "idc": "south"}'
UNREADABLE = ("", "{}", "[]", "research", '{"tenant": 7}', "[" * 5000)
NOBODY = 'not acted on: annotation kubedl.io/tenancy (has no tenant or user: write {"tenant": "...", "user": "..."})'
GIT_SYNC = {"kubedl.io/git-sync-config": '{"source": "https://example.com/repository.git"}'}


@pytest.mark.parametrize(
    ("built", "want"),
    [
        (make_job().role("trainer", 2), ""),
        (make_job().role("trainer", 2).labels(**QUEUED), f"not acted on: {ignored_queue(QUEUED)[0]}"),
        (make_training_job().labels(**QUEUED), f"not acted on: {ignored_queue(QUEUED)[0]}"),
        (
            make_job().role("trainer", 2).run_policy(schedulingPolicy={"minAvailable": 2}),
            f"not acted on: spec.runPolicy.schedulingPolicy.minAvailable ({ONE_BY_ONE})",
        ),
        (
            make_training_job().run_policy(schedulingPolicy={"minAvailable": 2}),
            f"not acted on: spec.runPolicy.schedulingPolicy.minAvailable ({ONE_BY_ONE})",
        ),
        (make_job().role("trainer").annotate(GIT_SYNC), ""),
        (make_job().role("trainer").annotate({"kubedl.io/network-mode": "host", "kubedl.io/tenancy": TENANCY}), ""),
        *((make_job().role("trainer").annotate({"kubedl.io/tenancy": said}), NOBODY) for said in UNREADABLE),
        (make_job().role("trainer").annotate({"kubedl.io/tenancy": '{"tenant": null, "user": "ada"}'}), ""),
        (
            make_job().role("trainer").annotate({"kubedl.io/tenancy": '{"tenant": "research", "user": 7}'}),
            "not acted on: annotation kubedl.io/tenancy (user is no text)",
        ),
    ],
)
def test_what_is_not_acted_on_is_told(built: JobBuilder, want: str) -> None:
    job = built.build()
    told = condition(status_of(decide(job)), "Created")
    assert told == ("True", "Accepted", "the job is accepted" + (f"; {want}" if want else ""))
