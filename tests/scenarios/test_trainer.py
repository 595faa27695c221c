"""TrainJobs of Kubeflow's Trainer, from a manifest to an end, as its users and its client see them.

What Trainer 2.3 makes and writes is said in its source: pkg/controller/trainjob_controller.go, plugins/jobset, and
JobSet's pkg/controllers/jobset_controller.go; the cases of its test/integration and test/e2e are played here.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from benchmarks.support.inprocess import InProcessTransport
from localcluster.client import ApiError
from tests.scenarios.world import World, play
from tests.support.pod_groups import POD_GROUP_CRDS
from tests.support.trainer import RUNTIME_PATH, RUNTIMES, replicated, runtime, train_job
from tjworker.api.resources import PODS, SECRETS, SERVICES
from tjworker.kube.port import HttpResponse
from tjworker.reconcile.gangs import GANGS

Json = dict[str, Any]
N0, N1, N2 = (f"digits-node-0-{i}" for i in range(3))
TRAIN: Json = {"numNodes": 2, "command": ["python", "train.py"]}
COMPLETE = ["Complete", "True", "AllJobsCompleted", "jobset completed successfully"]


def world(*runtimes: Json, **settings: Any) -> World:
    made = World(kinds="trainjobs.trainer.kubeflow.org", **settings)
    for one in runtimes or RUNTIMES.values():
        made.cluster.client.create(RUNTIME_PATH, one)
    return made


def played(**annotations: object) -> Json:
    """A runtime whose nodes run as the annotations say."""
    made = runtime()
    (job,) = made["spec"]["template"]["spec"]["replicatedJobs"]
    job["template"]["spec"]["template"]["metadata"] = {"annotations": play(**annotations)}
    return made


def pods(w: World) -> dict[str, Json]:
    return {pod["metadata"]["name"]: pod for pod in w.get(PODS)["items"]}


def conditions(w: World) -> list[list[str]]:
    """What Trainer's clients read."""
    told = w.status().get("conditions", ())
    return [[c["type"], c["status"], c["reason"], c["message"]] for c in told]


def counts(w: World) -> dict[str, dict[str, int]]:
    """By replicated job, those that are not 0."""
    listed = w.status()["jobsStatus"]
    return {one["name"]: {k: v for k, v in one.items() if k != "name" and v} for one in listed}


# -- a life ------------------------------------------------------------------------------------------------------------


def test_what_its_client_sees_of_a_job_that_runs_and_succeeds() -> None:
    w = world(played(run_seconds=20, exit_code=0)).apply(train_job(trainer=TRAIN)).run()
    assert set(pods(w)) == {N0, N1}
    assert counts(w) in ({"node": {"active": 1}}, {"node": {"active": 1, "ready": 1}})
    w.advance(5)
    assert conditions(w) == [], "its client calls a job running by its pods, and only while it has no condition"
    assert counts(w) == {"node": {"active": 1, "ready": 1}}
    w.advance(40)
    assert conditions(w) == [COMPLETE]
    assert counts(w) == {"node": {"succeeded": 1}}
    assert set(pods(w)) == {N0, N1}, "ended pods stay, with their logs"


def test_a_runtime_of_the_jobs_own_namespace_is_found_there_alone() -> None:
    w, path = world(), "/apis/trainer.kubeflow.org/v1alpha1/namespaces/{}/trainingruntimes"
    for namespace, image in (("default", "own:1"), ("kube-public", "other:1")):
        own = runtime(replicated("node", step="trainer", pod={"containers": [{"name": "node", "image": image}]}))
        w.cluster.client.create(path.format(namespace), {**own, "kind": "TrainingRuntime"})
    job = train_job(trainer=TRAIN)
    job["spec"]["runtimeRef"]["kind"] = "TrainingRuntime"
    w.apply(job).run()
    assert {pod["spec"]["containers"][0]["image"] for pod in pods(w).values()} == {"own:1"}


