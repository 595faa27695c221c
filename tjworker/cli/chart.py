"""The life of a job as lanes over time: its phases, and its present and past pods. `charttext` and `chartsvg` draw the
chart. Pure.

It shows what the cluster still knows: the status keeps its times, pods exist until they are deleted, and Events stay
for an hour. So the chart of an old job has its phases and failures, and few of its pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Literal

from tjworker.api import naming
from tjworker.api.model import TrainingJob
from tjworker.api.status import END_PHASES, Failure
from tjworker.base import Json
from tjworker.cli.happenings import Happening
from tjworker.cli.rows import WAITING, job_phase, parse_time, replica_of
from tjworker.history.records import GONE_AT, was_killed

State = Literal["phase", "waits", "starts", "runs"]
"""The meaning of a bar: a phase of the job; or a pod that has no node, whose containers start, or that runs."""
Sign = Literal["succeeded", "failed", "gone", "scaled"]
_IN_ONE_SECOND = {"Pending": 0, "Creating": 1, "Running": 3, **dict.fromkeys(END_PHASES, 4)}
"""The order of phases that began in the same second, as times have whole seconds; other phases come as number 2."""
_PASSING = ("Restarting", "Scaling")
_CONDITION_PHASES = ("Running", "Restarting", "Scaling", "Suspended")


@dataclass(frozen=True, slots=True)
class Bar:
    begin: datetime
    end: datetime
    state: State
    about: str
    """The name of the pod or phase."""


@dataclass(frozen=True, slots=True)
class Mark:
    at: datetime
    sign: Sign
    about: str


@dataclass(frozen=True, slots=True)
class Lane:
    name: str
    bars: tuple[Bar, ...]
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, slots=True)
class Chart:
    title: str
    begin: datetime
    end: datetime
    phases: tuple[Lane, ...]
    pods: tuple[Lane, ...]
    incidents: tuple[Mark, ...]
    """Scalings and failures, by time, for a list below the chart."""


def chart(job: TrainingJob, pods: Sequence[Json], seen: Sequence[Happening], now: datetime) -> Chart:
    """The chart of a job. `pods`: the job's present pods; `seen`: the events of the job and of what it owns."""
    status = job.status
    begin = now if job.created_at is None else datetime.fromtimestamp(job.created_at, UTC)
    end = max(begin, (parse_time(status.completion_time) if status.ended else None) or now)
    lives = _lives(job, pods, seen, end)
    phase = f"{job_phase(status.to_json()) or 'not taken up yet'}{'' if status.ended else ' now'}"
    return Chart(
        title=f"{job.kind} {job.name.namespace}/{job.name.name}: {phase}",
        begin=begin,
        end=end,
        phases=_phases(job, _moments(job, seen, lives, begin, end), end),
        pods=_lanes(lives),
        incidents=tuple(sorted(_incidents(job), key=lambda mark: mark.at)),
    )


# -- phases ----------------------------------------------------------------------------------------
def _moments(
    job: TrainingJob, seen: Sequence[Happening], lives: Sequence[_Life], begin: datetime, end: datetime
) -> list[tuple[datetime, str]]:
    """(time, phase) of each beginning of a phase, by time. Waiting, Pending and Creating have no event: the pods show
    them."""
    status, about = job.status, f"{job.kind.lower()}/{job.name.name}"
    known = {*_CONDITION_PHASES, *END_PHASES}
    found = [
        (at, happening.reason)
        for happening in seen
        if happening.object == about and happening.reason in known
        for at in {parse_time(happening.first), parse_time(happening.last)}
        if at is not None
    ]
    recorded = [
        (c.last_transition_time, c.type)
        for c in status.conditions
        if c.type in _CONDITION_PHASES and c.status == "True"
    ]
    recorded.append((status.start_running_time or "", "Running"))
    recorded.append((status.suspend_time or "", "Suspended" if status.phase == "Suspended" else ""))
    recorded.append((status.ending.time if status.ending else "", "Terminating"))
    found += [(at, phase) for text, phase in recorded if phase and (at := parse_time(text)) is not None]
    found += _passing(job, lives)
    found += _running_again(job, lives, sorted(found), end)
    first = min((at for at, _ in found), default=end)
    # Pods of later restarts say nothing about the first start.
    placed = [life.placed for life in lives if life.placed is not None and life.made <= first]
    waits = WAITING if job_phase(status.to_json()) == WAITING else "Pending"
    found += [(begin, waits), *([(min(max(placed), first), "Creating")] if placed else [])]
    # Times are cut to whole seconds, so that an event may seem older than its job.
    found = [(max(begin, at), phase) for at, phase in found if at <= end]
    if status.ended:
        # The status has the time of the end; its Event may be some seconds late.
        found = [*((at, phase) for at, phase in found if phase not in END_PHASES), (end, status.phase)]
    return sorted(found, key=lambda moment: (moment[0], _IN_ONE_SECOND.get(moment[1], 2)))


