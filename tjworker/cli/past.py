"""Jobs that are gone, as `describe`, `timeline` and the page show those that are there: out of the history. Pure but
for `open_store` and what uses it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

from tjworker.api.kinds import KNOWN_KINDS
from tjworker.api.model import TrainingJob
from tjworker.base import GroupResource, Json, OperatorError, printable
from tjworker.cli import narrative, rows
from tjworker.cli.chart import Chart, chart
from tjworker.cli.errors import NoSuchJob, UserError
from tjworker.cli.happenings import Happening
from tjworker.cli.jobs import FoundJob, readable
from tjworker.cli.narrative import Section
from tjworker.history.records import DELETION_AT, GONE_AT, Story, Summary, deletion_time, ended_by_signal, was_killed

if TYPE_CHECKING:
    from tjworker.history.store import HistoryStore

HEADER = ("NAME", "KIND", "PHASE", "RESTARTS", "CREATED", "ENDED", "DELETED")
SAME_MOMENT_SECONDS = 30.0
"""Pods that went so shortly before their job went with it."""
COLLECT_SECONDS = 5.0
"""In so long the garbage collector asks all pods of a deleted job to go."""
SETTLE_SECONDS = 3.0
"""So long after the deletion of a job the history may lack it, and its pods, which are written when they are gone."""
_LOOK_EVERY_SECONDS = 0.2


@dataclass(frozen=True)
class Past:
    """A job as it was when it ended, or when it was deleted."""

    summary: Summary
    raw: Json
    job: TrainingJob | None
    """None: its object cannot be read, or was never seen."""
    pods: tuple[Json, ...]
    seen: tuple[Happening, ...]
    at: datetime
    """The time that its texts are true of."""

    def sections(self) -> list[Section]:
        """The text of `tj describe`."""
        said = self._heading()
        if self.job is None:
            return [narrative.Section("", (*said, *filter(None, [printable(self.summary.message)])))]
        first, *others = narrative.describe(self.job, self._there(), self.seen, self.at, notes=self.missing_pods())
        return [narrative.Section("", (*said, *first.lines)), *others]

    def missing_pods(self) -> Iterator[str]:
        """Report roles with fewer running pods in the history than in the status. The history writes pods when they are
        gone, after their job, and keeps a limited number of them."""
        if self.job is None or self.job.status.ended or not self.summary.deleted_at:
            return
        there = self._there()
        for role in self.job.roles:
            said, has = self.job.status.replica_statuses.get(role.name), narrative.running(there, role)
            if said is not None and has < said.active:
                yield f"! The status says that {said.active} of {role.name} ran; the history has {has} of these pods."

    def chart(self) -> Chart | None:
        if self.job is None:
            return None
        drawn = chart(self.job, self.pods_then(), self.seen, self.at)
        then = " when it was deleted" if self.summary.deleted_at else ""
        return replace(drawn, title=f"{drawn.title.removesuffix(' now')}{then}")

    def _heading(self) -> tuple[str, ...]:
        one = self.summary
        gone = f"deleted at {one.deleted_at}" if one.deleted_at else f"ended at {one.ended_at}"
        if not one.at:
            gone = "not among the jobs that you may see, and the history has no end of it"
        return (f"{one.kind or one.resource} {one.name} in namespace {one.namespace}: {gone}. As of then:",)

    def pods_then(self) -> list[Json]:
        """A pod that was killed because somebody deleted it, or its job, ran until then: that it failed is no news."""
        return [_running(pod) if was_killed(pod) or self._went_with_it(pod) else pod for pod in self.pods]

    def settles(self, now: datetime) -> bool:
        """True if the historian may still write the last events of this job."""
        if not self.summary.at:
            return True
        return abs((now - self.at).total_seconds()) < SETTLE_SECONDS and any(self.missing_pods())

    def _there(self) -> list[Json]:
        return [_without_gone_at(pod) for pod in _newest_by_name(self.pods_then()) if self._was_there(pod)]

    def _went_with_it(self, pod: Json) -> bool:
        ended = [state for one in _containers(pod) if (state := (one.get("state") or {}).get("terminated"))]
        at = max(filter(None, (rows.parse_time(state.get("finishedAt")) for state in ended)), default=None)
        if at is None or at >= self._deletion_time:
            return at is not None
        # The watcher sees a deletion a moment after the kubelet has begun to kill.
        killed = all(map(ended_by_signal, ended))
        soon = (self._deletion_time - at).total_seconds() < SAME_MOMENT_SECONDS
        return bool(self.summary.deleted_at) and killed and soon

    def _was_there(self, pod: Json) -> bool:
        requested = rows.parse_time(deletion_time(pod))
        if requested is not None and (not self.summary.deleted_at or self._before_the_job(requested)):
            return False  # before the job went: at its end, or to make room for another pod
        gone = rows.parse_time(pod["metadata"].get(GONE_AT))
        return gone is None or (self._deletion_time - gone).total_seconds() < SAME_MOMENT_SECONDS

    def _before_the_job(self, requested: datetime) -> bool:
        early_seconds = (self._deletion_time - requested).total_seconds()
        return early_seconds > (COLLECT_SECONDS if self._was_collected else 0)

    @cached_property
    def _deletion_time(self) -> datetime:
        """When the job was deleted, as near as the history knows. Deleted in the foreground, a job goes after its pods,
        which may take their grace period. In the background it goes first, and the watcher may see that late: then
        the garbage collector's last request to a pod is nearer."""
        if not self._was_collected:
            return self._deletion_requested or self.at
        requests = (rows.parse_time(deletion_time(pod)) for pod in self.pods)
        last = max(filter(None, requests), default=self.at)
        heard_late = 0 < (self.at - last).total_seconds() < SAME_MOMENT_SECONDS
        return last if heard_late else self.at

    @cached_property
    def _was_collected(self) -> bool:
        """The garbage collector asked its pods to go, after the job was deleted. In the foreground a job waits for its
        pods, and at its end they are deleted before it."""
        return bool(self.summary.deleted_at) and not self.summary.ended_at and self._deletion_requested is None

    @property
    def _deletion_requested(self) -> datetime | None:
        return rows.parse_time((self.raw.get("metadata") or {}).get("deletionTimestamp"))


