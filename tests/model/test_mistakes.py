"""For each rule of the model there is a mistake that it notices, in a history that reaches the rule; where the operator
makes no mistake, the model says nothing of that history."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson
import pytest

from tests.model.contract import GPU_RESOURCES
from tests.model.judge import Judgement
from tests.model.rules import RULES
from tests.scenarios.world import job, play, role
from tests.simulation.faults.histories import lived
from tests.simulation.histories import FOR_EVER, Act, History
from tests.simulation.oracles import live
from tests.simulation.quiet import quiet
from tests.simulation.scenarios import SCENARIOS, trainingjob
from tests.simulation.scripts import Wish
from tests.simulation.spoilt_writes import Mistake, Really, and_also, calls, drops, never_sent, status_written, writes
from tests.support.memory_work_queue import MemoryWorkQueue
from tjworker.api.status import renewed_condition
from tjworker.api.timefmt import from_rfc3339, to_rfc3339
from tjworker.kube.port import HttpResponse
from tjworker.reconcile import conditions, core
from tjworker.reconcile.attempts import Draft
from tjworker.reconcile.frameworks.mpi import MPI
from tjworker.reconcile.policies import backoff
from tjworker.reconcile.policies.restart import RESTART_POLICIES, always, never, on_failure
from tjworker.store.work_queue import OnNews, OnOwnWrite

Json = dict[str, Any]

# -- lives -------------------------------------------------------------------------------------------


def _life(trainer: Json, *acts: Act, replicas: int = 1, does: Mapping[str, object] = FOR_EVER, **spec: Any) -> History:
    return History(1, job({"trainer": role(replicas, annotations=play(**does), **trainer)}, **spec), acts)


_fails = {**FOR_EVER, "failing_attempts": 4, "failing_exit_code": 137, "failing_run_seconds": 20}
_alone: Json = {"restartPolicy": "Always", "restartScope": "Pod"}
_gpu = role(1, annotations=play(**FOR_EVER), **_alone)
_gpu["template"]["spec"]["containers"][0]["resources"] = {"limits": {GPU_RESOURCES[0]: 1}}
LIVES: Mapping[str, History] = {
    "a program fails again and again": _life(_alone, does=_fails),
    "a program fails more often than its limit": _life({**_alone, "restartLimit": 1}, does=_fails),
    "a job times out": _life(_alone, timeLimit=60),
    "a job is suspended": _life(_alone, Act(20, "suspend", 0, True)),
    "nodes stay away": _life(_alone, *(Act(5, "node fails", number, "NotReady") for number in range(3))),
    "one has succeeded, its pod is deleted": _life(
        {**_alone, "completePolicy": "All"}, Act(20, "pod exits", 0, 0), Act(150, "pod deleted", 0, 0), replicas=2
    ),
    "a job fails and keeps its pods": _life(
        {"restartPolicy": "Never", "failPolicy": "Any"}, Act(20, "pod exits", 0, 1), replicas=2, cleanPodPolicy="None"
    ),
    "a GPU ails": History(1, job({"trainer": _gpu}), (Act(20, "GPUs ail"),)),
    "one fails, both begin anew": _life(
        {"restartPolicy": "Always", "restartScope": "Replica"}, Act(20, "pod exits", 0, 1), replicas=2
    ),
    "a trainer fails that is not borne": History(
        1, trainingjob(Wish(run_seconds=1_000_000), pservers=1, fault_tolerant=False), (Act(20, "pod exits", 1, 1),)
    ),
    "two servers are restarted": History(
        1,
        trainingjob(Wish(run_seconds=1_000_000), pservers=2, fault_tolerant=True),
        (Act(20, "pod exits", 1, 1), Act(60, "pod exits", 2, 1)),
    ),
}
"""Beside those that the rows of the simulation are tried on."""


def said_of(life: str) -> Judgement:
    with quiet():
        return lived(LIVES[life])[1] if life in LIVES else live(SCENARIOS[life], more_seconds=300).model


# -- mistakes ----------------------------------------------------------------------------------------


def _no_restarts(patch: pytest.MonkeyPatch) -> None:
    for policy in RESTART_POLICIES:
        patch.setitem(RESTART_POLICIES, policy, never.refuse)


def _restarts_whatever_is_said(patch: pytest.MonkeyPatch) -> None:
    for policy in RESTART_POLICIES:
        patch.setitem(RESTART_POLICIES, policy, always.refuse)


def _no_timers(patch: pytest.MonkeyPatch) -> None:
    finish = MemoryWorkQueue._finish

    def without(queue, claim, written, next_pass):  # type: ignore[no-untyped-def]
        if isinstance(next_pass, OnNews | OnOwnWrite):
            next_pass = replace(next_pass, latest_seconds=None)
        return finish(queue, claim, written, next_pass)

    patch.setattr(MemoryWorkQueue, "_finish", without)


def _moving_times(patch: pytest.MonkeyPatch) -> None:
    """As if the condition of before had had another status."""
    renew = renewed_condition

    def as_if_changed(old, *args, **told):  # type: ignore[no-untyped-def]
        return renew(old and old.model_copy(update={"status": "Unknown"}), *args, **told)

    patch.setattr(conditions, "renewed_condition", as_if_changed)


def _no_limits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Draft, "application_restarts", lambda draft, role=None: 0)


def _without(step: str) -> Mistake:
    """One of reconcile's."""
    assert any(one.__name__ == step for one in core.STEPS)
    return lambda patch: patch.setattr(core, "STEPS", tuple(one for one in core.STEPS if one.__name__ != step))


