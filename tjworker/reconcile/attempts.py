"""Attempts: restarts, successes and final failures as data in the status. Pure.

A pass may raise the attempts of thousands of pods. So a `Draft` collects the decisions of a pass and makes the new
status once. `policies.restart_failed` decides whether a restart is due.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Literal

from tjworker.api.indices import MAX_INDEX, format_indices, group_indices, parse_indices, ungroup_indices
from tjworker.api.progress import without_percentage
from tjworker.api.status import Cause, JobStatus, Phase, RestartCounts, RoleAttempts
from tjworker.api.timefmt import to_rfc3339, unix_seconds
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
"""How each field of RoleAttempts changes when its role begins a new attempt. A restart forgets results, a suspension
keeps them."""

Tally = Literal["crashes", "rejections", "resting", "vanished"]
"""Fields of RoleAttempts that hold a value per index."""


def new_attempt(old: RoleAttempts, *, keep_results: bool) -> RoleAttempts:
    fields = RoleAttempts.model_fields
    update = {
        name: fields[name].get_default(call_default_factory=True)
        for name, what in AT_A_NEW_ATTEMPT.items()
        if what == "forgotten" or (what == "a result" and not keep_results)
    }
    return old.model_copy(update={**update, "all": old.all + max(old.pods.values(), default=0) + 1})


def _with_roles(status: JobStatus, changed: Mapping[str, RoleAttempts], *, job: int = 0) -> JobStatus:
    """The status with these roles' attempts; the same object if nothing differs. Every change of attempts passes
    through this function. `job`: restarts of the whole job in this pass."""
    old = status.attempts
    # Leave out empty attempts: the status must not depend on the way by which the job came to run.
    roles = {n: a for n, a in {**old.roles, **changed}.items() if n not in changed or a != RoleAttempts()}
    if not job and roles == old.roles:
        return status
    return status.model_copy(update={"attempts": old.model_copy(update={"job": old.job + job, "roles": roles})})


class Draft:
    """The changes of one pass to `status.attempts` and `status.restartCounts`."""

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
        self._pruned: set[str] = set()
        """Roles without rests that are over."""

    def application_restarts(self, *roles: str) -> int:
        """Restarts so far for failures of the application, in these roles; without a name, in all roles."""
        counts = {**self._status.restart_counts, **self._counts}
        return sum(c.application for name, c in counts.items() if not roles or name in roles)

    def count(self, role: str, cause: Cause) -> None:
        old = self._counts.get(role) or self._status.restart_counts.get(role) or RestartCounts()
        self._counts[role] = old.model_copy(update={cause: getattr(old, cause) + 1})

    def raise_pod(self, replica: Replica) -> None:
        """Begin a new attempt of one replica."""
        # It ends the row of rejections, and the rest. So `turn_away` and `rest` must be called after it.
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
        """Begin a new attempt of whole roles. Successes and failures of the old attempt no longer count."""
        for name in roles:
            self._roles[name] = new_attempt(self.attempts(name), keep_results=False)
            self._tallies = {which: tally for which, tally in self._tallies.items() if which[0] != name}
            self._pods.pop(name, None)
            self._replaced.pop(name, None)
            self._unmade.pop(name, None)
            self._failed.pop(name, None)
        self._job += whole_job

    def turn_away(self, replica: Replica) -> int:
        """Begin a new attempt after a kubelet rejected the pod. Returns how many pods of the replica were rejected in a
        row before."""
        before = self._number(replica.role, "rejections", replica.index)
        self.raise_pod(replica)
        self._tally(replica.role, "rejections")[replica.index] = str(before + 1)
        return before

    def crash(self, replica: Replica, together: Collection[str], *, forget: bool) -> int:
        """Count one more failure of the program in a row. Returns how many there were before.

        `together`: the roles that restart with this replica; their failures count with its own. `forget`: the
        pod had run for long, so earlier failures no longer count."""
        crashes = self._tally(replica.role, "crashes")
        # If one rank after another crashes, each has crashed only once, but the job has restarted each time.
        places = [(role, index) for role in together for index in self._tally(role, "crashes")]
        places = places if together else [(replica.role, replica.index)]
        before = 0 if forget else sum(self._number(role, "crashes", index) for role, index in places)
        for role, index in places if forget else ():
            self._tally(role, "crashes").pop(index, None)
        crashes[replica.index] = str(self._number(replica.role, "crashes", replica.index) + 1)
        return before

    def vanish(self, replica: Replica) -> int:
        """Count one more pod in a row that vanished before it started. Returns how many there were before."""
        before = self._number(replica.role, "vanished", replica.index)
        self._tally(replica.role, "vanished")[replica.index] = str(before + 1)
        self._unmade.setdefault(replica.role, set()).add(replica.index)
        return before

    def rest(self, replica: Replica, until: int, now: float) -> None:
        """Let the replica rest until `until`, in Unix seconds."""
        resting = self._tally(replica.role, "resting")
        # Once a draft, as thousands of pods may fail together.
        if replica.role not in self._pruned:
            self._pruned.add(replica.role)
            # Forget rests that are over: each time would be a group of its own in the status.
            for index in [index for index, over in resting.items() if (unix_seconds(over) or 0) <= now]:
                del resting[index]
        resting[replica.index] = to_rfc3339(until)

    def _tally(self, role: str, what: Tally) -> dict[int, str]:
        if (role, what) not in self._tallies:
            self._tallies[role, what] = ungroup_indices(getattr(self._before(role), what), MAX_INDEX)
        return self._tallies[role, what]

    def _number(self, role: str, what: Tally, index: int) -> int:
        text = self._tally(role, what).get(index, "0")
        # A user who may edit the status may have written anything.
        return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0

    def fail(self, replica: Replica) -> None:
        """Mark the replica as finally failed in this attempt."""
        failed = self._failed.get(replica.role)
        if failed is None:
            failed = self._failed[replica.role] = set(parse_indices(self._before(replica.role).failed, MAX_INDEX))
        failed.add(replica.index)

    def attempts(self, role: str) -> RoleAttempts:
        """The role's attempts, with the changes of this draft so far."""
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
        """The new status; the same object if the draft is empty."""
        touched = {*self._pods, *self._failed, *(role for role, _ in self._tallies)}
        changed = {n: self.attempts(n) for n in (*self._roles, *sorted(touched))}
        status = _with_roles(self._status, changed, job=self._job)
        if self._roles:
            status = without_percentage(status)
        if not self._counts:
            return status
        return status.model_copy(update={"restart_counts": {**status.restart_counts, **self._counts}})

    def _before(self, role: str) -> RoleAttempts:
        """The role's attempts without this draft's changes to single replicas."""
        return self._roles.get(role) or self._status.attempts.roles.get(role, RoleAttempts())


