"""docs/lifecycle.md is true: every table on it is read here and played."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any, get_args

import pytest

from tests.support.builders import PodBuilder, make_job, make_node, observe
from tests.support.builders.job import JobBuilder
from tests.support.paths import ROOT
from tests.unit.tjworker.reconcile.passes import NOW, RULES, World, decide, deleted, status_of
from tjworker.api.kinds import parse
from tjworker.api.labels import ANNOTATION_GIT_SYNC, ANNOTATION_NETWORK_MODE, ANNOTATION_TENSORBOARD
from tjworker.api.model import EndPolicy, RestartPolicy, RestartScope, TrainingJob
from tjworker.api.observed import TAINTED
from tjworker.api.resources import NODES
from tjworker.api.status import RoleAttempts
from tjworker.api.timefmt import to_rfc3339
from tjworker.reconcile.policies.completion import job_verdict, role_verdict
from tjworker.reconcile.policies.restart import RESTART_POLICIES
from tjworker.reconcile.refusals import judge
from tjworker.reconcile.replicas import Replica, RoleView
from tjworker.reconcile.rests import LONGEST_SECONDS

PAGE = (ROOT / "docs/lifecycle.md").read_text()
Row = dict[str, str]


def table(first_column: str) -> list[Row]:
    """The rows of the table whose head begins with that column; columns that are named twice get their group's name."""
    lines = PAGE.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {first_column} |"))
    head, group = [], ""
    for cell in _cells(lines[start]):
        words = cell.split()
        group = words[0] if len(words) == 2 and words[0].endswith("Policy") else group
        head.append(f"{group} {cell}" if group and cell in ("Rank0", "All", "None", "Running") else cell)
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append(dict(zip(head, _cells(line), strict=True)))
    return rows


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


# -- restarts --------------------------------------------------------------------------------------

SICK = make_node("node-b").not_ready(to_rfc3339(NOW - 60), "False", "KubeletNotReady")
ENDINGS: dict[str, Callable[[PodBuilder], PodBuilder]] = {
    "exit code, retryable": lambda p: p.failed(exit_code=137),
    "exit code, permanent": lambda p: p.failed(exit_code=1),
    "evicted": lambda p: p.evicted(),
    "preempted by the scheduler": lambda p: p.disrupted("PreemptionByScheduler"),
    "node lost": lambda p: p,
    "GPU fault": lambda p: p.containers(unhealthy_devices=("GPU-7",)),
}
RESTART_ROWS = {row["restartPolicy"]: row for row in table("restartPolicy")}
REACH = {row["restartScope"]: next(v for k, v in row.items() if k != "restartScope") for row in table("restartScope")}
CASES = list(itertools.product(get_args(RestartPolicy), get_args(RestartScope), ENDINGS))


def test_the_table_of_restarts_is_complete() -> None:
    policies = set(get_args(RestartPolicy))
    assert (
        set(RESTART_ROWS) - {"*counted as*", "*uses up restartLimit and backoffLimit*"}
        == policies
        == set(RESTART_POLICIES)
    )
    assert set(REACH) == set(get_args(RestartScope))
    assert set(ENDINGS) == set(next(iter(RESTART_ROWS.values()))) - {"restartPolicy"}


@pytest.mark.parametrize(("policy", "scope", "ending"), CASES)
def test_what_a_restart_policy_replaces(policy: str, scope: str, ending: str) -> None:
    base = make_job().role("ps", 1, complete="None").role("trainer", 2, restart=policy, scope=scope, limit=0)
    if RESTART_ROWS["*uses up restartLimit and backoffLimit*"][ending] == "yes":
        base = make_job().role("ps", 1, complete="None").role("trainer", 2, restart=policy, scope=scope, limit=1)
    world = World(base.build()).settle().all("running").settle()
    world.pods["digits-trainer-1"] = ENDINGS[ending](world.pods["digits-trainer-1"].on("node-b").running())
    node = SICK if ending == "node lost" else make_node("node-b")
    plan = decide(world.job, observe(*world.pods.values(), *world.services.values(), node, seen={NODES: 1}))
    want = RESTART_ROWS[policy][ending]
    if want == "runs on":
        assert plan.empty
        return
    status = status_of(plan)
    assert status.failures[0].pod == "digits-trainer-1"
    if want == "fails":
        assert (status.ending.phase if status.ending else "") == ("NodeFail" if ending == "node lost" else "Failed")
        assert "trainer" not in status.restart_counts
        return
    assert want == "restarts"
    assert status.ending is None
    assert [name.removeprefix("digits-") for name in deleted(plan)] == REACH[scope].split(", ")
    counts = status.restart_counts["trainer"].model_dump()
    assert {k: v for k, v in counts.items() if v} == {RESTART_ROWS["*counted as*"][ending]: 1}


