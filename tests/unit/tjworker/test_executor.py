"""The executor: what it does with a Plan, seen in the world (the real client on the in-process cluster). What comes of it when
it is cut off or put to sleep at any write is played in `tests/lives/test_crashes` and `test_paused`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import orjson
import pytest

from tests.lives.world import CountingTransport, World, job, role
from tjworker.api import dialects
from tjworker.api.model import TrainingJob
from tjworker.api.status import Condition, Failure, JobStatus
from tjworker.base import Conflict, Fenced, JobKey, OperatorError, Transient
from tjworker.executor import LOG_TAIL_BYTES, LOG_TAIL_LINES, LOG_TAILS_A_PASS, Executor, Outcome
from tjworker.kube.client import KubeClient
from tjworker.kube.port import HttpResponse
from tjworker.lease import Lease
from tjworker.reconcile.plan import Create, Delete, Event, LogTail, Patch, Plan, Write
from tjworker.settings import Settings
from tjworker.store.port import Hold
from tjworker.telemetry.events import EventRecorder

KEY = JobKey("aitrainingjobs/default/digits")
JOBS = "/apis/elasticdeeplearning.ai/v1/namespaces/default/aitrainingjobs/digits"


class Api(CountingTransport):
    """Gives the answers of `instead` to requests that begin so (`POST /api/v1/.../pods`), and keeps what was asked."""

    def __init__(self, world: World) -> None:
        super().__init__(world.cluster)
        self.instead: dict[str, HttpResponse | OperatorError] = {}
        self.asked: list[str] = []
        self.queries: list[dict[str, str]] = []

    def request(self, method: str, path: str, **more: Any) -> HttpResponse:
        self.asked.append(f"{method} {path.rpartition('/namespaces/default/')[2]}")
        self.queries.append(dict(more.get("query") or {}))
        fault = next((f for start, f in self.instead.items() if self.asked[-1].startswith(start)), None)
        if isinstance(fault, OperatorError):
            raise fault
        return fault or super().request(method, path, **more)


class Room:
    """A job that nobody works on but the executor of this test."""

    def __init__(self, *, width: int = 1) -> None:
        self.world = World(nodes=1, seed=1)
        self.world.apply(job({"trainer": role(2)}))
        self.api = Api(self.world)
        self.client = KubeClient(self.api)
        self.recorder = EventRecorder(self.client, clock=self.world.clock, background=False)
        self.executor = Executor(self.client, self.recorder, Settings(write_concurrency=width))
        self.world.store.lead(1)
        self.world.store.add([KEY])
        self.hold = self._hold()
        self.lease = Lease(self.world.store, self.hold, 30.0, self.world.clock)
        self.job = self.read()

    def _hold(self) -> Hold:
        hold = self.world.store.acquire(KEY, "worker-1", 30.0)
        assert hold is not None
        return hold

    def read(self) -> TrainingJob:
        found = dialects.parse("aitrainingjobs", self.world.get("aitrainingjobs", "digits"))
        assert isinstance(found, TrainingJob)
        return found

    def apply(self, *writes: Write, status: JobStatus | None = None, **more: Any) -> Outcome:
        return self.executor.apply(self.job, Plan(status=status, writes=writes, **more), self.lease)

    def pod(self, name: str, **meta: Any) -> Create:
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, **meta},
            "spec": {"containers": [{"name": "a", "image": "b"}]},
        }
        return Create("pods", name, body)

    def kill(self, name: str, uid: str = "", **more: Any) -> Delete:
        return Delete("pods", name, uid or self.world.uids()[name], **more)

    def names(self) -> list[str]:
        return sorted(self.world.pods())


def status_of(room: Room, phase: Any = "Pending") -> JobStatus:
    return room.job.status.model_copy(update={"phase": phase})


def refusal(code: int, reason: str) -> HttpResponse:
    return HttpResponse(
        code,
        orjson.dumps(
            {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": f"made up: {reason}"}
        ),
    )


# -- the order, and what proves that the view was fresh --------------------------------------------------------------------


def test_the_status_goes_first_then_the_writes_in_their_order_then_the_events() -> None:
    room = Room()
    done = room.apply(
        room.pod("b"), room.pod("a"), status=status_of(room), events=(Event("Normal", "Pending", "made up"),)
    )
    assert room.api.asked == ["PUT aitrainingjobs/digits/status", "POST pods", "POST pods", "POST events"]
    assert (done.status_writes, done.creates, done.deletes, done.patches) == (1, 2, 0, 0)
    assert (room.world.phase(), room.names()) == ("Pending", ["a", "b"])


def test_the_outcome_has_the_job_as_it_stands_after_the_status_write() -> None:
    room = Room()
    done = room.apply(status=status_of(room))
    assert done.job == room.read()


def test_what_was_written_is_told_to_the_lease_as_the_floor_of_later_views() -> None:
    room = Room()
    room.apply(room.pod("a"), status=status_of(room))
    versions = [
        ("aitrainingjobs", int(room.world.get("aitrainingjobs", "digits")["metadata"]["resourceVersion"])),
        ("pods", int(room.world.get("pods", "a")["metadata"]["resourceVersion"])),
    ]
    assert room.lease.versions == versions


def test_a_plan_of_nothing_asks_for_nothing() -> None:
    room = Room()
    assert room.apply() == Outcome(room.job)
    assert room.api.asked == []


@dataclass(frozen=True, slots=True)
class Old:
    """What happens between the view and the pass."""

    meanwhile: Callable[[Room], object]
    with_status: bool


def _edit(room: Room) -> None:
    room.world.patch_job("digits", {"metadata": {"annotations": {"a": "b"}}})


def _again(room: Room) -> None:
    room.world.delete("digits").cluster.run_until_idle()
    room.world.apply(job({"trainer": role(2)}))


OLD = {
    f"{what}, {how}": Old(meanwhile, with_status)
    for what, meanwhile in {
        "the job was edited": _edit,
        "the job was deleted": lambda room: room.world.delete("digits"),
        "the job was deleted and created again": _again,
    }.items()
    for how, with_status in {"and the pass writes a status": True, "and the pass only creates": False}.items()
}


@pytest.mark.parametrize("case", OLD.values(), ids=OLD.keys())
def test_a_pass_on_an_old_view_writes_nothing(case: Old) -> None:
    room = Room()
    status = status_of(room)
    case.meanwhile(room)
    before = room.world.get("aitrainingjobs")["items"]
    with pytest.raises(Conflict) as refused:
        room.apply(
            room.pod("a"), status=status if case.with_status else None, events=(Event("Normal", "Pending", "made up"),)
        )
    assert case.with_status or refused.value.reason == "StaleView"
    assert (room.names(), room.world.get("aitrainingjobs")["items"], room.world.events()) == ([], before, {})


def test_a_fresh_view_costs_one_get_when_there_is_no_status_to_prove_it() -> None:
    room = Room()
    room.apply(room.pod("a"))
    assert room.api.asked == ["GET aitrainingjobs/digits", "POST pods"]


def test_a_holder_that_has_lost_its_key_writes_nothing() -> None:
    room = Room()
    room.world.cluster.advance(31)
    with pytest.raises(Fenced):
        room.apply(room.pod("a"), status=status_of(room))
    with pytest.raises(Fenced):
        room.apply(room.pod("a"))
    assert (room.names(), room.world.phase()) == ([], "")


# -- the writes ------------------------------------------------------------------------------------------------------------


def test_a_delete_names_the_uid_that_was_seen() -> None:
    room = Room()
    room.apply(room.pod("a"))
    first = room.kill("a")
    room.world.delete_pod("a", 0)
    room.apply(room.pod("a"))
    successor = room.world.uids()
    with pytest.raises(Conflict):
        room.apply(first)
    assert room.world.uids() == successor


def test_a_delete_of_what_is_gone_is_done() -> None:
    room = Room()
    assert room.apply(room.kill("a", "gone")).deletes == 1


def test_a_delete_leaves_the_object_its_own_grace_unless_told_otherwise() -> None:
    room = Room()
    room.apply(room.pod("a"), room.pod("b"))
    room.world.cluster.run_until_idle()
    room.apply(room.kill("a"), room.kill("b", grace_seconds=0))
    assert room.names() == ["a"]
    assert room.world.pods()["a"]["metadata"]["deletionGracePeriodSeconds"] == 30


def test_the_deletion_of_an_object_that_is_gone_at_once_is_told_apart_because_the_next_pass_waits_for_its_event() -> (
    None
):
    room = Room()
    room.apply(room.pod("a"), room.pod("b"))
    room.world.cluster.run_until_idle()
    before = len(room.lease.versions)
    room.apply(room.kill("a", grace_seconds=0))
    assert (len(room.lease.versions), [resource for resource, _ in room.lease.gone]) == (before, ["pods"])
    assert room.lease.gone[0][1] > max(rv for _, rv in room.lease.versions)
    room.apply(room.kill("b"))
    assert room.lease.versions[before:] == [("pods", int(room.world.get("pods", "b")["metadata"]["resourceVersion"]))]


def test_a_pod_that_a_finalizer_holds_leaves_a_floor() -> None:
    room = Room()
    room.apply(room.pod("a", finalizers=["example.com/hold"]))
    before = len(room.lease.versions)
    room.apply(room.kill("a", grace_seconds=0))
    assert len(room.lease.versions) == before + 1


def test_a_patch_is_a_merge_patch() -> None:
    room = Room()
    room.apply(room.pod("a", labels={"x": "1", "y": "2"}))
    done = room.apply(Patch("pods", "a", {"metadata": {"labels": {"x": None, "z": "3"}}}))
    assert room.world.pods()["a"]["metadata"]["labels"] == {"y": "2", "z": "3"}
    assert (done.patches, done.creates, done.deletes) == (1, 0, 0)


def owned(room: Room) -> dict[str, Any]:
    return {
        "ownerReferences": [
            {
                "apiVersion": "elasticdeeplearning.ai/v1",
                "kind": "AITrainingJob",
                "name": "digits",
                "uid": room.job.uid,
                "controller": True,
            }
        ]
    }


def test_an_own_pod_that_is_there_already_counts_as_created() -> None:
    room = Room()
    room.apply(room.pod("a", **owned(room)))
    before = room.world.uids()
    done = room.apply(room.pod("a", **owned(room)))
    assert (done.creates, done.refused, room.world.uids()) == (1, None, before)


def test_a_namesake_of_somebody_else_is_refused_with_its_kind_and_name() -> None:
    room = Room()
    room.apply(room.pod("a"))
    done = room.apply(room.pod("a", **owned(room)))
    assert done.creates == 0
    assert done.refused is not None
    assert done.refused.message == (
        'Pod "a" exists already and does not belong to this job: delete it, or rename the job'
    )
    assert (done.refused.status, done.refused.reason) == (409, "AlreadyExists")


# -- what the API server refuses -------------------------------------------------------------------------------------------


def test_after_a_refused_create_no_further_create_is_tried_but_deletes_are() -> None:
    room = Room()
    room.apply(room.pod("old"))
    room.api.instead["POST pods"] = refusal(403, "Forbidden")
    room.api.asked.clear()
    done = room.apply(room.pod("a"), room.pod("b"), room.kill("old", grace_seconds=0))
    assert [a for a in room.api.asked if not a.startswith("GET")] == ["POST pods", "DELETE pods/old"]
    assert done.refused is not None
    assert (done.invalid, done.deletes) == (None, 1)


def test_an_invalid_child_is_told_from_a_refused_one() -> None:
    room = Room()
    room.api.instead["POST pods"] = refusal(422, "Invalid")
    done = room.apply(room.pod("a"), room.pod("b"))
    assert done.invalid is not None
    assert "made up: Invalid" in done.invalid.message
    assert (done.refused, done.creates, room.api.asked.count("POST pods")) == (None, 0, 1)


def test_of_several_refusals_the_first_is_told() -> None:
    room = Room(width=2)
    room.api.instead = {"POST pods": refusal(403, "Forbidden"), "POST services": refusal(429, "TooManyRequests")}
    service = Create("services", "s", {"kind": "Service", "metadata": {"name": "s"}})
    done = room.apply(room.pod("a"), service)
    assert done.refused is not None
    assert "Forbidden" in done.refused.message


def test_what_was_written_beside_a_refused_create_is_accounted_for() -> None:
    """Else its event would be taken for news, and the next pass would trust a view that does not show it."""
    room = Room(width=3)
    room.apply(room.pod("b"))
    room.api.instead = {"POST services": refusal(403, "Forbidden")}
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}
    room.lease.versions.clear()
    done = room.apply(
        Create("services", "s", body), room.pod("a"), Patch("pods", "b", {"metadata": {"labels": {"x": "1"}}})
    )
    assert done.refused is not None
    assert (done.creates, done.patches) == (1, 1)
    assert room.lease.versions == [
        ("pods", int(room.world.get("pods", name)["metadata"]["resourceVersion"])) for name in ("a", "b")
    ]


def test_a_delete_that_fails_ends_the_pass() -> None:
    room = Room()
    room.apply(room.pod("a"))
    room.api.instead["DELETE"] = refusal(500, "InternalError")
    with pytest.raises(Transient):
        room.apply(room.kill("a"), room.pod("b"))
    assert room.names() == ["a"]


def test_what_was_written_beside_a_delete_that_fails_is_accounted_for() -> None:
    room = Room(width=2)
    room.api.instead = {"DELETE pods/b": refusal(503, "ServiceUnavailable")}
    room.lease.versions.clear()
    with pytest.raises(Transient):
        room.apply(Delete("pods", "b", "uid-of-b"), room.pod("a"))
    assert room.lease.versions == [("pods", int(room.world.get("pods", "a")["metadata"]["resourceVersion"]))]


def test_a_status_that_fails_keeps_every_other_write_back() -> None:
    room = Room()
    room.api.instead["PUT"] = refusal(500, "InternalError")
    with pytest.raises(Transient):
        room.apply(room.pod("a"), status=status_of(room))
    assert (room.names(), room.lease.versions) == ([], [])


def test_writes_of_one_pass_are_under_way_at_once() -> None:
    """Each waits at the API server for another one: one after the other they would never meet."""
    room = Room(width=2)
    meeting, alone, plain = threading.Barrier(2, timeout=10), threading.Lock(), room.api.request

    def request(method: str, path: str, **more: Any) -> HttpResponse:
        if method == "POST":
            meeting.wait()
        with alone:
            return plain(method, path, **more)

    room.api.request = request  # type: ignore[method-assign]
    assert room.apply(*(room.pod(f"a{n}") for n in range(4)), status=status_of(room)).creates == 4
    assert room.names() == ["a0", "a1", "a2", "a3"]


def test_a_job_that_is_known_to_be_refused_gets_one_create_at_a_time() -> None:
    room = Room(width=4)
    room.api.instead["POST pods"] = refusal(403, "Forbidden")
    room.apply(*(room.pod(f"a{n}") for n in range(8)))
    assert room.api.asked.count("POST pods") == 4, "as many as are under way at once"
    condition = Condition(
        type="Running",
        status="False",
        observed_generation=1,
        last_transition_time="2026-01-01T00:00:00Z",
        reason="FailedCreate",
        message="over quota",
    )
    room.api.asked.clear()
    room.apply(
        *(room.pod(f"a{n}") for n in range(8)), status=room.job.status.model_copy(update={"conditions": (condition,)})
    )
    assert room.api.asked.count("POST pods") == 1


# -- logs of failed containers ---------------------------------------------------------------------------------------------


def failures(*pods: str, tail: str = "") -> tuple[Failure, ...]:
    return tuple(Failure(time="2026-01-01T00:00:00Z", pod=p, container="a", log_tail=tail) for p in pods)


def tails(*pods: str) -> tuple[LogTail, ...]:
    return tuple(LogTail(p, "a") for p in pods)


def test_the_end_of_a_log_is_asked_for_with_bounds_and_lands_with_its_failure() -> None:
    room = Room()
    room.api.instead["GET pods/p/log"] = HttpResponse(200, b"loss is nan")
    room.apply(status=status_of(room).model_copy(update={"failures": failures("p", "q")}), log_tails=tails("p"))
    assert [(f["pod"], f.get("logTail", "")) for f in room.world.status()["failures"]] == [
        ("p", "loss is nan"),
        ("q", ""),
    ]
    assert room.api.queries[0] == {
        "container": "a",
        "tailLines": str(LOG_TAIL_LINES),
        "limitBytes": str(LOG_TAIL_BYTES),
    }


def test_at_most_so_many_logs_are_read_in_a_pass() -> None:
    room = Room()
    room.api.instead["GET pods"] = HttpResponse(200, b"x")
    pods = [f"p{n}" for n in range(LOG_TAILS_A_PASS + 2)]
    room.apply(status=status_of(room).model_copy(update={"failures": failures(*pods)}), log_tails=tails(*pods))
    assert sum("/log" in a for a in room.api.asked) == LOG_TAILS_A_PASS


def test_a_log_that_cannot_be_had_delays_nothing_and_the_next_one_is_read() -> None:
    room = Room()
    room.api.instead = {"GET pods/p/log": refusal(500, "InternalError"), "GET pods/q/log": HttpResponse(200, b"bye")}
    room.apply(status=status_of(room).model_copy(update={"failures": failures("p", "q")}), log_tails=tails("p", "q"))
    assert [f.get("logTail", "") for f in room.world.status()["failures"]] == ["", "bye"]


def test_a_log_that_the_status_has_already_stays() -> None:
    room = Room()
    room.api.instead["GET pods"] = HttpResponse(200, b"later")
    status = status_of(room).model_copy(update={"failures": (*failures("p", tail="first"), *failures("q"))})
    room.apply(status=status, log_tails=tails("p", "q"))
    assert [f.get("logTail", "") for f in room.world.status()["failures"]] == ["first", "later"]


# -- what Flower shows -----------------------------------------------------------------------------------------------------

SUMMARIES = {
    "a pass that did nothing says the phase": (Outcome, "Running"),
    "each kind of write is counted": (
        lambda j: Outcome(j, creates=3, deletes=2, patches=1, status_writes=1),
        "Running, created 3, deleted 2, patched 1",
    ),
    "a refused create is said": (lambda j: Outcome(j, refused=Transient("x")), "Running, a create was refused"),
}


@pytest.mark.parametrize(("make", "want"), SUMMARIES.values(), ids=SUMMARIES.keys())
def test_summary(make: Callable[[TrainingJob], Outcome], want: str) -> None:
    room = Room()
    assert make(replace(room.job, status=status_of(room, "Running"))).summary() == want


def test_a_job_without_a_phase_was_accepted() -> None:
    assert Outcome(Room().job).summary() == "accepted"
