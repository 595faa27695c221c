"""Attempts: restarts, successes and final failures as data, and the draft of their next state. Pure.

A pass may raise thousands of pods at once, so a `Draft` collects what a pass decides and makes the new status in one
go. Nothing here says whether a restart is due: `policies.restart_failed` does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Literal

from tjworker.api.indices import MAX_INDEX, format_indices, group_indices, parse_indices, ungroup_indices
from tjworker.api.progress import without_percentage
from tjworker.api.status import Cause, JobStatus, Phase, RestartCounts, RoleAttempts
from tjworker.reconcile.one_pass import Pass
from tjworker.reconcile.replicas import Replica, RoleView

AT_A_NEW_ATTEMPT: Mapping[str, Literal["raised", "forgotten", "a result", "kept"]] = {
    "all": "raised",
    "pods": "forgotten",
    "ran": "forgotten",
    "started": "kept",
    "made": "forgotten",
    "vanished": "forgotten",
    "completed": "a result",
    "failed": "a result",
    "crashes": "kept",
    "rejections": "forgotten",
    "resting": "forgotten",
}
"""What becomes of each field of RoleAttempts when its role begins anew. A restart forgets results, a suspension does
not."""


Tally = Literal["crashes", "rejections", "resting", "vanished"]
"""Fields of RoleAttempts that say something of each index."""


def new_attempt(old: RoleAttempts, *, keep_results: bool) -> RoleAttempts:
    fields = RoleAttempts.model_fields
    update = {
        name: fields[name].get_default(call_default_factory=True)
        for name, what in AT_A_NEW_ATTEMPT.items()
        if what == "forgotten" or (what == "a result" and not keep_results)
    }
    return old.model_copy(update={**update, "all": old.all + max(old.pods.values(), default=0) + 1})


def _with_roles(status: JobStatus, changed: Mapping[str, RoleAttempts], *, job: int = 0) -> JobStatus:
    """Every change of a role's attempts comes through here; the same status where none differs. `job`: restarts of the
    whole job in this pass."""
    old = status.attempts
    # Attempts that say nothing are left out: the same status, by whichever way a job came to run.
    roles = {n: a for n, a in {**old.roles, **changed}.items() if n not in changed or a != RoleAttempts()}
    if not job and roles == old.roles:
        return status
    return status.model_copy(update={"attempts": old.model_copy(update={"job": old.job + job, "roles": roles})})


class Draft:
    """What one pass changes in `status.attempts` and `status.restartCounts`."""

    def __init__(self, status: JobStatus) -> None:
        self._status = status
        self._roles: dict[str, RoleAttempts] = {}
        self._job = 0
        self._pods: dict[str, dict[str, int]] = {}
        self._failed: dict[str, set[int]] = {}
        self._replaced: dict[str, set[int]] = {}
        self._unmade: dict[str, set[int]] = {}
        self._counts: dict[str, RestartCounts] = {}
        self._tallies: dict[tuple[str, Tally], dict[int, str]] = {}

    def application_restarts(self, *roles: str) -> int:
        """Restarts for the application's own failures so far: those of these roles, or without a name of all."""
        counts = {**self._status.restart_counts, **self._counts}
        return sum(c.application for name, c in counts.items() if not roles or name in roles)

    def count(self, role: str, cause: Cause) -> None:
        old = self._counts.get(role) or self._status.restart_counts.get(role) or RestartCounts()
        self._counts[role] = old.model_copy(update={cause: getattr(old, cause) + 1})

    def raise_pod(self, replica: Replica) -> None:
        """What its kubelets have turned away in a row ends here, and its rest: `turn_away` and `rest` come after."""
        for what in ("rejections", "resting"):
            self._tally(replica.role, what).pop(replica.index, None)
        pods = self._pods.get(replica.role)
        if pods is None:
            pods = self._pods[replica.role] = dict(self._before(replica.role).pods)
        key = str(replica.index)
        pods[key] = pods.get(key, 0) + 1
        self._replaced.setdefault(replica.role, set()).add(replica.index)
        self._unmade.setdefault(replica.role, set()).add(replica.index)

    def raise_roles(self, roles: Iterable[str], *, whole_job: bool) -> None:
        """A new attempt of whole roles: what has succeeded or failed in the old one counts no longer."""
        for name in roles:
            self._roles[name] = new_attempt(self.attempts(name), keep_results=False)
            self._tallies = {which: tally for which, tally in self._tallies.items() if which[0] != name}
            self._pods.pop(name, None)
            self._replaced.pop(name, None)
            self._unmade.pop(name, None)
            self._failed.pop(name, None)
        self._job += whole_job

    def turn_away(self, replica: Replica) -> int:
        """Raise it for a pod that never started. Returns how many of its pods in a row had been turned away before."""
        before = self._number(replica.role, "rejections", replica.index)
        self.raise_pod(replica)
        self._tally(replica.role, "rejections")[replica.index] = str(before + 1)
        return before

    def crash(self, replica: Replica, together: Collection[str], *, anew: bool) -> int:
        """One more failure of the program in a row. `together`: the roles that begin anew with this replica, whose
        failures count with its own. `anew`: it had run for long, so what was before does not count. Returns how many
        there were before."""
        mine = self._tally(replica.role, "crashes")
        places = [(role, index) for role in together for index in self._tally(role, "crashes")]
        places = places if together else [(replica.role, replica.index)]
        before = 0 if anew else sum(self._number(role, "crashes", index) for role, index in places)
        for role, index in places if anew else ():
            self._tally(role, "crashes").pop(index, None)
        mine[replica.index] = str(self._number(replica.role, "crashes", replica.index) + 1)
        return before

    def vanish(self, replica: Replica) -> int:
        """One more of its pods in a row has gone before it started. Returns how many there were before."""
        before = self._number(replica.role, "vanished", replica.index)
        self._tally(replica.role, "vanished")[replica.index] = str(before + 1)
        self._unmade.setdefault(replica.role, set()).add(replica.index)
        return before

    def rest(self, replica: Replica, until: str, at: str) -> None:
        """Those of its role that have rested by now (`at`) are forgotten: each would be a group of its own."""
        resting = self._tally(replica.role, "resting")
        for index in [index for index, over in resting.items() if over <= at]:
            del resting[index]
        resting[replica.index] = until

    def _tally(self, role: str, what: Tally) -> dict[int, str]:
        if (role, what) not in self._tallies:
            self._tallies[role, what] = ungroup_indices(getattr(self._before(role), what), MAX_INDEX)
        return self._tallies[role, what]

    def _number(self, role: str, what: Tally, index: int) -> int:
        text = self._tally(role, what).get(index, "0")
        return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0

    def fail(self, replica: Replica) -> None:
        """Failed for good in this attempt."""
        failed = self._failed.get(replica.role)
        if failed is None:
            failed = self._failed[replica.role] = set(parse_indices(self._before(replica.role).failed, MAX_INDEX))
        failed.add(replica.index)

    def attempts(self, role: str) -> RoleAttempts:
        """Of a role, with what this draft has changed so far."""
        old = self._before(role)
        update: dict[str, object] = {}
        if role in self._pods:
            update["pods"] = dict(self._pods[role])
        if role in self._replaced and old.ran:
            update["ran"] = format_indices(parse_indices(old.ran, MAX_INDEX) - self._replaced[role])
        if role in self._unmade and old.made:
            update["made"] = format_indices(parse_indices(old.made, MAX_INDEX) - self._unmade[role])
        update |= {what: group_indices(tally) for (of, what), tally in self._tallies.items() if of == role}
        if role in self._failed:
            update["failed"] = format_indices(self._failed[role])
        return old.model_copy(update=update) if update else old

    def status(self) -> JobStatus:
        """The same status where nothing was decided."""
        touched = {*self._pods, *self._failed, *(role for role, _ in self._tallies)}
        changed = {n: self.attempts(n) for n in (*self._roles, *sorted(touched))}
        status = _with_roles(self._status, changed, job=self._job)
        if self._roles:
            status = without_percentage(status)
        if not self._counts:
            return status
        return status.model_copy(update={"restart_counts": {**status.restart_counts, **self._counts}})

    def _before(self, role: str) -> RoleAttempts:
        """Without the pods of this draft."""
        return self._roles.get(role) or self._status.attempts.roles.get(role, RoleAttempts())


