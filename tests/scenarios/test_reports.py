"""Training programs report their progress: which reports count, what becomes of them, and what they cost.

The pods are those that the operator makes, the tokens those that their volumes ask the API server for.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from benchmarks.support.inprocess import InProcessTransport
from tests.scenarios.world import World, job, play, role, training_job
from tests.support.guests import GUESTS, guest_job
from tests.support.kinds import AITRAININGJOBS
from tests.support.rights import lacking
from tests.support.trainer import RUNTIME_PATH, RUNTIMES, train_job
from tests.support.waiting import PATIENCE_SECONDS
from tjworker.api.kinds import KNOWN_KINDS, parse
from tjworker.api.progress import read_progress
from tjworker.api.reporting import audience
from tjworker.api.resources import PODS
from tjworker.base import GroupResource, JobName
from tjworker.kube.client import KubeClient
from tjworker.kube.resources import RESOURCES
from tjworker.reports.desk import WRITE_SECONDS, Desk, Verdict

Json = dict[str, Any]
CA = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
AT = "2026-01-01T00:00:00Z"
SERVER = "https://tj-reports.tj-system.svc:8082"


class Reports:
    """A world whose pods report, and the server's desk beside it."""

    def __init__(self, folder: Path, manifest: Json | None = None, **settings: Any) -> None:
        (folder / "ca.crt").write_text(CA)
        self.world = World(nodes=3, reports_url=SERVER, reports_ca_file=str(folder / "ca.crt"), **settings)
        self.transport = InProcessTransport(self.world.cluster.apiserver.handle, user="reporter")
        self.desk = self.make_desk()
        if manifest is not None:
            self.world.apply(manifest).run()
            self.world.advance(1)

    def make_desk(self) -> Desk:
        return Desk(KubeClient(self.transport), now=self.world.clock, monotonic=self.world.clock)

    def env(self, pod: str) -> dict[str, str]:
        containers = self.world.pods()[pod]["spec"]["containers"]
        return {e["name"]: e["value"] for e in containers[0]["env"] if "value" in e}

    def path(self, pod: str) -> str:
        return self.env(pod)["KUBEFLOW_TRAINER_SERVER_URL"].removeprefix(SERVER)

    def token(self, pod: str, **changed: object) -> str:
        """As the kubelet asks for it."""
        found = self.world.pods()[pod]
        sources = next(v for v in found["spec"]["volumes"] if v["name"] == "kubeflow-trainer-token")["projected"][
            "sources"
        ]
        asked = next(s["serviceAccountToken"] for s in sources if "serviceAccountToken" in s)
        bound = {"kind": "Pod", "apiVersion": "v1", "name": pod, "uid": found["metadata"]["uid"]}
        spec = {
            "audiences": [asked["audience"]],
            "expirationSeconds": asked["expirationSeconds"],
            "boundObjectRef": bound,
        }
        body = {"spec": {**spec, **changed}}
        account = "/api/v1/namespaces/default/serviceaccounts/default/token"
        return str(self.world.cluster.client.create(account, body)["status"]["token"])

    def send(self, pod: str = "digits-trainer-0", body: bytes | None = None, **told: Any) -> Verdict:
        return self.post(self.path(pod), f"Bearer {self.token(pod)}", body, **told)

    def post(self, path: str, authorization: str, body: bytes | None = None, **told: Any) -> Verdict:
        metrics = [{"name": name, "value": str(value)} for name, value in told.pop("metrics", {}).items()]
        status = {**told, **({"metrics": metrics} if metrics else {})}
        sent = json.dumps({"trainerStatus": status}).encode() if body is None else body
        return self.desk.take(path, authorization, sent)

    def told(self, name: str = "digits") -> Json:
        if name not in self.world.jobs():
            return {}
        return dict(self.world.status(name).get("trainerStatus") or {})

    def advance(self, seconds: float) -> None:
        """With the server's own looks at what is due."""
        for _ in range(int(seconds)):
            self.world.advance(1)
            self.desk.write_due()


