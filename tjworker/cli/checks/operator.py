"""The operator's own processes, as far as Redis and the cluster show them: who leads, is the projection whole, does the
queue move, do workers answer, does beat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from tjworker.api.resources import LEASES
from tjworker.base import JobKey, OperatorError
from tjworker.cli.alive import Consumed, idlers
from tjworker.cli.checks.check import Check, Subject
from tjworker.cli.rows import parse_time, queue_line
from tjworker.clock import TOLERANCE_SECONDS
from tjworker.kube.client import KubeClient
from tjworker.kube.rbac import NAMESPACE
from tjworker.scope import PART_OF, Scope, scope_of_lease
from tjworker.settings import Settings, turn_seconds
from tjworker.store.keys import BY_NAME
from tjworker.store.projection import Projection
from tjworker.store.work_queue import QueueStats

SUBJECT = Subject("operator")
OLD_SECONDS = 60.0
"""A key that has waited for longer than two resyncs is waiting for a worker that is not there."""
PINGS = 3
START_WATCHER = "start `python -m watcher` and read its log; with `tj up` that is watcher.log"


def others(api: KubeClient, settings: Settings, now: datetime) -> Iterator[Check]:
    """Checks that no other operator of this cluster serves the same namespaces, and that another one serves those that
    this one excludes. Each operator's Lease names its namespaces."""
    name = "namespaces"
    try:
        leases = api.list_all(LEASES, label_selector=",".join(f"{key}={value}" for key, value in PART_OF.items()))
        found = {place: scope for lease in leases for place, scope in _leads(lease, now)}
    except OperatorError as error:
        yield SUBJECT.skipped(name, f"whether another operator serves them is unknown: {error.message}")
        return
    # Outside of the cluster neither the namespace of the own Lease nor the operator's settings need be known.
    named = settings.leader_namespace or settings.own_namespace
    places = [f"{place}/{settings.key_prefix}-watcher" for place in ([named] if named else ["default", NAMESPACE])]
    own = next((place for place in places if place in found), "")
    # The Lease says which namespaces the running operator serves. The settings here may be those of a user's shell.
    mine = found.pop(own, settings.scope)
    scopes = dict(sorted(found.items()))
    shared = {place: both for place, scope in scopes.items() if (both := mine.common(scope)) is not None}
    for place, both in shared.items():
        yield SUBJECT.warning(
            name,
            f"the operator of Lease {place} serves {both}, and so does this one",
            "exclude them here (TJ_NAMESPACES_EXCLUDED), or remove them from one of the two lists (TJ_NAMESPACES): both"
            " operators do the same work for each job there",
        )
    if not shared:
        served = f"serves {mine}" + "".join(f"; Lease {place} serves {scope}" for place, scope in scopes.items())
        left = [one for one in mine.excluded if not any(scope.serves(one) for scope in scopes.values())]
        yield SUBJECT.ok(name, served + (f"; no operator serves {', '.join(left)}" if left else ""))


def _leads(lease: Mapping[str, Any], now: datetime) -> Iterator[tuple[str, Scope]]:
    """(namespace/name, what is served) of a watcher's Lease that is held; nothing for any other."""
    meta, spec = lease["metadata"], lease.get("spec") or {}
    scope, renewed = scope_of_lease(meta.get("annotations") or {}), parse_time(str(spec.get("renewTime") or ""))
    # Longer than the Lease lasts: while watchers change, it is not renewed for a moment, and its operator is there.
    lasts_seconds = max(OLD_SECONDS, float(spec.get("leaseDurationSeconds") or 0))
    if scope is None or renewed is None or not spec.get("holderIdentity"):
        return
    if (now - renewed).total_seconds() <= lasts_seconds:
        yield f"{meta['namespace']}/{meta['name']}", scope


def leader(api: KubeClient, settings: Settings, now: datetime) -> Check:
    """`now` is the API server's."""
    name = f"{settings.key_prefix}-watcher"
    if not settings.leader_elect:
        return SUBJECT.skipped("watcher leads", "TJ_LEADER_ELECT is off: there is no Lease to look at")
    named = settings.leader_namespace or settings.own_namespace
    places = [named] if named else ["default", NAMESPACE]
    try:
        found = [(place, lease) for place in places if (lease := api.get(LEASES, place, name)) is not None]
    except OperatorError as error:
        return SUBJECT.skipped("watcher leads", f"the Lease cannot be read: {error.message}")
    if not found:
        return SUBJECT.failed("watcher leads", f"there is no Lease {name} in {' or '.join(places)}", START_WATCHER)

    def age_seconds(lease: Mapping[str, Any]) -> float:
        renewed = parse_time(str((lease.get("spec") or {}).get("renewTime") or ""))
        return (now - renewed).total_seconds() if renewed else float("inf")

    # An earlier installation may have left its Lease in the other namespace: the younger is that of the watcher that
    # runs.
    place, lease = min(found, key=lambda pair: age_seconds(pair[1]))
    spec = lease.get("spec") or {}
    holder, duration_seconds = spec.get("holderIdentity") or "", float(spec.get("leaseDurationSeconds") or 15)
    where = f"Lease {place}/{name}"
    # A watcher that ends in order empties the holder, as client-go's LeaderElector does with ReleaseOnCancel.
    if not holder:
        return SUBJECT.failed("watcher leads", f"{where} was given back: no watcher runs", START_WATCHER)
    # The server's clock is read in whole seconds, and a renewal may be under way.
    if (age := age_seconds(lease)) > duration_seconds + 2:
        late = f"{holder} has not renewed it for {age:.0f} s (it lasts {duration_seconds:.0f} s)"
        return SUBJECT.failed("watcher leads", f"{where}: {late}", START_WATCHER)
    return SUBJECT.ok("watcher leads", f"{holder} holds {where}, renewed {max(0.0, age):.0f} s ago")


