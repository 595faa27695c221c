"""What the orphan collector deletes, and what it must never touch."""

from __future__ import annotations

from itertools import product, takewhile
from typing import Any

import pytest

from tests.scenarios.world import World, job, role, training_job
from tests.support.clocks import shared
from tests.support.kinds import AITRAININGJOBS, TRAININGJOBS
from tests.support.paths import ROOT
from tjworker.api.resources import BATCH_JOBS, NODES, PODS, REPLICASETS, SERVICES
from tjworker.base import Conflict, GroupResource, JobKey
from tjworker.controllers.orphans import OrphanCollector
from tjworker.kube.errors import EXPIRED
from tjworker.kube.resources import RESOURCES


class Field:
    """A world with one running job, and a collector."""

    def __init__(self, **settings: Any) -> None:
        self.world = World(**settings).apply(job({"trainer": role(1)})).run()
        self.uid = self.world.get(AITRAININGJOBS, "digits")["metadata"]["uid"]
        self.collector = OrphanCollector(
            self.world.store, self.world.api, self.world.settings, clock=shared(self.world.clock)
        )

    def pod(self, name: str, *, owner: dict[str, Any] | None, labelled: bool = True, node: str = "node-0") -> None:
        labels = {"elasticdeeplearning.ai/job-uid": "gone", "job-name": "old"} if labelled else {}
        meta: dict[str, Any] = {"name": name, "labels": labels}
        if owner:
            meta["ownerReferences"] = [owner]
        spec = {"nodeName": node, "containers": [{"name": "a", "image": "b"}]}
        self.world.cluster.client.create(
            "/api/v1/namespaces/default/pods", {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        )

    def going(self, name: str) -> bool:
        """Gone, or on its way: this pod has a node, so it has its grace."""
        pod = self.world.pods().get(name)
        return pod is None or "deletionTimestamp" in pod["metadata"]

    def collect(self, after_seconds: float = 61) -> int:
        # Time passes for the collector alone: the cluster's own garbage collector would be faster.
        self.collector._clock = shared(lambda: self.world.clock() + after_seconds)
        self.deleted, self.failed = self.collector.collect()
        return self.deleted

    def make(self, kind: str, name: str, *, owner: dict[str, Any] | None, uid_label: str = "gone") -> str:
        """An object with our labels, of any kind; its UID."""
        api, resource = _KINDS[kind]
        labels = {
            "elasticdeeplearning.ai/job-uid": uid_label,
            "job-name": "digits",
            "group-name": "elasticdeeplearning.ai",
        }
        meta: dict[str, Any] = {"name": name, "labels": labels, **({"ownerReferences": [owner]} if owner else {})}
        pod = {"containers": [{"name": "a", "image": "b"}], "restartPolicy": "Never" if kind == "Job" else "Always"}
        template = {"metadata": {"labels": labels}, "spec": pod}
        specs: dict[str, dict[str, Any]] = {
            "Pod": {**pod, "nodeName": "node-0"},
            "Service": {"clusterIP": "None", "selector": labels, "ports": [{"port": 80}]},
            "ReplicaSet": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
            "Job": {
                "parallelism": 0,
                "manualSelector": True,
                "selector": {"matchLabels": labels},
                "template": template,
            },
        }
        made = self.world.cluster.client.create(
            RESOURCES[resource].path("default"),
            {"apiVersion": api, "kind": kind, "metadata": meta, "spec": specs[kind]},
        )
        return str(made["metadata"]["uid"])

    def there(self, kind: str, name: str) -> bool:
        items = self.world.get(_KINDS[kind][1])["items"]
        found = [o for o in items if o["metadata"]["name"] == name]
        return bool(found) and "deletionTimestamp" not in found[0]["metadata"]


_KINDS = {
    "Pod": ("v1", PODS),
    "Service": ("v1", SERVICES),
    "ReplicaSet": ("apps/v1", REPLICASETS),
    "Job": ("batch/v1", BATCH_JOBS),
}


def owned_by(
    uid: str, kind: str = "AITrainingJob", api: str = "elasticdeeplearning.ai/v1", **more: Any
) -> dict[str, Any]:
    return {"apiVersion": api, "kind": kind, "name": "digits", "uid": uid, "controller": True} | more


LEFT: dict[str, tuple[dict[str, Any], bool]] = {
    "a pod of an earlier job of the same name": ({"owner": owned_by("another-uid")}, True),
    "a pod without a controller": ({"owner": None}, False),
    "a pod of another controller": ({"owner": owned_by("x", "Workflow", "argoproj.io/v1alpha1")}, False),
    "a pod with an owner that does not control it": ({"owner": owned_by("another-uid", controller=False)}, False),
    "a pod without our labels": ({"owner": owned_by("another-uid"), "labelled": False}, False),
}


@pytest.mark.parametrize(("pod", "want_gone"), LEFT.values(), ids=LEFT.keys())
def test_what_is_an_orphan(pod: dict[str, Any], want_gone: bool) -> None:
    field = Field()
    field.pod("left", **pod)
    assert field.collect() == int(want_gone)
    assert field.going("left") is want_gone
    assert "digits-trainer-0" in field.world.pods()


@pytest.mark.parametrize("asked_for", [True, False], ids=["asked for", "as it comes"])
def test_what_an_earlier_edl_operator_has_left(asked_for: bool) -> None:
    """It gave its objects the label of the role alone, and no owner. So did clients that made no TrainingJob: nothing
    is taken unless the settings say so."""
    field = Field(collect_earlier_orphans=asked_for)
    for name, of_job, more in (
        ("old-pserver", "old", {}),
        ("digits-pserver", "digits", {}),
        ("kept-on-purpose", "old", {"elasticdeeplearning.ai/job-uid": "u"}),
    ):
        labels = {"paddle-job-pserver": of_job, **more}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "b"}]}}
        field.world.cluster.client.create(
            RESOURCES[REPLICASETS].path("default"),
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "metadata": {"name": name, "labels": labels},
                "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
            },
        )
    field.world.apply(training_job("digits"))
    assert (field.collect(), field.failed) == (asked_for, 0)
    left = [name for name in ("old-pserver", "digits-pserver", "kept-on-purpose") if field.there("ReplicaSet", name)]
    assert left == [*([] if asked_for else ["old-pserver"]), "digits-pserver", "kept-on-purpose"]