def digits(replicas: int = 2, **fields: Any) -> Json:
    return job({"trainer": role(replicas, minReplicas=1, maxReplicas=4, **fields)})


@pytest.fixture
def reports(tmp_path: Path) -> Reports:
    return Reports(tmp_path, digits())


# -- what counts -----------------------------------------------------------------------------------


def test_a_report_of_a_trainer_stands_in_the_status_of_its_job(reports: Reports) -> None:
    got = reports.send(progressPercentage=41, estimatedRemainingSeconds=90, metrics={"loss": 0.25})
    assert got == Verdict(200)
    assert reports.told() == {
        "progressPercentage": 41,
        "estimatedRemainingSeconds": 90,
        "metrics": [{"name": "loss", "value": "0.25"}],
        "lastUpdatedTime": reports.told()["lastUpdatedTime"],
    }


def test_a_report_writes_nothing_else_and_queues_no_pass(reports: Reports) -> None:
    """Among all that a job's status says, a worker's own writes stay, and the watcher begins no pass."""
    before, passes = reports.world.status(), len(reports.world.results)
    for percentage in range(1, 60, 5):
        reports.send(progressPercentage=percentage, metrics={"samples_per_second": 10})
        reports.advance(5)
    reports.advance(10)
    after = reports.world.status()
    written = {"trainerStatus", "speed"}
    assert {k: v for k, v in after.items() if k not in written} == before
    assert len(reports.world.results) == passes, reports.world.results[passes:]
    [(_, record)] = reports.world.store.projection.unfinished().values()
    known = read_progress(parse(AITRAININGJOBS, json.loads(record)).status)
    assert known.percentage == 56, "the workers' view has it"
    assert [(s.replicas, s.rate) for s in known.samples] == [(2, 10.0)]


def test_a_job_is_written_at_most_every_ten_seconds_and_nothing_is_lost(reports: Reports) -> None:
    writes = []
    for second in range(40):
        assert reports.send(progressPercentage=second).code == 200
        reports.advance(1)
        writes = [path for method, path in reports.transport.requests if method == "PATCH"]
    reports.advance(int(WRITE_SECONDS))
    writes = [path for method, path in reports.transport.requests if method == "PATCH"]
    assert reports.told()["progressPercentage"] == 39
    assert len(writes) <= 1 + 50 / WRITE_SECONDS, f"{len(writes)} writes in 50 s"


def test_of_reports_that_wait_together_each_adds_what_it_says(reports: Reports) -> None:
    reports.send(progressPercentage=1)
    for told in ({"metrics": {"loss": 0.5}}, {"progressPercentage": 3}, {"estimatedRemainingSeconds": 60}):
        reports.advance(2)
        assert reports.send(**told).code == 200
    reports.advance(12)
    found = reports.told()
    assert (found["progressPercentage"], found["estimatedRemainingSeconds"]) == (3, 60)
    assert found["metrics"] == [{"name": "loss", "value": "0.5"}]


def test_the_server_asks_for_no_more_than_its_role_allows(reports: Reports) -> None:
    reports.send(progressPercentage=1)
    reports.advance(12)
    assert not lacking("reporter", reports.transport.requests)


def test_what_waits_of_a_deleted_job_is_not_written_into_the_next_one_of_its_name(reports: Reports) -> None:
    reports.send(progressPercentage=80)
    reports.advance(2)
    assert reports.send(progressPercentage=90).code == 200
    reports.world.delete("digits").run().apply(digits()).run()
    reports.world.advance(1)
    assert reports.send(progressPercentage=5) == Verdict(200)
    reports.advance(12)
    assert reports.told()["progressPercentage"] == 5


def test_the_end_of_the_server_loses_no_report_that_it_has_taken(reports: Reports) -> None:
    reports.send(progressPercentage=1)
    reports.advance(2)
    assert reports.send(progressPercentage=2).code == 200
    assert reports.told()["progressPercentage"] == 1
    reports.desk.write_all()
    assert reports.told()["progressPercentage"] == 2