OWN_LIMIT = 'Usage of EmptyDir volume "cache" exceeds the limit "1Gi". '
BY_KUBELET: dict[str, Callable[[PodBuilder], PodBuilder]] = {
    "is evicted, as its node is short of memory or disk": lambda p: p.evicted(),
    "is evicted for its own limits of storage": lambda p: p.failed(137).but(reason="Evicted", message=OWN_LIMIT),
    "is ended at the shutdown of its node": lambda p: p.disrupted("TerminationByKubelet").but(reason="Terminated"),
    "makes room for a critical pod": lambda p: p.disrupted("TerminationByKubelet").but(reason="Preempting"),
    "is ended by its kubelet for any of these, and its program exits with 0": lambda p: p.succeeded().but(
        disruption="TerminationByKubelet"
    ),
    "loses its containers, as its node restarts": lambda p: p.failed(137, reason="ContainerStatusUnknown"),
    "has a command that cannot be started": lambda p: p.failed(128, reason="StartError"),
    "is turned away before it starts": lambda p: p.turned_away(),
    "is turned away after it ran, by a kubelet that was restarted": lambda p: p.turned_away("TopologyAffinityError"),
    "is deleted for a taint `NoExecute` of its node, which is healthy": lambda p: p.deleting().but(disruption=TAINTED),
    "is deleted for a taint `NoExecute` of its node, which is not Ready": lambda p: p.deleting().but(
        disruption=TAINTED
    ),
}
KUBELET_ROWS = table("the pod")


@pytest.mark.parametrize("policy", ["with Never", "OnFailure", "OnNodeFail"])
@pytest.mark.parametrize("row", KUBELET_ROWS, ids=lambda row: row["the pod"])
def test_what_a_kubelet_does_to_a_pod(row: Row, policy: str) -> None:
    job = make_job().role("trainer", 2, restart=policy.removeprefix("with "), scope="Pod")
    world = World(job.build()).settle()
    if "before it starts" not in row["the pod"]:
        world.all("running").settle()
    ended = BY_KUBELET[row["the pod"]](world.pods["digits-trainer-1"].on("node-b"))
    assert ended.record.reason == row["`status.reason`"]
    world.pods["digits-trainer-1"] = ended
    node = SICK if "not Ready" in row["the pod"] else make_node("node-b")
    view = observe(*world.pods.values(), *world.services.values(), node, seen={NODES: 1})
    status = status_of(decide(world.job, view))
    assert status.failures[0].pod == "digits-trainer-1"
    assert (status.ending is None) is (row[policy] == "restarts")
    if status.ending is None:
        counts = status.restart_counts["trainer"].model_dump()
        assert {k: v for k, v in counts.items() if v} == {row["counted as"]: 1}


def test_only_what_the_table_says_uses_up_a_limit() -> None:
    counted, used = RESTART_ROWS["*counted as*"], RESTART_ROWS["*uses up restartLimit and backoffLimit*"]
    assert {e: used[e] == "yes" for e in ENDINGS} == {e: counted[e] == "application" for e in ENDINGS}