def _passing(job: TrainingJob, lives: Sequence[_Life]) -> Iterator[tuple[datetime, str]]:
    """Scalings and restarts from the status: an Event that counts several has only the first and the last time."""
    for record in job.status.scale_records:
        if at := parse_time(record.time):
            yield at, "Scaling"
    for failure in job.status.failures:
        # No pod came after the failure that ended the job: it was no restart.
        if (at := parse_time(failure.time)) and any(life.made >= at for life in lives):
            yield at, "Restarting"


def _running_again(
    job: TrainingJob, lives: Sequence[_Life], moments: Sequence[tuple[datetime, str]], end: datetime
) -> Iterator[tuple[datetime, str]]:
    """The end of each Scaling or Restarting, as the pods show it: all new pods run, or the last surplus pod is gone."""
    for number, (at, phase) in enumerate(moments):
        until = next((later for later, _ in moments[number + 1 :] if later > at), None)
        # The job is still restarting or scaling, so this has no end yet.
        if phase not in _PASSING or (until is None and job.status.phase == phase):
            continue
        made = [life for life in lives if at <= life.made < (until or end)]
        over = [life.started for life in made] or [
            life.ended for life in lives if life.sign == "gone" and at <= life.ended < (until or end)
        ]
        known = [moment for moment in over if moment is not None]
        if known and len(known) == len(over):
            yield max(known), "Running"


def _phases(job: TrainingJob, moments: Sequence[tuple[datetime, str]], end: datetime) -> tuple[Lane, ...]:
    """A lane for each phase, by its first beginning. The last phase lasts until `end`."""
    bars: dict[str, list[Bar]] = {}
    begun = [moments[0], *(new for old, new in pairwise(moments) if old[1] != new[1])]
    for (at, phase), (until, _) in pairwise([*begun, (end, "")]):
        # Times have whole seconds, so a phase of less has no width. An end needs none: it is a mark.
        if until > at or phase in END_PHASES:
            bars.setdefault(phase, []).append(Bar(at, until, "phase", phase))
    sign: Sign = "succeeded" if job.status.phase == "Succeed" else "failed"
    return tuple(
        Lane(
            phase, tuple(b for b in found if b.end > b.begin), (Mark(end, sign, phase),) if phase in END_PHASES else ()
        )
        for phase, found in bars.items()
    )


# -- pods ------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Life:
    """The life of one pod."""

    lane: str
    order: tuple[str, int, str]
    pod: str
    made: datetime
    placed: datetime | None
    started: datetime | None
    ended: datetime
    sign: Sign | None
    how: str


def _lives(job: TrainingJob, pods: Sequence[Json], seen: Sequence[Happening], end: datetime) -> list[_Life]:
    there = [_of_pod(pod, end) for pod in pods]
    uids = {str(pod["metadata"].get("uid")) for pod in pods}
    gone: dict[tuple[str, str], list[Happening]] = {}
    for happening in seen:
        kind, _, name = happening.object.partition("/")
        # By UID: a pod that exists has better times than its Events, and its predecessors had the same name.
        if kind == "pod" and happening.uid and happening.uid not in uids:
            gone.setdefault((name, happening.uid), []).append(happening)
    failures = sorted(job.status.failures, key=lambda failure: failure.time)
    # The oldest pod first: the status names the pod of a failure without its UID, and successive pods have the same
    # name.
    in_order = sorted(gone.items(), key=lambda item: min(happening.first for happening in item[1]))
    return [*there, *(_of_events(job, name, events, end, failures) for (name, _), events in in_order)]


def _of_pod(pod: Json, end: datetime) -> _Life:
    metadata, status = pod["metadata"], pod.get("status") or {}
    role, index = replica_of(pod)
    states = [c.get("state") or {} for c in status.get("containerStatuses") or ()]
    begun = [(s.get("running") or s.get("terminated") or {}).get("startedAt") for s in states]
    over = [s["terminated"].get("finishedAt") for s in states if s.get("terminated")]
    placed: Json = next((c for c in status.get("conditions") or () if c.get("type") == "PodScheduled"), {})
    phase = status.get("phase")
    has_ended = phase in ("Succeeded", "Failed")
    made = parse_time(metadata.get("creationTimestamp")) or end
    gone = parse_time(metadata.get(GONE_AT))
    codes = ", ".join(
        f"exit code {s['terminated'].get('exitCode')}" for s in states if (s.get("terminated") or {}).get("exitCode")
    )
    return _Life(
        lane=f"{role}-{index}" if role and index >= 0 else metadata["name"],
        order=(role, index, metadata["name"]),
        pod=metadata["name"],
        made=made,
        placed=parse_time(placed.get("lastTransitionTime")) if placed.get("status") == "True" else None,
        # A pod starts with its first container. A sidecar may come much later.
        started=min((at for text in begun if (at := parse_time(text))), default=None),
        ended=max(
            made, max((at for text in over if (at := parse_time(text))), default=end) if has_ended else gone or end
        ),
        sign=_sign(pod, phase, gone=gone is not None),
        how=", ".join(part for part in (str(status.get("reason") or ""), codes) if part),
    )