@pytest.mark.parametrize("look", ["write_due", "write_all"])
def test_jobs_are_written_at_the_same_time(look: str, reports: Reports, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write waits for the API server, and thousands of jobs are due within the same ten seconds."""
    reports.world.apply(job({"trainer": role(1)}, name="words")).run()
    reports.world.advance(1)
    for percentage in (1, 2):  # the first is written at once
        for pod in ("digits-trainer-0", "words-trainer-0"):
            assert reports.send(pod, progressPercentage=percentage) == Verdict(200)
        reports.world.advance(WRITE_SECONDS)
    together, alone, patch = threading.Barrier(2), threading.Lock(), Desk._patch

    def patched(desk: Desk, *of: Any) -> None:
        together.wait(PATIENCE_SECONDS)  # raises where no other job is written meanwhile
        with alone:  # the world is not made for two threads
            patch(desk, *of)

    monkeypatch.setattr(Desk, "_patch", patched)
    getattr(reports.desk, look)()
    assert [reports.told(name)["progressPercentage"] for name in ("digits", "words")] == [2, 2]


def test_the_last_report_of_a_program_counts_though_it_comes_early_and_the_job_ends(tmp_path: Path) -> None:
    """KubeflowCallback reports 100 % in on_train_end, however soon after the report before it."""
    reports = Reports(tmp_path, digits(annotations=play(run_seconds=5)))
    assert reports.send(progressPercentage=99).code == 200
    assert reports.send(progressPercentage=100, estimatedRemainingSeconds=0).code == 200
    assert reports.send(progressPercentage=100).code == 429
    reports.advance(15)
    assert reports.world.phase() == "Succeed"
    assert reports.told()["progressPercentage"] == 100


def test_a_write_takes_nothing_from_what_a_worker_writes_at_the_same_moment(
    reports: Reports, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = reports.transport.request
    before: list[str] = []

    def scaled_between(method: str, path: str, **more: Any) -> Any:
        if method == "PATCH" and not before:
            before.append(path)
            reports.world.scale("digits", 3).run()
        return send(method, path, **more)

    monkeypatch.setattr(reports.transport, "request", scaled_between)
    assert reports.send(progressPercentage=7).code == 200
    assert before
    assert reports.told()["progressPercentage"] == 7
    assert reports.world.status()["replicaStatuses"]["trainer"]["desired"] == 3


def test_a_condition_that_a_worker_sets_at_the_same_moment_stays(
    reports: Reports, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Conditions are one list, and a patch replaces a list whole: the version in the patch keeps what came between."""
    send = reports.transport.request
    between: list[str] = []

    def another_between(method: str, path: str, **more: Any) -> Any:
        if method == "PATCH" and not between:
            between.append(path)
            stalled = {"type": "Stalled", "status": "True", "reason": "R", "message": "", "lastTransitionTime": AT}
            told = [*reports.world.status()["conditions"], stalled]
            reports.world.patch_job("digits/status", {"status": {"conditions": told}})
        return send(method, path, **more)

    monkeypatch.setattr(reports.transport, "request", another_between)
    assert reports.send(progressPercentage=-1).code == 422
    assert between
    assert reports.world.condition("ReportRefused")["status"] == "True"
    assert reports.world.condition("Stalled")["status"] == "True"


def test_a_speed_that_was_reported_before_a_move_counts_for_no_size_after_it(reports: Reports) -> None:
    reports.send(metrics={"samples_per_second": 10})
    reports.advance(2)
    reports.send(metrics={"samples_per_second": 11})  # waits for the next write
    reports.world.scale("digits", 3)
    reports.advance(12)
    assert [(row["replicas"], row["rate"]) for row in reports.world.status()["speed"]] == [(2, 10)]


def test_a_speed_counts_for_the_number_of_replicas_that_ran(reports: Reports) -> None:
    reports.send(metrics={"samples_per_second": 10})
    reports.world.scale("digits", 3)
    reports.advance(12)
    reports.send(metrics={"samples_per_second": 1})  # averages over the move
    reports.advance(12)
    reports.send(metrics={"samples_per_second": 15})
    reports.advance(12)
    status = reports.world.status()
    assert [(row["replicas"], row["rate"]) for row in status["speed"]] == [(2, 10), (3, 15)]
    assert 11 <= status["rescaleSeconds"] <= 14


OWN = {
    "AITrainingJob": (digits(), "digits-trainer-0"),
    "an EDL job, whose trainers a batch Job keeps": (training_job(least=2), ""),
}


@pytest.mark.parametrize("sentence", OWN)
def test_pods_of_our_own_kinds_report(sentence: str, tmp_path: Path) -> None:
    manifest, pod = OWN[sentence]
    reports = Reports(tmp_path, manifest)
    reports.advance(5)
    pod = pod or next(name for name in sorted(reports.world.pods()) if "trainer" in name)
    assert reports.send(pod, progressPercentage=5) == Verdict(200)
    assert reports.told()["progressPercentage"] == 5


@pytest.mark.parametrize("resource", GUESTS)
def test_pods_of_every_guest_kind_report(resource: GroupResource, tmp_path: Path) -> None:
    reports = Reports(tmp_path, guest_job(resource), kinds=resource)
    reports.advance(5)
    for pod in reports.world.pods():
        reports.advance(12)
        assert reports.send(pod, progressPercentage=5) == Verdict(200), pod
    own = KNOWN_KINDS[resource].own_status(reports.world.get(resource, "digits")["status"])
    assert own["trainerStatus"]["progressPercentage"] == 5


# -- what does not ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Refused:
    """`send` after `first`; the answer, and that the status stays as `first` has made it."""

    send: Callable[[Reports], Verdict]
    code: int
    reason: str
    words: str
    first: Callable[[Reports], object] = lambda reports: None
    condition: bool = False
    """The job says it, too."""
    fields: dict[str, Any] = field(default_factory=dict)


def other_job(reports: Reports) -> None:
    reports.world.apply(job({"trainer": role(1)}, name="other")).run()
    reports.world.advance(2)


def foreign_token(reports: Reports) -> Verdict:
    return reports.post(
        reports.path("digits-trainer-0"), f"Bearer {reports.token('other-trainer-0')}", progressPercentage=3
    )


def asked_token(reports: Reports, **changed: object) -> Verdict:
    token = reports.token("digits-trainer-0", **changed)
    return reports.post(reports.path("digits-trainer-0"), f"Bearer {token}", progressPercentage=3)


def stranger(reports: Reports) -> Verdict:
    """Somebody's own pod, which asks for a token of this job's audience and has its labels."""
    labels = reports.world.pods()["digits-trainer-0"]["metadata"]["labels"]
    pod = {
        "metadata": {"name": "digits-trainer-9", "labels": labels},
        "spec": {"containers": [{"name": "c", "image": "x"}]},
    }
    reports.world.create_pod({"apiVersion": "v1", "kind": "Pod", **pod})
    reports.world.run()
    uid = reports.world.pods()["digits-trainer-9"]["metadata"]["uid"]
    bound = {"kind": "Pod", "apiVersion": "v1", "name": "digits-trainer-9", "uid": uid}
    return asked_token(reports, boundObjectRef=bound)


def pretender(reports: Reports) -> Verdict:
    """A pod of another namespace with the labels and the owner reference of one of the job's."""
    client, there = reports.world.cluster.client, "/api/v1/namespaces/elsewhere"
    client.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}})
    client.create(
        f"{there}/serviceaccounts", {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "own"}}
    )
    meta = reports.world.pods()["digits-trainer-0"]["metadata"]
    copied = {key: meta[key] for key in ("name", "labels", "ownerReferences")}
    spec = {"serviceAccountName": "own", "containers": [{"name": "c", "image": "x"}]}
    pod = client.create(f"{there}/pods", {"apiVersion": "v1", "kind": "Pod", "metadata": copied, "spec": spec})
    bound = {"kind": "Pod", "apiVersion": "v1", "name": meta["name"], "uid": pod["metadata"]["uid"]}
    to = audience(JobName(AITRAININGJOBS, "default", "digits"))
    asked = {"spec": {"audiences": [to], "boundObjectRef": bound}}
    token = client.create(f"{there}/serviceaccounts/own/token", asked)["status"]["token"]
    return reports.post(reports.path("digits-trainer-0"), f"Bearer {token}", progressPercentage=3)


