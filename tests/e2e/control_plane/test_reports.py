"""Reports of progress on the real control plane: its tokens, its reviews, and the report server as its own account.

The nodes are played and run no program, so the test asks for the tokens that a kubelet would ask for, and sends the
reports."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from typing import Any

from tests.e2e.control_plane.operator import Operator
from tests.e2e.control_plane.world import RealWorld
from tests.scenarios.driver import HOLD
from tests.scenarios.world import job, play, role, training_job
from tests.support.waiting import PATIENCE_SECONDS
from tjworker.api.owners import controller
from tjworker.api.reporting import CA_ANNOTATION, audience, report_mount, report_volume, status_path
from tjworker.api.resources import BATCH_JOBS, PODS
from tjworker.base import GroupResource, JobName

Json = dict[str, Any]
JOBS, EDL_JOBS = GroupResource("aitrainingjobs.elasticdeeplearning.ai"), GroupResource("trainingjobs.paddlepaddle.org")


def trained(name: str) -> Json:
    made = role(1, annotations=play())
    made["template"]["spec"]["serviceAccountName"] = "default"  # else the admission plugin ServiceAccount says so
    return job({"trainer": made}, name=name)


def report(operator: Operator, path: str, bearer: str, percentage: int) -> tuple[int, str]:
    body = json.dumps({"trainerStatus": {"progressPercentage": percentage}}).encode()
    url = f"https://localhost:{operator.reports_port}{path}"
    request = urllib.request.Request(url, body, {"Authorization": f"Bearer {bearer}"})
    tls = ssl.create_default_context(cafile=str(operator.folder / "reports" / "ca.crt"))
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS, context=tls) as answer:  # noqa: S310
            return answer.status, ""
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)["message"]


def judged(world: RealWorld, operator: Operator, path: str, bearer: str, percentage: int) -> tuple[int, str]:
    """The answer to a report that is sent again as a program does: where it was early, or the API server slow."""
    answers = [(0, "")]

    def is_judged() -> bool:
        answers.append(report(operator, path, bearer, percentage))
        return answers[-1][0] not in (429, 503)

    world.until("the report is judged", is_judged)
    return answers[-1]


def test_a_pods_token_reports_for_its_own_job_and_for_no_other(operator: Operator, world: RealWorld) -> None:
    for name in ("one", "two"):
        world.apply(trained(name))
    world.until("both run", lambda: [world.phase(name) for name in ("one", "two")] == ["Running", "Running"])
    one, two = (JobName(JOBS, world.namespace, name) for name in ("one", "two"))
    own = world.token("one-trainer-0", audience(one))
    assert judged(world, operator, status_path(one), own, 40) == (200, "")
    world.until("it is written", lambda: world.status("one").get("trainerStatus", {}).get("progressPercentage") == 40)
    code, why = judged(world, operator, status_path(two), own, 40)
    assert (code, "not that of a pod of" in why) == (403, True), why
    foreign = world.token("one-trainer-0", audience(two))  # its account may ask for any audience
    code, why = judged(world, operator, status_path(two), foreign, 40)
    assert (code, "does not belong to" in why) == (403, True), why
    assert "trainerStatus" not in world.status("two")
    world.delete_pod("one-trainer-0")
    world.until("its pod is another", lambda: report(operator, status_path(one), own, 50)[0] == 403)


def test_of_a_pod_that_a_controller_keeps_the_server_asks_whose_that_is(operator: Operator, world: RealWorld) -> None:
    world.apply(training_job("edl", least=1, pservers=1))
    world.until("it runs", lambda: world.phase("edl") == "Running")
    edl = JobName(EDL_JOBS, world.namespace, "edl")
    for controlled in world.pods().values():
        # The plane's own pods have no account: one more, as the controller would make it where each has one. It takes
        # it as surplus at once, so it is held.
        labels, owners = controlled["metadata"]["labels"], controlled["metadata"]["ownerReferences"]
        name = f"twin-of-{owners[0]['kind'].lower()}"
        spec = {"serviceAccountName": "default", "containers": [{"name": "c", "image": "x"}]}
        metadata = {"name": name, "labels": labels, "ownerReferences": owners, "finalizers": HOLD}
        world.create_pod({"metadata": metadata, "spec": spec})
        try:
            code, why = judged(world, operator, status_path(edl), world.token(name, audience(edl)), 5)
        finally:
            world.hold_pod(name, held=False)
        assert code == 200 or (code == 403 and ("is being deleted" in why or "has ended" in why)), why
    # Both twins may have been taken back too soon. A batch Job without a controller takes none back. The operator
    # deletes it, since the job has no such part, so it is held.
    (trainers,) = world.owners(BATCH_JOBS).values()
    owner, labels = controller(trainers["metadata"]), trainers["spec"]["template"]["metadata"]["labels"]
    container = {"name": "c", "image": "x"}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    metadata = {"name": "unserved", "ownerReferences": [owner], "finalizers": HOLD}
    manifest = {"metadata": metadata, "spec": {"managedBy": "example.com/nobody", "template": template}}
    unserved = world.create(BATCH_JOBS, manifest)
    try:
        reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "unserved", "uid": unserved["metadata"]["uid"]}
        metadata = {"name": "kept", "labels": labels, "ownerReferences": [{**reference, "controller": True}]}
        world.create_pod({"metadata": metadata, "spec": {"serviceAccountName": "default", "containers": [container]}})
        token = world.token("kept", audience(edl))
        assert judged(world, operator, status_path(edl), token, 6) == (200, "")
        world.until(
            "it is written", lambda: world.status("edl").get("trainerStatus", {}).get("progressPercentage") == 6
        )
    finally:
        world.release(BATCH_JOBS, "unserved")


def test_the_api_server_takes_what_a_pod_reports_by(operator: Operator, world: RealWorld) -> None:
    name = JobName(JOBS, world.namespace, "one")
    container = {"name": "c", "image": "x", "volumeMounts": [report_mount()]}
    ca = (operator.folder / "reports" / "ca.crt").read_text()
    spec = {"serviceAccountName": "default", "containers": [container], "volumes": [report_volume(name)]}
    metadata = {"name": "reports", "annotations": {CA_ANNOTATION: ca}}
    made = world.create(PODS, {"metadata": metadata, "spec": spec})
    assert made