def _sign(pod: Json, phase: object, *, gone: bool) -> Sign | None:
    if phase == "Succeeded":
        return "succeeded"
    # The kubelet calls a pod Failed also if its deletion ended the programs, which then exit with 137 or 143.
    if phase == "Failed" and not was_killed(pod):
        return "failed"
    return "gone" if gone or phase == "Failed" else None


def _of_events(
    job: TrainingJob, name: str, events: Sequence[Happening], end: datetime, failures: list[Failure]
) -> _Life:
    """The life of a pod that is gone. It ended when its failure was recorded or it was killed, else at its last event.
    Its failure is removed from `failures`: a successor of the same name may have been created in the same second."""

    def first(*reasons: str) -> datetime | None:
        return min((at for h in events if h.reason in reasons and (at := parse_time(h.first))), default=None)

    heard = [at for h in events for text in (h.first, h.last) if (at := parse_time(text))]
    made, last = min(heard, default=end), max(heard, default=end)
    failure = next(((at, f) for f in failures if f.pod == name and (at := parse_time(f.time)) and at >= made), None)
    if failure is not None:
        failures.remove(failure[1])
    code = f"exit code {failure[1].exit_code}" if failure and failure[1].exit_code is not None else ""
    role, index = _replica(job, name)
    # The kubelet writes no Event when a container exits with 0, so the absence of a failure and of `Killing` must do.
    succeeded = job.status.phase == "Succeed" and failure is None and first("Killing") is None
    ended = failure[0] if failure else end if succeeded else first("Killing") or last
    return _Life(
        lane=f"{role}-{index}" if role and index >= 0 else name,
        order=(role, index, name),
        pod=name,
        made=made,
        placed=first("Scheduled"),
        started=first("Started"),
        ended=max(made, min(ended, end)),
        sign="failed" if failure else "succeeded" if succeeded else "gone",
        how=", ".join(part for part in (failure[1].reason if failure else "", code) if part),
    )


def _replica(job: TrainingJob, pod: str) -> tuple[str, int]:
    """(role, index) of a pod with a fixed name; (role, -1) if a controller named the pod, ('', -1) if it is unknown."""
    stem, _, index = pod.rpartition("-")
    for role in job.roles:
        if index.isdigit() and pod == naming.pod_name(job.name.name, role.name, int(index)):
            return role.name, int(index)
        if stem == naming.owner_name(job.name.name, role.name):
            return role.name, -1
    return "", -1


def _lanes(lives: Iterable[_Life]) -> tuple[Lane, ...]:
    """A lane for each replica, with its successive pods."""
    found: dict[str, list[_Life]] = {}
    for life in sorted(lives, key=lambda life: (*life.order, life.made)):
        found.setdefault(life.lane, []).append(life)
    return tuple(
        Lane(
            name,
            tuple(bar for life in of for bar in _bars(life)),
            tuple(Mark(life.ended, life.sign, _ending(life)) for life in of if life.sign is not None),
        )
        for name, of in found.items()
    )


def _bars(life: _Life) -> Iterator[Bar]:
    # The API server drops each Event an hour after its last write, so `Scheduled` can be gone while `Started` is there.
    until = [(life.made, "waits"), (life.placed or life.started, "starts"), (life.started, "runs")]
    known = [(at, state) for at, state in until if at is not None]
    for (at, state), (end, _) in pairwise([*known, (life.ended, "")]):
        if min(end, life.ended) > at:
            yield Bar(at, min(end, life.ended), state, f"{life.pod} {state}")  # type: ignore[arg-type]


def _ending(life: _Life) -> str:
    return f"{life.pod} {life.sign}{f': {life.how}' if life.how else ''}"


# -- what happened ---------------------------------------------------------------------------------
def _incidents(job: TrainingJob) -> Iterator[Mark]:
    for record in job.status.scale_records:
        if at := parse_time(record.time):
            why = f": {record.reason}" if record.reason else ""
            yield Mark(at, "scaled", f"{record.role} {record.from_} -> {record.to}{why}")
    for failure in job.status.failures:
        if at := parse_time(failure.time):
            code = f"exit code {failure.exit_code}" if failure.exit_code is not None else ""
            where = f" on {failure.node}" if failure.node else ""
            how = ", ".join(part for part in (failure.reason, code) if part) or failure.message
            yield Mark(at, "failed", f"{failure.pod}{where} failed{f': {how}' if how else ''}")