def replaced(reports: Reports) -> Verdict:
    """With the token of the pod that had this name before, which the server has seen a moment ago."""
    path, token = reports.path("digits-trainer-1"), reports.token("digits-trainer-1")
    assert reports.post(path, f"Bearer {token}").code == 200
    before = reports.world.uids()["digits-trainer-1"]
    reports.world.delete_pod("digits-trainer-1", 0)
    reports.world.until("it is another", lambda: reports.world.uids().get("digits-trainer-1", before) != before)
    reports.world.advance(2)
    return reports.post(path, f"Bearer {token}", progressPercentage=3)


def status_says(**told: Any) -> Callable[[Reports], object]:
    """Before any worker has acted on it."""
    return lambda reports: reports.world.patch_job("digits/status", {"status": told})


def kept_token(change: Callable[[Reports], object]) -> Callable[[Reports], Verdict]:
    def send(reports: Reports) -> Verdict:
        path, token = reports.path("digits-trainer-1"), reports.token("digits-trainer-1")
        change(reports)
        return reports.post(path, f"Bearer {token}", progressPercentage=3)

    return send


def ended(reports: Reports) -> None:
    reports.world.patch_pod("digits-trainer-1/status", {"status": {"phase": "Succeeded"}})


def held_and_deleted(reports: Reports) -> None:
    reports.world.hold_pod("digits-trainer-1").delete_pod("digits-trainer-1")


