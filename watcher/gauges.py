"""The gauges of the whole operator. Only the leading watcher exports them, and reads them at each scrape.

A standby exports only that it does not lead, so that a cluster has each value once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping

from tjworker.api.kinds import KINDS, KNOWN_KINDS
from tjworker.api.node_requests import NOTHING, WAITING, NodeRequests, decode_node_requests
from tjworker.api.observed import NodeRecord
from tjworker.api.quantity import milli, whole
from tjworker.api.records_json import decode
from tjworker.api.resources import NODES
from tjworker.api.status import END_PHASES
from tjworker.base import GroupResource, Transient, parse_key
from tjworker.store.port import Store
from tjworker.store.projection import ClusterView
from tjworker.telemetry import metrics
from tjworker.telemetry.metrics import Sample
from watcher.books import EachJob, JobCounts
from watcher.health import WatcherReport

NEW = "New"
UNWATCHED = frozenset({"missing", "forbidden", "starting"})
"""States of a source without a watch: its kind is not installed, or may not be listed."""
UNITS = {"cpu": "core", "memory": "byte"}


class Gauges:
    """`most_jobs`: how many jobs have series of their own; 0 for none."""

    def __init__(
        self,
        store: Store,
        report: Callable[[], WatcherReport],
        jobs: Callable[[], JobCounts],
        each_job: Callable[[], EachJob] = dict,
        most_jobs: int = 0,
    ) -> None:
        self._store = store
        self._report = report
        self._jobs = jobs
        self._each_job = each_job
        self._most_jobs = most_jobs
        self._certificate_ends: float | None = None

    def samples(self) -> Iterator[Sample]:
        """The present values. While Redis is away, its part consists of `STORE_UP` 0 and the last known end of its
        certificate."""
        report = self._report()
        yield metrics.LEADING, {}, report.leading
        if not report.leading:
            return
        yield metrics.SYNCED, {}, report.synced
        yield from _read_watches(report)
        for (resource, phase), count in self._jobs().items():
            kind = KINDS[resource].kind if resource in KINDS else resource
            yield metrics.JOBS, {"kind": kind, "phase": phase or NEW}, count
        if self._most_jobs:
            yield from _read_jobs(self._each_job(), self._most_jobs)
        yield metrics.STORE_FULL, {}, report.store_full
        try:
            # The writer knows already that Redis is away: a scrape must not wait for it.
            if report.store_away:
                raise Transient("Redis is away")
            stats, cluster = self._store.queue.stats(), self._store.projection.cluster()
            ends = self._store.maintenance.certificate_ends()
        except Transient:
            # An expired certificate makes Redis unreachable. The alert about the certificate must then continue.
            if self._certificate_ends is not None:
                yield metrics.CERTIFICATE_ENDS, {}, self._certificate_ends
            yield metrics.STORE_UP, {}, 0
            return
        yield metrics.STORE_UP, {}, 1
        self._certificate_ends = ends
        if ends is not None:
            yield metrics.CERTIFICATE_ENDS, {}, ends
        for state in ("queued", "delayed", "running", "failing"):
            yield metrics.QUEUE, {"state": state}, getattr(stats, state)
        yield metrics.QUEUE_AGE, {}, stats.oldest_seconds
        if cluster.synced:
            yield from _read_cluster(cluster)


def _read_jobs(jobs: EachJob, most: int) -> Iterator[Sample]:
    # Live jobs come first, in the order in which they were seen, so that new jobs take no series from older ones.
    ordered = sorted(jobs.items(), key=lambda item: item[1][0] in END_PHASES)
    for key, (phase, restarts) in ordered[:most]:
        name = parse_key(key)
        labels = {"kind": KNOWN_KINDS[name.resource].kind, "job_namespace": name.namespace, "job_name": name.name}
        yield metrics.JOB_RESTARTS, labels, restarts
        yield metrics.JOB_PHASE, labels | {"phase": phase or NEW}, 1
    yield metrics.JOBS_LEFT_OUT, {}, max(0, len(jobs) - most)


def _read_watches(report: WatcherReport) -> Iterator[Sample]:
    ages: dict[str, float] = {}
    sums: dict[tuple[metrics.MetricRow, str], float] = defaultdict(float)
    for source, pulse in (report.reflectors or {}).items():
        resource = source.partition("/")[0]
        if pulse.state in UNWATCHED:
            continue
        ages[resource] = max(pulse.sign_age_seconds, ages.get(resource, 0.0))
        sums[metrics.PROJECTED, resource] += pulse.objects
        sums[metrics.UNREADABLE, resource] += len(pulse.skipped)
        sums[metrics.SKIPPED, resource] += pulse.skipped_times
    for resource, age in ages.items():
        yield metrics.WATCH_AGE, {"resource": resource}, age
    for (metric, resource), value in sums.items():
        yield metric, {"resource": resource}, value


def _read_cluster(cluster: ClusterView) -> Iterator[Sample]:
    nodes = {
        name: record for name, data in cluster.nodes.items() if isinstance(record := decode(NODES, data), NodeRecord)
    }
    usable = {name: node for name, node in nodes.items() if node.ready == "True" and not node.unschedulable}
    yield metrics.NODES, {"usable": "true"}, len(usable)
    yield metrics.NODES, {"usable": "false"}, len(nodes) - len(usable)
    allocatable: dict[str, int] = defaultdict(int)
    asked = NOTHING
    for node in usable.values():
        for resource, amount in node.allocatable.items():
            allocatable[resource] += _parse_amount(resource, amount)
    # Requests on unusable nodes do not count, as their capacity does not.
    for name in (*usable, WAITING):
        if name in cluster.node_requests:
            asked = asked.plus(decode_node_requests(cluster.node_requests[name]))
    requested = _requested_amounts(asked)
    for resource in sorted(allocatable.keys() | requested.keys()):
        labels = {"resource": resource, "unit": UNITS.get(resource, "integer")}
        scale = 1000 if resource == "cpu" else 1
        yield metrics.ALLOCATABLE, labels, allocatable[resource] / scale
        yield metrics.REQUESTED, labels, requested.get(resource, 0) / scale


def _requested_amounts(asked: NodeRequests) -> Mapping[str, int]:
    return {"cpu": asked.cpu_milli, "memory": asked.memory_bytes, "pods": asked.pods, **dict(asked.extended)}


def _parse_amount(resource: GroupResource | str, quantity: str) -> int:
    """Milli-cores of cpu, else whole units; 0 for a quantity that cannot be parsed."""
    try:
        return milli(quantity) if resource == "cpu" else whole(quantity)
    except (ValueError, ArithmeticError):
        return 0
