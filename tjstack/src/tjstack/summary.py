"""What the demo says at its end: what happened and what to try next, or why it failed. Pure: what was seen in, lines
out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tjstack.paths import Words
from tjworker.cli import rows
from tjworker.cli.narrative import CAUSES

ACCURACY_WANTED = 0.95


@dataclass(slots=True)
class Seen:
    """What the demo saw of its job."""

    job: dict[str, Any] = field(default_factory=dict)
    phases: list[tuple[float, str]] = field(default_factory=list)
    """(seconds since the job was applied, phase)."""
    accuracy: float | None = None
    killed: str = ""
    replaced_after_seconds: float | None = None
    grown_after_seconds: float | None = None
    restarted_by_growth: list[str] = field(default_factory=list)
    """Trainers that ran before it and were another pod after it."""
    job_seconds: float = 0.0


def succeeded(job: Mapping[str, Any], accuracy: float | None) -> bool:
    return (job.get("status") or {}).get("phase") == "Succeed" and accuracy is not None and accuracy >= ACCURACY_WANTED


def happened(seen: Seen, wall_seconds: float) -> list[str]:
    """The story in a few lines, in the order of time."""
    job, status = seen.job, seen.job.get("status") or {}
    lines = ["What happened", ""]
    for number, (seconds, phase) in enumerate(seen.phases):
        lines.append(f"  {'' if number else 'phases':<10}{seconds:6.1f}s  {phase}")
    for role, counts in sorted((status.get("restartCounts") or {}).items()):
        causes = ", ".join(f"{count} {CAUSES.get(cause, cause)}" for cause, count in counts.items() if count)
        if causes:
            lines.append(f"  {'restarts':<10}{role}: {causes}")
    if seen.killed and seen.replaced_after_seconds is not None:
        took = f"{seen.replaced_after_seconds:.1f} s"
        lines.append(f"  {'killed':<10}{seen.killed} with SIGKILL; its replacement ran {took} later")
    for failure in status.get("failures") or []:
        lines.append(f"  {'failure':<10}{describe_failure(failure)}")
    created = rows.parse_time((job.get("metadata") or {}).get("creationTimestamp"))
    for record in reversed(status.get("scaleRecords") or []):
        change = f"{record['role']} {record['from']} -> {record['to']}{_at(record.get('time'), created)}"
        lines.append(f"  {'scaled':<10}{change}   {record.get('reason') or ''}".rstrip())
    if seen.grown_after_seconds is not None:
        restarted = ", ".join(seen.restarted_by_growth) or "no trainer"
        took = f"{seen.grown_after_seconds:.1f} s"
        lines.append(f"  {'':<10}all of them ran {took} after the first ones; {restarted} was restarted for it")
    lines.append(f"  {'time':<10}{seen.job_seconds:.0f} s from apply to end, {wall_seconds:.0f} s in all")
    return lines


def next_steps(words: Words) -> list[str]:
    apply = f"kubectl apply -f {words.demo_manifest}"
    return [
        "What to try next",
        "",
        f"  {words.up:<41}  the same stack, until Ctrl-C; in it:",
        f"  {apply:<41}  train again; while it runs:",
        "  tj logs digits -f                          all replicas, replacements included",
        "  tj describe digits                         its state, and the reasons for it",
        "  tj timeline digits                         its phases and pods over time",
        "  tj scale digits --replicas 3               the autoscaler may change it later",
        "  kubectl delete pod digits-trainer-0        it is replaced; training goes on",
    ]


def failed(reason: str, job: Mapping[str, Any], log_lines: Mapping[str, Iterable[str]], log_folder: str) -> list[str]:
    """Why, with the job's own message, its newest failures, the last lines of logs, and where the rest is."""
    status = job.get("status") or {}
    lines = [f"The demo failed: {reason}"]
    if job:
        lines.append(
            f"  job        phase {status.get('phase') or '<none>'}, {status.get('active') or 'no pods'} active"
        )
        if message := rows.job_message(job):
            lines.append(f"  message    {message}")
    for failure in (status.get("failures") or [])[:3]:
        lines.append(f"  failure    {describe_failure(failure)}")
        lines += [f"             | {line}" for line in str(failure.get("logTail") or "").splitlines()[-5:]]
    for name, tail in log_lines.items():
        shown = list(tail)
        if shown:
            lines += [f"  {name}:", *(f"             | {line}" for line in shown)]
    lines.append(f"  logs       {log_folder}")
    return lines


def describe_failure(failure: Mapping[str, Any]) -> str:
    code = failure.get("exitCode")
    parts = [
        str(failure.get("pod", "")),
        f"exit code {code}" if code is not None else "",
        str(failure.get("reason") or ""),
    ]
    return ", ".join(part for part in parts if part)


def _at(time: str | None, created: datetime | None) -> str:
    moment = rows.parse_time(time)
    return f" at {(moment - created).total_seconds():.0f}s" if moment and created else ""