def scaled_down(reports: Reports) -> None:
    reports.world.scale("digits", 1)  # no worker has acted on it yet


def orphaned(reports: Reports) -> None:
    path = RESOURCES[AITRAININGJOBS].path("default", "digits")
    reports.world.cluster.client.delete(path, {"propagationPolicy": "Orphan"})
    reports.world.cluster.run_until_idle()


def suspended(reports: Reports) -> None:
    reports.world.hold_pod("digits-trainer-1").patch_job("digits", {"spec": {"suspend": True}}).run()


def at_40(reports: Reports) -> None:
    assert reports.send(progressPercentage=40, metrics={"loss": 1}).code == 200
    reports.advance(11)


JSON_TYPE = "must be"
REFUSED = {
    "without a token": Refused(
        lambda r: r.post(r.path("digits-trainer-0"), "", progressPercentage=3), 403, "Forbidden", "send `Bearer`"
    ),
    "with a token that is none": Refused(
        lambda r: r.post(r.path("digits-trainer-0"), "Bearer a.b.c", progressPercentage=3),
        403,
        "Forbidden",
        "not that of a pod",
    ),
    "with the token by another scheme": Refused(
        lambda r: r.post(r.path("digits-trainer-0"), f"Basic {r.token('digits-trainer-0')}", progressPercentage=3),
        403,
        "Forbidden",
        "send `Bearer`",
    ),
    "with the token of another job's pod": Refused(
        foreign_token, 403, "Forbidden", "not that of a pod of", first=other_job
    ),
    "with a token for the API server": Refused(
        lambda r: asked_token(r, audiences=None), 403, "Forbidden", "not that of a pod"
    ),
    "with a token that is bound to no pod": Refused(
        lambda r: asked_token(r, boundObjectRef=None), 403, "Forbidden", "not that of a pod"
    ),
    "from a pod that only has the labels of one": Refused(
        stranger, 403, "Forbidden", "does not belong to AITrainingJob digits"
    ),
    "from a pod of another namespace that claims to be the job's": Refused(
        pretender, 403, "Forbidden", "not that of a pod of"
    ),
    "from a pod whose name another one has by now": Refused(replaced, 403, "Forbidden", "does not exist any more"),
    "from a pod of an earlier attempt": Refused(
        kept_token(status_says(attempts={"roles": {"trainer": {"all": 1}}})), 403, "Forbidden", "is of attempt 0"
    ),
    "from a pod of a job that has ended": Refused(
        kept_token(status_says(phase="Failed")), 403, "Forbidden", "AITrainingJob digits has ended"
    ),
    "from a pod that has ended": Refused(kept_token(ended), 403, "Forbidden", "has ended: its phase is Succeeded"),
    "from a pod that is being deleted": Refused(kept_token(held_and_deleted), 403, "Forbidden", "is being deleted"),
    "from a pod that is gone": Refused(
        kept_token(lambda r: r.world.delete_pod("digits-trainer-1", 0)), 403, "Forbidden", ""
    ),
    "from a pod beyond the number of replicas": Refused(kept_token(scaled_down), 403, "Forbidden", "no longer wanted"),
    "from a pod of a suspended job": Refused(kept_token(suspended), 403, "Forbidden", ""),
    "for a job that is not there": Refused(kept_token(orphaned), 404, "NotFound", "does not exist"),
    "to a path that is no job's": Refused(
        lambda r: r.post("/metrics", "Bearer x", progressPercentage=3), 404, "NotFound", "the path is not"
    ),
    "of more than 64 KiB": Refused(
        lambda r: r.send(body=b'{"trainerStatus": {}}' + b" " * (64 << 10)),
        413,
        "TooLarge",
        "at most 65536",
        at_40,
        condition=True,
    ),
    "that is no JSON": Refused(lambda r: r.send(body=b"{"), 422, "InvalidReport", "not JSON", at_40, condition=True),
    "below 0 %": Refused(
        lambda r: r.send(progressPercentage=-1), 422, "InvalidReport", "from 0 to 100", at_40, condition=True
    ),
    "of NaN": Refused(
        lambda r: r.send(metrics={"samples_per_second": "NaN"}),
        422,
        "InvalidReport",
        "samples_per_second",
        at_40,
        condition=True,
    ),
    "of 1e300 samples a second": Refused(
        lambda r: r.send(metrics={"samples_per_second": 1e300}), 422, "InvalidReport", "1e+12", at_40, condition=True
    ),
    "of progress that moves backwards": Refused(
        lambda r: r.send(progressPercentage=39), 422, "MovedBackwards", "after 40", at_40, condition=True
    ),
    "less than a second after the one before": Refused(
        lambda r: [r.send(progressPercentage=40), r.send("digits-trainer-1", progressPercentage=42)][1],
        429,
        "TooManyRequests",
        "report less often",
        at_40,
        condition=True,
    ),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_a_report_is_refused(sentence: str, reports: Reports) -> None:
    case = REFUSED[sentence]
    case.first(reports)
    before = reports.told()
    got = case.send(reports)
    assert (got.code, got.reason) == (case.code, case.reason), got.message
    assert case.words in got.message
    reports.advance(12)
    after = reports.told()
    assert {k: after.get(k) for k in before if k != "lastUpdatedTime"} == {
        k: v for k, v in before.items() if k != "lastUpdatedTime"
    }
    condition = reports.world.condition("ReportRefused") if reports.world.jobs() else {}
    assert (condition.get("status"), condition.get("reason")) == (
        ("True", case.reason) if case.condition else (None, None)
    )


def test_the_condition_goes_with_the_next_reports_that_count(reports: Reports) -> None:
    reports.send(progressPercentage=-1)
    reports.advance(11)
    assert reports.world.condition("ReportRefused")["status"] == "True"
    reports.send(progressPercentage=1)
    reports.advance(11)
    assert reports.world.condition("ReportRefused")["status"] == "False"


def test_an_api_server_that_is_away_is_told_to_the_program(reports: Reports, monkeypatch: pytest.MonkeyPatch) -> None:
    from tjworker.base import Transient

    path, token = reports.path("digits-trainer-0"), reports.token("digits-trainer-0")

    def away(*_: object, **__: object) -> None:
        raise Transient("refused")

    monkeypatch.setattr(reports.transport, "request", away)
    assert reports.post(path, f"Bearer {token}", progressPercentage=1).code == 503


def test_a_trainjob_reports_as_under_trainer(tmp_path: Path) -> None:
    """test/e2e/e2e_test.go of Trainer: the program posts to the address in its variables, and the status shows it."""
    reports = Reports(tmp_path, kinds="trainjobs.trainer.kubeflow.org")
    reports.world.cluster.client.create(RUNTIME_PATH, RUNTIMES["torch-distributed"])
    reports.world.apply(train_job(trainer={})).run().advance(1)
    pod = "digits-node-0-0"
    assert reports.path(pod) == "/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs/digits/status"
    metrics = {"loss": 0.123, "accuracy": 0.95}
    assert reports.send(pod, progressPercentage=42, estimatedRemainingSeconds=120, metrics=metrics).code == 200
    told = dict(reports.world.status()["trainerStatus"])
    assert told.pop("lastUpdatedTime")
    assert told == {
        "progressPercentage": 42,
        "estimatedRemainingSeconds": 120,
        "metrics": [{"name": "loss", "value": "0.123"}, {"name": "accuracy", "value": "0.95"}],
    }


# -- the pod's side --------------------------------------------------------------------------------


def test_a_pod_has_the_variables_the_token_and_the_authority(reports: Reports) -> None:
    pod = reports.world.pods()["digits-trainer-0"]
    base = "/apis/elasticdeeplearning.ai/v1/namespaces/default/aitrainingjobs/digits/status"
    env = reports.env("digits-trainer-0")
    assert env["KUBEFLOW_TRAINER_SERVER_URL"] == SERVER + base
    assert env["KUBEFLOW_TRAINER_SERVER_CA_CERT"] == "/var/run/secrets/kubeflow/trainer/ca.crt"
    assert env["KUBEFLOW_TRAINER_SERVER_TOKEN"] == "/var/run/secrets/kubeflow/trainer/token"
    [volume] = [v for v in pod["spec"]["volumes"] if v["name"] == "kubeflow-trainer-token"]
    token, ca = volume["projected"]["sources"]
    assert token["serviceAccountToken"]["expirationSeconds"] == 3600
    assert token["serviceAccountToken"]["path"] == "token"
    assert ca["downwardAPI"]["items"][0]["path"] == "ca.crt"
    assert pod["metadata"]["annotations"]["elasticdeeplearning.ai/reports-ca"] == CA
    [mount] = pod["spec"]["containers"][0]["volumeMounts"]
    assert mount == {
        "name": "kubeflow-trainer-token",
        "mountPath": "/var/run/secrets/kubeflow/trainer",
        "readOnly": True,
    }


def test_a_pod_that_reports_elsewhere_keeps_its_own(tmp_path: Path) -> None:
    manifest = digits()
    spec = manifest["spec"]["replicaSpecs"]["trainer"]["template"]["spec"]
    spec["volumes"] = [{"name": "kubeflow-trainer-token", "emptyDir": {}}]
    reports = Reports(tmp_path, manifest)
    pod = reports.world.pods()["digits-trainer-0"]["spec"]
    assert [v["name"] for v in pod["volumes"]] == ["kubeflow-trainer-token"]
    assert "emptyDir" in pod["volumes"][0]
    assert "KUBEFLOW_TRAINER_SERVER_URL" not in reports.env("digits-trainer-0")


def test_without_the_setting_or_its_authority_pods_are_as_they_were(tmp_path: Path) -> None:
    chosen: tuple[dict[str, Any], ...] = ({}, {"reports_url": SERVER, "reports_ca_file": str(tmp_path / "missing")})
    for settings in chosen:
        world = World(nodes=2, **settings).apply(digits()).run()
        world.advance(1)
        pod = next(iter(world.get(PODS)["items"]))["spec"]
        assert "volumes" not in pod or not pod["volumes"]
        assert not [e for e in pod["containers"][0]["env"] if e["name"].startswith("KUBEFLOW")]