def past(story: Story) -> Past:
    one = story.summary
    known = bool(story.job) and one.resource in KNOWN_KINDS
    model = readable(FoundJob(GroupResource(one.resource), dict(story.job)))[0] if known else None
    about = f"{one.kind.lower()}/{one.name}"
    seen = [Happening(m.at, m.at, 1, "Normal", m.phase, about, m.message) for m in story.moments]
    at = rows.parse_time(one.deleted_at or one.ended_at) or rows.utc_now()
    return Past(one, story.job, model, story.pods, tuple(seen), at)


def _newest_by_name(pods: Sequence[Json]) -> list[Json]:
    """Without pods that a pod of the same name has replaced."""
    # A dict keeps the last value of a key, so the youngest pod of each name remains.
    by_age = sorted(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp")))
    newest = {pod["metadata"]["name"]: pod for pod in by_age}
    return [pod for pod in pods if newest[pod["metadata"]["name"]] is pod]


def _containers(pod: Json) -> Sequence[Json]:
    return pod["status"].get("containerStatuses") or ()


def _running(pod: Json) -> Json:
    containers = []
    for one in _containers(pod):
        ended = (one.get("state") or {}).get("terminated") or {}
        containers.append({**one, "state": {"running": {"startedAt": ended.get("startedAt")}}} if ended else one)
    return {**pod, "status": {**pod["status"], "phase": "Running", "reason": "", "containerStatuses": containers}}


def _without_gone_at(pod: Json) -> Json:
    return {
        **pod,
        "metadata": {name: value for name, value in pod["metadata"].items() if name not in (GONE_AT, DELETION_AT)},
    }


def row(one: Summary, now: datetime) -> tuple[str, ...]:
    return (
        printable(one.name),
        printable(one.kind),
        printable(one.phase) or "<none>",
        str(one.restarts),
        f"{rows.age(one.created_at, now)} ago",
        f"{rows.age(one.ended_at, now)} ago" if one.ended_at else "-",
        f"{rows.age(one.deleted_at, now)} ago" if one.deleted_at else "-",
    )


@contextmanager
def open_store() -> Iterator[HistoryStore]:
    """The history of the cluster that the user means. Raises UserError where it is off."""
    from tjworker.cli.cluster import settings_here
    from tjworker.history.open import open_history

    store = open_history(settings_here())
    if store is None:
        raise UserError("the history is off (TJ_HISTORY_JOBS=0): of jobs that are gone nothing is known")
    try:
        yield store
    finally:
        store.close()


def past_instead(namespace: str, wanted: str, error: NoSuchJob) -> Past:
    """The job of that name in the history. Raises `error`, with a note on the history, if there is none or the history
    does not answer."""
    try:
        found = read_past(namespace, wanted)
    except (OperatorError, UserError) as why:
        cause = why.message if isinstance(why, OperatorError) else str(why)
        raise UserError(f"{error}; the history of deleted jobs cannot be read: {cause}") from None
    if found is None:
        raise UserError(f"{error}; the history of deleted jobs has none of that name either") from None
    return found


def read_past(namespace: str, wanted: str) -> Past | None:
    """The last job of that name in the history, None without one. `wanted`: `NAME` or `KIND/NAME`. Waits up to
    SETTLE_SECONDS for what the history lacks of a job that was deleted just now. Raises OperatorError when the history
    cannot be asked."""
    from tjworker.api.kinds import find_kinds
    from tjworker.history.store import find

    kind, _, name = wanted.rpartition("/")
    resources: Sequence[str] = [str(one.resource) for one in find_kinds(kind)] if kind else [""]
    with open_store() as store:
        summaries = store.summaries()
        found = next((one for r in resources if (one := find(summaries, namespace, name, r)) is not None), None)
        if found is None:
            return None
        deadline = time.monotonic() + SETTLE_SECONDS
        while True:
            story = store.story(found.namespace, found.uid)
            if story is None:
                return None
            job = past(story)
            if not job.settles(rows.utc_now()) or time.monotonic() > deadline:
                return job
            time.sleep(_LOOK_EVERY_SECONDS)