_AT_REST_NO_MORE: Mapping[str, object] = {"rejections": {}, "resting": {}, "made": "", "vanished": {}}


def record_successes(p: Pass) -> Pass:
    """Write successes into the status before their pods may be deleted: a success is never run again."""
    # Indices above the present number of replicas stay: they are still done if the user scales up again.
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
    """Write into the status which pods have run, and which pods this pass creates (`made`). So a pod that vanishes
    between two passes differs from a pod that was never created."""
    changed = {}
    for name, view in views.items():
        old = status.attempts.roles.get(name, RoleAttempts())
        started = {"started": format_indices(view.started)} if view.role.elastic else {}
        if phase == "Running":
            # Every pod has run, so no list is needed.
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
                # A ReplicaSet or batch Job itself notices which of its pods have gone.
                "ran": format_indices((*run, *again)) if view.role.workload == "Pod" else old.ran,
                "made": format_indices(waiting),
                "vanished": group_indices({i: n for i, n in vanished.items() if i not in run}),
            }
        )
    return _with_roles(status, {name: new for name, new in changed.items() if new != status.attempts.roles.get(name)})


def forget_rests(status: JobStatus) -> JobStatus:
    """Remove the rests of a job that ends: no pod is replaced any more."""
    return _with_roles(
        status, {name: old.model_copy(update=_AT_REST_NO_MORE) for name, old in status.attempts.roles.items()}
    )


def raise_for_suspend(status: JobStatus, views: Mapping[str, RoleView]) -> JobStatus:
    """Begin a new attempt of every role that has pods. It counts as no failure, and keeps successes and final
    failures."""
    # Without it, pods that are still being deleted when the job is resumed would look deleted by a user.
    changed = {
        name: new_attempt(status.attempts.roles.get(name, RoleAttempts()), keep_results=True)
        for name, view in views.items()
        if view.surplus or view.others or any(r.pod is not None for r in view.replicas)
    }
    return without_percentage(_with_roles(status, changed)) if changed else status