@pytest.mark.parametrize("row", table("restartLimit"), ids=lambda row: " ".join(row.values()))
def test_limits(row: Row) -> None:
    what, then, reason = [v for k, v in row.items() if k not in ("restartLimit", "backoffLimit")]
    builder = make_job().role(
        "trainer", 2, restart="OnFailure", scope="Pod", limit=int(row["restartLimit"]) if row["restartLimit"] else None
    )
    if row["backoffLimit"]:
        builder = builder.run_policy(backoffLimit=int(row["backoffLimit"]))
    world = World(builder.build()).settle().all("running").settle()
    times = re.search(r"(\d+) times?$", what)
    assert times
    for _ in range(int(times[1])):
        pod = world.pods["digits-trainer-1"]
        if "deleted" in what:
            world.set("digits-trainer-1", "deleting").step()
            world.pods.pop("digits-trainer-1", None)
        else:
            ending = "evicted" if "evicted" in what else "preempted by the scheduler"
            world.pods["digits-trainer-1"] = pod.failed(1) if "exits" in what else ENDINGS[ending](pod)
        world.settle()
        world.now += LONGEST_SECONDS
        world.settle().all("running").settle()
    status = world.job.status
    assert status.phase == then
    assert (status.ending.reason if status.ending else "") == reason
    if then == "Failed":
        assert status.ending is not None
        assert "is used up" in status.ending.message
        assert world.pods == {}


# -- ends ------------------------------------------------------------------------------------------

POLICIES = get_args(EndPolicy)


def view(row: Row, complete: str, fail: str) -> RoleView:
    job = make_job().role("trainer", 2, complete=complete, fail=fail).build()
    words: dict[str, Any] = {"runs": ("running", False), "succeeded": ("succeeded", True), "failed": ("failed", True)}
    replicas = tuple(
        Replica("trainer", i, f"digits-trainer-{i}", 0, words[row[f"index {i}"]][0], final=words[row[f"index {i}"]][1])
        for i in range(2)
    )
    return RoleView(job.role("trainer"), replicas, (), RoleAttempts())


ROLE_ROWS = table("index 0")


def cell(row: Row, policy: str, value: str) -> str:
    return row[f"{policy} {value}"].strip("-")


@pytest.mark.parametrize("row", ROLE_ROWS, ids=lambda row: f"{row['index 0']}, {row['index 1']}")
@pytest.mark.parametrize(("complete", "fail"), list(itertools.product(POLICIES, POLICIES)))
def test_when_a_role_ends(row: Row, complete: str, fail: str) -> None:
    both = {row["index 0"], row["index 1"]}
    stuck = "failed" in both and "runs" not in both and "None" not in (complete, fail)
    want = cell(row, "completePolicy", complete) or cell(row, "failPolicy", fail) or ("failed" if stuck else "")
    assert role_verdict(view(row, complete, fail)) == want


def test_the_table_of_roles_is_complete() -> None:
    states = ("runs", "succeeded", "failed")
    assert {(r["index 0"], r["index 1"]) for r in ROLE_ROWS} == set(itertools.product(states, states))


JOB_ROWS = table("role a")


@pytest.mark.parametrize("row", JOB_ROWS, ids=lambda row: f"{row['role a']}, {row['role b']}")
@pytest.mark.parametrize(("complete", "fail"), list(itertools.product(("Any", "All", "None"), repeat=2)))
@pytest.mark.parametrize("turned", [False, True], ids=["", "the other way round"])
def test_when_a_job_ends(row: Row, complete: str, fail: str, turned: bool) -> None:
    words: dict[str, Any] = {"open": "running", "complete": "succeeded", "failed": "failed"}
    pair = (row["role b"], row["role a"]) if turned else (row["role a"], row["role b"])
    job = make_job().role("a", 1).role("b", 1).spec(completePolicy=complete, failPolicy=fail).build()
    views = {
        name: RoleView(
            job.role(name), (Replica(name, 0, name, 0, words[state], final=state != "open"),), (), RoleAttempts()
        )
        for name, state in zip(("a", "b"), pair, strict=True)
    }
    want = cell(row, "completePolicy", complete) or cell(row, "failPolicy", fail)
    assert job_verdict(job, views).verdict == {"Succeed": "complete", "Failed": "failed", "": ""}[want]


