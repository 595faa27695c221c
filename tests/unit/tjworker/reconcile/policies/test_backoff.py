"""A replica that fails again and again rests between its attempts; only what it rests for counts towards its rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import pytest

from tests.support.builders import PodBuilder, make_job
from tests.unit.tjworker.reconcile.passes import World, created, status_of
from tjworker.api.status import Attempts, RoleAttempts
from tjworker.api.timefmt import from_rfc3339, to_rfc3339
from tjworker.execution.executor import PASS_SECONDS
from tjworker.reconcile.policies.backoff import VANISHES_WITHIN_SECONDS
from tjworker.settings import Settings

POD = "digits-trainer-0"


class Loop(World):
    """One pod after another meets its end; each rest is waited for to the second."""

    def __init__(self, scope: str = "Pod", replicas: int = 1, *, ran: bool = True) -> None:
        super().__init__(make_job().role("trainer", replicas, restart="OnFailure", scope=scope).build())
        self.settle()
        if ran:
            self.runs()

    def meet(self, end: Callable[[PodBuilder], PodBuilder], name: str = POD) -> float:
        """How long its failed pod stayed."""
        self.pods[name] = end(self.pods[name])
        began, pod = self.now, self.record(name).uid
        while name in self.pods and self.record(name).uid == pod:
            plan = self.step()
            if name in self.pods and self.record(name).uid == pod and plan.empty:
                assert plan.requeue_after_seconds is not None, "nobody looks again"
                self.now += max(0.0, plan.requeue_after_seconds - 1)
        rested = self.now - began - 1
        while not self.step().empty or len(self.pods) < self.job.role("trainer").replicas:
            pass
        return rested

    def runs(self) -> Loop:
        self.all("running").settle()
        return self


def crashes(pod: PodBuilder) -> PodBuilder:
    return pod.failed(exit_code=3).but(started_at="2026-01-01T00:09:00Z")


def crashes_after_long(pod: PodBuilder) -> PodBuilder:
    return pod.failed(exit_code=3).but(started_at="2026-01-01T00:00:00Z")


def evicted(pod: PodBuilder) -> PodBuilder:
    return pod.evicted()


def turned_away(pod: PodBuilder) -> PodBuilder:
    return pod.turned_away()


def rests(loop: Loop, *ends: Callable[[PodBuilder], PodBuilder]) -> list[float]:
    """Between two ends the next pod runs, unless it is turned away."""
    return [(loop.runs() if end is not turned_away else loop).meet(end) for end in ends]


@dataclass(frozen=True, slots=True)
class Row:
    ends: tuple[Callable[[PodBuilder], PodBuilder], ...]
    want_rests: list[float]
    """Of the last so many."""
    scope: str = "Pod"


ROWS = {
    "the first two failures are replaced at once, then the rest doubles": Row((crashes,) * 6, [0, 0, 10, 20, 40, 80]),
    "it grows to 5 minutes and no further": Row((crashes,) * 10, [300, 300, 300]),
    "a pod that ran for 10 minutes begins anew": Row((crashes,) * 6 + (crashes_after_long, crashes), [0, 0]),
    "an eviction is never waited for, however often": Row((evicted,) * 9, [0, 0, 0]),
    "evictions do not count towards the rest after crashes": Row((*(evicted,) * 8, crashes), [0]),
    "a pod that is turned away rests from the first time": Row((turned_away,) * 6, [20, 40, 80, 160, 300, 300]),
    "what was turned away does not count towards the rest after crashes": Row(
        (*(turned_away,) * 5, crashes, crashes), [0, 0]
    ),
    "crashes do not count towards the rest after a rejection": Row((*(crashes,) * 5, turned_away), [20]),
    "once a pod has started, the next rejection is a first one": Row((*(turned_away,) * 5, crashes, turned_away), [20]),
    "of a role that is restarted whole: likewise": Row((crashes,) * 4, [0, 0, 10, 20], scope="Replica"),
    "of a job that is restarted whole: likewise": Row((crashes,) * 4, [0, 0, 10, 20], scope="All"),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
def test_how_long_it_rests(row: Row) -> None:
    found = rests(Loop(row.scope, ran=row.ends[0] is not turned_away), *row.ends)
    assert found[-len(row.want_rests) :] == row.want_rests


@pytest.mark.parametrize(
    ("scope", "want"), [("Pod", [0, 0, 0, 0]), ("Replica", [0, 0, 10, 20]), ("All", [0, 0, 10, 20])]
)
def test_two_trainers_that_crash_in_turn(scope: str, want: list[float]) -> None:
    """What begins anew together rests together, whichever of them fails."""
    loop = Loop(scope, replicas=2)
    assert [loop.runs().meet(crashes, f"digits-trainer-{n % 2}") for n in range(4)] == want


def test_a_deletion_by_a_user_is_never_waited_for_and_does_not_count() -> None:
    loop = Loop()
    for _ in range(8):
        loop.runs().set(POD, "deleting").step()
        loop.pods.pop(POD, None)
        loop.settle()
    assert loop.job.status.restart_counts["trainer"].user == 8
    assert loop.runs().meet(crashes) == 0


@pytest.mark.parametrize("scope", ["Pod", "Replica", "All"])
def test_who_deletes_the_failed_pod_ends_its_rest(scope: str) -> None:
    """Of all that begin anew with it, too."""
    loop = Loop(scope, replicas=1 if scope == "Pod" else 2)
    rests(loop, crashes, crashes)
    loop.runs().pods[POD] = crashes(loop.pods[POD])
    for _ in range(5):
        loop.step()
        loop.pods = {name: pod for name, pod in loop.pods.items() if not pod.build().deleted_at}
    assert list(loop.pods) == [POD], "it rests"
    assert loop.record(POD).phase == "Failed"
    del loop.pods[POD]
    assert sorted(created(loop.step())) == [f"digits-trainer-{n}" for n in range(loop.job.role("trainer").replicas)]


def test_while_it_rests_the_status_says_so_and_the_failed_pod_stays() -> None:
    loop = Loop(ran=False)
    rests(loop, turned_away)
    loop.pods[POD] = loop.pods[POD].turned_away("TopologyAffinityError")
    plan = loop.step()
    status = status_of(plan)
    assert status.phase == "Restarting"
    assert "is recreated after a back-off: its kubelet turned it away (TopologyAffinityError)" in status.message
    assert status.attempts.roles["trainer"].rejections == {"2": "0"}
    assert status.attempts.roles["trainer"].resting == {to_rfc3339(loop.now - 1 + 40): "0"}
    assert POD in loop.pods


def test_the_clock_of_the_node_has_no_part_in_a_rest() -> None:
    def wrong(pod: PodBuilder) -> PodBuilder:
        return crashes(pod).containers(finished_at="2029-01-01T00:00:00Z").but(started_at="2028-12-31T23:59:00Z")

    assert rests(Loop(), wrong, wrong, wrong, wrong) == [0, 0, 10, 20]


def test_what_a_user_has_written_into_the_status_is_no_number_and_harms_nobody() -> None:
    loop = Loop()
    odd = Attempts(roles={"trainer": RoleAttempts(crashes={"many": "0", "9" * 40: "1"}, resting={"soon": "0"})})
    builder = make_job().role("trainer", 1, restart="OnFailure", scope="Pod")
    loop.job = builder.status(loop.job.status.model_copy(update={"attempts": odd})).build()
    assert from_rfc3339("soon") is None
    assert loop.runs().meet(crashes) == 0


# -- pods that go before they start --------------------------------------------------------------


def creates_in_ten_minutes(loop: Loop, spoil: Callable[[Loop], None]) -> list[float]:
    """When, by the second: something in the cluster acts on each pod as soon as it is made."""
    began, made = loop.now, [0.0]
    while loop.now < began + 600:
        spoil(loop)
        before, at = len(loop.created), loop.now
        plan = loop.step()
        if len(loop.created) > before:
            made.append(at - began)
        elif plan.empty:
            assert plan.requeue_after_seconds is not None, "nobody looks again"
            loop.now += max(0.0, plan.requeue_after_seconds - 1)
    return made


def delete_unseen(loop: Loop) -> None:
    loop.pods.clear()


def delete_slowly(loop: Loop) -> None:
    for name in [n for n, pod in loop.pods.items() if pod.build().deleted_at]:
        del loop.pods[name]
    for name in loop.pods:
        loop.set(name, "deleting", at=to_rfc3339(loop.now + 30))


SPOILERS = {"before anybody sees them": delete_unseen, "in our sight": delete_slowly}


@pytest.mark.parametrize("spoil", SPOILERS.values(), ids=SPOILERS.keys())
def test_pods_that_are_deleted_before_they_start_come_back_ever_more_slowly(spoil: Callable[[Loop], None]) -> None:
    """It was one as fast as the API server answers, for as long as it went on."""
    loop = Loop(ran=False)
    made = creates_in_ten_minutes(loop, spoil)
    waits = [round(b - a, -1) for a, b in pairwise(made)]
    assert waits == [0, 0, 10, 20, 40, 80, 160]
    assert "is recreated after a back-off: its pods are deleted before they start" in loop.job.status.message
    assert "BackOff" in loop.events


@pytest.mark.parametrize("spoil", SPOILERS.values(), ids=SPOILERS.keys())
def test_one_that_starts_begins_anew(spoil: Callable[[Loop], None]) -> None:
    loop = Loop(ran=False)
    creates_in_ten_minutes(loop, spoil)
    loop.now += 300
    while not loop.pods:
        loop.step()
    attempts = loop.runs().job.status.attempts.roles.get("trainer", RoleAttempts())
    assert (attempts.vanished, attempts.made, attempts.resting) == ({}, "", {})


def test_pods_whose_pass_died_or_was_cut_off_before_them_have_not_vanished() -> None:
    """The status says that they are made before they are. A lease, and a pass that is cut off, is longer than that."""
    loop = Loop(ran=False)
    for _ in range(8):
        delete_unseen(loop)
        loop.now += VANISHES_WITHIN_SECONDS
        assert created(loop.step()) == [POD]
    assert min(PASS_SECONDS, Settings().lock_ttl_seconds) >= VANISHES_WITHIN_SECONDS


def test_one_of_two_vanishes_and_the_other_is_left_alone() -> None:
    loop = Loop(replicas=2, ran=False)
    loop.set(POD, "running")
    for _ in range(20):
        loop.pods.pop("digits-trainer-1", None)
        loop.step()
    assert loop.created.count(POD) == 1
    assert loop.job.status.attempts.roles["trainer"].vanished == {"4": "1"}