_AT_REST_NO_MORE: Mapping[str, object] = {"rejections": {}, "resting": {}, "made": "", "vanished": {}}


def record_successes(p: Pass) -> Pass:
    """Write down what has succeeded before any of its pods may go: a success is never run again. Indices above the
    present number of replicas stay: who scales down and up again finds them done."""
    changed = {}
    for name, view in p.roles.items():
        done = view.indices("succeeded")
        if done:
            done |= parse_indices(view.attempts.completed, MAX_INDEX)
            changed[name] = view.attempts.model_copy(update={"completed": format_indices(done)})
    return p.with_status(_with_roles(p.status, changed))


def record_running(
    status: JobStatus, views: Mapping[str, RoleView], phase: Phase, made: Mapping[str, Collection[int]]
) -> JobStatus:
    """Write down whose pod has run, and whose is made by this pass (`made`): one that vanishes unseen then differs from
    one that was never made. A job that is Running needs no list: all have. A ReplicaSet or batch Job knows by itself
    which of its pods are gone, but not those that were made in its name."""
    changed = {}
    for name, view in views.items():
        old = status.attempts.roles.get(name, RoleAttempts())
        started = {"started": format_indices(view.started)} if view.role.elastic else {}
        if phase == "Running":
            changed[name] = old.model_copy(update={"ran": "", **started, **_AT_REST_NO_MORE})
            continue
        run = view.indices("running")
        before = parse_indices(old.ran, MAX_INDEX)
        again = (r.index for r in view.replicas if r.index in before and r.state in ("scheduled", "lost"))
        waiting = {i for i in parse_indices(old.made, view.role.replicas) if i not in run} | set(made.get(name, ()))
        vanished = ungroup_indices(old.vanished, MAX_INDEX)
        changed[name] = old.model_copy(
            update={
                **started,
                "ran": format_indices((*run, *again)) if view.role.workload == "Pod" else old.ran,
                "made": format_indices(waiting),
                "vanished": group_indices({i: n for i, n in vanished.items() if i not in run}),
            }
        )
    return _with_roles(status, {name: new for name, new in changed.items() if new != status.attempts.roles.get(name)})


def forget_rests(status: JobStatus) -> JobStatus:
    """Of a job that ends: nothing is replaced any more."""
    return _with_roles(
        status, {name: old.model_copy(update=_AT_REST_NO_MORE) for name, old in status.attempts.roles.items()}
    )


def raise_for_suspend(status: JobStatus, views: Mapping[str, RoleView]) -> JobStatus:
    """Begin a new attempt of every role that has pods, which counts as no failure: pods that are still going when the
    job is resumed then do not look deleted by a user. What has succeeded or failed for good stays so."""
    changed = {
        name: new_attempt(status.attempts.roles.get(name, RoleAttempts()), keep_results=True)
        for name, view in views.items()
        if view.surplus or view.others or any(r.pod is not None for r in view.replicas)
    }
    return without_percentage(_with_roles(status, changed)) if changed else status
