"""The text of `tj describe`: sentences from a job's status, spec, pods and events at a given time. Pure.

The pods' present state takes precedence over the status, which may be older.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tjworker.api.indices import MAX_INDEX, parse_indices
from tjworker.api.model import FieldError, Role, TrainingJob
from tjworker.api.observed import ENDED_PHASES
from tjworker.api.status import FAILED_CREATE, FAILED_DELETE, POD_NOT_GONE, REPORT_REFUSED, Condition
from tjworker.api.tenancy import tenancy
from tjworker.base import Json, printable
from tjworker.cli import happenings, rows
from tjworker.cli.happenings import Happening
from tjworker.reconcile.failures import start_error
from tjworker.reconcile.policies.limits import time_left

STALE_SECONDS = 5.0
"""A status that differs from the pods for longer is stale: a pass takes a fraction of this."""
UNTAKEN = "the operator has not taken it up yet. `tj doctor` says whether it runs."
"""The state of a job without a phase."""
SHOWN_WAITING = 3
SHOWN_RECORDS = 3
SHOWN_WARNINGS = 5
_TROUBLES = (POD_NOT_GONE, FAILED_CREATE, FAILED_DELETE)
CAUSES = {
    "application": "because its program failed",
    "node": "because of a node or a GPU",
    "preemption": "because a pod of higher priority took its place",
    "user": "because its pod was deleted",
}
"""Cause of a restart, as `status.restartCounts` names it -> in words."""


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Around:
    """What in the cluster affects the job; empty if the user may not read the cluster. See `room`."""

    ill_nodes: Mapping[str, str] = field(default_factory=dict)
    """Node -> what is wrong with it."""
    obstacles: Mapping[str, str] = field(default_factory=dict)
    """Role -> why it has no more replicas."""
    too_large: Sequence[str] = ()
    """A sentence for each role whose pods fit no node."""


def describe(
    job: TrainingJob,
    pods: Sequence[Json],
    seen: Sequence[Happening],
    now: datetime,
    *,
    around: Around | None = None,
    errors: Sequence[FieldError] = (),
    notes: Iterable[str] | None = None,
) -> list[Section]:
    """`pods`: the job's existing pods. `seen`: its Events (see `happenings`). `errors`: invalid parts of its spec.
    `notes`: how reliable the text is; None: the `doubts` about the status of an existing job."""
    around = around or Around()
    notes = doubts(job, pods, now) if notes is None else notes
    waits = tuple(_waits(job, pods, now, around.ill_nodes))
    # A pod that has found a node is not too large, whatever the nodes of this moment are.
    if any(_is_unscheduled(pod) for pod in pods):
        waits += tuple(around.too_large)
    said = "\n".join((job.status.message, gist(job.status.message), *waits))
    found = [
        Section("", (*_headline(job, now), *_unusable(job, errors), *notes, *_older_pods(job, pods))),
        Section("Replicas", tuple(_role(role, job, pods, now) for role in job.roles)),
        Section("Waits for", waits),
        Section("Progress", tuple(_progress(job, now))),
        Section("Restarts", tuple(_restarts(job))),
        Section("Autoscaler" if job.autoscaled else "Scaling", tuple(_autoscaler(job, now, around.obstacles))),
        Section("Time", tuple(_times(job, now))),
        Section("Newest failures", tuple(rows.failure_lines(job.status.failures, now))),
        Section("Newest warnings", tuple(_warnings(seen, now, said))),
    ]
    return [section for section in found if section.lines]


def _headline(job: TrainingJob, now: datetime) -> Iterator[str]:
    status, name = job.status, job.name.name
    kind = f"{job.kind} {name} in namespace {job.name.namespace}"
    age = "<unknown>" if job.created_at is None else rows.duration(now.timestamp() - job.created_at)
    made = f"made {age} ago"
    phase = rows.job_phase(status.to_json())
    if not phase:
        yield f"{kind}, {made}: {UNTAKEN}"
        return
    condition = next((c for c in status.conditions if c.type == _CONDITION_OF.get(phase, phase)), None)
    is_true = condition is not None and condition.status == "True"
    for_ = f" for {rows.age(condition.last_transition_time, now)}" if condition and is_true else ""
    if status.refused:
        yield f"{kind} was refused and has no pods; {made}. It starts once its spec is mended."
    elif status.ended:
        yield f"{kind} has ended: {status.phase}, {rows.age(status.completion_time, now)} ago; {made}."
    else:
        yield f"{kind} is {phase}{for_}, {made}."
    if status.message:
        yield f"{status.message.removesuffix('.')}."
    if whose := tenancy(job.annotations):
        yield f"It is for {whose}."


def _unusable(job: TrainingJob, errors: Sequence[FieldError]) -> Iterator[str]:
    """What the status does not say yet, or of a job that no operator serves will not."""
    said = (job.status.message, job.status.unusable_spec)
    new = [str(error) for error in errors if not any(str(error) in one for one in said)]
    if new:
        yield f"! Its spec cannot be used: {'; '.join(new)}"


SHOWN_METRICS = 8


def _progress(job: TrainingJob, now: datetime) -> Iterator[str]:
    """The progress that the training program has reported."""
    status, report = job.status, job.status.trainer_status
    if report is not None:
        parts = []
        if report.progress_percentage is not None:
            parts.append(f"{report.progress_percentage} % done")
        if report.estimated_remaining_seconds is not None and not status.ended:
            parts.append(f"{rows.duration(report.estimated_remaining_seconds)} left by the program's estimate")
        ago = rows.age(report.last_updated_time, now)
        yield f"{', '.join(parts) or 'no percentage'}; reported {ago} ago."
        # A training program chooses names and values: a terminal must not obey escape sequences in them.
        shown = [f"{printable(m.name)} {printable(m.value)}" for m in report.metrics[:SHOWN_METRICS]]
        left = len(report.metrics) - len(shown)
        if shown:
            yield ", ".join(shown) + (f", and {left} more metrics" if left else "") + "."
    speeds = [f"{row.rate:.4g} with {row.replicas} on {_nodes(row.nodes)}" for row in status.speed]
    if speeds:
        yield f"Samples per second: {', '.join(speeds)}."
    if status.rescale_seconds is not None:
        yield f"After its last change of size it reported again after {rows.duration(status.rescale_seconds)}."
    refused = status.condition(REPORT_REFUSED)
    if refused is not None and refused.status == "True":
        yield f"! A report was refused {rows.age(refused.last_transition_time, now)} ago: {printable(refused.message)}."


def _nodes(number: int) -> str:
    return f"{number} node{'' if number == 1 else 's'}"


_CONDITION_OF = {"Succeed": "Succeeded", "Timeout": "Failed", "Preempted": "Failed", "NodeFail": "Failed"}


def doubts(job: TrainingJob, pods: Sequence[Json], now: datetime) -> Iterator[str]:
    """Warnings that the status is older than the spec, or than the state of the pods."""
    status = job.status
    if not status.phase or status.ended:
        return
    reconciled = rows.parse_time(status.last_reconcile_time)
    old = (now - reconciled).total_seconds() if reconciled else 0.0
    # During a pass the status is behind for a moment.
    if status.observed_generation < job.generation and old > STALE_SECONDS:
        yield (
            f"! This status is for generation {status.observed_generation} of the spec, which is at {job.generation}:"
            " the operator has not acted on the newest change. `tj doctor` says whether it runs."
        )
    for role in job.roles:
        said = status.replica_statuses.get(role.name)
        runs = running(pods, role)
        if said is not None and said.active != runs and old > STALE_SECONDS:
            yield (
                f"! The status is stale: it reports {said.active} running pods of {role.name}, the cluster has {runs};"
                f" its last change was {rows.duration(old)} ago. `tj doctor` says whether the operator runs."
            )


def _older_pods(job: TrainingJob, pods: Sequence[Json]) -> Iterator[str]:
    """A sentence about pods that run an older template, which was edited after they were created."""
    for role in () if job.status.ended else job.roles:
        wanted = _programs(role.template.get("spec") or {})
        older = [
            _name(p) for p in _of_role(pods, role) if not _over(p) and _differs(wanted, _programs(p.get("spec") or {}))
        ]
        if older:
            way = (
                "`tj suspend` and `tj resume` replace them"
                if role.workload == "Pod"
                else "to replace them, delete the job and apply it again"
            )
            yield f"! {_some(older)}: created from an older template of {role.name}, and keep it; {way}."


def _programs(spec: Json) -> dict[str, tuple[Any, ...]]:
    """What each container runs."""
    named = (c for c in spec.get("containers") or () if isinstance(c, Mapping))
    return {str(c.get("name")): (c.get("image"), c.get("command"), c.get("args")) for c in named}


def _differs(wanted: dict[str, tuple[Any, ...]], has: dict[str, tuple[Any, ...]]) -> bool:
    """Webhooks may have added containers; variables in commands are expanded by the kubelet, not in the spec."""
    return any(name in has and has[name] != program for name, program in wanted.items())


def _role(role: Role, job: TrainingJob, pods: Sequence[Json], now: datetime) -> str:
    runs = running(pods, role)
    said = job.status.replica_statuses.get(role.name)
    parts = [f"{runs} of {role.replicas} run"]
    if said is not None and said.succeeded:
        parts.append(f"{said.succeeded} succeeded")
    if said is not None and said.failed:
        parts.append(f"{said.failed} failed")
    if role.elastic and not job.status.ended:
        who = {"Auto": "the autoscaler moves it", "Manual": "`tj scale` moves it", "Never": "nothing moves it"}
        parts.append(f"{role.min_replicas} to {role.max_replicas}, {who[role.edl_policy]}")
    return f"{role.name}: {'; '.join(parts)}"


def _waits(job: TrainingJob, pods: Sequence[Json], now: datetime, ill_nodes: Mapping[str, str]) -> Iterator[str]:
    status = job.status
    if status.ended:
        yield from (f"{_name(pod)} is still being deleted" for pod in pods if _deleting(pod))
        return
    if status.ending is not None:
        yield f"its pods to go; then it ends in {status.ending.phase}: {status.ending.message}"
    yield from (f"{c.message}" for c in status.conditions if _is_trouble(c))
    if status.unusable_spec:
        yield f"an edit of the job: {status.unusable_spec}"
    waiting: dict[str, list[str]] = {}
    for pod in pods:
        if why := gist(why_pod_waits(pod)):
            waiting.setdefault(why, []).append(_name(pod))
    for why, names in waiting.items():
        yield f"{_some(names)}: {why}"
    for node, why in ill_nodes.items():
        there = [_name(pod) for pod in pods if (pod.get("spec") or {}).get("nodeName") == node and not _over(pod)]
        if there:
            yield f"node {node} {why}; on it: {_some(there)}"
    yield from _rests(job, now)


_PROSE = re.compile(
    r'Back-off pulling image "[^"]*": (?:ErrImagePull: )?|Failed to pull image "[^"]*": '
    r'|rpc error: code = \w+ desc = |failed to pull and unpack image "[^"]*": '
)
_CANNOT_START = "OCI runtime create failed"
"""In the event of a container whose command cannot be started, among the layers of its runtime."""
_PULLS = re.compile(r"(?<=cannot start: )ErrImagePull\b")
_NO_NEWS = re.compile(r'Error: (ErrImagePull|ImagePullBackOff)|Back-off pulling image "[^"]*"')
"""Events of an image that cannot be pulled which add nothing to the first."""


def gist(said: str) -> str:
    """The cause in an event of an image that cannot be pulled, or of a command that cannot be started, without the
    layers of the container runtime. The kubelet words each try to pull an image differently: only the cause is equal
    for several pods."""
    if _CANNOT_START in said:
        return start_error(said)
    return _PULLS.sub("ImagePullBackOff", _PROSE.sub("", said) or said)


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN_WAITING} more" if len(names) > SHOWN_WAITING else ""
    return f"{', '.join(names[:SHOWN_WAITING])}{more}"


def _over(pod: Json) -> bool:
    return (pod.get("status") or {}).get("phase") in ENDED_PHASES


def _is_trouble(condition: Condition) -> bool:
    stalled = condition.type == "Stalled" and condition.status == "True"
    return bool(condition.message) and (stalled or condition.reason in _TROUBLES)


def _placement(pod: Json) -> Json:
    """The condition PodScheduled."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    return next((c for c in conditions if c.get("type") == "PodScheduled"), {})


