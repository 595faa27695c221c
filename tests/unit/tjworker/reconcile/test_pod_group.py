"""What a pass does about a job's PodGroup: made, kept up with, made again, and what becomes of the pods meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.support.builders import PodBuilder, make_job, make_pod, make_training_job, observe
from tests.support.builders.job import JobBuilder
from tests.support.guests import guest_job, parsed
from tests.unit.tjworker.reconcile.passes import NOW, NOW_TEXT, RULES, created, decide, status_of
from tjworker.api.model import TrainingJob
from tjworker.api.observed import Observed, PodGroupRecord
from tjworker.api.podgroups import GROUP_ANNOTATION, GROUP_LABEL
from tjworker.api.status import Ending
from tjworker.base import GroupResource
from tjworker.reconcile.gangs import GANGS
from tjworker.reconcile.plan import Create, Delete, Plan, Write
from tjworker.reconcile.pod_group import gang_size
from tjworker.reconcile.rules import Rules


def rules(gang: str) -> Rules:
    return replace(RULES, gang=gang)


def trainers(replicas: int = 3, **fields: Any) -> JobBuilder:
    return make_job().role("trainer", replicas, **fields)


def group(job: TrainingJob, size: int, **fields: object) -> PodGroupRecord:
    return replace(PodGroupRecord("digits", "uid-of-group", 7, job.uid, size=size), **fields)  # type: ignore[arg-type]


def seen(gang: str, job: TrainingJob, groups: Sequence[PodGroupRecord], pods: Sequence[PodBuilder]) -> Observed:
    return replace(observe(*pods), pod_groups={GANGS[gang].resource: tuple(groups)})


def words(writes: Sequence[Write]) -> list[str]:
    """Without services: `+` made, `-` deleted, `~` changed."""
    signs = {Create: "+", Delete: "-"}
    found = [f"{signs.get(type(w), '~')}{w.resource.partition('.')[0]}/{w.name}" for w in writes]
    return sorted(word for word in found if "services" not in word)


MEMBERS = {
    "waits": lambda pod: pod,
    "runs": lambda pod: pod.on("a").running(),
    "succeeded": lambda pod: pod.on("a").succeeded(),
}


@dataclass(frozen=True)
class Case:
    pods: Sequence[str]
    """Of each index what its pod does: `waits` for a node, `runs`; `+` in the group, `` none."""
    size: int | None
    """Of the group that is there."""
    want: Sequence[str]
    """Writes; the same with each scheduler, unless `want_resized`."""
    want_resized: Sequence[str] | None = None
    """Where the number of a group can be changed."""
    job: JobBuilder = field(default_factory=trainers)
    deleted: bool = False
    want_group: str = "digits"
    """Of the pods that are made."""


POD = "pods/digits-trainer-"
GROUP = "podgroups/digits"
CASES: dict[str, Case] = {
    "The group is made first, and no pod before it is there": Case(["", "", ""], None, [f"+{GROUP}"]),
    "The group is there: the pods are made in it": Case(["", "", ""], 3, [f"+{POD}{n}" for n in range(3)]),
    "A pod is replaced in its group": Case(["runs+", "", "runs+"], 3, [f"+{POD}1"]),
    "Nothing is missing: nothing is done": Case(["runs+", "waits+", "runs+"], 3, []),
    "A group too big of which none runs is made again, with its pods": Case(
        ["waits+", "waits+", "waits+"], 5, [f"-{GROUP}", *(f"-{POD}{n}" for n in range(3))], [f"~{GROUP}"]
    ),
    "One too small as well": Case(
        ["waits+", "waits+", ""], 2, [f"-{GROUP}", f"-{POD}0", f"-{POD}1"], [f"+{POD}2", f"~{GROUP}"]
    ),
    "A group too small of which some run stays: the others join them one by one": Case(
        ["runs+", "runs+", ""], 2, [f"+{POD}2"], [f"+{POD}2", f"~{GROUP}"]
    ),
    "A group too big of which some run cannot take the missing one: it is made alone": Case(
        ["runs+", "runs+", ""], 5, [f"+{POD}2"], [f"+{POD}2", f"~{GROUP}"], want_group=""
    ),
    "One that waits in such a group for ever is deleted, to be made alone": Case(
        ["runs+", "runs+", "waits+"], 5, [f"-{POD}2"], [f"~{GROUP}"]
    ),
    "Pods from before gang scheduling are no members: the group is of those to come": Case(
        ["runs", "runs", ""], None, [f"+{GROUP}"]
    ),
    "Where all run from before no group is made": Case(["runs", "runs", "runs"], None, []),
    "A deleted group is waited for": Case(["", "", ""], 3, [], deleted=True),
    "A deleted group that its pods hold goes on counting": Case(["runs+", "runs+", ""], 3, [f"+{POD}2"], deleted=True),
}


def played(case: Case, gang: str) -> tuple[TrainingJob, Plan]:
    job = case.job.build()
    pods = []
    for index, what in enumerate(case.pods):
        if what:
            pod = MEMBERS[what.rstrip("+")](make_pod(job, "trainer", index))
            pods.append(pod.but(pod_group="digits" if what.endswith("+") else ""))
    groups = [] if case.size is None else [group(job, case.size, deleted_at=int(NOW) if case.deleted else None)]
    return job, decide(job, seen(gang, job, groups, pods), rules=rules(gang))


@pytest.mark.parametrize("gang", GANGS)
@pytest.mark.parametrize("sentence", CASES)
def test_a_pass_over_a_gang(sentence: str, gang: str) -> None:
    case = CASES[sentence]
    resizes = GANGS[gang].resize is not None
    _, plan = played(case, gang)
    assert words(plan.writes) == sorted(case.want_resized if resizes and case.want_resized is not None else case.want)
    for body in (w.body for w in plan.writes if isinstance(w, Create) and w.resource == "pods"):
        meta, spec = body["metadata"], body["spec"]
        told = (
            spec.get("schedulingGroup", {}).get("podGroupName")
            or meta.get("annotations", {}).get("scheduling.k8s.io/group-name")
            or meta["labels"].get("scheduling.x-k8s.io/pod-group", "")
        )
        assert told == ("digits" if resizes else case.want_group)


def test_the_launcher_of_an_mpi_job_is_not_waited_for() -> None:
    """It is made when the workers are ready, and they start together."""
    job = make_job().spec(frameworkType="mpi").role("launcher", 1).role("worker", 4).build()
    assert gang_size(job) == 4
    plan = decide(job, seen("kubernetes", job, [group(job, 4)], []), rules=rules("kubernetes"))
    assert created(plan) == [f"digits-worker-{n}" for n in range(4)]


def test_nor_does_a_group_count_on_a_launcher_that_waits_for_the_groups_own_pods() -> None:
    job = make_job().spec(frameworkType="mpi").role("launcher", 1).role("worker", 3).build()
    earlier = [make_pod(job, "worker", n).on("a").running() for n in range(2)]  # before gang scheduling
    (made,) = [w for w in decide(job, observe(*earlier), rules=rules("volcano")).writes if "podgroups" in w.resource]
    assert isinstance(made, Create)
    assert made.body["spec"]["minMember"] == 1


@pytest.mark.parametrize("gang", GANGS)
def test_what_keeps_the_pods_of_an_edl_job_waits_for_the_group_as_well(gang: str) -> None:
    """A ReplicaSet or batch Job would have its pods made at once."""
    job = make_training_job().build()
    assert words(decide(job, rules=rules(gang)).writes) == [f"+{GROUP}"]
    later = decide(job, seen(gang, job, [group(job, gang_size(job))], []), rules=rules(gang))
    assert [word for word in words(later.writes) if "podgroups" in word] == []
    assert len(words(later.writes)) == len(job.roles)


def in_the_template(job: TrainingJob, meta: dict[str, Any], spec: dict[str, Any]) -> TrainingJob:
    template = job.roles[0].template
    changed = {**template, "metadata": meta, "spec": {**template["spec"], **spec}}
    return replace(job, roles=(replace(job.roles[0], template=changed),))


NAMED: dict[str, Callable[[TrainingJob], TrainingJob]] = {
    "an annotation of the template": lambda job: in_the_template(
        job, {"annotations": {"scheduling.k8s.io/group-name": "theirs"}}, {}
    ),
    "a label of the template": lambda job: in_the_template(
        job, {"labels": {"scheduling.x-k8s.io/pod-group": "theirs"}}, {}
    ),
    "a field of the template": lambda job: in_the_template(job, {}, {"schedulingGroup": {"podGroupName": "theirs"}}),
    "an annotation of the job": lambda job: replace(job, annotations={"scheduling.k8s.io/group-name": "theirs"}),
    "a label of the job": lambda job: replace(job, labels={"scheduling.x-k8s.io/pod-group": "theirs"}),
}


@pytest.mark.parametrize("where", NAMED)
def test_a_pod_group_of_the_users_own_counts_and_none_is_made(where: str) -> None:
    plan = decide(NAMED[where](trainers(2).build()), rules=rules("kubernetes"))
    bodies = [w.body for w in plan.writes if isinstance(w, Create) and w.resource == "pods"]
    assert [body["spec"]["schedulingGroup"] for body in bodies] == [{"podGroupName": "theirs"}] * 2
    assert not [w for w in plan.writes if "podgroups" in w.resource]


@pytest.mark.parametrize("policy", ["All", "Running", "None"])
def test_the_group_goes_at_every_end(policy: str) -> None:
    job = trainers(1).build()
    ending = Ending(phase="Failed", reason="X", message="x", time=NOW_TEXT)
    ends = replace(
        job,
        clean_pod_policy=policy,  # type: ignore[arg-type]
        status=job.status.model_copy(update={"phase": "Terminating", "start_time": NOW_TEXT, "ending": ending}),
    )
    first = decide(ends, seen("kubernetes", ends, [group(ends, 1)], []), rules=rules("kubernetes"))
    assert words(first.writes) == [f"-{GROUP}"]
    assert first.status is None or first.status.phase == "Terminating"
    going = seen("kubernetes", ends, [group(ends, 1, deleted_at=int(NOW))], [])
    assert status_of(decide(ends, going, rules=rules("kubernetes"))).phase == "Failed", "held by pods that stay"


@pytest.mark.parametrize("gang", GANGS)
def test_a_pod_group_that_only_the_metadata_of_a_guest_names_is_not_that_of_its_pods(gang: str) -> None:
    """Pods of another operator's kind take over no metadata of their job, so they would be in no group at all."""
    raw = guest_job(GroupResource("pytorchjobs.kubeflow.org"))
    named = {"labels": {GROUP_LABEL: "other"}, "annotations": {GROUP_ANNOTATION: "other"}}
    meta = {**raw["metadata"], **named, "namespace": "default"}
    job = parsed(GroupResource("pytorchjobs.kubeflow.org"), {**raw, "metadata": meta})
    plan = decide(job, seen(gang, job, (), ()), rules=rules(gang))
    assert words(plan.writes) == [f"+podgroups/{job.name.name}"]
