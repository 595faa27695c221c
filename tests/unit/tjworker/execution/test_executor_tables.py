"""Every kind of write with everything that the API server may say to it: what the outcome counts, what the lease
remembers, and whether the pass goes on. The rule is said once more here, in a few lines."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import pytest

from tests.support.builders import make_job
from tests.support.memory_store import MemoryStore
from tests.support.queueing import acquire_one
from tests.unit.tjworker.execution.executing import count
from tjworker.api.resources import BATCH_JOBS, NODES, PODS, REPLICASETS, SERVICES
from tjworker.api.status import FAILED_CREATE, Condition, JobStatus
from tjworker.base import Conflict, Fenced, Invalid, JobKey, OperatorError, Terminal, Transient
from tjworker.execution.executor import DEFERRED_STATUS_SECONDS, Executor, Outcome
from tjworker.execution.lease import Lease
from tjworker.reconcile.plan import Create, Delete, Patch, Plan, Write
from tjworker.settings import Settings

JOB = make_job().role("trainer", 2).build()
KEY = JobKey(JOB.name.key)
MINE = [{"kind": "AITrainingJob", "name": "digits", "uid": JOB.uid, "controller": True}]


def obj(name: str, version: int = 7, owners: Any = (), **meta: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "uid": f"u-{name}", "resourceVersion": str(version), "ownerReferences": owners}
        | meta
    }


class Kube:
    """Says `answer` to each write (or raises it), and `live` to a read; `said` goes before, in its order."""

    def __init__(self) -> None:
        self.answer: Any = obj("x", 9)
        self.said: list[Any] = []
        self.live: Any = {"metadata": {"uid": JOB.uid, "resourceVersion": str(JOB.resource_version)}}
        self.asked: list[str] = []
        self.timeouts: list[float] = []

    def _say(self, what: str) -> Any:
        self.asked.append(what)
        said = self.said.pop(0) if self.said else self.answer
        if isinstance(said, OperatorError):
            raise said
        return said

    def create(self, resource: str, namespace: str, body: Any) -> Any:
        return self._say(f"create {body['metadata']['name']}")

    def delete(self, resource: str, namespace: str, name: str, **more: Any) -> Any:
        return self._say(f"delete {name} {more.get('version')}")

    def merge_patch(self, resource: str, namespace: str, name: str, body: Any, **more: Any) -> Any:
        return self._say(f"patch {name}")

    def update_status(self, resource: str, namespace: str, name: str, body: Any) -> Any:
        self.asked.append("status")
        return {"metadata": {"resourceVersion": "101"}}

    def get(self, resource: str, namespace: str, name: str) -> Any:
        self.asked.append(f"get {name}")
        return self.live

    def log_tail(self, namespace: str, pod: str, container: str, **more: Any) -> str:
        self.asked.append(f"log {pod} {container}")
        self.timeouts.append(more["timeout_seconds"])
        return f"the end of {pod} {container}"


class Events:
    def event(self, *_: Any) -> None:
        """Nobody reads them here."""


class Desk:
    def __init__(self, width: int = 1, **settings: Any) -> None:
        self.now = 1000.0
        self.kube = Kube()
        store = MemoryStore(clock=lambda: self.now)
        store.projection.lead(1)
        store.queue.add([KEY])
        claim = acquire_one(store.queue, KEY, "worker-1", 30.0)
        assert claim is not None
        self.lease = Lease(store.queue, claim, 30.0, lambda: self.now)
        of = Settings(write_concurrency=width, **settings)
        self.executor = Executor(self.kube, Events(), of)  # type: ignore[arg-type]

    def apply(self, *writes: Write, **more: Any) -> Outcome:
        """With a status, which proves the view and costs no read."""
        told = JOB.status.model_copy(update={"phase": "Pending"})
        return self.executor.apply(JOB, Plan(**({"status": told} | more), writes=writes), self.lease)


def create(name: str = "a", resource: Any = PODS, **more: Any) -> Create:
    return Create(resource, name, {"kind": "Pod", "metadata": {"name": name, "ownerReferences": MINE}}, **more)


WRITES: dict[str, Write] = {
    "a pod is made": create(),
    "a ReplicaSet is made": create(resource=REPLICASETS),
    "a batch Job is made": create(resource=BATCH_JOBS),
    "a service is made": create(resource=SERVICES),
    "a pod is made that the next pass is to see": create(awaited=True),
    "a pod is made beside the job": create(optional=True),
    "a service is made beside the job, and is to be seen": create(resource=SERVICES, optional=True, awaited=True),
    "a pod is deleted": Delete(PODS, "a", "u-a"),
    "a service is deleted": Delete(SERVICES, "a", "u-a"),
    "a pod is patched": Patch(PODS, "a", {}),
}
DENIED = 'admission webhook "x" denied the request: no'
ANSWERS: dict[str, Any] = {
    "it is done": obj("a", 9, deletionGracePeriodSeconds=30),
    "it is done, and a finalizer holds it": obj("a", 9, finalizers=["x"]),
    "it is done at once": obj("a", 9),
    "it is gone": None,
    "it answers with a Status": {"kind": "Status", "metadata": {}},
    "invalid": Invalid("no", status=422),
    "over its quota": Transient("exceeded quota", status=403),
    "in trouble": Transient("etcd", status=500),
    "denied": Terminal(DENIED, status=403, reason="AdmissionDenied"),
    "busy, and says for how long": Transient("busy", status=429, retry_after_seconds=3.0),
    "no permission": Terminal("forbidden", status=403),
    "another was first": Conflict("changed", status=409),
    "the lease is gone": Fenced("gone"),
}
BEHIND = create("z")
"""A further create, which shows whether the pass goes on."""


def _may_be(what: str, says: str) -> bool:
    """What is made is always answered with the object."""
    answer = ANSWERS[says]
    return (
        not isinstance(WRITES[what], Create) or isinstance(answer, OperatorError) or (answer and "kind" not in answer)
    )


@pytest.mark.parametrize(("what", "says"), [pair for pair in product(WRITES, ANSWERS) if _may_be(*pair)])
def test_what_an_answer_leads_to(what: str, says: str) -> None:
    write, answer = WRITES[what], ANSWERS[says]
    made = isinstance(write, Create)
    desk = Desk()
    desk.kube.said = [answer]
    failed = answer if isinstance(answer, OperatorError) else None
    beside = isinstance(write, Create) and write.optional
    ends = isinstance(failed, Fenced) or (
        failed is not None and not made and (isinstance(failed, Conflict) or failed.retry_after_seconds is not None)
    )
    if ends:
        with pytest.raises(type(failed) if failed else AssertionError):
            desk.apply(write, BEHIND)
        assert not [one for one in desk.kube.asked if one == "create z"]
        return
    done = desk.apply(write, BEHIND)
    alone = isinstance(failed, Invalid) or says == "denied"
    tried = failed is None or beside or alone
    want = Outcome(done.job, status_writes=1, made_pods=tried, written=Counter({("created", "pods"): int(tried)}))
    if failed is None:
        verb = {Create: "created", Delete: "deleted", Patch: "patched"}[type(write)]
        want.written[verb, write.resource.partition(".")[0]] += 1
        want.made_pods = True
    elif beside:
        want.optional_error = failed
    elif made:
        want.refused_alone, want.creates_blocked = int(alone), not alone
        want.invalid_child, want.create_error = (failed, None) if isinstance(failed, Invalid) else (None, failed)
    else:
        want.delete_error = failed
    assert done == want
    assert ("create z" in desk.kube.asked) == tried
    news = (isinstance(write, Create) and write.awaited) or (
        isinstance(write, Delete) and says.endswith(("gone", "Status", "at once"))
    )
    version = [] if failed is not None or says.endswith(("gone", "Status")) else [(write.resource, 9)]
    of_behind = [(PODS, 9)] if tried else []
    first = [(JOB.name.resource, 101)]
    assert desk.lease.versions == first + ([] if news else version) + of_behind
    assert desk.lease.gone == (version if news else [])


@pytest.mark.parametrize("resource", [PODS, REPLICASETS, BATCH_JOBS, SERVICES, NODES])
def test_what_counts_as_the_first_pod_of_a_job(resource: Any) -> None:
    """A pod, or what makes pods."""
    assert Desk().apply(create(resource=resource)).made_pods == (resource in (PODS, REPLICASETS, BATCH_JOBS))
    assert not Desk().apply(create(resource=resource, optional=True)).made_pods, "such as that of TensorBoard"


NAMESAKES: dict[str, tuple[Any, bool]] = {
    "of this job": (MINE, True),
    "of this job and of another": ([{"uid": "another"}, *MINE], True),
    "of another": ([{"uid": "another", "kind": "Job", "name": "b", "controller": True}], False),
    "of nobody": ([], False),
    "that is gone again": (None, False),
}


@pytest.mark.parametrize("whose", NAMESAKES)
def test_a_name_that_is_taken(whose: str) -> None:
    owners, as_good_as_made = NAMESAKES[whose]
    desk = Desk()
    desk.kube.said = [Conflict("exists", status=409, reason="AlreadyExists")]
    desk.kube.live = None if owners is None else obj("a", 5, owners)
    done = desk.apply(create())
    assert (count(done, "created"), done.create_error is None) == (int(as_good_as_made), as_good_as_made)
    assert desk.lease.gone == ([(PODS, 5)] if as_good_as_made else []), "maybe changed since: news, no echo"


DELETED: dict[str, tuple[int, Any, list[str], bool]] = {
    "it is as it was seen": (3, "ok", ["delete a 3"], True),
    "it has changed and is the job's": (
        3,
        obj("a", 8, [{"uid": "the-owner"}]),
        ["delete a 3", "get a", "delete a 8"],
        True,
    ),
    "it was let go": (3, obj("a", 8), ["delete a 3", "get a"], False),
    "it has another owner": (3, obj("a", 8, [{"uid": "other"}]), ["delete a 3", "get a"], False),
    "it is another one of that name": (
        3,
        obj("a", 8, [{"uid": "the-owner"}]) | {"metadata": obj("b", 8, [{"uid": "the-owner"}])["metadata"]},
        ["delete a 3", "get a"],
        False,
    ),
    "it is gone": (3, None, ["delete a 3", "get a"], True),
    "no version was seen": (0, obj("a", 8, [{"uid": "the-owner"}]), ["delete a 0"], False),
}


@pytest.mark.parametrize("sentence", DELETED)
def test_a_delete_in_a_version(sentence: str) -> None:
    version, live, want, done = DELETED[sentence]
    desk = Desk()
    desk.kube.said = [] if live == "ok" else [Conflict("changed", status=409)]
    desk.kube.live = live
    delete = Delete(PODS, "a", "u-a", rv=version, owner_uid="the-owner")
    if done:
        assert count(desk.apply(delete), "deleted") == 1
    else:
        with pytest.raises(Conflict):
            desk.apply(delete)
    assert desk.kube.asked[1:] == want


FRESH: dict[str, tuple[Any, bool]] = {
    "as it was seen": ({"metadata": {"uid": JOB.uid, "resourceVersion": str(JOB.resource_version)}}, True),
    "changed since": ({"metadata": {"uid": JOB.uid, "resourceVersion": str(JOB.resource_version + 1)}}, False),
    "older than the view": ({"metadata": {"uid": JOB.uid, "resourceVersion": str(JOB.resource_version - 1)}}, False),
    "made again": ({"metadata": {"uid": "another", "resourceVersion": str(JOB.resource_version)}}, False),
    "gone": (None, False),
}


@pytest.mark.parametrize("sentence", FRESH)
def test_without_a_status_write_the_job_is_read_first(sentence: str) -> None:
    live, fresh = FRESH[sentence]
    desk = Desk()
    desk.kube.live = live
    if fresh:
        assert count(desk.apply(create(), status=None), "created") == 1
        return
    with pytest.raises(Conflict):
        desk.apply(create(), status=None)
    assert desk.kube.asked == ["get digits"]


@pytest.mark.parametrize("failed_before", [False, True])
@pytest.mark.parametrize("age", [0.0, DEFERRED_STATUS_SECONDS - 0.01, DEFERRED_STATUS_SECONDS, 5.0])
def test_the_first_pods_need_no_status_while_the_pass_is_young(age: float, failed_before: bool) -> None:
    desk = Desk()
    if failed_before:
        desk.kube.said = [Transient("exceeded quota", status=403)]
        desk.apply(create("b"))
        desk.kube.asked.clear()
    desk.now += age
    told = JobStatus(phase="Pending")
    done = desk.apply(create(), status=None, deferred_status=told)
    without = age < DEFERRED_STATUS_SECONDS and not failed_before
    assert done.deferred_status == (told if without else None)
    assert desk.kube.asked == (["create a"] if without else ["status", "create a"])


CONDITIONS = {
    "nothing is told": ((), 4),
    "a create was refused": ((("Running", FAILED_CREATE),), 1),
    "it does not run for another reason": ((("Running", "Unschedulable"),), 4),
    "a TensorBoard was refused": ((("TensorBoard", FAILED_CREATE),), 4),
}


@pytest.mark.parametrize("sentence", CONDITIONS)
def test_a_job_that_is_refused_makes_one_write_at_a_time(sentence: str) -> None:
    told, width = CONDITIONS[sentence]
    desk = Desk(width=4)
    conditions = tuple(
        Condition(type=kind, status="False", reason=reason, message="", last_transition_time="2026-01-01T00:00:00Z")  # type: ignore[call-arg, arg-type, unused-ignore]
        for kind, reason in told
    )
    status = JOB.status.model_copy(update={"phase": "Pending", "conditions": conditions})
    desk.kube.said = [Transient("exceeded quota", status=403)] * 4
    desk.apply(*(create(f"p{n}") for n in range(9)), status=status)
    assert sum(one.startswith("create") for one in desk.kube.asked) == width
