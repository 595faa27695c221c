"""What `tj convert` makes is the same job: read again it has the same internal job, and its pods find the same."""

from __future__ import annotations

import random
from dataclasses import fields, replace
from typing import Any

import pytest

from tests.support.kinds import AITRAININGJOBS, TEST_KINDS
from tests.support.seeds import the_seed
from tests.unit.tjworker.convert.manifests import EXAMPLES, SERVED, Json, converted, example, parsed, rows, standing
from tjworker.api.containers import with_environment
from tjworker.api.kinds import KNOWN_KINDS, parse
from tjworker.api.model import Role, TrainingJob
from tjworker.convert import SOURCES, write
from tjworker.reconcile.workloads.environment import role_environment
from tjworker.reconcile.workloads.podbody import pod_body

IDENTITY = {"name", "api_version", "kind", "uid", "resource_version", "generation", "status", "created_at"}
OF_THE_KIND = {
    "guest_labels",
    "runs",
    "ignored",
    "roles_path",
    "scale_role",
    "suspend_field",
    "gang",
    "time_limit_field",
    "labels",
    "annotations",
    "priority_class",
    "main_container",
    "retries_unknown_exit",
    "backoff_ends",
    "limit_clean_policy",
    "batch_roles",
}
"""What a kind says of itself, and what the manifest's metadata has."""
OF_THE_ROLE = {
    *("spec_path", "declared_replicas", "overruled", "workload"),
    *("restart_words", "fails_in_part", "fails_when_evicted"),
}
NOT_WHOLE = ("mpijob.yaml", "kubedl-mpijob.yaml", "kubedl-xdljob.yaml", "kubedl-marsjob.yaml")
"""Of which something cannot be carried over."""
WHOLE = sorted(set(SERVED) - set(NOT_WHOLE))


def essence(job: TrainingJob) -> dict[str, Any]:
    """All that decides what the job does."""
    settings = job.torch.variables()  # an AITrainingJob has them in its templates
    dressed = [replace(role, template=with_environment(role.template, settings)) for role in job.roles]
    out = IDENTITY | OF_THE_KIND | {"roles", "torch"}
    own = {f.name: getattr(job, f.name) for f in fields(job) if f.name not in out}
    gang = replace(job.gang, path="", priority_class_field="")  # where the manifest says it, for messages
    return own | {"gang": gang, "roles": {role.name: _role(role) for role in dressed}}


def _role(role: Role) -> dict[str, Any]:
    least = role.replicas if role.min_replicas is None else role.min_replicas
    most = role.replicas if role.max_replicas is None else role.max_replicas
    said = replace(role, min_replicas=least, max_replicas=most)
    told = {f.name: getattr(said, f.name) for f in fields(said) if f.name not in OF_THE_ROLE}
    template = dict(role.template)
    template["spec"] = {k: v for k, v in dict(template["spec"]).items() if k != "restartPolicy"}
    return told | {"template": template}


def test_what_is_written_of_any_job_is_read_as_that_job() -> None:
    """Of our own kind, near every bound of its schema."""
    rng, seen = random.Random(the_seed()), 0
    for number in range(300):
        raw = TEST_KINDS[AITRAININGJOBS].random(rng)
        job = parse(AITRAININGJOBS, raw)
        if not isinstance(job, TrainingJob):
            continue
        seen += 1
        again = write.manifest(job, raw["metadata"], ())
        assert essence(parsed(again)) == essence(parsed(raw)), f"TJ_TEST_SEED={the_seed()}, job {number}: {raw}"
    assert seen > 60


def test_every_kind_has_an_example() -> None:
    """Of those that are served, and of Volcano's; the EDL operator's are in examples/ itself."""
    shown = {(example(name)["apiVersion"].partition("/")[0], example(name)["kind"]) for name in EXAMPLES}
    wanted = {(source.api_versions[0].partition("/")[0], source.kind) for source in SOURCES}
    assert shown == wanted - {("paddlepaddle.org", "TrainingJob")}


@pytest.mark.parametrize("name", WHOLE)
def test_a_converted_example_is_the_same_job(name: str) -> None:
    raw = example(name)
    made = converted(raw)
    assert essence(parsed(made.manifest)) == essence(parsed(raw))
    assert made.left == ()


@pytest.mark.parametrize("name", WHOLE)
def test_its_pods_are_the_same_but_for_whose_they_are(name: str) -> None:
    before, after = _pods(example(name)), _pods(converted(example(name)).manifest)
    assert before.keys() == after.keys()
    for pod, body in before.items():
        assert after[pod] == body, pod


def _pods(raw: Json) -> dict[str, Json]:
    job = parsed(raw)
    bodies = {}
    for role in job.roles:
        for index in range(role.replicas):
            body = pod_body(job, role, index, 0, role_environment(job))
            bodies[body["metadata"]["name"]] = body["spec"] | {"role": body["metadata"]["labels"].get("job-role")}
    return bodies


