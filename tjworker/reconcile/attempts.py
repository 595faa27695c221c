"""Attempts: restarts, successes and final failures as data, and the draft of their next state. Pure.

A pass may raise thousands of pods at once, so a `Draft` collects what a pass decides and makes the new status in one go.
Nothing here says whether a restart is due: that is `policies.restart`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tjworker.api.indices import MAX_INDEX, format_indices, parse_indices
from tjworker.api.status import Attempts, Cause, JobStatus, Phase, RestartCounts, RoleAttempts
from tjworker.reconcile.replicas import Replica, RoleView


class Draft:
    """What one pass changes in `status.attempts` and `status.restartCounts`."""

    def __init__(self, status: JobStatus) -> None:
        self._status = status
        self._roles: dict[str, RoleAttempts] = dict(status.attempts.roles)
        self._job = status.attempts.job
        self._pods: dict[str, dict[str, int]] = {}
        self._failed: dict[str, set[int]] = {}
        self._replaced: dict[str, set[int]] = {}
        self._counts: dict[str, dict[str, int]] = {n: c.model_dump() for n, c in status.restart_counts.items()}

    def application_restarts(self, role: str | None = None) -> int:
        """Restarts for the application's own failures so far: those of one role, or of all."""
        names = self._counts if role is None else [role]
        return sum(self._counts.get(name, {}).get("application", 0) for name in names)

    def count(self, role: str, cause: Cause) -> None:
        counts = self._counts.setdefault(role, RestartCounts().model_dump())
        counts[cause] += 1

    def raise_pod(self, replica: Replica) -> None:
        pods = self._pods.get(replica.role)
        if pods is None:
            pods = self._pods[replica.role] = dict(self._attempts(replica.role).pods)
        key = str(replica.index)
        pods[key] = pods.get(key, 0) + 1
        self._replaced.setdefault(replica.role, set()).add(replica.index)

    def raise_roles(self, roles: Iterable[str], *, whole_job: bool) -> None:
        """A new attempt of whole roles: what has succeeded or failed in the old one counts no longer."""
        for name in roles:
            self._roles[name] = RoleAttempts(all=_next(self._settled(name)))
            self._pods.pop(name, None)
            self._replaced.pop(name, None)
            self._failed.pop(name, None)
        self._job += whole_job

    def fail(self, replica: Replica) -> None:
        """Failed for good in this attempt."""
        failed = self._failed.get(replica.role)
        if failed is None:
            failed = self._failed[replica.role] = set(parse_indices(self._attempts(replica.role).failed, MAX_INDEX))
        failed.add(replica.index)

    def status(self) -> JobStatus:
        roles = dict(self._roles)
        for name in sorted({*self._pods, *self._failed}):
            roles[name] = self._settled(name)
        return self._status.model_copy(
            update={
                "attempts": Attempts(job=self._job, roles=roles),
                "restart_counts": {n: RestartCounts.model_validate(c) for n, c in self._counts.items()},
            }
        )

    def _attempts(self, role: str) -> RoleAttempts:
        return self._roles.get(role, RoleAttempts())

    def _settled(self, role: str) -> RoleAttempts:
        update: dict[str, object] = {}
        if role in self._pods:
            update["pods"] = self._pods[role]
        if role in self._replaced and (ran := self._attempts(role).ran):
            update["ran"] = format_indices(parse_indices(ran, MAX_INDEX) - self._replaced[role])
        if role in self._failed:
            update["failed"] = format_indices(self._failed[role])
        return self._attempts(role).model_copy(update=update)


def _next(old: RoleAttempts) -> int:
    return old.all + max(old.pods.values(), default=0) + 1


def record_succeeded(status: JobStatus, views: Mapping[str, RoleView]) -> JobStatus:
    """Write down what has succeeded before any of its pods may go: a success is never run again. Indices above the
    present number of replicas stay: who scales down and up again finds them done."""
    roles = dict(status.attempts.roles)
    for name, view in views.items():
        done = view.indices("succeeded")
        if not done:
            continue
        old = roles.get(name, RoleAttempts())
        text = format_indices(done | parse_indices(old.completed, MAX_INDEX))
        if old.completed != text:
            roles[name] = old.model_copy(update={"completed": text})
    if roles == status.attempts.roles:
        return status
    return status.model_copy(update={"attempts": Attempts(job=status.attempts.job, roles=roles)})


def record_running(status: JobStatus, views: Mapping[str, RoleView], phase: Phase) -> JobStatus:
    """Write down whose pod has run, so that one that vanishes unseen is known from one that was never made. A job that is
    Running needs no list: all have."""
    roles = dict(status.attempts.roles)
    for name, view in views.items():
        if view.role.workload != "Pod":
            continue  # whoever keeps them knows
        old = roles.get(name, RoleAttempts())
        before = parse_indices(old.ran, MAX_INDEX)
        there = (
            r.index
            for r in view.replicas
            if r.state == "running" or (r.index in before and r.state in ("scheduled", "lost"))
        )
        text = "" if phase == "Running" else format_indices(there)
        if old.ran != text:
            roles[name] = old.model_copy(update={"ran": text})
            if roles[name] == RoleAttempts():  # it says nothing: the same status, by whichever way a job came to run
                del roles[name]
    if roles == status.attempts.roles:
        return status
    return status.model_copy(update={"attempts": Attempts(job=status.attempts.job, roles=roles)})


def raise_for_suspend(status: JobStatus, views: Mapping[str, RoleView]) -> JobStatus:
    """Begin a new attempt of every role that has pods, counted as nobody's failure: pods that are still going when the job
    is resumed are then not taken for deleted by a user. What has succeeded or failed for good stays so."""
    roles = dict(status.attempts.roles)
    for name, view in views.items():
        if view.surplus or view.others or any(r.pod is not None for r in view.replicas):
            old = view.attempts
            roles[name] = RoleAttempts(all=_next(old), completed=old.completed, failed=old.failed)
    return status.model_copy(update={"attempts": Attempts(job=status.attempts.job, roles=roles)})