def _is_unscheduled(pod: Json) -> bool:
    """True if the scheduler has found no node for a pod that should run."""
    pending = (pod.get("status") or {}).get("phase") in (None, "", "Pending")
    return pending and not _deleting(pod) and _placement(pod).get("status") == "False"


def why_pod_waits(pod: Json) -> str:
    """Why a pod that should run does not; '' for one that runs or has ended."""
    status = pod.get("status") or {}
    if _deleting(pod):
        return "is being deleted"
    if status.get("phase") not in (None, "", "Pending"):
        return ""
    if _is_unscheduled(pod):
        placed = _placement(pod)
        return f"has no node: {' '.join(str(placed.get('message') or placed.get('reason') or 'unknown').split())}"
    # Init containers come first: while any of them waits, the others say only PodInitializing.
    for container in (*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])):
        state = (container.get("state") or {}).get("waiting") or {}
        # The kubelet gives these two reasons for each start that goes well.
        if state.get("reason") not in (None, "", "PodInitializing", "ContainerCreating"):
            said = f": {' '.join(str(state['message']).split())}" if state.get("message") else ""
            return f"container {container.get('name')} cannot start: {state['reason']}{said}"
    node = (pod.get("spec") or {}).get("nodeName")
    # kube-scheduler writes the condition PodScheduled with its first try. Without the condition there was none.
    return f"is being started on {node}" if node else "waits for the scheduler"


