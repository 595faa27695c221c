"""What a job asks of its gang scheduler beside the number: queue, priority class, resources, time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import pytest

from localcluster.patch.merge_patch import merge
from tests.support.builders import make_job, make_pod
from tests.support.guests import guest_job
from tests.support.kinds import TEST_KINDS
from tests.support.tiers import one_in
from tests.unit.tjworker.reconcile.passes import condition, decide, status_of
from tests.unit.tjworker.reconcile.test_pod_group import group, rules, seen, trainers
from tjworker.api import kinds
from tjworker.api.kinds import KNOWN_KINDS
from tjworker.api.model import GangPolicy, InvalidJob, TrainingJob
from tjworker.api.podgroups import pod_group_record
from tjworker.api.status import JobStatus, ReplicaStatus
from tjworker.base import GroupResource
from tjworker.reconcile.plan import Create, Delete, Patch, Plan, Write

QUEUE = "scheduling.volcano.sh/queue-name"


def made(plan: Plan, what: str) -> Mapping[str, Any]:
    return next(w.body for w in plan.writes if isinstance(w, Create) and what in w.resource)


@dataclass(frozen=True)
class Case:
    gang: str
    policy: Mapping[str, Any] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    priority_class: str = ""
    """That spec.priority names."""
    want: Mapping[str, Any] = field(default_factory=dict)
    """In the PodGroup's spec."""
    want_pods: str | None = None
    """Their priorityClassName."""


CASES: dict[str, Case] = {
    "Volcano's queue, by the field": Case("volcano", {"queue": "research"}, want={"queue": "research"}),
    "by the annotation that Volcano's users write": Case(
        "volcano", annotations={QUEUE: "research"}, want={"queue": "research"}
    ),
    "empty names, as Go's clients write them, are none": Case("volcano", {"queue": "", "priorityClass": ""}),
    "an empty queue leaves that of the annotation": Case(
        "volcano", {"queue": ""}, {QUEUE: "research"}, want={"queue": "research"}
    ),
    "others have no queues": Case("kubernetes", {"queue": "research"}, {QUEUE: "research"}, want={}),
    "a priority class is the group's and the pods'": Case(
        "volcano", {"priorityClass": "urgent"}, want={"priorityClassName": "urgent"}, want_pods="urgent"
    ),
    "with Kubernetes' own, too": Case(
        "kubernetes", {"priorityClass": "urgent"}, want={"priorityClassName": "urgent"}, want_pods="urgent"
    ),
    "coscheduling's groups have none, its pods do": Case(
        "scheduler-plugins", {"priorityClass": "urgent"}, want={}, want_pods="urgent"
    ),
    "that of spec.priority where the policy names none": Case(
        "volcano", priority_class="high", want={"priorityClassName": "high"}, want_pods="high"
    ),
    "the policy's goes before it, for both": Case(
        "volcano", {"priorityClass": "urgent"}, {}, "high", {"priorityClassName": "urgent"}, "urgent"
    ),
    "resources of the whole": Case("volcano", {"minResources": {"cpu": 8}}, want={"minResources": {"cpu": 8}}),
    "the time for which found room is held": Case(
        "scheduler-plugins", {"scheduleTimeoutSeconds": 0}, want={"scheduleTimeoutSeconds": 0}
    ),
}
NUMBERS: Mapping[str, Mapping[str, Any]] = {
    "kubernetes": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    "volcano": {"minMember": 2},
    "scheduler-plugins": {"minMember": 2},
}


@pytest.mark.parametrize("sentence", CASES)
def test_what_is_asked_comes_to_the_group_and_the_pods(sentence: str) -> None:
    case = CASES[sentence]
    job = trainers(2).annotate(dict(case.annotations)).run_policy(schedulingPolicy=dict(case.policy)).build()
    job = replace(job, priority_class=case.priority_class)
    assert made(decide(job, rules=rules(case.gang)), "podgroups")["spec"] == {**NUMBERS[case.gang], **case.want}
    pod = made(decide(job, seen(case.gang, job, [group(job, 2)], []), rules=rules(case.gang)), "pods")
    assert pod["spec"].get("priorityClassName") == case.want_pods


def of_a_guest(**fields: Any) -> TrainingJob:
    """Kubeflow's schema lets any text pass."""
    return replace(trainers(2).build(), gang=GangPolicy(**fields))


