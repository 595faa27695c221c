"""What a job may have beside its replicas: a kind of another operator's, whose users read a status of their own; a
launcher that waits for its workers; the PodGroup of a gang; a TensorBoard."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from tests.model.chronicle import Json
from tests.model.contract import ENDS, GRACE_SECONDS, LAUNCHER, ROUNDING_SECONDS, SEEN_SECONDS
from tests.model.lives import NEVER, POD_GROUPS, Life, Pod, Version
from tests.model.rules.rule import Rule
from tjworker.api.labels import ANNOTATION_TENSORBOARD
from tjworker.api.model import TrainingJob
from tjworker.api.timefmt import from_rfc3339

_STATES: Mapping[str, str] = {
    "Running": "Running",
    "Restarting": "Restarting",
    "Suspended": "Suspended",
    "Succeed": "Succeeded",
    **dict.fromkeys(ENDS - {"Succeed"}, "Failed"),
}
"""Phase -> the condition that is true then, and the last one: what `kubectl get` shows as the state."""
_ENDED = frozenset({"Succeeded", "Failed"})


def a_guests_users_read_what_is_so(life: Life) -> Iterator[str]:
    """Conditions, times and numbers in the shape of the kind's own operator, beside what this one says."""
    for before, after in life.statuses():
        if not after.told:
            continue
        phase, state = after.status.get("phase", ""), _state(after.told)
        true = {c["type"] for c in after.told.get("conditions") or () if c["status"] == "True"}
        wrong = ""
        if life.kind == "TrainJob":
            wrong = _wrong_to_trainers_client(phase, after.told)
        elif phase in _STATES and state != _STATES[phase]:
            wrong = f"its state is {state}"
        elif true & _ENDED and phase not in ENDS:
            wrong = f"the conditions {sorted(true)} are true"
        elif "Suspended" in true and phase != "Suspended":
            wrong = "the condition Suspended is true"
        elif any(after.told.get(field) != after.status.get(field) for field in ("startTime", "completionTime")):
            wrong = f"its times are {after.told.get('startTime')}, {after.told.get('completionTime')}"
        elif after.at <= life.ended_at:
            wrong = _miscounted(life, before, after)
        yield f"{life.name} is {phase} at {life.says(after.at)}, and to its users {wrong}" if wrong else ""


_OF_TRAINER: Mapping[str, frozenset[str]] = {
    "Suspended": frozenset({"Suspended"}),
    "Succeed": frozenset({"Complete"}),
    **dict.fromkeys(ENDS - {"Succeed"}, frozenset({"Failed"})),
}


def _wrong_to_trainers_client(phase: str, told: Json) -> str:
    """It takes a job for running only by its pods, and only while no other condition than these three is there."""
    conditions = told.get("conditions") or []
    true = {c["type"] for c in conditions if c["status"] == "True"}
    strange = {c["type"] for c in conditions} - {"Suspended", "Complete", "Failed"}
    if true != _OF_TRAINER.get(phase, frozenset()):
        return f"the conditions {sorted(true)} are true"
    return f"the conditions {sorted(strange)} are there" if strange else ""


def _state(told: Json) -> str:
    conditions = told.get("conditions") or [{"type": ""}]
    return str(conditions[-1]["type"])


def _miscounted(life: Life, before: Version, version: Version) -> str:
    """A number that has become one of more pods than there were. At a success it is of those that had succeeded, and of
    those that ran at the verdict; they run no more."""
    done = version.status.get("phase") == "Succeed"
    since = min(version.at, life.ending_at) if version.status.get("phase") in ENDS else version.at
    was = before.told.get("replicaStatuses") or {}
    for role, counts in (version.told.get("replicaStatuses") or {}).items():
        if was.get(role) == counts:
            continue
        pods = life.of_role(role)
        moments = [version.at, *(pod.running_at for pod in pods), *(pod.over_at for pod in pods)]
        near = [at for at in moments if since - SEEN_SECONDS <= at <= version.at]
        ran = [{pod.index for pod in pods if pod.runs(at) or pod.over_at == at} for at in near]
        ended = {pod.index for pod in pods if pod.succeeded and pod.ended_at <= version.at}
        run = 0 if done else max(len(indices) for indices in ran)
        succeeded = len(ended.union(*ran) if done else ended)
        if counts.get("active", 0) > run or counts.get("succeeded", 0) > succeeded:
            return f"{role} has {counts}: {run} ran, {succeeded} have succeeded"
    return ""


def a_launcher_waits_for_its_workers(life: Life) -> Iterator[str]:
    """It is made when every other pod is ready, unless its manifest says that it starts with them."""
    for pod in life.pods:
        if pod.role.lower() != LAUNCHER or pod.made_by != "operator":
            continue
        jobs = [job for job in life.jobs(pod.made_at - SEEN_SECONDS, pod.made_at) if job.framework == "mpi"]
        if not jobs or any(job.mpi is not None and not job.mpi.waits for job in jobs):
            continue
        lacking = min((_never_ready(life, job, pod.made_at) for job in jobs), key=len)
        yield f"{pod.name} was made at {life.says(pod.made_at)}, and {lacking} were not ready" if lacking else ""