def projection(projection: Projection) -> Check:
    if projection.checkpoint().synced:
        return SUBJECT.ok("projection", "is whole: every list has been projected")
    # Every view says whether its job may be decided on, also the view of a job that does not exist.
    if projection.view(JobKey("aitrainingjobs.elasticdeeplearning.ai/default/-")).synced:
        return SUBJECT.warning(
            "projection",
            "lacks only the end of the lists of jobs: workers decide on each job once it was listed",
            "wait: with 50,000 finished jobs it takes ten seconds or more; until then nothing is autoscaled",
        )
    return SUBJECT.failed(
        "projection",
        "is not whole: workers wait until the watcher has listed everything",
        "wait some seconds after a start; else read the watcher's log, or ask its /readyz what it waits for",
    )


def work_queue(stats: QueueStats) -> Check:
    detail = queue_line(stats)
    if stats.queued and stats.oldest_seconds > OLD_SECONDS:
        return SUBJECT.failed(
            "work queue",
            f"{detail}; the oldest has waited for {stats.oldest_seconds:.0f} s",
            "start more workers, and check whether those that run are stuck (their log, Flower)",
        )
    if stats.failing:
        return SUBJECT.warning("work queue", detail, "read a worker's log: each failed pass is one line with its job")
    return SUBJECT.ok("work queue", detail)


def workers(ask: Callable[[], Consumed], queue: str) -> Check:
    """Asks up to PINGS times: a busy worker, or one on a busy machine, may not answer at first."""
    asked = (ask() for _ in range(PINGS))
    # On a busy machine the loop of a worker may turn too late for the second that a question waits.
    consumed = next((found for found in asked if found), {})
    names = sorted(consumed)
    if not names:
        return SUBJECT.failed(
            "workers",
            "none answers",
            "start `celery -A tjworker.app worker` with the same TJ_REDIS_URL and TJ_KEY_PREFIX",
        )
    if idle := idlers(consumed, queue):
        return SUBJECT.failed(
            "workers",
            f"{_some(idle)} answer{'s' if len(idle) == 1 else ''} and take{'s' if len(idle) == 1 else ''} no task: "
            f"the queue {queue} is not consumed",
            "restart them; a client of Redis may have made them stop (check who may write to Redis)",
        )
    return SUBJECT.ok("workers", f"{len(names)} answer{'s' if len(names) == 1 else ''}: {_some(names)}")


def clocks(ask: Callable[[], Sequence[Mapping[str, Mapping[str, float]]]], shared: Callable[[], float]) -> Check:
    """`ask`: what each worker's machine says the time is, as Celery's broadcast of `wall_clock` answers; `shared`:
    Redis' time. Both in Unix seconds."""
    before = shared()
    clock = {name: answer.get("seconds", 0.0) for answers in ask() for name, answer in answers.items()}
    after = shared()
    # A worker has answered at some time between the two readings.
    ahead = {name: max(seconds - after, 0.0) + min(seconds - before, 0.0) for name, seconds in sorted(clock.items())}
    each = [
        f"{name} {abs(seconds):.0f} s {'ahead' if seconds > 0 else 'behind'}"
        for name, seconds in ahead.items()
        if abs(seconds) > TOLERANCE_SECONDS
    ]
    if not each:
        return SUBJECT.ok("clocks", "those of the workers that answer agree with Redis'")
    return SUBJECT.warning(
        "clocks",
        f"compared with Redis': {_some(each)}",
        "run NTP on these machines; no time limit rests on their clocks",
    )


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def beat(settings: Settings, exists: Callable[[str], bool]) -> Check:
    """Beat leaves no address; what its resync takes for its period does. Neither key is there all the time, but one
    is."""
    once = BY_NAME["once"]
    if exists(once.of(settings.key_prefix, "resync")):
        return SUBJECT.ok("beat", f"a resync ran in the last {turn_seconds(settings.resync_seconds):.0f} s")
    if exists(once.of(settings.key_prefix, "full-resync")):
        return SUBJECT.ok("beat", f"a resync ran in the last {settings.full_resync_seconds:.0f} s")
    return SUBJECT.warning(
        "beat",
        "no resync has run of late",
        f"wait {settings.resync_seconds:.0f} s after a start and ask again; else start `celery -A tjworker.app beat`",
    )