def _no_rests(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(backoff, "find_resting", lambda views, now: backoff.Resting())
    patch.setattr(backoff, "rest_seconds", lambda times, first_seconds=0.0: 0.0)


def _no_gpu_faults(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(RESTART_POLICIES, "Always", on_failure.refuse)


PODS = "/api/v1/namespaces/default/pods"


def _deletes(name: str) -> Callable[[Really], object]:
    return lambda really: really("DELETE", f"{PODS}/digits-{name}", {})


def _running_start(status: Json) -> None:
    if "startRunningTime" in status:
        status["startRunningTime"] = status["lastReconcileTime"]


def _counts_a_node(status: Json) -> None:
    for counts in status.get("restartCounts", {}).values():
        counts["node"] = counts.get("node", 0) + 1
        status["restarts"] += 1


def _at_most_one(status: Json) -> None:
    for counts in status.get("restartCounts", {}).values():
        counts["application"] = min(1, counts.get("application", 0))


def _all_that_go_restart(status: Json) -> None:
    for counts in status.get("replicaStatuses", {}).values() if status["phase"] == "Terminating" else ():
        counts["restarting"] = 1


def _no_results(status: Json) -> None:
    status["conditions"] = [one for one in status.get("conditions", ()) if one["type"] != "Succeeded"]


def _state_of_before(status: Json) -> None:
    status.get("conditions", []).pop()


def _nobody_waits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MPI, "waits_for", lambda self, job, role: ())


def _no_time_for_a_board(status: Json) -> None:
    if until := status.get("tensorboardUntil"):
        status["tensorboardUntil"] = min(until, status["lastReconcileTime"])


def _another_code(status: Json) -> None:
    for failure in status.get("failures", ()):
        failure["exitCode"] = 77


def _ended_at_once(status: Json) -> None:
    if status["phase"] == "Terminating":
        status |= {"phase": status["ending"]["phase"], "completionTime": status["lastReconcileTime"]}


def _another_end(status: Json) -> None:
    if "ending" in status and "completionTime" in status:
        status["ending"]["message"] = "something else"


def _written_once_more(really: Really, method: str, path: str, body: Json) -> HttpResponse | None:
    """A second later by its clock."""
    if not path.endswith("/status"):
        return None
    answer = really(method, path, body)
    if answer.status == 200:
        meta = {**body["metadata"], "resourceVersion": orjson.loads(answer.body)["metadata"]["resourceVersion"]}
        later = to_rfc3339((from_rfc3339(body["status"]["lastReconcileTime"]) or 0.0) + 1)
        return really(
            method, path, {**body, "metadata": meta, "status": {**body["status"], "lastReconcileTime": later}}
        )
    return answer


def _one_more(really: Really, method: str, path: str, body: Json) -> HttpResponse | None:
    if method != "POST" or path != PODS or body["metadata"]["name"] != "digits-trainer-1":
        return None
    answer = really(method, path, body)
    body["metadata"]["name"], body["metadata"]["labels"]["replica-index"] = "digits-trainer-2", "2"
    really(method, path, body)
    return answer


def _takes_one_at_the_end(really: Really, method: str, path: str, body: Json) -> HttpResponse | None:
    if not (path.endswith("/status") and "completionTime" in body["status"]):
        return None
    answer = really(method, path, body)
    really("DELETE", f"{PODS}/digits-trainer-0", {})
    return answer


def _forced(really: Really, method: str, path: str, body: Json) -> None:
    if method == "DELETE" and path.startswith(PODS):
        body["gracePeriodSeconds"] = 0


def _one_too_many(really: Really, method: str, path: str, body: Json) -> None:
    if method == "POST" and path.endswith("/jobs"):
        body["spec"]["parallelism"] += 1


def _makes_it_again(patch: pytest.MonkeyPatch) -> None:
    """The last pod, once the job has ended."""
    made: list[Json] = []

    def meddle(really: Really, method: str, path: str, body: Json) -> HttpResponse | None:
        if method == "POST" and path == PODS:
            made.append(body)
        if not (path.endswith("/status") and "completionTime" in body["status"]):
            return None
        answer = really(method, path, body)
        really("POST", PODS, made[-1])
        return answer

    writes(meddle)(patch)


@dataclass(frozen=True)
class Tooth:
    mistake: str
    put_in: Mistake
    life: str


TEETH: Mapping[str, Tooth] = {
    "phases follow each other as the lifecycle says": Tooth(
        "Restarting is called Pending", calls("Restarting", "Pending"), "ai-pod-restarts"
    ),
    "lastTransitionTime moves when a condition's status does, and only then": Tooth(
        "it moves with the reason", _moving_times, "ai-pod-succeeds"
    ),
    "conditions Succeeded, Failed and Suspended say what the phase says": Tooth(
        "Succeeded is not written", status_written(_no_results), "ai-pod-succeeds"
    ),
    "startTime, startRunningTime and completionTime are written once, when it is so": Tooth(
        "startRunningTime moves with each status", status_written(_running_start), "ai-pod-restarts"
    ),
    "Running means that every replica runs": Tooth(
        "Creating is called Running", calls("Creating", "Running"), "ai-pod-succeeds"
    ),
    "restart counts never fall, and their sum is status.restarts": Tooth(
        "the sum is not written", drops("restarts"), "ai-pod-restarts"
    ),
    "no pod is restarting at an end, nor while suspended": Tooth(
        "pods that go count as restarting", status_written(_all_that_go_restart), "ai-pod-times-out"
    ),
    "an end stays as it was decided": Tooth(
        "the message of an end is written anew when its pods are gone", status_written(_another_end), "ai-pod-fails"
    ),
    "observedGeneration never goes back, nor beyond the spec": Tooth(
        "it is one too high",
        status_written(lambda status: status.update(observedGeneration=status["observedGeneration"] + 1)),
        "ai-pod-succeeds",
    ),
    "lastReconcileTime moves with something else": Tooth(
        "a status is written though only the clock has moved", writes(_written_once_more), "ai-pod-succeeds"
    ),
    "failures are of pods that failed": Tooth(
        "a failure has another exit code", status_written(_another_code), "ai-pod-restarts"
    ),
    "an end has its reason": Tooth("restarts are switched off", _no_restarts, "ai-pod-restarts"),
    "nothing is made after an end": Tooth("a create comes after it", _makes_it_again, "ai-pod-succeeds"),
    "a restart is counted for a cause that was": Tooth(
        "each counts as a node's, too", status_written(_counts_a_node), "ai-pod-restarts"
    ),
    "a pod takes another's place for a reason": Tooth(
        "Never restarts", _restarts_whatever_is_said, "a job fails and keeps its pods"
    ),
    "each restart of a pod alone is counted, as what it was": Tooth(
        "none is counted", drops("restartCounts"), "a program fails again and again"
    ),
    "restartLimit and backoffLimit hold": Tooth(
        "nothing uses them up", _no_limits, "a program fails more often than its limit"
    ),
    "a program that fails again and again rests": Tooth(
        "the operator never lets it rest", _no_rests, "a program fails again and again"
    ),
    "each replica that is wanted has its pod in time": Tooth(
        "timers are dropped, and a rest never ends", _no_timers, "a program fails again and again"
    ),
    "an end that is due comes": Tooth("timers are dropped", _no_timers, "a job times out"),
    "a suspended job has no pods and says so": Tooth(
        "suspend is not looked at", _without("suspend"), "a job is suspended"
    ),
    "pods of lost nodes go": Tooth("they are not deleted", never_sent("DELETE", PODS), "nodes stay away"),
    "a GPU at fault is acted on": Tooth("no policy replaces its pods", _no_gpu_faults, "a GPU ails"),
    "a restart reaches as far as restartScope says": Tooth(
        "the pod beside the failed one stays",
        never_sent("DELETE", f"{PODS}/digits-trainer-1"),
        "one fails, both begin anew",
    ),
    "a pod is made because it is wanted": Tooth("one more is made than replicas", writes(_one_more), "ai-pod-succeeds"),
    "a pod is taken away for a reason": Tooth(
        "each delete takes another pod along", and_also("DELETE", PODS, _deletes("ps-0")), "ai-pod-restarts"
    ),
    "pods are forced out of lost nodes alone": Tooth("each delete is forced", writes(_forced), "ai-pod-scales"),
    "what has succeeded is not run again": Tooth(
        "a success is not written down", _without("record_successes"), "one has succeeded, its pod is deleted"
    ),
    "an end takes what cleanPodPolicy says": Tooth(
        "it does not wait for its pods", status_written(_ended_at_once), "ai-pod-times-out"
    ),
    "an end leaves what cleanPodPolicy keeps": Tooth(
        "None takes a pod", writes(_takes_one_at_the_end), "a job fails and keeps its pods"
    ),
    "an end is over once its pods are gone": Tooth(
        "pods are not told to go", never_sent("DELETE", PODS), "a job times out"
    ),
    "an ended job goes after its TTL": Tooth(
        "it is not deleted", never_sent("DELETE", "aitrainingjobs"), "ai-pod-goes-after-its-end"
    ),
    "the end of a TrainingJob gives everything back": Tooth(
        "released is not written", drops("released"), "edl-job-succeeds"
    ),
    "ReplicaSets and batch Jobs are of the size that is asked for": Tooth(
        "a batch Job is made for one more", writes(_one_too_many), "edl-job-succeeds"
    ),
    "a failed trainer ends a job that is not fault tolerant": Tooth(
        "failures end nothing", _without("end_by_failure"), "a trainer fails that is not borne"
    ),
    "restarts of parameter servers are summed": Tooth(
        "those of one server count", status_written(_at_most_one), "two servers are restarted"
    ),
    "the users of another operator's kind read what is so": Tooth(
        "its state stays what it was", status_written(_state_of_before), "pytorch-suspended"
    ),
    "a launcher is made when its workers are ready": Tooth("it waits for nobody", _nobody_waits, "mpi-succeeds"),
    "a gang's PodGroup is there before its pods, and goes with the end": Tooth(
        "it stays", never_sent("DELETE", "/podgroups/"), "ai-pod-gang"
    ),
    "a TensorBoard is there for its time": Tooth(
        "it goes with the other pods", status_written(_no_time_for_a_board), "ai-pod-tensorboard"
    ),
}
"""Rule -> a mistake that it notices, how that is put in, and the life that shows it."""


def test_each_rule_has_its_tooth() -> None:
    assert TEETH.keys() == RULES.keys()


@pytest.mark.long  # it judges the model, not the operator
@pytest.mark.parametrize("rule", TEETH)
def test_a_mistake_is_noticed(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    TEETH[rule].put_in(monkeypatch)
    said = said_of(TEETH[rule].life)
    assert said.broken[rule], f"{TEETH[rule].mistake}: {said.wrong}"


def test_the_operator_as_it_is_reaches_each_rule_and_keeps_to_it() -> None:
    said = {life: said_of(life) for life in sorted({tooth.life for tooth in TEETH.values()})}
    assert {life: told.wrong for life, told in said.items() if told.wrong} == {}
    assert [rule for rule in RULES if not any(told.reached[rule] for told in said.values())] == []