MALFORMED: dict[str, tuple[str, TrainingJob, str]] = {
    "a queue by annotation": (
        "volcano",
        trainers(2).annotate({QUEUE: "Team A"}).build(),
        f"metadata.annotations[{QUEUE}]: 'Team A': must be a name in lower case, such as research or team-a.research",
    ),
    "a priority class, by the name that KubeDL gives the field": (
        "kubernetes",
        of_a_guest(priority_class="Very High", path="spec.schedulingPolicy", priority_class_field="priorityClassName"),
        "spec.schedulingPolicy.priorityClassName: 'Very High': must be a name in lower case",
    ),
    "a resource": (
        "scheduler-plugins",
        of_a_guest(min_resources={"cpu": "lots"}),
        "spec.runPolicy.schedulingPolicy.minResources[cpu]: 'lots': must be a quantity, such as 1, 500m or 1Gi",
    ),
}


@pytest.mark.parametrize("sentence", MALFORMED)
def test_what_the_scheduler_cannot_read_is_refused_and_nothing_is_made(sentence: str) -> None:
    gang, job, want = MALFORMED[sentence]
    plan = decide(job, rules=rules(gang))
    told, reason, message = condition(status_of(plan), "Failed")
    assert (told, reason, plan.writes) == ("True", "InvalidSpec", ())
    assert want in message


@pytest.mark.parametrize("gang", ["none", "kubernetes"])
def test_what_no_scheduler_acts_on_is_told_as_such_and_refused_by_nobody(gang: str) -> None:
    job = trainers(2).annotate({QUEUE: "Team A"}).build()
    assert "schedulingPolicy.queue (" in condition(status_of(decide(job, rules=rules(gang))), "Created")[2]


def test_of_a_job_that_has_begun_no_group_is_made_until_its_policy_is_mended() -> None:
    job = trainers(2).annotate({QUEUE: "Team A"}).build()
    begun = replace(job, status=job.status.model_copy(update={"start_time": "2026-01-01T00:00:00Z"}))
    plan = decide(begun, rules=rules("volcano"))
    assert condition(status_of(plan), "Failed")[:2] == ("False", "InvalidSpec")
    assert plan.writes == ()


Policy = Mapping[str, Any]


def asking(policy: Policy, priority_class: str = "") -> TrainingJob:
    """A job of two. `priority_class`: that spec.priority names."""
    job = trainers(2).run_policy(schedulingPolicy=dict(policy)).build()
    return replace(job, priority_class=priority_class)


def group_of(gang: str, job: TrainingJob) -> Mapping[str, Any]:
    """As it is made of this job."""
    return made(decide(job, seen(gang, job, [], []), rules=rules(gang)), "podgroups")


def edited(
    gang: str, before: Policy, after: Policy, *, waits: bool = False, priority_class: str = "", **fields: Any
) -> list[Write]:
    """What a pass after the edit does about the group, of a job of two whose group was made before it."""
    job, first = asking(after, priority_class), group_of(gang, asking(before, priority_class))
    meta = {**first["metadata"], "uid": "uid-of-group", "resourceVersion": "7"}
    there = replace(pod_group_record(dict(first), meta, job.uid), **fields)
    members = [make_pod(job, "trainer", i).but(pod_group="digits") for i in range(2)]
    pods = members if waits else [pod.on("a").running() for pod in members]
    plan = decide(job, seen(gang, job, [there], pods), rules=rules(gang))
    return [write for write in plan.writes if "podgroups" in write.resource]


VALUES: Mapping[str, Sequence[Any]] = {
    "queue": ("research", "vision"),
    "priorityClass": ("urgent", "idle"),
    "minResources": ({"cpu": 8, "memory": "1Gi"}, {"cpu": 4}),
    "scheduleTimeoutSeconds": (60, 5),
}


def edits() -> Iterator[tuple[Policy, Policy]]:
    """Each field alone, and all of them at once: from nothing or either value to nothing or either value."""
    for fields in (*((name,) for name in VALUES), tuple(VALUES)):
        states = [{}, *({name: VALUES[name][which] for name in fields} for which in (0, 1))]
        yield from product(states, states)


@pytest.mark.parametrize("priority_class", one_in(2, ["", "high"]), ids=["no spec.priority", "with spec.priority"])
@pytest.mark.parametrize("gang", ["volcano", "scheduler-plugins"])
def test_after_any_edit_the_group_is_as_if_it_were_made_of_the_edited_job(gang: str, priority_class: str) -> None:
    for before, after in edits():
        spec = group_of(gang, asking(before, priority_class))["spec"]
        for write in edited(gang, before, after, priority_class=priority_class):
            assert isinstance(write, Patch)
            spec = merge(spec, write.body["spec"])
        assert spec == group_of(gang, asking(after, priority_class))["spec"], (before, after)