def _rests(job: TrainingJob, now: datetime) -> Iterator[str]:
    """Pods that failed too often to be replaced at once, and when the next try comes."""
    for name, attempts in job.status.attempts.roles.items():
        for until, which in sorted(attempts.resting.items()):
            at = rows.parse_time(until)
            if at is None or at <= now:
                continue
            count = len(parse_indices(which, MAX_INDEX))
            replica = f"{name} {which}" if count == 1 else f"{count} replicas of {name} ({which})"
            left = rows.duration((at - now).total_seconds())
            yield f"{replica}: the next try comes at {at:%H:%M:%S} UTC, in {left}, for the earlier ones have failed"


def _restarts(job: TrainingJob) -> Iterator[str]:
    for role in job.roles:
        counts = job.status.restart_counts.get(role.name)
        causes = [f"{n} {why}" for cause, why in CAUSES.items() if (n := getattr(counts, cause, 0))]
        if not causes:
            continue
        limit, endless = "", job.backoff_limit is None or not job.counts_for_backoff(role.name)
        if role.restart_limit is not None:
            limit = f" (restartLimit {role.restart_limit} for failures of the program)"
        # Only a job whose restarts never end gets the warning.
        elif endless and counts is not None and counts.application and not job.status.ended:
            limit = " (no restartLimit: a program that fails is restarted for ever)"
        yield f"{role.name}: {', '.join(causes)}{limit}"
    used = sum(c.application for role, c in job.status.restart_counts.items() if job.counts_for_backoff(role))
    if job.backoff_limit is not None and used:
        yield f"backoffLimit: {used} of {job.backoff_limit} used"


