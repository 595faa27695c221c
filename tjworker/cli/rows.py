"""Jobs and pods as rows of text, and how ages are written. Pure: objects and a time in, strings out.

A job's columns are those of its CRD's printer columns, so that `tj get` and `kubectl get` say the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click

from tjworker.api import labels
from tjworker.api.kinds.base import seen_status
from tjworker.api.status import Failure
from tjworker.base import printable
from tjworker.store.work_queue import QueueStats

JOB_HEADER = ("NAME", "PHASE", "ACTIVE", "RESTARTS", "AGE")
POD_HEADER = ("POD", "PHASE", "READY", "ATTEMPT", "NODE", "AGE")

WAITING = "Waiting"
"""The condition that is shown as the phase of a job without a phase."""
SHOWN_FAILURES = 3
SHOWN_LOG_LINES = 5
LONG_MESSAGE = 30
"""Characters. A longer message that several failures share is printed once."""


_COLOURS = {
    **dict.fromkeys(("Running", "Succeed", "Succeeded"), "green"),
    **dict.fromkeys(("Failed", "Timeout", "Preempted", "NodeFail", "Error", "OOMKilled", "Evicted"), "red"),
    **dict.fromkeys(("ImagePullBackOff", "ErrImagePull", "CreateContainerError", "CrashLoopBackOff"), "red"),
    **dict.fromkeys(("Restarting", "Scaling", "Terminating", "Suspended", WAITING), "yellow"),
}
_PHASE_CELL = re.compile(rf"(?<=   )({'|'.join(_COLOURS)})(?=$| )")


def paint(table: str) -> str:
    """The phase of each row in its colour: the first cell that is one. Names of jobs and pods have no capitals."""
    return "\n".join(
        _PHASE_CELL.sub(lambda found: click.style(found[0], fg=_COLOURS[found[0]]), line, count=1)
        for line in table.split("\n")
    )


def parse_time(text: str | None) -> datetime | None:
    """RFC 3339 as Kubernetes writes it; None for what is missing or is none."""
    try:
        return datetime.fromisoformat(text) if text else None
    except ValueError:
        return None


def age(since: str | None, now: datetime) -> str:
    """The time since then, as kubectl prints it: 45s, 3m10s, 2h5m, 3d."""
    began = parse_time(since)
    return "<unknown>" if began is None else duration((now - began).total_seconds())


def duration(seconds: float) -> str:
    total = max(0, int(seconds))
    # The steps of kubectl (`duration.HumanDuration`), so that both print the same age.
    if total < 120:
        return f"{total}s"
    minutes, rest = divmod(total, 60)
    if minutes < 10:
        return f"{minutes}m{rest}s" if rest else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours}h{minutes}m" if hours < 8 and minutes else f"{hours}h"
    return f"{hours // 24}d"


def job_phase(status: Mapping[str, Any]) -> str:
    """The phase in the operator's own status. `Waiting` if the job waits for an object that its spec names, such as a
    runtime; '' if the operator has not taken it up."""
    listed = status.get("conditions")
    conditions = (c for c in listed if isinstance(c, Mapping)) if isinstance(listed, list) else ()
    waits = any((c.get("type"), c.get("status")) == (WAITING, "True") for c in conditions)
    return str(status.get("phase") or (WAITING if waits else ""))


def job_message(raw: Mapping[str, Any]) -> str:
    """The status' own message; without one that of the condition that changed last (the list's last of one second)."""
    status = seen_status(raw)
    if status.get("message"):
        return printable(str(status["message"]))
    conditions = list(reversed(status.get("conditions") or []))
    true = [c for c in conditions if c.get("status") == "True"]
    last = max(true or conditions, key=lambda c: str(c.get("lastTransitionTime", "")), default=None)
    return printable(str(last.get("message", ""))) if last else ""


def failure_lines(failures: Sequence[Failure], now: datetime) -> list[str]:
    """The newest failures of a job: which pod, where, when, how it ended and the last words of its log. Empty without
    any."""
    lines: list[str] = []
    shown: dict[str, str] = {}
    said: dict[str, str] = {}
    for failure in failures[:SHOWN_FAILURES]:
        where = f" on {failure.node}" if failure.node else ""
        message = failure.message
        if len(message) > LONG_MESSAGE and message in said:
            message = f"as {said[message]} above"
        said.setdefault(message, failure.pod)
        code = f"exit code {failure.exit_code}" if failure.exit_code is not None else ""
        how = ", ".join(part for part in (code, failure.reason, message) if part)
        lines.append(f"{failure.pod}{where}, {age(failure.time, now)} ago: {printable(how) or 'failed'}")
        first = shown.setdefault(failure.log_tail, failure.pod)
        if failure.log_tail and first != failure.pod:
            lines.append(f"    | the same last lines as of {first}")
        else:
            lines += [f"    | {printable(line)}" for line in failure.log_tail.splitlines()[-SHOWN_LOG_LINES:]]
    return lines


def job_header(*, wide: bool) -> tuple[str, ...]:
    return (*JOB_HEADER, "KIND", "MESSAGE") if wide else JOB_HEADER


def job_row(raw: Mapping[str, Any], now: datetime, *, wide: bool = False) -> tuple[str, ...]:
    status, metadata = seen_status(raw), raw["metadata"]
    row = (
        str(metadata["name"]),
        job_phase(status) or "<none>",
        str(status.get("active") or "-"),
        str(status.get("restarts", 0)),
        age(metadata.get("creationTimestamp"), now),
    )
    return (*row, str(raw.get("kind", "")), job_message(raw)) if wide else row


def pod_phase(pod: Mapping[str, Any]) -> str:
    """The most specific word for a pod's state: Terminating, a container's reason to wait or to end, or the phase."""
    if pod["metadata"].get("deletionTimestamp"):
        return "Terminating"
    status = pod.get("status") or {}
    # kubectl counts init containers here (`Init:0/1`). `tj describe` names the container that waits.
    for container in status.get("containerStatuses") or []:
        state = container.get("state") or {}
        waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
        if waiting.get("reason") not in (None, "", "ContainerCreating", "PodInitializing"):
            return str(waiting["reason"])
        if ended and ended.get("exitCode"):
            return f"{ended.get('reason') or 'Error'} ({ended['exitCode']})"
    # The kubelet puts `Evicted` into the reason of the pod, and into no container.
    return str(status.get("reason") or status.get("phase") or "Pending")


def replica_of(pod: Mapping[str, Any]) -> tuple[str, int]:
    """(role, index) of a pod; -1 for a pod without an index."""
    marks = pod["metadata"].get("labels") or {}
    index = str(marks.get(labels.REPLICA_INDEX, ""))
    # Anybody who may edit the pod may edit its labels.
    number = int(index) if index.isascii() and index.isdigit() and len(index) < 10 else -1
    return str(marks.get(labels.REPLICA_NAME, "")), number


def pod_row(pod: Mapping[str, Any], now: datetime) -> tuple[str, ...]:
    status, metadata = pod.get("status") or {}, pod["metadata"]
    containers = status.get("containerStatuses") or []
    asked = len((pod.get("spec") or {}).get("containers") or [])
    ready = f"{sum(1 for c in containers if c.get('ready'))}/{asked}"
    attempt = str((metadata.get("labels") or {}).get(labels.RESTART_ATTEMPT, "0"))
    return (
        str(metadata["name"]),
        pod_phase(pod),
        ready,
        attempt,
        str((pod.get("spec") or {}).get("nodeName") or "<none>"),
        age(metadata.get("creationTimestamp"), now),
    )


def align(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns side by side, as kubectl prints them; the last one is not padded."""
    if not rows:
        return []
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["".join(cell.ljust(width + 3) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def queue_line(stats: QueueStats) -> str:
    return (
        f"{stats.queued} queued, {stats.running} running, {stats.delayed} delayed, {stats.failing} failing; "
        f"{stats.unfinished} unfinished job{'' if stats.unfinished == 1 else 's'}"
    )


def utc_now() -> datetime:
    return datetime.now(UTC)