def test_nothing_younger_than_a_minute_is_touched() -> None:
    field = Field()
    field.pod("left", owner=owned_by("another-uid"))
    assert field.collect(after_seconds=59) == 0


def test_a_second_run_does_nothing() -> None:
    field = Field()
    field.pod("left", owner=owned_by("another-uid"))
    assert (field.collect(), field.collect()) == (1, 0)


def test_an_orphan_that_changes_under_its_eyes_keeps_it_from_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between its list and its delete another object has taken the name: 409."""
    field = Field()
    field.pod("left-1", owner=owned_by("another-uid"))
    field.pod("left-2", owner=owned_by("another-uid"))
    delete = field.collector._kube.delete

    def meanwhile(resource: GroupResource, namespace: str, name: str, *, uid: str, **more: Any) -> Any:
        return delete(resource, namespace, name, uid="uid-of-before" if name == "left-1" else uid, **more)

    monkeypatch.setattr(field.collector._kube, "delete", meanwhile)
    assert field.collect() == 1
    assert (field.going("left-1"), field.going("left-2")) == (False, True)


def test_pods_whose_workload_was_made_again_under_its_name_are_orphans_whatever_has_the_name_now() -> None:
    """Kubernetes' own collector takes the new one for the old one's next version, and forgets them."""
    field = Field()
    for kind, of_job in (("ReplicaSet", field.uid), ("Job", "")):
        name = f"workload-{kind.lower()}"
        field.make(kind, name, owner=owned_by(of_job) if of_job else None, uid_label=of_job or "a-stranger")
        workload = {"apiVersion": _KINDS[kind][0], "kind": kind, "name": name, "uid": "of-before", "controller": True}
        field.make("Pod", f"left-by-{kind.lower()}", owner=workload, uid_label=field.uid)
    assert field.collect() == 2
    assert (field.there("Pod", "left-by-replicaset"), field.there("Pod", "left-by-job")) == (False, False)
    assert (field.there("ReplicaSet", "workload-replicaset"), field.there("Job", "workload-job")) == (True, True)


def test_orphans_are_found_on_every_page_of_a_list() -> None:
    field = Field()
    for number in range(5):
        field.pod(f"left-{number}", owner=owned_by("another-uid"))
    field.collector._settings = field.world.settings.model_copy(update={"list_page_size": 2})
    assert field.collect() == 5


def test_a_node_that_a_list_did_not_come_to_is_not_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The list of nodes expires between its pages: a pod in deletion on one of the others must not be forced out."""
    field = Field()
    field.pod("slow", owner=owned_by(field.uid), node="node-1")
    field.world.cluster.client.patch(
        "/api/v1/namespaces/default/pods/slow", {"metadata": {"finalizers": ["example.com/hold"]}}
    )
    field.world.delete_pod("slow", grace_seconds=5)
    field.collector._settings = field.world.settings.model_copy(update={"list_page_size": 1})
    list_page = field.collector._kube.list_page

    def expires(resource: GroupResource, namespace: str, **more: Any) -> Any:
        if resource == NODES and more.get("token"):
            raise Conflict("The provided continue parameter is too old", status=410, reason=EXPIRED)
        return list_page(resource, namespace, **more)

    monkeypatch.setattr(field.collector._kube, "list_page", expires)
    assert field.collect(after_seconds=120) == 0
    assert field.world.pods()["slow"]["metadata"]["deletionGracePeriodSeconds"] == 5


