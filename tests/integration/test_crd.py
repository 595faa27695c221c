"""The CRD in a whole API server: refusals word for word, status, scale and columns.

The local cluster always, in process; a real one too when TJ_REAL_KUBECONFIG names its kubeconfig (CRDs are installed in
it and jobs made and deleted in its namespace `default`). With TJ_RECORD_REFUSALS=1 the real one's answers are written
down instead of compared.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import urllib3
from kubernetes import client, config

from localcluster.apiserver.server import ApiServer
from localcluster.wire import Request, Response
from tests.support import fast_yaml as yaml
from tests.support.builders import make_job, make_training_job
from tests.support.crds import crd_of
from tests.support.kinds import AITRAININGJOBS, TRAININGJOBS
from tests.unit.tjworker.api import refusals
from tests.unit.tjworker.api.refusals import ALL, TABLES, Json
from tjworker.api.kinds import KINDS
from tjworker.api.status import Condition, Failure, JobStatus, ReplicaStatus, RestartCounts
from tjworker.base import GroupResource

pytestmark = pytest.mark.xdist_group("crd")  # one API server with the CRDs
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PATHS = {resource: f"/apis/{kind.group}/v1/namespaces/default/{kind.plural}" for resource, kind in KINDS.items()}
JOBS = PATHS[AITRAININGJOBS]
TRAINING_JOBS = PATHS[TRAININGJOBS]
RECORD = bool(os.environ.get("TJ_RECORD_REFUSALS"))
REAL_KUBECONFIG = os.environ.get("TJ_REAL_KUBECONFIG", "")
ON_A_REAL_ONE = [
    pytest.mark.real,
    pytest.mark.skipif(not REAL_KUBECONFIG, reason="TJ_REAL_KUBECONFIG names no kubeconfig"),
]
PEER_MANIFESTS = os.environ.get("TJ_PEER_MANIFESTS", "")
RECORDED_ON_MINOR = 36
NOW = "2026-01-01T00:00:00Z"

Send = Callable[..., tuple[int, Json]]
"""(method, path, body=None, query=None, content_type=..., accept=...) -> status code, JSON."""


def _local() -> Send:
    server = ApiServer(lambda: 1_767_225_600.0, random.Random(1))

    def send(
        method: str,
        path: str,
        body: Json | None = None,
        query: dict[str, str] | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> tuple[int, Json]:
        answer = server.handle(
            Request(
                method,
                path,
                query or {},
                b"" if body is None else json.dumps(body).encode(),
                {"content-type": content_type, "accept": accept},
            )
        )
        assert isinstance(answer, Response)
        return answer.status, json.loads(answer.body)

    return send


def _real() -> Send:
    configuration = client.Configuration()
    config.load_kube_config(  # type: ignore[no-untyped-call]
        REAL_KUBECONFIG, client_configuration=configuration
    )
    pool = urllib3.PoolManager(
        cert_reqs="CERT_REQUIRED" if configuration.verify_ssl else "CERT_NONE",
        ca_certs=configuration.ssl_ca_cert,
        cert_file=configuration.cert_file,
        key_file=configuration.key_file,
    )
    token = configuration.get_api_key_with_prefix("BearerToken") or ""

    def send(
        method: str,
        path: str,
        body: Json | None = None,
        query: dict[str, str] | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> tuple[int, Json]:
        answer = pool.request(
            method,
            f"{configuration.host}{path}?{urlencode(query or {})}",
            body=None if body is None else json.dumps(body),
            headers={"Content-Type": content_type, "Accept": accept, "Authorization": token},
        )
        # A kind that is not served yet is a 404 in plain text.
        text = answer.data.decode()
        return answer.status, json.loads(text) if text.startswith("{") else {"message": text}

    return send


@pytest.fixture(scope="module", params=["local", pytest.param("real", marks=ON_A_REAL_ONE)])
def send(request: pytest.FixtureRequest) -> Send:
    door = _local() if request.param == "local" else _real()
    for kind in KINDS.values():
        definition = crd_of(kind.resource)
        code, answer = door("POST", DEFINITIONS, definition)
        if code == 409:
            code, answer = door(
                "PATCH",
                f"{DEFINITIONS}/{definition['metadata']['name']}",
                definition,
                content_type="application/merge-patch+json",
            )
        assert code in (200, 201), answer
    deadline = time.monotonic() + 120
    while any(door("GET", jobs)[0] != 200 for jobs in PATHS.values()):
        assert time.monotonic() < deadline, "a new kind is not served"
        time.sleep(0.05)
    return door


@pytest.fixture(autouse=True)
def _clean(send: Send) -> Iterator[None]:
    yield
    for jobs in PATHS.values():
        for job in send("GET", jobs)[1]["items"]:
            send("DELETE", f"{jobs}/{job['metadata']['name']}")


@pytest.fixture(scope="module")
def recorded() -> Iterator[dict[GroupResource, dict[str, list[str]]]]:
    """Resource -> sentence -> what was said; written at the end when TJ_RECORD_REFUSALS says so."""
    answers: dict[GroupResource, dict[str, list[str]]] = defaultdict(dict)
    yield answers
    for resource, said in answers.items() if RECORD else ():
        file = Path(refusals.__file__).with_name(f"{resource}.json")
        file.write_text(json.dumps(dict(sorted(said.items())), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


@pytest.mark.parametrize(("resource", "sentence"), ALL)
def test_the_api_server_says(
    resource: GroupResource,
    sentence: str,
    send: Send,
    recorded: dict[GroupResource, dict[str, list[str]]],
    request: pytest.FixtureRequest,
) -> None:
    case, want = TABLES[resource].cases[sentence], TABLES[resource].want_says(sentence)
    said, answer = _apply(send, resource, case.apply, case.after)
    if RECORD and request.node.callspec.params["send"] == "real":
        if said:
            recorded[resource][sentence] = refusals.abridged(said)
    elif not want or _minor(send) >= RECORDED_ON_MINOR:
        assert said == want, answer
    else:  # refuses the same, but names the type ("object") where newer ones name the value
        assert _fields(said) == _fields(want)


def _apply(send: Send, resource: GroupResource, manifest: Json, after: Json | None) -> tuple[list[str], Json]:
    """What is said to it, nothing when it is accepted; and the whole answer."""
    strict, jobs = {"fieldValidation": "Strict"}, PATHS[resource]
    url = f"/apis/{manifest['apiVersion']}{jobs[jobs.index('/namespaces') :]}"
    if after:
        code, before = send("POST", jobs, after)
        assert code == 201, before
        body = manifest | {
            "metadata": manifest["metadata"] | {"resourceVersion": before["metadata"]["resourceVersion"]}
        }
        code, answer = send("PUT", f"{url}/{body['metadata']['name']}", body, strict)
    else:
        code, answer = send("POST", url, manifest, strict)
    if code in (200, 201):
        return [], answer
    assert code in (400, 422), answer
    causes = answer.get("details", {}).get("causes", [])
    return sorted(f"{cause['field']}: {cause['message']}" for cause in causes) or [answer["message"]], answer


def _minor(send: Send) -> int:
    return int(send("GET", "/version")[1]["minor"].rstrip("+"))


def _fields(said: list[str]) -> set[str]:
    return {line.partition(": ")[0] for line in said} - {"<nil>"}


def _made(send: Send) -> Json:
    code, made = send("POST", JOBS, make_job().role("trainer", 2, least=1, most=4).role("pserver", 2).manifest())
    assert code == 201, made
    return made


def test_a_whole_status_is_kept_as_written(send: Send) -> None:
    status = JobStatus(
        phase="Failed",
        start_time=NOW,
        completion_time=NOW,
        observed_generation=1,
        replicas=2,
        selector="a=b",
        conditions=(Condition(type="Failed", status="True", last_transition_time=NOW, reason="R", message="so it is"),),
        replica_statuses={"trainer": ReplicaStatus(desired=2, active=1)},
        restart_counts={"trainer": RestartCounts(node=3)},
        failures=(Failure(pod="p", time=NOW, exit_code=137, log_tail="ü\n"),),
    ).summarised()
    made = _made(send)
    code, written = send("PUT", f"{JOBS}/digits/status", made | {"status": status.to_json()})
    assert (code, written.get("status")) == (200, status.to_json())
    assert _managed(written, "status") == [{"f:status": {}}], "a status write costs the API server a fifth more"


def _managed(obj: Json, subresource: str) -> list[Json]:
    entries = obj["metadata"]["managedFields"]
    return [entry["fieldsV1"] for entry in entries if entry.get("subresource", "") == subresource]


def test_the_columns(send: Send) -> None:
    status = JobStatus(phase="Running", active="1/2", restarts=3, message="it runs")
    send("PUT", f"{JOBS}/digits/status", _made(send) | {"status": status.to_json()})
    _, table = send("GET", JOBS, accept="application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
    names = [column["name"] for column in table["columnDefinitions"]]
    row = dict(zip(names, table["rows"][0]["cells"], strict=True))
    assert names == ["Name", "Phase", "Active", "Restarts", "Age", "Message"]
    assert {k: v for k, v in row.items() if k != "Age"} == {
        "Name": "digits",
        "Phase": "Running",
        "Active": "1/2",
        "Restarts": 3,
        "Message": "it runs",
    }


SCALES: dict[str, tuple[int, Any]] = {
    "within the bounds": (4, None),
    "above the most": (5, "replicas is 5, it must lie between minReplicas and maxReplicas"),
    "below the least": (0, "replicas is 0, it must lie between minReplicas and maxReplicas"),
}


@pytest.mark.parametrize("role", ["trainer", "Worker"])
@pytest.mark.parametrize(("replicas", "want"), SCALES.values(), ids=SCALES.keys())
def test_the_scale_subresource_moves_the_elastic_role(replicas: int, want: str | None, role: str, send: Send) -> None:
    manifest = make_job().role(role, 2, least=1, most=4).role("pserver", 2).manifest()
    assert send("POST", JOBS, manifest)[0] == 201
    code, answer = send(
        "PATCH", f"{JOBS}/digits/scale", {"spec": {"replicas": replicas}}, content_type="application/merge-patch+json"
    )
    _, job = send("GET", f"{JOBS}/digits")
    now = job["spec"].get("replicas")
    if want is None:
        assert (code, answer["spec"]["replicas"], now) == (200, replicas, replicas)
        assert send("GET", f"{JOBS}/digits/scale")[1]["spec"]["replicas"] == replicas
    else:
        assert (code, now) == (422, None)
        assert want in answer["message"]


@pytest.mark.skipif(
    not PEER_MANIFESTS, reason="TJ_PEER_MANIFESTS names no folder with manifests written for other operators"
)
def test_manifests_written_for_other_operators_apply_unchanged(send: Send) -> None:
    kinds = {job_kind.kind: job_kind.resource for job_kind in KINDS.values()}
    documents = [
        document
        for path in sorted(Path(PEER_MANIFESTS).glob("*.yaml"))
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))
        if document
    ]
    ours = [document for document in documents if document["kind"] in kinds]
    assert {document["kind"] for document in ours} == kinds.keys()
    for document in ours:
        said, answer = _apply(send, kinds[document["kind"]], document, None)
        assert said == [], f"{document['metadata']['name']}: {answer}"


TRAINING_SCALES: dict[str, tuple[int, Any]] = {
    "within the bounds": (4, None),
    "to the most": (6, None),
    "above the most": (7, "max-instance is 6, it must be at least min-instance (7)"),
    "to none": (0, "should be greater than or equal to 1"),
}


@pytest.mark.parametrize("version", KINDS[TRAININGJOBS].versions)
@pytest.mark.parametrize(("replicas", "want"), TRAINING_SCALES.values(), ids=TRAINING_SCALES.keys())
def test_the_scale_subresource_moves_the_least_number_of_trainers(
    replicas: int, want: str | None, version: str, send: Send
) -> None:
    jobs = TRAINING_JOBS.replace("/v1/", f"/{version}/")
    code, made = send("POST", TRAINING_JOBS, make_training_job(least=2, most=6, fault_tolerant=True).manifest())
    assert code == 201, made
    assert send("GET", f"{jobs}/digits/scale")[1]["spec"]["replicas"] == 2
    code, answer = send(
        "PATCH", f"{jobs}/digits/scale", {"spec": {"replicas": replicas}}, content_type="application/merge-patch+json"
    )
    now = send("GET", f"{TRAINING_JOBS}/digits")[1]["spec"]["trainer"]["min-instance"]
    if want is None:
        assert (code, answer["spec"]["replicas"], now) == (200, replicas, replicas)
    else:
        assert (code, now) == (422, 2)
        assert want in answer["message"]


def test_both_versions_are_one_object(send: Send) -> None:
    code, made = send("POST", TRAINING_JOBS, make_training_job().manifest())
    assert code == 201, made
    older = send("GET", f"{TRAINING_JOBS.replace('/v1/', '/v1alpha1/')}/digits")[1]
    assert older == made | {"apiVersion": "paddlepaddle.org/v1alpha1"}