def test_the_table_of_jobs_is_complete() -> None:
    found = {frozenset((r["role a"], r["role b"])) for r in JOB_ROWS}
    assert len(found) == len(JOB_ROWS) == 6


def two() -> JobBuilder:
    return make_job().role("trainer", 2)


WAYS: dict[str, tuple[JobBuilder, str, float]] = {
    "every replica has succeeded": (two(), "succeeded", 0),
    "a replica has failed for good": (two(), "failed", 0),
    "one has failed, and its `restartLimit` is used up": (
        make_job().role("trainer", 2, restart="OnFailure", limit=0),
        "failed",
        0,
    ),
    "one has failed, and the job's `backoffLimit` is used up": (
        make_job().role("trainer", 2, restart="OnFailure").run_policy(backoffLimit=0),
        "failed",
        0,
    ),
    "one is lost with its node for good": (two(), "orphaned", 0),
    "`timeLimit`": (two().spec(timeLimit=60), "running", 61),
    "`runPolicy.activeDeadlineSeconds`": (two().run_policy(activeDeadlineSeconds=60), "running", 61),
    **{
        f"annotation `{a}`": (two().annotate({a: "so it is"}), "running", 0)
        for a in ("Preempted", "Failed", "NodeFail")
    },
}
KEPT = {"none": [], "the ended one": ["digits-trainer-1"], "both": ["digits-trainer-0", "digits-trainer-1"]}
WAY_ROWS = table("way to the end")


def test_every_way_to_an_end_has_its_row() -> None:
    assert [row["way to the end"] for row in WAY_ROWS] == list(WAYS)


@pytest.mark.parametrize("policy", ["All", "Running", "None"])
@pytest.mark.parametrize("row", WAY_ROWS, ids=lambda row: row["way to the end"])
def test_which_pods_are_kept(row: Row, policy: str) -> None:
    builder, pod, later_seconds = WAYS[row["way to the end"]]
    world = World(two().build()).settle().all("running").settle().set("digits-trainer-1", "succeeded").settle()
    world.set("digits-trainer-0", pod)
    world.job = builder.spec(cleanPodPolicy=policy).status(world.job.status).build()
    world.now += later_seconds
    world.settle()
    status = world.job.status
    assert (status.phase, status.ending.reason if status.ending else "") == (row["phase"], row["reason"])
    assert sorted(world.pods) == KEPT[row[f"cleanPodPolicy {policy}"]]
    assert sorted(world.services) == KEPT[row[f"cleanPodPolicy {policy}"]]
    assert world.events.count(row["phase"]) == 1


# -- time, suspension, scaling ---------------------------------------------------------------------

LIMITS: dict[str, Callable[[int], JobBuilder]] = {
    "`timeLimit`": lambda n: two().spec(timeLimit=n),
    "`runPolicy.activeDeadlineSeconds`": lambda n: two().run_policy(activeDeadlineSeconds=n),
}


@pytest.mark.parametrize("row", table("limit"), ids=lambda row: row["limit"])
def test_limits_of_time(row: Row) -> None:
    base = LIMITS[row["limit"]](100)
    world = World(base.build())
    world.settle()
    world.now += 50
    world.all("running").settle()
    begun = {"startTime": 50, "startRunningTime": 0}[row["counts from"].split("`")[1].removeprefix("status.")]
    world.now += 20
    world.job = base.suspended().status(world.job.status).build()
    world.settle()
    world.now += 1000
    assert row["while suspended"] == "stands still"
    world.job = base.status(world.job.status).build()
    world.settle().all("running").settle()
    world.now += 100 - begun - 20 - 15
    world.settle()
    assert world.job.status.phase == "Running", "some seconds are left of the limit, without the suspension"
    world.now += 15
    world.settle()
    assert world.job.status.phase == {"`timeLimit`": "Timeout"}.get(row["limit"], "Failed")


def plain(replicas: int) -> JobBuilder:
    return make_job().role("trainer", replicas, restart="OnFailure", scope="All")