def _autoscaler(job: TrainingJob, now: datetime, obstacles: Mapping[str, str]) -> Iterator[str]:
    for role in job.roles:
        if not role.autoscaled or job.status.ended:
            continue
        if role.declared_replicas is not None:
            yield f"{role.name}: target {role.replicas} ({role.spec_path} is {role.declared_replicas})"
        elif role.name in job.status.targets:
            yield f"{role.name}: follows {role.spec_path}, which a user has set"
        if role.name in obstacles:
            yield f"{role.name}: has {role.replicas} and could have {role.max_replicas}: {obstacles[role.name]}"
    for record in job.status.scale_records[:SHOWN_RECORDS]:
        ago = rows.age(record.time, now)
        yield f"{ago} ago {record.role} {record.from_} -> {record.to}{': ' + record.reason if record.reason else ''}"


def _times(job: TrainingJob, now: datetime) -> Iterator[str]:
    status = job.status
    if status.start_running_time:
        yield f"all replicas first ran {rows.age(status.start_running_time, now)} ago"
    if status.suspended_seconds:
        yield f"was suspended for {rows.duration(status.suspended_seconds)} in all; time limits do not count that"
    if status.ended:
        ended = rows.parse_time(status.completion_time)
        if ended and job.ttl_seconds_after_finished is not None:
            left = job.ttl_seconds_after_finished - (now - ended).total_seconds()
            yield f"is deleted in {rows.duration(left)} (ttlSecondsAfterFinished {job.ttl_seconds_after_finished})"
        return
    # The time of a suspension does not count for the limits.
    counted = rows.parse_time(status.suspend_time) or now
    running, active = time_left(job, status, counted.timestamp())
    when = " once it goes on" if job.suspend else ""
    if running is not None:
        yield f"{rows.duration(running)} left of {job.time_limit_field} {job.time_limit_seconds} s{when}"
    elif job.time_limit_seconds is not None:
        yield f"{job.time_limit_field} {job.time_limit_seconds} s begins when all replicas run"
    if active is not None:
        yield f"{rows.duration(active)} left of activeDeadlineSeconds {job.active_deadline_seconds}{when}"


def _warnings(seen: Iterable[Happening], now: datetime, said: str) -> Iterator[str]:
    """A line per warning; equal ones of several objects share a line, with the newest time. `said`: the text above,
    which is not repeated."""
    alike: dict[tuple[str, str], list[Happening]] = {}
    for happening in (h for h in seen if h.type == "Warning"):
        message = gist(happening.message)
        if message in said or ("ImagePullBackOff" in said and _NO_NEWS.fullmatch(happening.message)):
            continue
        key = happening.reason, message
        alike[key] = [*alike.pop(key, ()), happening]  # in the order of the newest
    for (reason, message), each in reversed(list(alike.items())[-SHOWN_WARNINGS:]):
        when, *_ = happenings.row(each[-1], now)
        yield f"{when} ago, {_some(list(dict.fromkeys(h.object for h in each)))}, {reason}: {message}"


def _of_role(pods: Iterable[Json], role: Role) -> list[Json]:
    return [pod for pod in pods if rows.replica_of(pod)[0] == role.name]


def _name(pod: Json) -> str:
    return str(pod["metadata"]["name"])


def _deleting(pod: Json) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def running(pods: Sequence[Json], role: Role) -> int:
    """How many pods of the role run."""
    return sum(1 for pod in _of_role(pods, role) if _runs(pod))


def _runs(pod: Json) -> bool:
    # The phase stays Running through the grace period, but the operator no longer counts such a pod as active.
    return (pod.get("status") or {}).get("phase") == "Running" and not _deleting(pod)
