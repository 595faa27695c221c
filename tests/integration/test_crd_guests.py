"""The CRDs of other operators' kinds: what an API server says to them, and to their jobs. The local cluster's always; a
real one's where TJ_REAL_KUBECONFIG names it.
"""

from __future__ import annotations

import time

import pytest

from tests.integration.test_crd import DEFINITIONS, NOW, ON_A_REAL_ONE, Send, _local, _real
from tests.support.crds import crd_of
from tests.support.guests import KIND_OF
from tests.unit.tjworker.api.refusals import Json
from tjworker.api.kinds import parse
from tjworker.api.kinds.base import JobKind
from tjworker.api.model import TrainingJob
from tjworker.api.status import Condition, Failure, JobStatus, ReplicaStatus

pytestmark = pytest.mark.xdist_group("crd-guests")  # one API server with all the CRDs, which take seconds
GUEST_KINDS = tuple(KIND_OF.values())
WHERE = {kind.resource: f"/apis/{kind.api_versions[0]}/namespaces/default/{kind.plural}" for kind in GUEST_KINDS}
PATIENCE_SECONDS = 120
NEEDED = {
    "XGBoostJob": ["Master"],
    "MPIJob": ["Launcher"],
    "MarsJob": ["Scheduler"],
    "ElasticDLJob": ["Master"],
    "pytorchjobs.training.kubedl.io": ["Master"],
}


@pytest.fixture(scope="module", params=["local", pytest.param("real", marks=ON_A_REAL_ONE)])
def send(request: pytest.FixtureRequest) -> Send:
    door = _local() if request.param == "local" else _real()
    for kind in GUEST_KINDS:
        code, answer = door("POST", DEFINITIONS, crd_of(kind.resource))
        assert code in (201, 409), answer
    deadline = time.monotonic() + PATIENCE_SECONDS
    while any(door("GET", jobs)[0] != 200 for jobs in WHERE.values()):
        assert time.monotonic() < deadline, "a new kind is not served"
        time.sleep(0.05)
    return door


def manifest(kind: JobKind, name: str, role: str = "") -> Json:
    """With the roles that every one of its jobs has."""
    template = {"spec": {"containers": [{"name": "main", "image": "trainer:1", "resources": {"limits": {"cpu": "1"}}}]}}
    worker = ["Worker"] if kind.scale_role else []
    roles = [role] if role else [*worker, *NEEDED.get(kind.resource, NEEDED.get(kind.kind, ()))]
    specs = {name: {"replicas": 1, "restartPolicy": "OnFailure", "template": template} for name in roles}
    made = kind.with_run_policy({"cleanPodPolicy": "None", "suspend": False})
    made["spec"][kind.roles_field] = specs
    return {"apiVersion": kind.api_versions[0], "kind": kind.kind, "metadata": {"name": name}, **made}


@pytest.mark.parametrize("kind", GUEST_KINDS, ids=lambda kind: kind.resource)
def test_a_job_is_taken_and_its_status_kept_whole(send: Send, kind: JobKind) -> None:
    jobs = WHERE[kind.resource]
    code, made = send("POST", jobs, manifest(kind, "whole"))
    assert code == 201, made
    added = kind.version_defaults.get(kind.versions[0], {})
    assert made["spec"] == manifest(kind, "whole")["spec"] | added, "nothing else is added, nothing is lost"
    job = parse(kind.resource, made)
    assert isinstance(job, TrainingJob)
    status = JobStatus(
        phase="Running",
        conditions=(Condition(type="Running", status="True", last_transition_time=NOW, reason="Running"),),
        replica_statuses={kind.scale_role or "Master": ReplicaStatus(desired=1, active=1)},
        replicas=1,
        failures=(Failure(pod="a", time=NOW, exit_code=1),),
        start_time=NOW,
    )
    written = kind.written_status(job, status)
    code, after = send("PUT", f"{jobs}/whole/status", made | {"status": written})
    assert (code, after.get("status")) == (200, written)
    again = parse(kind.resource, after)
    assert again.status == status
    code, scale = send("GET", f"{jobs}/whole/scale")
    if kind.scale_role:
        assert (code, scale["spec"]["replicas"], scale["status"]["replicas"]) == (200, 1, 1)
    else:
        assert code == 404, "a kind of one pod has no size"
    assert send("DELETE", f"{jobs}/whole")[0] == 200


@pytest.mark.parametrize("kind", GUEST_KINDS, ids=lambda kind: kind.resource)
def test_a_role_that_the_kind_does_not_have_is_refused(send: Send, kind: JobKind) -> None:
    code, answer = send("POST", WHERE[kind.resource], manifest(kind, "odd", "Trainer"))
    assert code == 422, answer
    # Capitals at the start are read letter by letter: an MPIJob, but a MarsJob.
    spelt = kind.kind[:2].isupper()
    article = "an" if kind.kind[0] in ("AEFHILMNORSX" if spelt else "AEIO") else "a"
    assert f"a role of {article} {kind.kind} is " in answer["message"]


OTHER, OWN = "kueue.x-k8s.io/multikueue", "kubeflow.org/training-operator"
MANAGERS: dict[str, tuple[str | None, str | None, int]] = {
    # managedBy of the job, what an edit makes of it -> what the API server answers
    "named later: a job that runs would be left in the middle of its work": (None, OTHER, 422),
    "named no more": (OTHER, None, 422),
    "another one": (OTHER, OWN, 422),
    "the same": (OTHER, OTHER, 200),
    "none, as before": (None, None, 200),
}