ELASTIC: Json = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "PyTorchJob",
    "metadata": {"generateName": "imagenet-", "annotations": {"elasticdeeplearning.ai/edl-policy": "Auto"}},
    "spec": {
        "elasticPolicy": {"minReplicas": 1, "maxReplicas": 4, "rdzvConf": [{"key": "timeout", "value": "9"}]},
        "pytorchReplicaSpecs": {
            "worker": {"replicas": 2, "template": {"spec": {"containers": [{"name": "pytorch", "image": "a"}]}}}
        },
    },
}


RENDEZVOUS: dict[str, tuple[tuple[str, ...], Json, str]] = {
    # roles, bounds -> words about spec.elasticPolicy; none: it is carried over
    "elastic workers alone": (("Worker",), {"minReplicas": 1, "maxReplicas": 4}, ""),
    "workers of a fixed number": (("Worker",), {"minReplicas": 2, "maxReplicas": 2}, "no variables for torchrun"),
    "a master beside elastic workers": (
        ("Master", "Worker"),
        {"minReplicas": 1, "maxReplicas": 4},
        "do not get MASTER_ADDR, RANK and WORLD_SIZE",
    ),
}


@pytest.mark.parametrize("sentence", RENDEZVOUS)
def test_a_rendezvous_that_an_aitrainingjob_cannot_have_is_named(sentence: str) -> None:
    roles, bounds, words = RENDEZVOUS[sentence]
    template = {"spec": {"containers": [{"name": "pytorch", "image": "a"}]}}
    specs = {name: {"replicas": 1 if name == "Master" else 2, "template": template} for name in roles}
    spec = ELASTIC["spec"] | {"elasticPolicy": bounds, "pytorchReplicaSpecs": specs}
    left = {one.path: str(one) for one in converted(ELASTIC | {"spec": spec}).left}
    assert words in left.get("spec.elasticPolicy", "")
    assert ("spec.elasticPolicy" in left) == bool(words)


LEFT: dict[str, tuple[str, ...]] = {
    "mpijob.yaml": ("kind",),
    "kubedl-mpijob.yaml": ("kind",),
    "kubedl-xdljob.yaml": ("kind", "spec.minFinishWorkRate"),
    "kubedl-marsjob.yaml": ("kind",),
}


@pytest.mark.parametrize("name", NOT_WHOLE)
def test_the_others_say_what_is_not(name: str) -> None:
    made, job = converted(example(name)), parsed(example(name))
    assert tuple(one.path for one in made.left) == LEFT[name]
    again = parsed(made.manifest)
    told = ("replicas", "restart_policy", "restart_scope", "complete_policy", "fail_policy")
    assert [[getattr(role, of) for of in told] for role in again.roles] == [
        [getattr(role, of) for of in told] for role in job.roles
    ]


def test_the_arguments_of_an_mpi_worker_act_where_there_is_no_agent() -> None:
    """They go to the entrypoint of its image, as under KubeDL; beside the agent they were lost."""
    raw = example("kubedl-mpijob.yaml")
    container = raw["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    container.pop("command", None)
    container["args"] = ["-De"]
    made = converted(raw)
    assert made.manifest["spec"]["replicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["args"] == ["-De"]
    assert not [path for path in rows(made.left) if path.endswith("args")]
    assert [note for note in made.notes if "entrypoint" in note]


def test_what_the_api_server_wrote_into_an_object_is_not_carried_along() -> None:
    """`kubectl get -o yaml | tj convert -`."""
    raw = standing(example("jaxjob.yaml"))
    raw["metadata"] |= {
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "managedFields": [{}],
        "finalizers": ["a/b"],
        "labels": {"kueue.x-k8s.io/queue-name": "research"},
        "annotations": {write.LAST_APPLIED: "{}"},
    }
    raw["status"] = {"conditions": [{"type": "Running", "status": "True"}]}
    made = converted(raw)
    assert made.manifest["metadata"] == {"name": "jaxjob", "namespace": "default", "labels": raw["metadata"]["labels"]}
    assert "status" not in made.manifest
    assert [one.path for one in made.left] == ["metadata.labels.kueue.x-k8s.io/queue-name", "metadata.finalizers"]


def test_a_job_of_edl_keeps_its_programs_and_its_limits() -> None:
    raw = TEST_KINDS[next(r for r, kind in KNOWN_KINDS.items() if kind.kind == "TrainingJob")].whole()
    raw["spec"]["fault_tolerant"] = True
    raw["metadata"]["annotations"] = {"paddlepaddle.org/pserver-restart-limit": "3"}
    made, job = converted(raw).manifest, parsed(raw)
    again = parsed(made)
    assert made["metadata"] == {"name": raw["metadata"]["name"]}
    roles = made["spec"]["replicaSpecs"]
    assert {r.name: (r.replicas, r.complete_policy, r.restart_policy) for r in again.roles} == {
        r.name: (r.replicas, r.complete_policy, r.restart_policy) for r in job.roles
    }
    assert {name: role.get("restartLimit") for name, role in roles.items()} == {
        "master": None,
        "pserver": 3,
        "trainer": None,
    }
    assert {role.name: _role(role)["template"] for role in again.roles} == {
        role.name: _role(role)["template"] for role in job.roles
    }