def _never_ready(life: Life, job: TrainingJob, at: float) -> list[str]:
    """At no moment that the pass may have seen."""
    return [
        f"{role.name}-{index}"
        for role in job.roles
        if role.name.lower() != LAUNCHER
        for index in range(role.replicas)
        if not any(
            pod.running_at <= at and (pod.succeeded or pod.over_at > at - SEEN_SECONDS)
            for pod in life.of_index(role.name, index)
        )
    ]


def a_gang_has_its_group(life: Life) -> Iterator[str]:
    """Before any pod that names it, of no more pods than are wanted; and it goes with the end and a suspension."""
    groups = [thing for thing in life.things if thing.bucket == POD_GROUPS]
    for pod in life.pods:
        name = ((pod.raw.get("spec") or {}).get("schedulingGroup") or {}).get("podGroupName")
        if name is None or pod.made_by != "operator":
            continue
        had = any(
            group.name == name and group.made_at <= pod.made_at <= group.gone_at + SEEN_SECONDS for group in groups
        )
        yield "" if had else f"{pod.name} was made at {life.says(pod.made_at)}, and there was no PodGroup {name}"
    for group in groups:
        jobs = life.jobs(group.made_at - SEEN_SECONDS, group.made_at)
        most = max((sum(role.replicas for role in job.roles) for job in jobs), default=0)
        count = group.size(group.made_at)
        where = f"PodGroup {group.name} was made at {life.says(group.made_at)}"
        yield f"{where} for {count} pods, {most} were wanted" if count > most else ""
        for since, why in _without_group(life):
            late = since + life.due_seconds
            if group.made_at < since and late < min(life.until, life.asked_at):
                yield f"{where}, {why} at {life.says(since)}, and it stays" if group.asked_at > late else ""


def _without_group(life: Life) -> Iterator[tuple[float, str]]:
    """From when on a job has none."""
    if life.ending_at < NEVER:
        yield life.ending_at + GRACE_SECONDS, "its job was to end"
    for version in life.versions:
        if version.status.get("phase") == "Suspended" and version.until - version.at > life.due_seconds:
            yield version.at, "its job was suspended"


def a_tensorboard_is_there_for_its_time(life: Life) -> Iterator[str]:
    """While its job runs and its time longer, as long as the annotation asks for it; then it goes."""
    running = [v for v in life.versions if v.status.get("phase") == "Running" and v.job is not None]
    for version in running:
        late = version.at + life.due_seconds
        around = life.jobs(version.at - SEEN_SECONDS, late)
        asked = all(ANNOTATION_TENSORBOARD in job.annotations and not job.suspend for job in around)
        if asked and life.valid(version.at, late) and late < min(version.until, life.over_at, life.until):
            there = any(board.made_at <= late and board.gone_at > version.at for board in life.boards)
            yield "" if there else f"{life.name} runs since {life.says(version.at)}, and its TensorBoard is not there"
    for board in life.boards:
        if not isinstance(board, Pod) or life.ended_at == NEVER:
            continue
        until = _until(life)
        if until is None:
            continue
        taken = board.asked_by == "operator" and life.ended_at < board.asked_at < min(
            until - ROUNDING_SECONDS, life.asked_at
        )
        where = f"{board.name} was to stay until {life.says(until)}"
        yield f"{where}, and was taken away at {life.says(board.asked_at)}" if taken else ""
        late = until + life.due_seconds
        if late < min(life.until, life.asked_at):
            yield f"{where}, and is still there at {life.says(late)}" if board.asked_at > late else ""


def _until(life: Life) -> float | None:
    """When it goes: by the annotation as it was when the end came, if that was one only."""
    ended = from_rfc3339(life.at(life.ended_at).status.get("completionTime"))
    told = {
        job.annotations.get(ANNOTATION_TENSORBOARD) for job in life.jobs(life.ending_at - SEEN_SECONDS, life.ended_at)
    }
    if ended is None or len(told) != 1 or (text := next(iter(told))) is None:
        return None
    return ended + float(json.loads(text).get("ttlSecondsAfterJobFinished", 0))


RULES: Mapping[str, Rule] = {
    "the users of another operator's kind read what is so": a_guests_users_read_what_is_so,
    "a launcher is made when its workers are ready": a_launcher_waits_for_its_workers,
    "a gang's PodGroup is there before its pods, and goes with the end": a_gang_has_its_group,
    "a TensorBoard is there for its time": a_tensorboard_is_there_for_its_time,
}