def test_the_objects_of_living_jobs_are_never_touched() -> None:
    field = Field()
    assert field.collect(after_seconds=10_000) == 0
    assert field.world.phase() == "Running"


def _jobs_asked_for(field: Field) -> int:
    """By a run of the collector."""
    before = field.world.transport.counts["GET aitrainingjobs"]
    field.collect()
    return field.world.transport.counts["GET aitrainingjobs"] - before


def test_of_a_job_that_lives_the_api_server_is_not_asked() -> None:
    """A thousand jobs were a thousand requests a run, as many as the task has milliseconds for."""
    field = Field()
    for number in range(20):
        field.world.apply(job({"trainer": role(1)}, f"job-{number}"))
    field.world.run()
    assert _jobs_asked_for(field) == 0
    field.pod("left", owner=owned_by("another-uid"))
    assert _jobs_asked_for(field) == 1, "of the job whose name the orphan's owner had"
    assert (field.deleted, field.going("left"), field.going("job-3-trainer-0")) == (1, True, False)


def test_a_job_that_was_made_again_is_not_judged_by_a_projection_that_shows_the_old_one() -> None:
    """Else every pod of the new one would be an orphan."""
    field = Field()
    field.world.cluster.client.delete(f"{RESOURCES[AITRAININGJOBS].path('default')}/digits")
    field.world.cluster.client.create(RESOURCES[AITRAININGJOBS].path("default"), job({"trainer": role(1)}))
    uid = field.world.get(AITRAININGJOBS, "digits")["metadata"]["uid"]
    assert uid != field.uid
    field.pod("new", owner=owned_by(uid))
    field.pod("old", owner=owned_by(field.uid))
    field.collect()
    assert (field.going("new"), field.going("old")) == (False, True)


def test_what_a_deleted_job_has_left_goes_when_the_watch_has_shown_the_deletion() -> None:
    field = Field()
    field.pod("left", owner=owned_by(field.uid))
    field.world.cluster.client.delete(f"{RESOURCES[AITRAININGJOBS].path('default')}/digits")
    field.collect()
    assert not field.going("left"), "a projection that is late costs time"
    field.world.watch()
    field.collect()
    assert field.going("left")