PHASES: dict[str, Callable[[World], object]] = {
    "Pending": lambda w: w,
    "Running": lambda w: w.all("running").settle(),
    "Restarting": lambda w: w.all("running").settle().set("digits-trainer-0", "failed").step(),
    "Suspended": lambda w: w,
    "Terminating": lambda w: w.all("running").settle().all("succeeded").step(),
    "Succeed": lambda w: w.all("running").settle().all("succeeded").settle(),
}
SCALE_ROWS = table("phase")


def test_scaling_has_a_row_for_each_kind_of_phase() -> None:
    assert [row["phase"] for row in SCALE_ROWS] == list(PHASES)


@pytest.mark.parametrize("row", SCALE_ROWS, ids=lambda row: row["phase"])
def test_scaling_from_2_to_3(row: Row) -> None:
    def build(replicas: int) -> JobBuilder:
        return plain(replicas).suspended(row["phase"] == "Suspended")

    world = World(build(2).build()).settle()
    PHASES[row["phase"]](world)
    assert world.job.status.phase == row["phase"]
    before = {n: world.record(n).uid for n in world.pods}
    world.job = build(3).status(world.job.status).build()
    world.settle().all("running").settle()
    phase, _, pods = row["the job is then"].partition(", ")
    assert (world.job.status.phase, f"{len(world.pods)} pods") == (phase, pods)
    if row["phase"] in ("Pending", "Running"):
        assert before.items() <= {n: world.record(n).uid for n in world.pods}.items()


SPOILT: dict[str, dict[str, Any]] = {
    "numbers of replicas, or their bounds": {"replicaSpecs": {"trainer": {"replicas": 9}}},
    "a bound below or above that number": {"replicaSpecs": {"trainer": {"maxReplicas": 1}}},
    "a policy, `timeLimit`, `runPolicy`, `restartingExitCode`": {
        "failPolicy": "Most",
        "timeLimit": "soon",
        "runPolicy": 5,
        "restartingExitCode": "999",
    },
    "`suspend`": {"suspend": "no"},
    "a role's `template`": {"replicaSpecs": {"trainer": {"template": {}}}},
    "another field that pods are made of": {"schedulerName": 5},
    "`frameworkType` for these roles": {"frameworkType": "mpi"},
}
BY_ANNOTATION = {
    "the annotation of git-sync": ANNOTATION_GIT_SYNC,
    "the annotation of TensorBoard": ANNOTATION_TENSORBOARD,
    "the annotation of the network mode": ANNOTATION_NETWORK_MODE,
}


@pytest.mark.parametrize("row", table("what cannot be used"), ids=lambda row: row["what cannot be used"])
def test_what_a_job_that_has_begun_has_in_place_of_what_cannot_be_used(row: Row) -> None:
    what = row["what cannot be used"]
    plain = make_job().role("ps", 1).role("trainer", 3, least=1, most=4, edl="Manual")
    world = World(plain.build()).settle().all("running").settle()
    raw = plain.status(world.job.status).object()
    for field, value in SPOILT.get(what, {}).items():
        raw["spec"] = merged(raw["spec"], {field: value})
    if what in BY_ANNOTATION:
        raw["metadata"]["annotations"] = {BY_ANNOTATION[what]: "{"}
    observed = observe(*world.pods.values(), *world.services.values())
    job = judge(parse(plain.resource, raw), observed, RULES)
    assert isinstance(job, TrainingJob)
    assert job.errors
    assert {role.name: role.replicas for role in job.roles} == {"ps": 1, "trainer": 3}
    makes = {"as ever": {"ps", "trainer"}, "none, of the role": {"ps"}, "none": set()}[row["new pods"]]
    assert {role.name for role in job.roles if role.makes_pods} == makes
    assert (job.suspend, job.fail_policy, job.time_limit_seconds) == (False, "Any", None)
    plan = decide(job, observed)
    assert plan.writes == ()


def merged(old: Any, patch: Any) -> Any:
    return (
        {**old, **{n: merged(old.get(n), p) for n, p in patch.items()}} if isinstance(patch, dict) and patch else patch
    )
