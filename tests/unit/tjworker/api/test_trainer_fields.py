"""Each field of the internal job that a TrainJob becomes, each condition of its status, and each bound of its own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.trainer import RUNTIMES, Json, read, read_job, replicated, runtime, train_job
from tjworker.api import labels
from tjworker.api.ignored import Ignored
from tjworker.api.kinds.trainer import trainjob
from tjworker.api.kinds.trainer.status import write_status
from tjworker.api.model import After, GangPolicy, InvalidJob, LabelsOfGuest, Role, TrainingJob
from tjworker.api.podgroups import QUEUE_ANNOTATION
from tjworker.api.status import Condition, Failure, JobStatus, ReplicaStatus
from tjworker.api.timefmt import unix_seconds

MIN, MAX = "elasticdeeplearning.ai/min-nodes", "elasticdeeplearning.ai/max-nodes"
AUTOSCALE, NUM = "elasticdeeplearning.ai/autoscale", "elasticdeeplearning.ai/num-nodes"
AT = "2026-01-01T00:00:00Z"
NODE = Role(
    name="node-0",
    workload="Pod",
    replicas=1,
    template={},
    edl_policy="Never",
    restart_policy="Always",
    restart_words="OnFailure",
    fails_in_part=True,
    restart_scope="Pod",
    restart_limit=6,
    complete_policy="All",
    spec_path="spec.trainer.numNodes",
)


def roles(job: TrainingJob) -> list[Role]:
    """Without their templates."""
    return [replace(role, template={}) for role in job.roles]


def elastic(**told: str) -> Json:
    names = {"least": MIN, "most": MAX, "auto": AUTOSCALE, "nodes": NUM}
    return train_job(annotations={names[name]: value for name, value in told.items()}, trainer={})


ELASTIC = replace(
    NODE,
    min_replicas=1,
    max_replicas=4,
    edl_policy="Manual",
    restart_limit=None,
    spec_path="metadata.annotations[elasticdeeplearning.ai/num-nodes]",
)
ROLES: dict[str, tuple[Json, Json | None, list[Role]]] = {
    "one of torch": (train_job(), None, [NODE]),
    "an elastic one": (elastic(most="4"), None, [ELASTIC]),
    "the autoscaler moves it": (elastic(most="4", auto="true"), None, [replace(ELASTIC, edl_policy="Auto")]),
    "it asks for a number": (elastic(most="4", nodes="3"), None, [replace(ELASTIC, replicas=3)]),
    "it asks for more than it may": (elastic(most="4", nodes="9"), None, [replace(ELASTIC, replicas=4)]),
    "an elastic one whose failures are counted": (
        elastic(most="4"),
        runtime(replicated("node", step="trainer", backoffLimit=3)),
        [replace(ELASTIC, restart_limit=3)],
    ),
    "of torchtune": (
        train_job("torchtune-llama3.2-1b"),
        None,
        [
            replace(NODE, name="dataset-initializer-0", helper=True),
            replace(NODE, name="model-initializer-0", helper=True),
            replace(NODE, after=(After("dataset-initializer-0", "Complete"), After("model-initializer-0", "Complete"))),
        ],
    ),
    "of several child Jobs, each of which is waited for": (
        train_job(),
        runtime(
            {**replicated("data"), "replicas": 2},
            replicated("node", step="trainer", after={"data": "Ready"}),
            failurePolicy={"maxRestarts": 1},
        ),
        [
            replace(NODE, name="data-0", restart_scope="All", restart_limit=13),
            replace(NODE, name="data-1", restart_scope="All", restart_limit=13),
            replace(
                NODE, restart_scope="All", restart_limit=13, after=(After("data-0", "Ready"), After("data-1", "Ready"))
            ),
        ],
    ),
    "started in their order": (
        train_job(),
        runtime(replicated("a"), replicated("node", step="trainer"), startupPolicy={"startupPolicyOrder": "InOrder"}),
        [replace(NODE, name="a-0"), replace(NODE, after=(After("a-0", "Ready"),))],
    ),
}


@pytest.mark.parametrize("sentence", ROLES)
def test_the_roles_of_a_job(sentence: str) -> None:
    job, of, want = ROLES[sentence]
    assert roles(read_job(job, of)) == want


def test_the_fields_of_a_job() -> None:
    spec: Json = {"activeDeadlineSeconds": 7, "suspend": True, "annotations": {"a": "1"}, "labels": {"b": "2"}}
    of = runtime(
        ttlSecondsAfterFinished=9,
        network={"subdomain": "net"},
        successPolicy={"operator": "Any"},
        failurePolicy={"rules": [{"name": "r", "action": "FailJobSet"}]},
    )
    of["spec"]["podGroupPolicy"] = {"coscheduling": {"scheduleTimeoutSeconds": 11}}
    of["spec"]["template"]["metadata"] = {"annotations": {QUEUE_ANNOTATION: "gold"}}
    raw = train_job(**spec)
    raw["metadata"]["creationTimestamp"] = AT
    job = read_job(raw, of)
    found = {
        name: getattr(job, name)
        for name in (
            *("labels", "annotations", "created_at", "framework", "rendezvous", "active_deadline_seconds"),
            *("deadline_begins_anew", "ttl_seconds_after_finished", "ttl_keeps_job", "gang", "main_container"),
            *("clean_pod_policy", "limit_clean_policy", "complete_policy", "suspend", "guest_labels", "roles_path"),
            *("ignored", "subdomain", "secret", "claims", "scale_role"),
        )
    }
    assert found == {
        "labels": {"b": "2"},
        "annotations": {"a": "1"},
        "created_at": unix_seconds(AT),
        "framework": "any",
        "rendezvous": (),
        "active_deadline_seconds": 7,
        "deadline_begins_anew": True,
        "ttl_seconds_after_finished": 9,
        "ttl_keeps_job": True,
        "gang": GangPolicy(
            queue="gold",
            schedule_timeout_seconds=11,
            path="ClusterTrainingRuntime torch-distributed: spec.podGroupPolicy",
        ),
        "main_container": "node",
        "clean_pod_policy": "Running",
        "limit_clean_policy": "All",
        "complete_policy": "Any",
        "suspend": True,
        "guest_labels": LabelsOfGuest("", names=labels.JOBSET_NAMES, index_annotation=labels.COMPLETION_INDEX),
        "roles_path": "spec.runtimeRef",
        "ignored": (Ignored("failurePolicy.rules of the runtime", "every failure counts alike"),),
        "subdomain": "net",
        "secret": None,
        "claims": (),
        "scale_role": None,
    }
    grows = read_job(elastic(most="4"))
    assert (grows.framework, grows.rendezvous, grows.scale_role) == ("pytorch", ("node-0",), "node-0")
    (port,) = grows.role("node-0").template["spec"]["containers"][0]["ports"]
    assert port == {"containerPort": 29500, "name": "pytorchjob-port"}


WRONG: dict[str, tuple[Json, str]] = {
    "fewest alone": (elastic(least="2"), f"metadata.annotations[{MIN}]: has no effect without {MAX}; add that"),
    "a number alone": (elastic(nodes="2"), f"metadata.annotations[{NUM}]: has no effect without {MAX}; add that"),
    "none at least": (elastic(least="0", most="2"), f"[{MIN}]: '0': must be a number from 1 to 10000"),
    "a number of 5,000 digits": (elastic(most="9" * 5_000), f"[{MAX}]: '{'9' * 79}"),
    "autoscaled perhaps": (elastic(most="4", auto="yes"), f'[{AUTOSCALE}]: \'yes\': must be "true" or "false"'),
    "by torchtune": (
        train_job(annotations={MAX: "4"}, trainer={"command": ["tune", "run", "x"]}),
        f"[{MAX}]: an elastic job starts its program by torchrun",
    ),
    "without a trainer": (train_job(annotations={MAX: "4"}), f"[{MAX}]: an elastic job starts its program by torchrun"),
    "no pods": (train_job(trainer={"numNodes": 0}), "spec.trainer.numNodes: the job has no pods; suspend it"),
}


@pytest.mark.parametrize("sentence", WRONG)
def test_what_a_job_may_not_ask_for(sentence: str) -> None:
    raw, says = WRONG[sentence]
    made = read(raw)
    assert isinstance(made, InvalidJob)
    assert [says in str(error) for error in made.errors] == [True], made.errors


def test_bounds_count_at_their_edge() -> None:
    assert roles(read_job(elastic(most="10000")))[0].max_replicas == 10_000
    fixed = roles(read_job(elastic(least="4", most="4", nodes="1")))[0]
    assert (fixed.elastic, fixed.replicas) == (False, 4)
    five = {**replicated("a", parallelism=10_000), "replicas": 5}
    many = read(train_job(), runtime(five, replicated("node", step="trainer")))
    assert isinstance(many, InvalidJob)
    assert "the job has 50001 pods: they must be at most 50000" in str(many.errors[0])
    assert isinstance(
        read(train_job(), runtime({**five, "replicas": 4}, replicated("node", step="trainer"))), TrainingJob
    )


@pytest.mark.parametrize(("most", "fits"), [("1000", True), ("1001", False)])
def test_the_longest_pod_name_counts_the_most_nodes(most: str, fits: bool) -> None:
    raw = elastic(most=most)
    raw["metadata"]["name"] = "d" * 52  # and -node-0-999: 63 characters
    assert isinstance(read(raw), TrainingJob) is fits


TRAINERS: dict[str, tuple[Json, str]] = {
    "it is complete there": ({"conditions": [{"type": "Complete", "status": "True"}]}, "Succeed"),
    "it failed there": ({"conditions": [{"type": "Failed", "status": "True"}]}, "Failed"),
    "it is no longer suspended there": ({"conditions": [{"type": "Complete", "status": "False"}]}, ""),
    "its pods wait there": ({"jobsStatus": [{"name": "node", "active": 1}]}, "begun"),
    "this operator's own word goes before": (
        {"operator": {"phase": "Running"}, "conditions": [{"type": "Failed", "status": "True"}]},
        "Running",
    ),
    "what stands there makes no sense": ({"conditions": {"a": 1}, "jobsStatus": "x"}, ""),
}


@pytest.mark.parametrize("sentence", TRAINERS)
def test_a_job_that_kubeflows_trainer_has_seen(sentence: str) -> None:
    status, want = TRAINERS[sentence]
    made = read({**train_job(), "status": status})
    if want == "begun":
        assert isinstance(made, InvalidJob)
        assert made.for_good
        assert "another operator has begun this job" in str(made.errors[0])
    else:
        assert (isinstance(made, TrainingJob), made.status.phase) == (True, want)


def test_of_a_job_that_cannot_be_used_its_runtime_and_numbers_are_left() -> None:
    status = {"operator": {"phase": "Running", "snapshot": trainjob.JOB_KIND.snapshot(RUNTIMES["torch-distributed"])}}
    status["operator"]["replicaStatuses"] = {"node-0": {"desired": 3}}
    raw = {**train_job(trainer={"numNodes": 2, "numProcPerNode": "auto"}), "status": status}
    raw["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    rest = trainjob.JOB_KIND.rest(raw)
    assert rest is not None
    assert [(role.name, role.replicas, role.makes_pods) for role in rest.roles] == [("node-0", 3, False)]


def condition(kind: str, status: str = "True", reason: str = "R", message: str = "m") -> Condition:
    return Condition(
        type=kind, status=status, reason=reason, message=message, last_transition_time=AT, observed_generation=2
    )


CONDITIONS: dict[str, tuple[tuple[Condition, ...], list[tuple[str, str, str, str]]]] = {
    "it waits for its runtime": ((condition("Waiting"),), [("Waiting", "True", "R", "m")]),
    "it is suspended": ((condition("Suspended"),), [("Suspended", "True", "Suspended", "TrainJob is suspended")]),
    "it has resumed": ((condition("Suspended", "False"),), [("Suspended", "False", "Resumed", "TrainJob is resumed")]),
    "it is complete": (
        (condition("Succeeded"),),
        [("Complete", "True", "AllJobsCompleted", "jobset completed successfully")],
    ),
    "it ran out of time": (
        (condition("Failed", reason="DeadlineExceeded"),),
        [("Failed", "True", "DeadlineExceeded", "TrainJob exceeded its active deadline")],
    ),
    "it cannot be used": ((condition("Failed", reason="InvalidSpec"),), [("Failed", "True", "InvalidSpec", "m")]),
    "a pod failed": (
        (condition("Failed"),),
        [
            (
                "Failed",
                "True",
                "FailedJobs",
                "jobset failed due to one or more job failures (first failed job: digits-node-0); m",
            )
        ],
    ),
    "it runs": ((condition("Running"), condition("Created")), []),
}


@pytest.mark.parametrize("sentence", CONDITIONS)
def test_the_conditions_of_a_job(sentence: str) -> None:
    known, want = CONDITIONS[sentence]
    status = JobStatus(phase="Running", conditions=known, failures=(Failure(pod="digits-node-0-1", time=AT),))
    told = write_status(read_job(train_job()), status).get("conditions", [])
    assert [(c["type"], c["status"], c["reason"], c["message"]) for c in told] == want
    assert {(c["observedGeneration"], c["lastTransitionTime"]) for c in told} <= {(2, AT)}


def test_child_jobs_of_a_step_are_counted_together_and_one_that_is_held_back_is_not_active() -> None:
    of = runtime({**replicated("data"), "replicas": 2}, replicated("node", step="trainer", after={"data": "Complete"}))
    job = read_job(train_job(), of)

    def told(**statuses: ReplicaStatus) -> dict[str, str]:
        named = {name.replace("_", "-"): counts for name, counts in statuses.items()}
        rows = write_status(job, JobStatus(phase="Running", replica_statuses=named))["jobsStatus"]
        return {
            row["name"]: " ".join(f"{n} {name}" for name, n in sorted(row.items()) if name != "name" and n)
            for row in rows
        }

    one = ReplicaStatus(desired=1, pending=1)
    runs, done = ReplicaStatus(desired=1, active=1), ReplicaStatus(desired=1, succeeded=1)
    assert told(data_0=runs, data_1=one, node_0=one) == {"data": "2 active 1 ready", "node": ""}
    assert told(data_0=done, data_1=runs, node_0=one) == {"data": "1 active 1 ready 1 succeeded", "node": ""}
    assert told(data_0=done, data_1=done, node_0=one) == {"data": "2 succeeded", "node": "1 active"}
    assert told(data_0=done, data_1=runs, node_0=runs)["node"] == "1 active 1 ready", "its pods run: it was not held"
    placed = ReplicaStatus(desired=1, scheduled=1)
    assert told(data_0=placed, data_1=placed, node_0=one)["data"] == "2 active"


def test_what_the_job_sets_goes_before_what_the_runtime_has() -> None:
    pod: Json = {
        "containers": [
            {
                "name": "node",
                "image": "old",
                "command": ["old"],
                "args": ["old"],
                "env": [{"name": "A", "value": "old"}, {"name": "B", "value": "old"}],
                "ports": [{"containerPort": 29500, "name": "x"}, {"containerPort": 8080}],
            },
            {"name": "side", "image": "old"},
        ]
    }
    of = runtime(replicated("node", step="trainer", pod=pod), replicated("other"))
    new = {"image": "new", "command": ["new"], "args": ["new"], "env": [{"name": "A", "value": "new"}]}
    job = read_job(train_job(trainer=new), of)
    node, side = job.role("node-0").template["spec"]["containers"]
    assert (node["image"], node["command"], node["args"]) == ("new", ["new"], ["new"])
    assert [one for one in node["env"] if one["name"] in "AB"] == [
        {"name": "A", "value": "new"},
        {"name": "B", "value": "old"},
    ]
    assert node["ports"] == [{"containerPort": 8080}, {"containerPort": 29500}]
    assert side == {"name": "side", "image": "old"}
    assert job.role("other-0").template["spec"]["containers"][0]["image"] == "trainer:1"
    assert "env" not in job.role("other-0").template["spec"]["containers"][0]
