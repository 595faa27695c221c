"""What follows an edit of a job while it runs: the table of docs/lifecycle.md, row by row, over the real parser, and
where the API server refuses, over the local one with the CRD."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from localcluster.client import ApiError
from tests.scenarios import world as lives
from tests.support.builders import PodBuilder, make_job, make_training_job, observe
from tests.support.builders.job import JobBuilder
from tests.support.kinds import AITRAININGJOBS
from tests.unit.tjworker.autoscale.test_decide import EIGHT_CPUS, NOW, an_elastic, running
from tests.unit.tjworker.reconcile.passes import World, decide
from tests.unit.tjworker.reconcile.test_lifecycle_page import table
from tjworker.api.model import BatchSize
from tjworker.api.resources import PODS
from tjworker.autoscale import AutoscaleRules
from tjworker.autoscale.decide import pose
from tjworker.autoscale.problem import ElasticRole
from tjworker.reconcile.plan import Create

ROLE = "spec.replicaSpecs.<role>"


def base(**role: Any) -> JobBuilder:
    return make_job().role("trainer", 2, **role)


@dataclass
class AtOnce:
    before: JobBuilder
    after: JobBuilder
    want: str
    """The phase that the edited job comes to by itself, where the job as it was would have stayed Running."""
    then: Callable[[World], object] = lambda world: None
    """What happens to the pods before the edit."""
    later: Callable[[World], object] = lambda world: None
    """What happens to them after it."""
    want_unedited: str = "Running"


def succeed_0(world: World) -> None:
    world.set("digits-trainer-0", "succeeded")


def fail_0(world: World) -> None:
    world.set("digits-trainer-0", "failed", exit_code=1)


def half_an_hour(world: World) -> None:
    world.now += 1800


def all_succeed(world: World) -> None:
    world.all("succeeded")


AT_ONCE: dict[str, AtOnce] = {
    "`spec.suspend`": AtOnce(base(), base().suspended(), "Suspended"),
    "`spec.timeLimit`": AtOnce(base(), base().spec(timeLimit=60), "Timeout", then=half_an_hour),
    "`spec.restartingExitCode`": AtOnce(
        base(restart="ExitCode").spec(restartingExitCode="1"),
        base(restart="ExitCode").spec(restartingExitCode="2"),
        "Failed",
        later=fail_0,
    ),
    "`spec.cleanPodPolicy`": AtOnce(
        base(),
        base().spec(cleanPodPolicy="None"),
        "Succeed, 2 pods",
        later=all_succeed,
        want_unedited="Succeed, 0 pods",
    ),
    "`spec.completePolicy`": AtOnce(
        base().role("ps", 1).spec(completePolicy="All"),
        base().role("ps", 1).spec(completePolicy="Any"),
        "Succeed",
        then=lambda w: w.set("digits-ps-0", "succeeded"),
    ),
    "`spec.failPolicy`": AtOnce(
        base().role("ps", 1).spec(failPolicy="All"),
        base().role("ps", 1).spec(failPolicy="Any"),
        "Failed",
        then=lambda w: w.set("digits-ps-0", "failed"),
    ),
    "`spec.runPolicy.activeDeadlineSeconds`": AtOnce(
        base(), base().run_policy(activeDeadlineSeconds=60), "Failed", then=half_an_hour
    ),
    "`spec.runPolicy.backoffLimit`": AtOnce(
        base(restart="OnFailure"), base(restart="OnFailure").run_policy(backoffLimit=0), "Failed", later=fail_0
    ),
    f"`{ROLE}.replicas`": AtOnce(
        base(), make_job().role("trainer", 3), "Running, 3 pods", want_unedited="Running, 2 pods"
    ),
    f"`{ROLE}.restartPolicy`": AtOnce(base(restart="OnFailure"), base(restart="Never"), "Failed", later=fail_0),
    f"`{ROLE}.restartScope`": AtOnce(
        base(restart="OnFailure", scope="Pod"),
        base(restart="OnFailure", scope="All"),
        "Running, 2 restarted",
        later=fail_0,
        want_unedited="Running, 1 restarted",
    ),
    f"`{ROLE}.restartLimit`": AtOnce(
        base(restart="OnFailure", limit=1), base(restart="OnFailure", limit=0), "Failed", later=fail_0
    ),
    f"`{ROLE}.completePolicy`": AtOnce(base(), base(complete="Rank0"), "Succeed", then=succeed_0),
    f"`{ROLE}.failPolicy`": AtOnce(base(fail="All"), base(fail="Any"), "Failed", then=fail_0),
    "annotations `Preempted`, `Failed`, `NodeFail`": AtOnce(
        base(), base().annotate({"NodeFail": "it burns"}), "NodeFail"
    ),
}


def _outcome(case: AtOnce, spec: JobBuilder) -> str:
    world = World(case.before.build()).settle().all("running").settle()
    case.then(world)
    world.settle()
    world.job = spec.status(world.job.status).build()
    case.later(world)
    world.settle()
    for name in world.pods:
        if world.record(name).phase == "Pending":
            world.set(name, "running")
    world.settle()
    restarted = sum(attempt > 0 for attempt in world.attempts().values())
    phase = world.job.status.phase
    if PODS in case.want:
        return f"{phase}, {len(world.pods)} pods"
    return f"{phase}, {restarted} restarted" if "restarted" in case.want else phase


@pytest.mark.parametrize("case", AT_ONCE.values(), ids=AT_ONCE.keys())
def test_what_follows_at_once(case: AtOnce) -> None:
    assert _outcome(case, case.before) == case.want_unedited
    assert _outcome(case, case.after) == case.want


BATCH = {"initial": 128, "max": 4096, "perReplicaMin": 8, "perReplicaMax": 256}
EDL = make_training_job(least=1, most=10, fault_tolerant=True).status(phase="Running")
AUTOSCALER: dict[str, tuple[JobBuilder, JobBuilder, Callable[[list[ElasticRole]], object], object]] = {
    f"`{ROLE}.edlPolicy`": (an_elastic(), an_elastic(edl="Manual"), len, 0),
    f"`{ROLE}.minReplicas`": (an_elastic(), an_elastic(least=2), lambda r: r[0].elastic.min_instance, 2),
    f"`{ROLE}.maxReplicas`": (an_elastic(), an_elastic(most=9), lambda r: r[0].elastic.max_instance, 9),
    f"`{ROLE}.batchSize`": (
        an_elastic(),
        make_job().role("trainer", 2, least=1, most=10, edl="Auto", batchSize=BATCH).status(phase="Running"),
        lambda r: r[0].batch_size,
        BatchSize(128, 4096, 8, 256),
    ),
    "annotation `elasticdeeplearning.ai/batch-size`": (
        EDL,
        EDL.annotate({"elasticdeeplearning.ai/batch-size": json.dumps(BATCH)}),
        lambda r: r[0].batch_size,
        BatchSize(128, 4096, 8, 256),
    ),
    "annotation `elasticdeeplearning.ai/autoscale-policy`": (
        an_elastic(),
        an_elastic().annotate({"elasticdeeplearning.ai/autoscale-policy": "goodput"}),
        lambda r: r[0].policy,
        "goodput",
    ),
}


@pytest.mark.parametrize("case", AUTOSCALER.values(), ids=AUTOSCALER.keys())
def test_what_the_next_run_of_the_autoscaler_plans_with(
    case: tuple[JobBuilder, JobBuilder, Callable[[list[ElasticRole]], object], object],
) -> None:
    before, after, read, want = case

    def planned(builder: JobBuilder) -> list[ElasticRole]:
        return list(pose([running(builder)], EIGHT_CPUS, {}, NOW, AutoscaleRules()).problem.roles)

    assert read(planned(before)) != want
    assert read(planned(after)) == want


def test_a_ttl_outlives_a_redis_that_forgets_everything() -> None:
    """A finished job is in no resync, so nothing else would look at it again."""
    manifest = lives.job(
        {"trainer": lives.role(1, annotations=lives.play(run_seconds=2))}, runPolicy={"ttlSecondsAfterFinished": 20}
    )
    world = lives.World().apply(manifest).run().advance(5)
    assert world.phase() == "Succeed"
    world.store.flush()
    world.start_watcher()
    world.run().advance(30)
    assert world.get(AITRAININGJOBS)["items"] == []


def _image(builder: JobBuilder, image: str) -> JobBuilder:
    raw = copy.deepcopy(builder.raw)
    raw["spec"]["replicaSpecs"]["trainer"]["template"]["spec"]["containers"][0]["image"] = image
    return JobBuilder(raw, builder.resource)


SCALED = make_job().role("trainer", 2)
NEXT_PODS: dict[str, tuple[JobBuilder, Callable[[Any], object], object]] = {
    f"`{ROLE}.template`": (_image(SCALED, "trainer:2"), lambda b: b["spec"]["containers"][0]["image"], "trainer:2"),
    "`spec.schedulerName`": (SCALED.spec(schedulerName="volcano"), lambda b: b["spec"]["schedulerName"], "volcano"),
    "`spec.priority`": (SCALED.spec(priority="high"), lambda b: b["metadata"]["labels"]["priority"], "high"),
    "`metadata.labels`": (SCALED.labels(team="vision"), lambda b: b["metadata"]["labels"]["team"], "vision"),
    "`metadata.annotations`": (SCALED.annotate({"a": "b"}), lambda b: b["metadata"]["annotations"]["a"], "b"),
}


@pytest.mark.parametrize("case", NEXT_PODS.values(), ids=NEXT_PODS.keys())
def test_what_the_next_pods_have(case: tuple[JobBuilder, Callable[[Any], object], object]) -> None:
    builder, read, want = case
    world = World(base().build()).settle().all("running").settle()
    before: dict[str, PodBuilder] = dict(world.pods)
    world.job = builder.status(world.job.status).build()
    assert world.step().writes == ()
    assert world.settle().pods == before
    world.lose("digits-trainer-1")
    plan = decide(world.job, observe(*world.pods.values(), *world.services.values()))
    made = [w for w in plan.writes if isinstance(w, Create) and w.resource == PODS]
    assert [read(w.body) for w in made] == [want]


def _with_role(spec: Any) -> None:
    spec["replicaSpecs"]["eval"] = copy.deepcopy(spec["replicaSpecs"]["trainer"])


REFUSED: dict[str, tuple[JobBuilder, Callable[[Any], object], str]] = {
    "another role in `spec.replicaSpecs`, or one less": (
        base(),
        _with_role,
        "roles cannot be added to a job or removed",
    ),
    "`replicas` while `edlPolicy` is `Never`": (
        base(edl="Never"),
        lambda s: s["replicaSpecs"]["trainer"].update(replicas=3),
        "replicas cannot change while edlPolicy",
    ),
    "`replicas` outside of `minReplicas` and `maxReplicas`": (
        base(least=1, most=3),
        lambda s: s["replicaSpecs"]["trainer"].update(replicas=4),
        "it must be at most maxReplicas (3)",
    ),
    "`minReplicas` above `replicas`": (
        base(least=1, most=3),
        lambda s: s["replicaSpecs"]["trainer"].update(minReplicas=3),
        "at least minReplicas (3)",
    ),
    "`cleanPodPolicy` and `runPolicy.cleanPodPolicy` unlike": (
        base(),
        lambda s: s.update(cleanPodPolicy="All", runPolicy={"cleanPodPolicy": "None"}),
        "must agree",
    ),
    "`replicas` 0 for the only role": (
        base(),
        lambda s: s["replicaSpecs"]["trainer"].update(replicas=0),
        "at least one role must have replicas",
    ),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused(case: tuple[JobBuilder, Callable[[Any], object], str]) -> None:
    builder, edit, want = case
    world = lives.World().apply(builder.manifest()).run()
    spec = world.get(AITRAININGJOBS, "digits")["spec"]
    edit(spec)
    pods = world.uids()
    with pytest.raises(ApiError, match=want.replace("(", r"\(").replace(")", r"\)")):
        world.patch_job("digits", {"spec": spec})
    assert world.run().uids() == pods


def test_the_page_has_a_row_for_each_of_these_and_no_other() -> None:
    rows = {row["field"]: row["an edit"] for row in table("field")}
    want = dict.fromkeys([*AT_ONCE, *AUTOSCALER, "`spec.runPolicy.ttlSecondsAfterFinished`"], "at once")
    want |= dict.fromkeys(NEXT_PODS, "next pods") | dict.fromkeys(REFUSED, "refused")
    assert rows == want