@pytest.mark.parametrize("case", MANAGERS)
@pytest.mark.parametrize(
    "kind", [kind for kind in GUEST_KINDS if "kubeflow.org" in kind.resource], ids=lambda kind: kind.resource
)
def test_whose_a_job_is_cannot_change(send: Send, kind: JobKind, case: str) -> None:
    was, becomes, want = MANAGERS[case]

    def spec(job: Json, manager: str | None) -> Json:
        policy = {k: v for k, v in job["spec"]["runPolicy"].items() if k != "managedBy"}
        return job | {"spec": job["spec"] | {"runPolicy": policy | ({"managedBy": manager} if manager else {})}}

    jobs = WHERE[kind.resource]
    code, made = send("POST", jobs, spec(manifest(kind, "managed"), was))
    assert code == 201, made
    code, answer = send("PUT", f"{jobs}/managed", spec(made, becomes))
    assert (code, code == 200 or "managedBy cannot" in answer["message"]) == (want, True), answer
    assert send("DELETE", f"{jobs}/managed")[0] == 200


OF_MPI = "kubeflow.org/mpi-operator"
REFUSED = ("kueue.x-k8s.io/other-controller", "multikueue", "me", "")
OWNERS: dict[str, str] = {
    # apiVersion and kind -> the controller that its operator is
    **{f"kubeflow.org/v1 {name}Job": OWN for name in ("JAX", "MPI", "Paddle", "PyTorch", "TF", "XGBoost")},
    "kubeflow.org/v2beta1 MPIJob": OF_MPI,
}


@pytest.mark.parametrize("of", OWNERS)
def test_a_job_is_its_operators_or_multikueues(send: Send, of: str) -> None:
    """As training-operator's webhook (`ValidateRunPolicyCreate`) and the MPI operator (`validateRunPolicy`) have it."""
    version, _, name = of.partition(" ")
    (kind,) = [kind for kind in GUEST_KINDS if (kind.group, kind.kind) == ("kubeflow.org", name)]
    jobs, own = f"/apis/{version}/namespaces/default/{kind.plural}", OWNERS[of]
    made = manifest(kind, "managed") | {"apiVersion": version}
    for manager in (own, OTHER, *REFUSED, OF_MPI if own == OWN else OWN):
        policy = made["spec"]["runPolicy"] | {"managedBy": manager}
        code, answer = send("POST", jobs, made | {"spec": made["spec"] | {"runPolicy": policy}})
        if manager in (own, OTHER):
            assert code == 201, answer
            assert send("DELETE", f"{jobs}/managed")[0] == 200
        else:
            told = f"{manager}: must be {own} or {OTHER}; leave the field out for a job of this operator"
            assert (code, answer["details"]["causes"][0]["field"]) == (422, "spec.runPolicy.managedBy"), answer
            assert told in answer["message"]


OF_KUBEFLOW = [kind for kind in GUEST_KINDS if kind.group == "kubeflow.org"]
QUEUES: dict[str, tuple[str | None, str | None, int]] = {
    # queue of the job, what an edit makes of it -> what the API server answers
    "another one": ("initial-queue", "test", 422),
    "the same": ("initial-queue", "initial-queue", 200),
    "none, as before": (None, None, 200),
    "set later: training-operator's rule is of the field, and is not asked": (None, "test", 200),
}


@pytest.mark.parametrize("case", QUEUES)
@pytest.mark.parametrize("kind", OF_KUBEFLOW, ids=lambda kind: kind.resource)
def test_the_queue_of_a_job_cannot_change(send: Send, kind: JobKind, case: str) -> None:
    was, becomes, want = QUEUES[case]

    def spec(job: Json, queue: str | None) -> Json:
        policy = job["spec"]["runPolicy"] | {
            "schedulingPolicy": {"minAvailable": 1} | ({"queue": queue} if queue else {})
        }
        return job | {"spec": job["spec"] | {"runPolicy": policy}}

    jobs = WHERE[kind.resource]
    code, made = send("POST", jobs, spec(manifest(kind, "queued"), was))
    assert code == 201, made
    code, answer = send("PUT", f"{jobs}/queued", spec(made, becomes))
    told = code == 200 or "spec.runPolicy.schedulingPolicy.queue is immutable" in answer["message"]
    assert (code, told) == (want, True), answer
    assert send("DELETE", f"{jobs}/queued")[0] == 200


def test_an_mpijob_keeps_the_version_that_it_was_made_in(send: Send) -> None:
    """Both versions are one object to the API server: what a manifest was written for must not be forgotten."""
    (kind,) = [kind for kind in GUEST_KINDS if kind.resource == "mpijobs.kubeflow.org"]
    for version, other in (("v1", "v2beta1"), ("v2beta1", "v1")):
        jobs, name = f"/apis/kubeflow.org/{version}/namespaces/default/mpijobs", f"of-{version}"
        made = manifest(kind, name) | {"apiVersion": f"kubeflow.org/{version}"}
        assert send("POST", jobs, made)[0] == 201
        seen = jobs.replace(version, other) + f"/{name}"
        code, found = send("GET", seen)
        assert (code, found["apiVersion"]) == (200, f"kubeflow.org/{other}")
        assert found["spec"]["manifestVersion"] == version
        code, answer = send("PUT", seen, found | {"spec": found["spec"] | {"manifestVersion": other}})
        assert (code, "keeps the version that it was made in" in answer["message"]) == (422, True), answer
        assert send("DELETE", seen)[0] == 200


def test_a_name_that_no_service_can_have_is_refused(send: Send) -> None:
    kind = GUEST_KINDS[0]
    code, answer = send("POST", WHERE[kind.resource], manifest(kind, "9.a"))
    assert (code, "the name of a job must be a lower-case DNS label" in answer["message"]) == (422, True), answer