@pytest.mark.parametrize("record", [b"{}", b"[]", b"{", b'{"metadata":{"uid":"u"},"status":7}'])
def test_a_record_that_says_nothing_of_its_job_costs_a_request_or_the_job_is_left_alone(
    record: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    field = Field()
    records = {JobKey(f"{AITRAININGJOBS}/default/digits"): (1, record)}
    monkeypatch.setattr(field.world.store.projection, "unfinished", lambda: records)
    assert field.collect() == 0
    assert not field.going("digits-trainer-0")


def test_a_pod_that_hangs_in_deletion_on_a_node_that_is_gone_is_forced_out() -> None:
    field = Field()
    field.pod("hanging", owner=owned_by(field.uid), node="no-such-node")
    field.world.cluster.client.patch(
        "/api/v1/namespaces/default/pods/hanging", {"metadata": {"finalizers": ["example.com/hold"]}}
    )
    field.world.delete_pod("hanging", grace_seconds=5)
    field.world.cluster.client.patch("/api/v1/namespaces/default/pods/hanging", {"metadata": {"finalizers": None}})
    if "hanging" in field.world.pods():
        assert field.collect(after_seconds=70) == 1
    assert "hanging" not in field.world.pods()


# -- the table of docs/lifecycle.md ----------------------------------------------------------------


def _rows() -> list[list[str]]:
    lines = (ROOT / "docs/lifecycle.md").read_text().splitlines()
    start = lines.index("| what is left | its job | its controller object | deleted |")
    rows = takewhile(lambda line: line.startswith("|"), lines[start + 2 :])
    cells = [[cell.strip().split(", ") for cell in row.strip("|").split("|")] for row in rows]
    return [list(one) for row in cells for one in product(*row)]  # a cell may name several, with commas


WHAT = {
    "a pod": "Pod",
    "a service": "Service",
    "a ReplicaSet": "ReplicaSet",
    "a batch Job": "Job",
    "a pod of a ReplicaSet": "Pod",
    "a pod of a batch Job": "Pod",
}


LATE = {
    # (annotation that ends the job, cleanPodPolicy): a pod that was made after the end is collected
    ("Failed", "All"): True,
    ("Failed", "Running"): True,
    ("Failed", "None"): False,
    ("Preempted", "None"): True,
    ("NodeFail", "None"): True,
}


@pytest.mark.parametrize(("way", "policy"), LATE, ids=[f"{way}, cleanPodPolicy {policy}" for way, policy in LATE])
def test_a_pod_made_after_the_end_goes_as_the_clean_up_would_have_taken_it(way: str, policy: str) -> None:
    field = Field()
    field.world.patch_job("digits", {"spec": {"cleanPodPolicy": policy}}).run()
    field.world.patch_job("digits", {"metadata": {"annotations": {way: "enough"}}}).run()
    assert field.world.phase() == way
    field.make("Pod", "late", owner=owned_by(field.uid), uid_label=field.uid)
    field.collect()
    assert field.there("Pod", "late") is not LATE[way, policy]


def test_the_pods_of_a_refused_job_that_begins_are_no_orphans_before_its_status_says_so() -> None:
    field = Field()
    field.make("Pod", "left", owner=owned_by("an-earlier-uid"))  # so that the API server is asked for the job
    path = f"{field.world._job('digits')}/status"
    field.world.cluster.client.patch(path, {"status": {"phase": "Failed", "refused": "Create"}})
    field.collect()
    assert not field.going("digits-trainer-0")
    assert field.going("left")
    field.make("Pod", "left-too", owner=owned_by("an-earlier-uid"))
    field.world.cluster.client.patch(path, {"status": {"refused": ""}})
    field.collect()
    assert field.going("digits-trainer-0"), "those of a job that has ended are"


@pytest.mark.parametrize("autoclean", [True, False])
def test_without_autoclean_an_ended_edl_job_keeps_what_has_come_since_as_its_end_would_have(autoclean: bool) -> None:
    """In such an end, too, that frees what a job holds."""
    world = World(autoclean=autoclean).apply(training_job(least=1, most=1)).run()
    world.patch_job("digits", {"metadata": {"annotations": {"Preempted": "enough"}}}).run().advance(40)
    assert world.phase() == "Preempted"
    before = set(world.pods())
    assert bool(before) is not autoclean, "as the end itself decided it"
    uid = world.get(TRAININGJOBS, "digits")["metadata"]["uid"]
    owner = owned_by(uid, "TrainingJob", "paddlepaddle.org/v1")
    labels = {"elasticdeeplearning.ai/job-uid": uid, "job-name": "digits", "group-name": "paddlepaddle.org"}
    world.create_pod(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "late", "labels": labels, "ownerReferences": [owner]},
            "spec": {"containers": [{"name": "a", "image": "b"}], "nodeName": "node-0"},
        }
    )
    collector = OrphanCollector(world.store, world.api, world.settings, clock=shared(lambda: world.clock() + 61))
    assert collector.collect() == (int(autoclean), 0)


def test_the_table_of_orphans_has_every_workload() -> None:
    assert {row[0] for row in _rows()} == set(WHAT)
    assert len(_rows()) == 4 * 4 + 2 * 3 * 2 + 2


@pytest.mark.parametrize("row", _rows(), ids=lambda row: ", ".join(row[:3]))
def test_what_the_table_says_is_an_orphan(row: list[str]) -> None:
    what, job_is, kept_by, deleted = row
    field = Field()
    name = "digits" if job_is != "gone" else "other"
    uid = field.uid if job_is in ("there", "ended") else "an-earlier-uid"
    if job_is == "ended":
        field.world.patch_job("digits", {"metadata": {"annotations": {"Preempted": "room"}}}).run()
        assert field.world.phase() == "Preempted"
    owner: dict[str, Any] | None = owned_by(uid, name=name)
    if kept_by != "-":
        kind = "ReplicaSet" if "ReplicaSet" in what else "Job"
        workload_uid = "gone"
        if kept_by == "there":
            workload_uid = field.make(kind, "workload", owner=owner, uid_label=uid)
        elif kept_by == "a stranger's":
            workload_uid = field.make(kind, "workload", owner=None, uid_label=uid)
        api = _KINDS[kind][0]
        owner = {"apiVersion": api, "kind": kind, "name": "workload", "uid": workload_uid, "controller": True}
    field.make(WHAT[what], "left", owner=owner, uid_label=uid)
    if kept_by != "-" and job_is == "gone":
        # Its labels name its job; `make` says digits, so let that one be gone.
        field.world.cluster.client.delete(field.world._job("digits"), {"propagationPolicy": "Orphan"})
    field.collect()
    assert field.there(WHAT[what], "left") is (deleted == "no")
