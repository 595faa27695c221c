"""kubedl.io/tensorboard-config: the pod that it makes, what is refused, and what is told. (Its life:
tests/scenarios/test_tensorboard.py.)"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.support.builders import PodBuilder, make_job, make_pod, make_training_job, observe
from tests.support.guests import guest_job
from tests.unit.tjworker.reconcile.addons.guests import guest
from tests.unit.tjworker.reconcile.passes import NOW, after, condition, decide, everything, status_of
from tjworker.api import labels
from tjworker.api.kinds import KNOWN_KINDS, parse
from tjworker.api.model import TrainingJob
from tjworker.api.observed import ServiceRecord
from tjworker.api.resources import PODS, SERVICES
from tjworker.api.timefmt import to_rfc3339
from tjworker.base import GroupResource
from tjworker.reconcile.addons.tensorboard import REST_SECONDS
from tjworker.reconcile.plan import Create, Delete

NAME = "kubedl.io/tensorboard-config"
POD = "digits-tensorboard-0"
MPIJOBS = GroupResource("mpijobs.kubeflow.org")
Json = dict[str, Any]


def config(**fields: Any) -> dict[str, str]:
    return {NAME: json.dumps({"logDir": "/events/run"} | fields)}


def made(job: TrainingJob, resource: GroupResource = PODS) -> Json:
    (body,) = [w.body for w in decide(job).writes if isinstance(w, Create) and (w.resource, w.name) == (resource, POD)]
    return dict(body)


def container(name: str, **fields: Any) -> Json:
    return {"name": name, "image": f"{name}:1", **fields}


def test_it_is_made_of_the_container_that_writes_the_events() -> None:
    mount = {"name": "events", "mountPath": "/events"}
    trainer = container(
        "aitj-main",
        command=["train"],
        env=[{"name": "BUCKET", "value": "b"}],
        resources={"limits": {"nvidia.com/gpu": "8"}},
        securityContext={"runAsUser": 1000, "privileged": True},
        volumeMounts=[mount],
    )
    spec = {
        "containers": [container("sidecar"), trainer],
        "initContainers": [container("fetch")],
        "hostNetwork": True,
        "nodeSelector": {"zone": "a"},
        "priorityClassName": "high",
        "volumes": [{"name": "events", "emptyDir": {}}, {"name": "other", "emptyDir": {}}],
    }
    job = make_job().role("master").role("trainer", template={"spec": spec}).annotate(config()).build()
    pod = made(job)["spec"]
    (board,) = pod["containers"]
    assert pod.keys() == {"containers", "restartPolicy", "volumes", "nodeSelector"}
    assert [v["name"] for v in pod["volumes"]] == ["events"]
    assert (board["name"], board["image"], board["volumeMounts"]) == ("tensorboard", "aitj-main:1", [mount])
    assert board["command"] + board["args"] == [
        *("python", "-m", "tensorboard.main", "--logdir", "/events/run"),
        *("--path_prefix", "/default/digits", "--bind_all", "--port", "6006"),
    ]
    assert board["env"] == [{"name": "BUCKET", "value": "b"}, {"name": "NVIDIA_VISIBLE_DEVICES", "value": ""}]
    assert board["resources"]["limits"].keys() == {"cpu", "memory"}
    assert board["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
        "runAsUser": 1000,
    }


def test_it_mounts_as_a_reader_that_needs_no_privilege() -> None:
    mount = {"name": "events", "mountPath": "/events"}
    trainer = container("aitj-main", volumeMounts=[mount | {"mountPropagation": "Bidirectional"}])
    spec = {"containers": [trainer], "volumes": [{"name": "events", "hostPath": {"path": "/e"}}]}
    job = make_job().role("trainer", template={"spec": spec}).annotate(config()).build()
    assert made(job)["spec"]["containers"][0]["volumeMounts"] == [mount]


@pytest.mark.parametrize("version", ["v1", "v2beta1"])
def test_it_has_no_key_of_an_mpijob(version: str) -> None:
    raw = guest_job(MPIJOBS)
    raw["apiVersion"] = f"kubeflow.org/{version}"
    raw["metadata"] |= {"namespace": "default", "name": "digits", "uid": "u", "annotations": config()}
    job = parse(MPIJOBS, raw)
    assert isinstance(job, TrainingJob)
    assert job.secret is not None
    assert all(job.secret.name in str(role.template) for role in job.roles), "its own pods mount it"
    pod = made(job)["spec"]
    assert job.secret.name not in str(pod)
    assert {m["name"] for m in pod["containers"][0]["volumeMounts"]} == {v["name"] for v in pod.get("volumes", ())}


def test_a_host_of_an_ingress_is_not_acted_on_and_that_is_told() -> None:
    told = condition(
        status_of(decide(make_job().role("trainer").annotate(config(ingressSpec={"host": "a.example"})).build())),
        "Created",
    )
    assert "make an Ingress to the service digits-tensorboard-0, port 6006" in told[2]


def test_its_service_finds_it_and_no_replica() -> None:
    job = make_job().role("trainer").annotate(config()).build()
    selector, marks = made(job, SERVICES)["spec"]["selector"], made(job)["metadata"]["labels"]
    assert selector.items() <= marks.items()
    assert not selector.items() <= make_pod(job, "trainer").build().labels.items()
    assert (marks["replica-type"], marks["replica-name"], marks["job-name"]) == ("tensorboard", POD, "digits")


@pytest.mark.parametrize(
    "job",
    [
        make_training_job().annotate(config()).build(),
        *(guest(r, config()) for r, k in sorted(KNOWN_KINDS.items()) if k.guest and not k.companions),
    ],
    ids=lambda job: job.kind,
)
def test_every_kind_has_it_and_the_users_of_guests_do_not_count_it(job: TrainingJob) -> None:
    body = made(job)
    assert body["metadata"]["ownerReferences"][0]["kind"] == job.kind
    assert not [name for name in body["metadata"]["labels"] if name.startswith("training.kubeflow.org/")]


REFUSED: dict[str, tuple[Json | str, str]] = {
    "no logDir": ({}, "].logDir: required value"),
    "an option in its place": ({"logDir": "--host=x"}, "must be a path or a URL, and not begin with -"),
    "an unknown key": (
        {"logDir": "/a", "ttl": 5},
        "has the unknown key 'ttl'; take it out. Known are image, ingressSpec",
    ),
    "a time that has been": ({"logDir": "/a", "ttlSecondsAfterJobFinished": -1}, "must be at least 0"),
    "an image with a blank": ({"logDir": "/a", "image": "a b"}, "the name of an image has no blanks"),
    "half a character": ({"logDir": "/\ud800"}, "has what a pod's JSON cannot carry: str is not valid UTF-8"),
    "no JSON": ("/a", 'is not JSON: Expecting value at line 1, column 1; write an object, such as {"logDir": "..."}'),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_what_is_refused_makes_nothing(sentence: str) -> None:
    given, want = REFUSED[sentence]
    annotation = given if isinstance(given, str) else json.dumps(given)
    plan = decide(make_job().role("trainer").annotate({NAME: annotation}).build())
    status, reason, message = condition(status_of(plan), "Failed")
    assert (status, reason, plan.writes) == ("True", "InvalidSpec", ())
    assert want in message, message


def test_a_role_of_its_name_is_refused_with_the_annotation_and_a_replica_without() -> None:
    built = make_job().role("TensorBoard")
    assert "rename the role" in condition(status_of(decide(built.annotate(config()).build())), "Failed")[2]
    job = built.build()
    plan = decide(job, everything(job, make_pod(job, "TensorBoard").running()))
    assert status_of(plan).phase == "Running"


def board(job: TrainingJob) -> PodBuilder:
    marks = made(job)["metadata"]["labels"]
    pod = make_pod(job, "trainer")
    one = replace(pod.record.containers[0], name="tensorboard")
    return pod.but(name=POD, uid="of-the-board", labels=marks, containers=(one,))


def test_one_that_crashes_is_told_by_a_condition_and_one_event_and_the_job_runs() -> None:
    job = make_job().role("trainer", 2).annotate(config()).build()
    pods = [make_pod(job, "trainer", i).running() for i in range(2)]
    crashing = board(job).creating("CrashLoopBackOff", "back-off 10s").but(phase="Running").build()
    service = ServiceRecord(POD, "of-its-service", 1, job.uid)
    seen = everything(job, *pods)
    seen = replace(seen, pods=(crashing, *seen.pods), services=(service, *seen.services))
    plan = decide(job, seen)
    assert status_of(plan).phase == "Running"
    told = condition(status_of(plan), "TensorBoard")
    assert told[:2] == ("False", "CrashLoopBackOff")
    assert "the job goes on without it" in told[2]
    assert [e.reason for e in plan.events] == ["Running", "CrashLoopBackOff"]
    again = decide(replace(job, status=status_of(plan)), seen)
    assert (again.events, again.writes) == ((), ())


EDITS: dict[str, tuple[Json, bool]] = {
    "logDir": ({"logDir": "/other"}, True),
    "image": ({"image": "tb:2"}, True),
    "ingressSpec.pathPrefix": ({"ingressSpec": {"pathPrefix": "/tb"}}, True),
    "ingressSpec.host": ({"ingressSpec": {"host": "a.example"}}, False),
    "ingressSpec.annotations": ({"ingressSpec": {"annotations": {"a": "b"}}}, False),
    "ttlSecondsAfterJobFinished": ({"ttlSecondsAfterJobFinished": 5}, False),
    "updateTimestamp": ({"updateTimestamp": "2026-01-01T00:00:00Z"}, False),
}


@pytest.mark.parametrize("back", [False, True], ids=["set", "taken back"])
@pytest.mark.parametrize("field", EDITS)
def test_an_edited_field_makes_the_pod_anew_where_it_reaches_it(field: str, back: bool) -> None:
    edit, reaches = EDITS[field]
    jobs = [make_job().role("trainer").annotate(config(**fields)).build() for fields in ({}, edit)]
    before, after = reversed(jobs) if back else jobs
    assert (made(before)["spec"] != made(after)["spec"]) is reaches
    deletes = {w.name: w.why for w in decide(after, observe(board(before))).writes if isinstance(w, Delete)}
    assert deletes == ({POD: f"the annotation {NAME} has changed"} if reaches else {})


def test_a_pod_of_its_name_that_is_a_strangers_is_let_be() -> None:
    job = make_job().role("trainer").annotate(config()).build()
    plan = decide(job, observe(board(job).foreign()))
    assert POD not in [w.name for w in plan.writes if w.resource == PODS]


def test_its_label_is_one_that_the_projection_keeps() -> None:
    assert labels.TENSORBOARD_CONFIG in labels.OURS


# -- one that has ended, while its job goes on -----------------------------------------------------
AT = NOW - 1000
"""When it ended."""
ENDED: dict[str, Callable[[PodBuilder], PodBuilder]] = {
    "it has come to its end": lambda pod: pod.succeeded().containers(finished_at=to_rfc3339(AT)),
    "it was evicted, and its container says when it ended": lambda pod: (
        pod.failed(137).but(reason="Evicted").containers(finished_at=to_rfc3339(AT))
    ),
    "it was evicted, and no container is told of": lambda pod: pod.evicted().but(created_at=to_rfc3339(AT)),
    "its kubelet turned it away": lambda pod: pod.turned_away().but(created_at=to_rfc3339(AT)),
    "its node is gone, and nobody has seen its container end": lambda pod: (
        pod.running().orphaned().but(created_at=to_rfc3339(AT))
    ),
}


@pytest.mark.parametrize("seconds", [0, REST_SECONDS - 1, REST_SECONDS, REST_SECONDS + 1, 10 * REST_SECONDS])
@pytest.mark.parametrize("sentence", ENDED)
def test_one_that_has_ended_rests_and_is_made_again_however_it_ended(sentence: str, seconds: float) -> None:
    """Half a minute after its end; where nobody says when that was, after it was made."""
    job = make_job().role("trainer").annotate(config()).build()
    trainer = make_pod(job, "trainer").running()
    pod = ENDED[sentence](board(job))
    seen = everything(job, trainer)
    seen = replace(seen, pods=(pod.build(), *seen.pods), services=(ServiceRecord(POD, "s", 1, job.uid), *seen.services))
    job = after(job, decide(job, seen, now=AT + seconds))
    plan = decide(job, seen, now=AT + seconds)
    over = seconds >= REST_SECONDS
    assert [w.name for w in plan.writes if isinstance(w, Delete)] == [POD] * over
    if not over:
        assert plan.requeue_after_seconds == REST_SECONDS - seconds, "then it is looked at again"
    gone = replace(seen, pods=tuple(one for one in seen.pods if one.name != POD))
    assert [w.name for w in decide(job, gone, now=AT + seconds).writes if isinstance(w, Create)] == [POD]