def test_a_job_whose_pods_fail_ends_with_the_words_of_jobset() -> None:
    made = played(run_seconds=5, exit_code=1)
    made["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["backoffLimit"] = 0
    w = world(made).apply(train_job(trainer=TRAIN)).run().advance(30)
    ((type_, status, reason, message),) = conditions(w)
    assert (type_, status, reason) == ("Failed", "True", "FailedJobs")
    assert message.startswith(
        "jobset failed due to one or more job failures (first failed job: digits-node-0); pod digits-node-0-"
    )
    assert counts(w) == {"node": {"failed": 1}}


def test_its_pods_find_each_other_by_the_names_of_jobset() -> None:
    w = world().apply(train_job(trainer=TRAIN)).run()
    pod = pods(w)[N1]
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == (N1, "digits")
    service = w.get(SERVICES, "digits")
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    (owner,) = pod["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["controller"], owner["blockOwnerDeletion"]) == ("TrainJob", True, True)


def test_the_labels_by_which_its_client_finds_pods_come_back() -> None:
    w = world().apply(train_job(trainer=TRAIN)).run().advance(3)
    index = "batch.kubernetes.io/job-completion-index"
    w.patch_pod(N1, {"metadata": {"labels": {index: None, "jobset.sigs.k8s.io/jobset-name": "x"}}}).run()
    told = pods(w)[N1]["metadata"]["labels"]
    assert (told[index], told["jobset.sigs.k8s.io/jobset-name"]) == ("1", "digits")


def test_deleting_the_job_takes_all_of_it() -> None:
    w = world().apply(train_job("deepspeed-distributed", trainer=TRAIN)).run().advance(5)
    w.delete("digits").run().advance(60)
    assert pods(w) == {}
    assert [one["metadata"]["name"] for one in w.get(SERVICES)["items"]] == ["kubernetes"]


def test_a_pod_that_is_lost_is_made_again_and_its_cause_counted() -> None:
    w = world(played(), nodes=3).apply(train_job(trainer=TRAIN)).run().advance(3)
    w.fail_node(pods(w)[N1]["spec"]["nodeName"]).run().advance(120)
    assert pods(w)[N1]["status"]["phase"] == "Running"
    assert pods(w)[N1]["metadata"]["labels"]["jobset.sigs.k8s.io/restart-attempt"] == "1"
    assert w.status()["operator"]["restartCounts"]["node-0"]["node"] == 1
    assert conditions(w) == []


# -- suspension, deadlines, ttl ----------------------------------------------------------------------------------------


def test_suspend_takes_the_pods_and_resume_brings_them_back() -> None:
    w = world().apply(train_job(trainer=TRAIN, suspend=True)).run()
    assert pods(w) == {}
    assert conditions(w) == [["Suspended", "True", "Suspended", "TrainJob is suspended"]]
    w.patch_job("digits", {"spec": {"suspend": False}}).run().advance(3)
    assert set(pods(w)) == {N0, N1}
    assert conditions(w) == [["Suspended", "False", "Resumed", "TrainJob is resumed"]]
    w.patch_job("digits", {"spec": {"suspend": True}}).run().advance(40)
    assert pods(w) == {}
    assert counts(w) == {"node": {"suspended": 1}}


def test_the_deadline_ends_it_and_takes_its_pods() -> None:
    w = world().apply(train_job(trainer=TRAIN, activeDeadlineSeconds=30)).run().advance(20)
    assert conditions(w) == []
    w.advance(45)
    assert conditions(w) == [["Failed", "True", "DeadlineExceeded", "TrainJob exceeded its active deadline"]]
    assert pods(w) == {}


def test_the_deadline_begins_anew_with_a_resume() -> None:
    w = world().apply(train_job(trainer=TRAIN, activeDeadlineSeconds=60)).run().advance(50)
    w.patch_job("digits", {"spec": {"suspend": True}}).run().advance(40)
    w.patch_job("digits", {"spec": {"suspend": False}}).run().advance(50)
    assert set(pods(w)) == {N0, N1}, "50 s of 60 since the resume"
    w.advance(60)
    assert conditions(w)[-1][:3] == ["Failed", "True", "DeadlineExceeded"]


def test_the_ttl_of_the_runtime_takes_the_pods_and_leaves_the_job() -> None:
    made = played(run_seconds=5, exit_code=0)
    made["spec"]["template"]["spec"]["ttlSecondsAfterFinished"] = 60
    w = world(made).apply(train_job(trainer=TRAIN)).run().advance(40)
    assert set(pods(w)) == {N0, N1}
    w.advance(60)
    assert pods(w) == {}
    assert [one["metadata"]["name"] for one in w.get(SERVICES)["items"]] == ["kubernetes"]
    assert conditions(w) == [COMPLETE]


# -- success and failure policies --------------------------------------------------------------------------------------


def two(first: Json, second: Json, **jobset: Any) -> Json:
    """A runtime of the replicated jobs `node`, which trains, and `other`, each played as the annotations say."""
    jobs = [replicated("node", step="trainer", backoffLimit=0), replicated("other", backoffLimit=0)]
    for job, told in zip(jobs, (first, second), strict=True):
        job["template"]["spec"]["template"]["metadata"] = {"annotations": play(**told)}
    return runtime(*jobs, **jobset)


@dataclass(frozen=True)
class End:
    of: Json
    want: str
    """The last condition."""


DONE: Json = {"run_seconds": 5, "exit_code": 0}
WRONG: Json = {"run_seconds": 5, "exit_code": 1}
ENDS: dict[str, End] = {
    "both must succeed where the runtime does not say": End(two(DONE, {}), ""),
    "and do": End(two(DONE, DONE), "Complete"),
    "one of two is enough by the operator Any": End(two(DONE, {}, successPolicy={"operator": "Any"}), "Complete"),
    "the named one decides": End(two(DONE, {}, successPolicy={"targetReplicatedJobs": ["node"]}), "Complete"),
    "one that is not named decides nothing": End(two({}, DONE, successPolicy={"targetReplicatedJobs": ["node"]}), ""),
    "any failed one fails the job, named or not": End(
        two({}, WRONG, successPolicy={"targetReplicatedJobs": ["node"]}), "Failed"
    ),
}


@pytest.mark.parametrize("case", ENDS.values(), ids=ENDS.keys())
def test_when_it_ends(case: End) -> None:
    w = world(case.of).apply(train_job(trainer=TRAIN)).run().advance(60)
    assert ([""] + [one[0] for one in conditions(w)])[-1] == case.want


def test_max_restarts_begins_the_whole_job_anew() -> None:
    made = two({"failing_attempts": 2, "failing_run_seconds": 5}, {}, failurePolicy={"maxRestarts": 2})
    w = world(made).apply(train_job(trainer={**TRAIN, "numNodes": 1})).run().advance(120)
    attempts = {name: pod["metadata"]["labels"]["jobset.sigs.k8s.io/restart-attempt"] for name, pod in pods(w).items()}
    assert attempts == {N0: "2", "digits-other-0-0": "2"}
    assert conditions(w) == []


def test_beyond_max_restarts_it_fails() -> None:
    made = two(WRONG, {}, failurePolicy={"maxRestarts": 1})
    w = world(made).apply(train_job(trainer={**TRAIN, "numNodes": 1})).run().advance(240)
    assert conditions(w)[-1][:3] == ["Failed", "True", "FailedJobs"]
    assert w.status()["operator"]["restartCounts"]["node-0"]["application"] == 1


# -- runtimes ----------------------------------------------------------------------------------------------------------


def test_a_runtime_that_comes_later_is_waited_for() -> None:
    w = world(RUNTIMES["plain"]).apply(train_job(trainer=TRAIN)).run().advance(3)
    ((type_, status, reason, message),) = conditions(w)
    assert (type_, status, reason) == ("Waiting", "True", "ClusterTrainingRuntimeNotFound")
    assert message == (
        "spec.runtimeRef.name: ClusterTrainingRuntime torch-distributed does not exist; create it, and the job starts"
    )
    assert (pods(w), w.get(SERVICES)["items"][1:]) == ({}, [])
    w.advance(60)
    w.cluster.client.create(RUNTIME_PATH, RUNTIMES["torch-distributed"])
    w.run().advance(2)
    assert set(pods(w)) == {N0, N1}, "the runtime wakes the job, which would look again in a minute"
    assert conditions(w) == []


FORBIDDEN: Json = {"code": 403, "reason": "Forbidden", "message": 'User "worker" cannot list resource'}
BROKEN: Json = {"code": 500, "reason": "InternalError", "message": "conversion webhook failed"}


def _runtimes_refused(transport: InProcessTransport, monkeypatch: pytest.MonkeyPatch, said: Json = FORBIDDEN) -> None:
    """To the process with this transport, which goes on."""
    refused = HttpResponse(said["code"], json.dumps({"kind": "Status", **said}).encode(), {})
    asks = transport.request

    def request(method: str, path: str, **more: Any) -> HttpResponse:
        return refused if "trainingruntimes" in path else asks(method, path, **more)

    monkeypatch.setattr(transport, "request", request)


def test_a_runtime_that_the_operator_may_not_read_is_waited_for_with_the_right_that_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    w = world()
    _runtimes_refused(w.transport, monkeypatch)
    w.apply(train_job(trainer=TRAIN)).run().advance(3)
    ((type_, _, reason, message),) = conditions(w)
    assert (type_, reason) == ("Waiting", "ClusterTrainingRuntimeForbidden")
    assert message.startswith(
        "spec.runtimeRef.name: the operator may not read ClusterTrainingRuntime torch-distributed:"
    )
    assert message.endswith(
        "; give its worker the verb list on clustertrainingruntimes.trainer.kubeflow.org in a ClusterRole, and the job"
        " starts"
    )
    monkeypatch.undo()
    w.advance(70)
    assert (set(pods(w)), conditions(w)) == ({N0, N1}, [])


def _edited(w: World) -> None:
    path = f"{RUNTIME_PATH}/torch-distributed"
    jobs = copy.deepcopy(RUNTIMES["torch-distributed"]["spec"]["template"]["spec"]["replicatedJobs"])
    jobs[0]["template"]["spec"]["template"]["spec"]["containers"][0]["image"] = "other:2"
    w.cluster.client.patch(path, {"spec": {"template": {"spec": {"replicatedJobs": jobs}}}})


CHANGES: dict[str, Callable[[World], object]] = {
    "edited": _edited,
    "deleted": lambda w: w.cluster.client.delete(f"{RUNTIME_PATH}/torch-distributed"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_runtime_that_changes_changes_no_job_that_has_begun(change: Callable[[World], object]) -> None:
    w = world().apply(train_job(trainer=TRAIN)).run().advance(5)
    change(w)
    w.delete_pod(N1).run().advance(60)
    assert set(pods(w)) == {N0, N1}
    assert pods(w)[N1]["spec"]["containers"][0]["image"] == "trainer:1"


def test_a_job_that_is_created_after_an_edit_of_its_runtime_has_the_edit() -> None:
    w = world().apply(train_job(trainer=TRAIN)).run().advance(5)
    _edited(w)
    w.apply(train_job(trainer=TRAIN, name="second")).run()
    assert pods(w)["second-node-0-0"]["spec"]["containers"][0]["image"] == "other:2"


READERS: dict[str, tuple[Json | None, int]] = {
    "a runtime that is watched is read once": (None, 1),
    "one that the watcher may not watch is read for each job that comes alone": (FORBIDDEN, 5),
    "so is one whose list fails for the watcher, and no job waits for that list": (BROKEN, 5),
}


@pytest.mark.parametrize(("said", "reads"), READERS.values(), ids=READERS.keys())
def test_jobs_that_come_one_after_another(said: Json | None, reads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    w = world()
    if said is not None:
        _runtimes_refused(w.watcher.transport, monkeypatch, said)
    for i in range(5):
        w.apply(train_job(trainer={"numNodes": 1}, name=f"j{i}")).run().advance(20)
    assert w.requests()["get clustertrainingruntimes"] == reads
    _edited(w)
    w.apply(train_job(trainer={"numNodes": 1}, name="last")).run().advance(5)
    assert pods(w)["last-node-0-0"]["spec"]["containers"][0]["image"] == "other:2"
    assert w.requests()["get clustertrainingruntimes"] == reads + 1


def test_many_jobs_at_once_read_their_runtime_once() -> None:
    w = world()
    for i in range(20):
        w.apply(train_job(trainer={"numNodes": 1}, name=f"j{i}"))
    w.run().advance(10)
    asked = w.requests()
    assert len(pods(w)) == 20
    assert asked["get clustertrainingruntimes"] == 1
    assert asked["update trainjobs/status"] <= 40


def no_queue() -> Json:
    made = runtime()
    made["spec"] |= {"podGroupPolicy": {"volcano": {}}}
    made["spec"]["template"]["metadata"] = {"annotations": {"scheduling.volcano.sh/queue-name": ""}}
    return made


WRONG_RUNTIMES: Mapping[str, tuple[Json, str]] = {
    "without a labelled step": (
        runtime(replicated("node")),
        "has no replicated job with the label trainer.kubeflow.org/trainjob-ancestor-step: trainer",
    ),
    "of flux": (runtime(policy={"flux": {}}), "the runtime has the policy flux, which is not supported"),
    "with a queue of no name": (
        no_queue(),
        "ClusterTrainingRuntime torch-distributed: spec.template.metadata.annotations[scheduling.volcano.sh/queue-name]"
        ": '': must not be empty; name a queue of Volcano, or remove it",
    ),
    "that waits for nothing it has": (
        runtime(replicated("node", step="trainer", after={"data": "Complete"})),
        "data: no replicated job before it has that name",
    ),
    "of names too long": (
        runtime(replicated("node", step="trainer"), replicated("a" * 40), replicated("b" * 40)),
        "the longest pod name",
    ),
}


@pytest.mark.parametrize(("made", "says"), WRONG_RUNTIMES.values(), ids=WRONG_RUNTIMES.keys())
def test_a_runtime_that_cannot_be_used_fails_the_job_and_makes_nothing(made: Json, says: str) -> None:
    name = "d" * 22 if "longest" in says else "digits"
    w = world(made).apply(train_job(trainer=TRAIN, name=name)).run().advance(5)
    told = w.status(name)["conditions"]
    assert [(c["type"], c["status"], c["reason"]) for c in told] == [("Failed", "True", "InvalidSpec")]
    assert says in told[0]["message"]
    assert (pods(w), w.get(SERVICES)["items"][1:]) == ({}, [])


STRAY_MOUNT = {"name": "node", "image": "a", "volumeMounts": [{"name": "none", "mountPath": "/x"}]}
BAD_PODS: Json = runtime(replicated("node", step="trainer", pod={"containers": [STRAY_MOUNT]}))


@pytest.mark.parametrize("made", [BAD_PODS, WRONG_RUNTIMES["without a labelled step"][0]], ids=["pods", "spec"])
def test_a_refused_job_stays_so_until_its_runtime_is_mended(made: Json) -> None:
    w = world(made).apply(train_job(trainer=TRAIN)).run().advance(10)
    ((type_, _, reason, _),) = conditions(w)
    assert (type_, reason) == ("Failed", "InvalidSpec")
    writes = w.requests()["update trainjobs/status"]
    for i in range(3):
        w.patch_job("digits", {"metadata": {"labels": {"looked-at": str(i)}}}).run().advance(5)
    assert (w.requests()["update trainjobs/status"], pods(w)) == (writes, {})
    w.cluster.client.delete(f"{RUNTIME_PATH}/torch-distributed")
    w.run().advance(70)
    assert conditions(w)[0][2:] == [
        "ClusterTrainingRuntimeNotFound",
        "spec.runtimeRef.name: ClusterTrainingRuntime torch-distributed does not exist; create it, and the job starts",
    ]
    w.cluster.client.create(RUNTIME_PATH, made)
    w.run().advance(70)
    assert conditions(w)[0][0] == "Failed"
    w.cluster.client.patch(f"{RUNTIME_PATH}/torch-distributed", {"spec": RUNTIMES["torch-distributed"]["spec"]})
    w.run().advance(5)
    assert set(pods(w)) == {N0, N1}
    assert conditions(w) == []


REFUSED: dict[str, tuple[Json, str]] = {
    "a name with a capital letter": (train_job(name="Digits"), "metadata.name"),
    "another manager of jobs": (train_job(managedBy="me"), "managedBy"),
    "a storageUri without a scheme": (
        train_job(initializer={"dataset": {"storageUri": "tmp/x"}}),
        "spec.initializer.dataset.storageUri",
    ),
    "a manager of patches without a domain": (train_job(runtimePatches=[{"manager": "me"}]), "manager"),
    "two patches of one manager": (
        train_job(runtimePatches=[{"manager": "a.io/x"}, {"manager": "a.io/x"}]),
        "runtimePatches",
    ),
    "fewer than no nodes": (train_job(trainer={"numNodes": -1}), "numNodes"),
    "more nodes than any cluster has": (train_job(trainer={"numNodes": 2**31}), "numNodes"),
    "less than nothing of a resource": (
        train_job(trainer={"resourcesPerNode": {"limits": {"cpu": "-1"}}}),
        "limits.cpu",
    ),
    "no processes": (train_job(trainer={"numProcPerNode": 0}), "numProcPerNode"),
    "processes as text, as before 2.2": (train_job(trainer={"numProcPerNode": "auto"}), "numProcPerNode"),
    "no time at all": (train_job(activeDeadlineSeconds=0), "activeDeadlineSeconds"),
}


@pytest.mark.parametrize(("manifest", "says"), REFUSED.values(), ids=REFUSED.keys())
def test_what_the_api_server_refuses(manifest: Json, says: str) -> None:
    w = world()
    with pytest.raises(ApiError) as refused:
        w.apply(manifest)
    assert refused.value.code == 422
    assert says in str(refused.value)


def test_what_of_a_job_cannot_change() -> None:
    w = world().apply(train_job(trainer=TRAIN)).run()
    for patch in ({"trainer": {"numNodes": 3}}, {"runtimeRef": {"name": "plain"}}, {"runtimePatches": [PATCH]}):
        with pytest.raises(ApiError) as refused:
            w.patch_job("digits", {"spec": patch})
        assert refused.value.code == 422, patch


WRONG_FRAMEWORKS: dict[str, tuple[Json, str]] = {
    "two policies": (runtime(policy={"torch": {}, "jax": {}}), "Only one of the policy can be configured"),
    "a step of two child Jobs": (runtime({**replicated("node", step="trainer"), "replicas": 2}), "always must be 1"),
    "a trainer without a container `node`": (
        runtime(replicated("node", step="trainer", pod={"containers": [{"name": "main", "image": "a"}]})),
        "must have a container named `node`",
    ),
    "an initializer without its container": (
        runtime(
            replicated("dataset-initializer", step="dataset-initializer", pod={"containers": [{"name": "node"}]}),
            replicated("node", step="trainer"),
        ),
        "one of the step's name",
    ),
}


@pytest.mark.parametrize(("made", "says"), WRONG_FRAMEWORKS.values(), ids=WRONG_FRAMEWORKS.keys())
def test_which_runtimes_the_api_server_refuses(made: Json, says: str) -> None:
    with pytest.raises(ApiError) as refused:
        world(made)
    assert refused.value.code == 422
    assert says in str(refused.value)


# -- steps, patches, gangs ---------------------------------------------------------------------------------------------


def fetching(**annotations: object) -> Json:
    """A runtime whose two initializers are played as the annotations say."""
    data = replicated("dataset-initializer", step="dataset-initializer")
    model = replicated("model-initializer", step="model-initializer", after={"dataset-initializer": "Complete"})
    for job in (data, model):
        job["template"]["spec"]["template"]["metadata"] = {"annotations": play(**annotations)}
    return runtime(data, model, replicated("node", step="trainer", after={"model-initializer": "Complete"}))


DATA, MODEL = "digits-dataset-initializer-0-0", "digits-model-initializer-0-0"


def test_initializers_run_before_the_training_one_after_another() -> None:
    w = world(fetching(run_seconds=10, exit_code=0)).apply(train_job(trainer=TRAIN)).run().advance(3)
    assert set(pods(w)) == {DATA}
    assert counts(w)["dataset-initializer"] == {"active": 1, "ready": 1}
    assert (counts(w)["model-initializer"], counts(w)["node"]) == ({}, {})
    w.advance(12)
    assert set(pods(w)) == {DATA, MODEL}
    w.advance(15)
    assert set(pods(w)) == {DATA, MODEL, N0, N1}
    assert counts(w)["dataset-initializer"] == {"succeeded": 1}
    env = {one["name"]: one.get("value") for one in pods(w)[N0]["spec"]["containers"][0]["env"]}
    assert env["PET_NNODES"] == "2", "initializers do not train"


def test_an_initializer_that_fails_for_good_fails_the_job_and_no_trainer_starts() -> None:
    made = fetching(run_seconds=2, exit_code=1)
    made["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["backoffLimit"] = 0
    w = world(made).apply(train_job(trainer=TRAIN)).run().advance(60)
    assert "first failed job: digits-dataset-initializer-0)" in conditions(w)[0][3]
    assert set(pods(w)) == {DATA}


@pytest.mark.parametrize("gang", ["volcano", "scheduler-plugins"])
def test_initializers_are_in_no_gang(gang: str) -> None:
    w = World(kinds="trainjobs.trainer.kubeflow.org", gang_scheduler=gang)
    w.cluster.client.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", POD_GROUP_CRDS[gang])
    w.run()
    w.cluster.client.create(RUNTIME_PATH, fetching(run_seconds=5, exit_code=0))
    w.apply(train_job(trainer=TRAIN)).run().advance(40)
    (group,) = w.get(GANGS[gang].resource)["items"]
    assert group["spec"]["minMember"] == 2
    assert group["metadata"]["name"] == "digits"
    told = pods(w)[DATA]["metadata"]
    assert "digits" not in (
        told["annotations"].get("scheduling.k8s.io/group-name"),
        told["labels"].get("scheduling.x-k8s.io/pod-group"),
    )


def test_the_launcher_of_mpi_comes_when_its_nodes_are_ready_and_ends_the_job() -> None:
    made = copy.deepcopy(RUNTIMES["deepspeed-distributed"])
    jobs = made["spec"]["template"]["spec"]["replicatedJobs"]
    jobs[0]["template"]["spec"]["template"]["metadata"] = {"annotations": play(ready_seconds=8)}
    jobs[1]["template"]["spec"]["template"]["metadata"] = {"annotations": play(run_seconds=10, exit_code=0)}
    job = train_job("deepspeed-distributed", trainer={"numNodes": 3, "command": ["mpirun", "train"]})
    w = world(made).apply(job).run()
    assert set(pods(w)) == {N0, N1}, "the launcher is the third"
    w.advance(12)
    assert "digits-launcher-0-0" in pods(w)
    assert w.requests()["create secrets"] >= 1
    w.advance(40)
    assert conditions(w) == [COMPLETE]
    assert set(pods(w)) == {"digits-launcher-0-0"}, "nodes that still run are deleted"


PATCH: Json = {
    "manager": "acme.io/team",
    "trainingRuntimeSpec": {
        "template": {
            "spec": {
                "replicatedJobs": [
                    {
                        "name": "node",
                        "template": {"spec": {"template": {"spec": {"nodeSelector": {"kubernetes.io/hostname": "x"}}}}},
                    }
                ]
            }
        }
    },
}


def test_a_patch_counts_when_the_job_resumes_as_with_kueue() -> None:
    w = world().apply(train_job(trainer=TRAIN, suspend=True)).run()
    w.patch_job("digits", {"spec": {"suspend": False, "runtimePatches": [PATCH]}}).run()
    assert pods(w)[N0]["spec"]["nodeSelector"] == {"kubernetes.io/hostname": "x"}
    with pytest.raises(ApiError):
        w.patch_job("digits", {"spec": {"runtimePatches": []}})


@dataclass(frozen=True)
class Spoilt:
    job: Json
    says: str


def _patch_of(name: str, pod: Json) -> Json:
    jobs = [{"name": name, "template": {"spec": {"template": {"spec": pod}}}}]
    return {"manager": "acme.io/team", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}}


_LAUNCHED: Json = {"numNodes": 1, "mpi": {"mpiImplementation": "OpenMPI", "runLauncherAsNode": True}}
ODD_RUNTIMES = (
    runtime(
        replicated("model-initializer", step="model-initializer"), replicated("node", step="trainer"), name="with-model"
    ),
    runtime(replicated("node", step="trainer"), name="no-launcher", policy=_LAUNCHED),
    runtime(replicated("node", step="trainer"), {**replicated("side", parallelism=10_000), "replicas": 5}, name="wide"),
)
SPOILT: dict[str, Spoilt] = {
    "a patch of a job that is not there": Spoilt(
        train_job(runtimePatches=[_patch_of("ps", {})]),
        "spec.runtimePatches[0].trainingRuntimeSpec.template.spec.replicatedJobs[0].name: 'ps': the runtime has no such"
        " replicated job: it has node",
    ),
    "a patch of a container that is not there": Spoilt(
        train_job(runtimePatches=[_patch_of("node", {"containers": [{"name": "main"}]})]),
        "containers[0].name: 'main': the replicated job has no such one: it has node",
    ),
    "a patch of the node's variables": Spoilt(
        train_job(
            runtimePatches=[_patch_of("node", {"containers": [{"name": "node", "env": [{"name": "A", "value": "1"}]}]})]
        ),
        "containers[0].env: must not have envs for node: set them in spec.trainer or spec.initializer",
    ),
    "a reserved variable": Spoilt(
        train_job(trainer={"env": [{"name": "PET_NNODES", "value": "9"}]}),
        "spec.trainer.env: must not have reserved envs, invalid envs configured: PET_NNODES; create the job"
        " again without them",
    ),
    "a dataset for a runtime that fetches none": Spoilt(
        train_job(initializer={"dataset": {"storageUri": "hf://x"}}),
        "spec.initializer.dataset: ClusterTrainingRuntime torch-distributed must have a replicated job"
        " dataset-initializer with a container dataset-initializer",
    ),
    "a model for a container that mounts no volume of it": Spoilt(
        train_job("with-model", initializer={"model": {"storageUri": "hf://x"}}),
        "spec.initializer.model: the container model-initializer of ClusterTrainingRuntime with-model must mount a"
        " volume named initializer",
    ),
    "Open MPI without its launcher": Spoilt(
        train_job("no-launcher", trainer={"numNodes": 2}), "spec.trainer.numNodes: must have 1 when MPI trainingRuntime"
    ),
    "more pods than a job may have": Spoilt(
        train_job("wide", trainer={"numNodes": 10_000}), "the job has 60000 pods: they must be at most 50000"
    ),
    "a runtime of a kind that is none": Spoilt(
        {**train_job(), "spec": {"runtimeRef": {"name": "a", "kind": "Deployment"}}},
        "spec.runtimeRef: Deployment (trainer.kubeflow.org) is no kind of runtime; use TrainingRuntime or"
        " ClusterTrainingRuntime (trainer.kubeflow.org)",
    ),
    "elastic bounds on jax": Spoilt(
        train_job("jax-distributed", annotations={"elasticdeeplearning.ai/max-nodes": "4"}, trainer={}),
        "metadata.annotations[elasticdeeplearning.ai/max-nodes]: only jobs of a runtime with the policy torch can be"
        " elastic, and ClusterTrainingRuntime jax-distributed has none; remove it",
    ),
}


@pytest.mark.parametrize("case", SPOILT.values(), ids=SPOILT.keys())
def test_a_job_that_cannot_be_used_fails_and_makes_nothing(case: Spoilt) -> None:
    w = world(*RUNTIMES.values(), *ODD_RUNTIMES)
    w.apply(case.job).apply(train_job(trainer=TRAIN, name="other")).run().advance(5)
    ((type_, status, reason, message),) = conditions(w)
    assert (type_, status, reason) == ("Failed", "True", "InvalidSpec")
    assert case.says in message
    assert set(pods(w)) == {"other-node-0-0", "other-node-0-1"}, "nobody else is affected"
    assert [one["metadata"]["name"] for one in w.get(SERVICES)["items"]] == ["kubernetes", "other"]
    assert (claims(w), w.get(SECRETS)["items"]) == ({}, [])


# -- whose it is -------------------------------------------------------------------------------------------------------


def test_a_job_of_multikueue_is_left_alone() -> None:
    w = world().apply(train_job(trainer=TRAIN, managedBy="kueue.x-k8s.io/multikueue")).run().advance(10)
    assert (pods(w), w.status()) == ({}, {})


def test_a_job_that_trainer_has_begun_is_not_begun_again() -> None:
    w = world()
    w.cluster.client.create(
        "/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs", train_job(trainer=TRAIN)
    )
    zero = {"ready": 0, "succeeded": 0, "failed": 0, "suspended": 0}
    path = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs/digits"
    w.cluster.client.patch(f"{path}/status", {"status": {"jobsStatus": [{"name": "node", "active": 1, **zero}]}})
    w.run().advance(5)
    assert pods(w) == {}
    assert "another operator has begun this job" in w.cluster.client.get(path)["status"]["conditions"][0]["message"]


# -- elastic -----------------------------------------------------------------------------------------------------------


def elastic(**more: str) -> Json:
    told = {"elasticdeeplearning.ai/min-nodes": "1", "elasticdeeplearning.ai/max-nodes": "4", **more}
    return train_job(trainer={**TRAIN, "command": ["torchrun", "train.py"]}, annotations=told)


def test_an_elastic_job_grows_and_shrinks_by_its_annotation_and_restarts_nothing() -> None:
    w = world(nodes=4).apply(elastic()).run().advance(3)
    uids = {name: pod["metadata"]["uid"] for name, pod in pods(w).items()}
    assert set(uids) == {N0, N1}
    env = {one["name"]: one.get("value") for one in pods(w)[N0]["spec"]["containers"][0]["env"]}
    assert (env["PET_NNODES"], env["PET_RDZV_BACKEND"]) == ("1:4", "c10d")
    assert env["PET_RDZV_ENDPOINT"] == "digits-node-0-0.digits:29500"
    assert env["PET_RDZV_CONF"] == "is_host=true"
    w.patch_job("digits", {"metadata": {"annotations": {"elasticdeeplearning.ai/num-nodes": "3"}}}).run().advance(5)
    assert set(pods(w)) == {N0, N1, N2}
    assert uids.items() <= {name: pod["metadata"]["uid"] for name, pod in pods(w).items()}.items()
    w.patch_job("digits", {"metadata": {"annotations": {"elasticdeeplearning.ai/num-nodes": "1"}}}).run().advance(60)
    assert set(pods(w)) == {N0}
    assert conditions(w) == []


def test_the_autoscaler_moves_a_job_that_asks_for_it() -> None:
    w = world(played(), nodes=4)
    w.apply(elastic(**{"elasticdeeplearning.ai/autoscale": "true"})).run().advance(5)
    w.make_runtime("beat").autoscaler.run()
    w.run().advance(5)
    assert len(pods(w)) == 4
    assert w.status()["operator"]["targets"] == {"node-0": 4}


def test_its_secret_is_made_once_and_never_read() -> None:
    w = world().apply(train_job("deepspeed-distributed", trainer=TRAIN)).run().advance(10)
    assert w.requests()["get secrets"] == 0
    (secret,) = w.get(SECRETS)["items"]
    assert secret["type"] == "kubernetes.io/ssh-auth"
    assert set(secret["data"]) == {"ssh-privatekey", "ssh-publickey"}


# -- claims ------------------------------------------------------------------------------------------------------------


CLAIMS_PATH = "/api/v1/namespaces/default/persistentvolumeclaims"


def storing(when_deleted: str = "", storage: str = "1Gi") -> Json:
    """A runtime whose nodes mount a claim that each job has of its own."""
    node = {"name": "node", "image": "trainer:1", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    claim = {
        "metadata": {"name": "data", "labels": {"team": "a"}},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "resources": {"requests": {"storage": storage}},
        },
    }
    policy: Json = {"templates": [claim]} | ({"retentionPolicy": {"whenDeleted": when_deleted}} if when_deleted else {})
    return runtime(replicated("node", step="trainer", pod={"containers": [node]}), volumeClaimPolicies=[policy])


def with_a_volume(w: World) -> World:
    """That a claim of the class '' binds: no provisioner works in virtual time."""
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/data"}}
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk"}, "spec": spec}
    w.cluster.client.create("/api/v1/persistentvolumes", volume)
    return w


def claims(w: World) -> dict[str, Json]:
    return {one["metadata"]["name"]: one for one in w.cluster.client.get(CLAIMS_PATH)["items"]}


def test_the_claims_of_the_runtime_are_made_for_the_job_and_go_with_it() -> None:
    w = with_a_volume(world(storing())).apply(train_job(trainer=TRAIN)).run().advance(5)
    assert {name: pod["status"]["phase"] for name, pod in pods(w).items()} == {N0: "Running", N1: "Running"}
    (claim,) = claims(w).values()
    assert (claim["metadata"]["name"], claim["status"]["phase"]) == ("data-digits", "Bound")
    assert claim["metadata"]["labels"] == {"team": "a", "jobset.sigs.k8s.io/jobset-name": "digits"}
    assert pods(w)[N1]["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] == "data-digits"
    w.delete("digits").run().advance(60)
    assert claims(w) == {}


def test_claims_outlive_the_ttl_with_the_results_on_them_and_go_with_the_job() -> None:
    made = storing()
    made["spec"]["template"]["spec"]["ttlSecondsAfterFinished"] = 30
    (job,) = made["spec"]["template"]["spec"]["replicatedJobs"]
    job["template"]["spec"]["template"]["metadata"] = {"annotations": play(run_seconds=5, exit_code=0)}
    w = with_a_volume(world(made)).apply(train_job(trainer=TRAIN)).run().advance(60)
    assert (pods(w), set(claims(w)), conditions(w)) == ({}, {"data-digits"}, [COMPLETE])
    w.delete("digits").run().advance(60)
    assert claims(w) == {}


def test_a_claim_that_stays_is_the_next_jobs_of_that_name() -> None:
    w = with_a_volume(world(storing("Retain"))).apply(train_job(trainer=TRAIN)).run().advance(5)
    first = claims(w)["data-digits"]["metadata"]["uid"]
    w.delete("digits").run().advance(60)
    w.apply(train_job(trainer=TRAIN)).run().advance(5)
    assert {pod["status"]["phase"] for pod in pods(w).values()} == {"Running"}
    assert claims(w)["data-digits"]["metadata"]["uid"] == first


def test_a_claim_of_another_job_is_not_mounted() -> None:
    w = world(storing()).apply(train_job(trainer=TRAIN)).run()
    owner = claims(w)["data-digits"]["metadata"]["ownerReferences"][0]
    spec = claims(w)["data-digits"]["spec"]
    foreign = {"metadata": {"name": "data-other", "ownerReferences": [owner]}, "spec": spec}
    w.cluster.client.create(CLAIMS_PATH, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **foreign})
    w.apply(train_job(trainer=TRAIN, name="other")).run().advance(5)
    assert set(pods(w)) == {N0, N1}
    told = w.status("other")["operator"]["conditions"]
    assert any("data-other" in c["message"] and "belongs to TrainJob digits" in c["message"] for c in told), told


def test_a_claim_that_cannot_be_made_is_told_of_and_no_pod_comes() -> None:
    w = world(storing(storage="-1Gi")).apply(train_job(trainer=TRAIN)).run().advance(10)
    assert (pods(w), claims(w)) == ({}, {})
    ((type_, _, reason, message),) = conditions(w)
    assert (type_, reason) == ("Failed", "InvalidSpec")
    assert "data-digits" in message
    assert "must be greater than zero" in message