@pytest.mark.parametrize("noted", ["lots", "[]", "7", '{"minResources": 7}', '{"queue": "research"'])
def test_whatever_stands_in_the_annotation_it_is_put_right(noted: str) -> None:
    (patch,) = edited("volcano", {}, {"queue": "vision"}, asked=noted)
    assert isinstance(patch, Patch)
    assert patch.body["spec"]["queue"] == "vision"


UNREADABLE: Mapping[str, Any] = {
    "a number in words": {"schedulingPolicy": {"minAvailable": "many"}},
    "a number out of its bounds": {"schedulingPolicy": {"minAvailable": -1}},
    "a scheduling policy that is a word": {"schedulingPolicy": "together"},
    "a scheduling policy that is a list": {"schedulingPolicy": [2]},
    "a run policy that is a word": "together",
    "a run policy that is a list": [2],
}
"""What stands in the place of the run policy after an edit, where an API server with an older schema lets it pass."""


def begun(resource: GroupResource, run_policy: Any) -> TrainingJob | InvalidJob:
    """A job that has run, with this run policy now."""
    kind = KNOWN_KINDS[resource]
    raw = guest_job(resource) if kind.guest else TEST_KINDS[resource].standing()
    read = kinds.parse(resource, raw)
    assert isinstance(read, TrainingJob)
    ran = JobStatus(
        phase="Running",
        start_time="2026-01-01T00:00:00Z",
        start_running_time="2026-01-01T00:00:00Z",
        replica_statuses={role.name: ReplicaStatus(desired=role.replicas) for role in read.roles},
    )
    raw["metadata"] |= {"namespace": "default", "uid": "uid-of-digits", "resourceVersion": "7", "generation": 2}
    *above, last = kind.run_policy_path
    into = raw
    for step in above:
        into = into[step]
    into[last] = {**into[last], **run_policy} if last == "spec" else run_policy
    return kinds.parse(resource, {**raw, "status": kind.placed(ran.to_json())})


@pytest.mark.parametrize("gang", ["volcano", "kubernetes"], ids=["can be changed", "is made again"])
@pytest.mark.parametrize("resource", [name for name, kind in KNOWN_KINDS.items() if not kind.companions])
def test_the_group_of_a_job_that_has_begun_stays_as_it_was_made_where_its_policy_cannot_be_read(
    resource: GroupResource, gang: str
) -> None:
    before = begun(resource, {"schedulingPolicy": {"minAvailable": 1}})
    assert isinstance(before, TrainingJob)
    first = group_of(gang, before)
    meta = {**first["metadata"], "uid": "uid-of-group", "resourceVersion": "7"}
    there = seen(gang, before, [pod_group_record(dict(first), meta, before.uid)], [])
    in_spec = KNOWN_KINDS[resource].run_policy_path == ("spec",)
    for edit, run_policy in UNREADABLE.items():
        if in_spec and not isinstance(run_policy, Mapping):
            continue  # the spec itself is the run policy, and no API server takes a spec that is no object
        after = begun(resource, run_policy)
        assert isinstance(after, InvalidJob), edit
        plan = decide(after, there, rules=rules(gang))
        assert [write for write in plan.writes if "podgroups" in write.resource] == [], edit
        assert condition(status_of(plan), "Failed")[:2] == ("False", "InvalidSpec"), edit


def test_a_group_that_cannot_be_changed_is_made_again_until_its_pods_have_nodes() -> None:
    urgent = {"priorityClass": "urgent"}
    assert edited("kubernetes", {}, urgent) == []
    (gone,) = edited("kubernetes", {}, urgent, waits=True)
    assert isinstance(gone, Delete)


def test_a_gang_larger_than_the_job_waits_and_says_so_until_it_is_mended_or_the_job_has_run() -> None:
    job = replace(make_job().role("trainer", 2).build(), min_available=10)
    plan = decide(job, rules=rules("volcano"))
    (made,) = plan.writes
    assert isinstance(made, Create)
    assert made.body["spec"]["minMember"] == 10
    told = (
        "spec.runPolicy.schedulingPolicy.minAvailable is 10, and the job has 2 pods: none starts until it is at most 2"
    )
    there = seen("volcano", job, [group(job, 10)], [])
    assert told in condition(status_of(decide(job, there, rules=rules("volcano"))), "Running")[2]
    ran = replace(job, status=job.status.model_copy(update={"start_running_time": "2026-01-01T00:00:00Z"}))
    (again,) = [w for w in decide(ran, rules=rules("volcano")).writes if isinstance(w, Create)]
    assert again.body["spec"]["minMember"] == 2
