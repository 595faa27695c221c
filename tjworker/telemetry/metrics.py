"""Declares every metric of every process.

`PASSES.observe(0.2, result="done")` counts. Only this package uses the client library. Counting never raises, never
waits and needs no server: `scrape.py` serves the metrics. Safe in any thread, and in a child that was forked after the
import.

Names follow Prometheus' rules (base units, `_total`). A label has few values, all known here or in the API. It is never
the name of a job, a namespace or a node, except in the metrics of single jobs, whose number a setting bounds. `python
-m tjworker.telemetry.metrics` writes docs/metrics.md, and `--check` compares.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any, Literal

import prometheus_client

from tjworker.api.kinds import JOB_KINDS
from tjworker.api.status import END_PHASES, RestartCounts

Process = Literal["watcher", "leading watcher", "worker", "beat", "reporter", "page"]
LONG = (0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
SHORT = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


@dataclass(frozen=True, eq=False)
class MetricRow:
    name: str
    what: str
    labels: Mapping[str, str] = field(default_factory=dict)
    """Label -> description of its values."""
    by: tuple[Process, ...] = ()
    """The processes that export the metric."""
    setting: str = field(default="", kw_only=True)
    """The setting that switches the metric on; '' if it is always on."""
    known: Mapping[str, Sequence[str]] = field(default_factory=dict, kw_only=True)
    """Label -> all its values, if they are known. They are shown as 0 from the start, so that an alert sees the first
    count as a rise."""

    kind = "gauge"


@dataclass(frozen=True, eq=False)
class Gauge(MetricRow):
    """A metric that a collector reads at each scrape (`scrape.Collector`)."""


@dataclass(frozen=True, eq=False)
class Counter(MetricRow):
    kind = "counter"

    @cached_property
    def _made(self) -> prometheus_client.Counter:
        # Made at its first use: a worker chooses shared files after this module was imported
        # (`scrape.share_with_children`).
        return prometheus_client.Counter(self.name, self.what, tuple(self.labels), registry=REGISTRY)

    def begin(self) -> None:
        for labels in combinations(self):
            self._made.labels(**labels)

    def inc(self, amount: float = 1, **labels: str) -> None:
        # The client library raises ValueError for `labels()` of a metric that has none.
        (self._made.labels(**labels) if labels else self._made).inc(amount)


@dataclass(frozen=True, eq=False)
class Histogram(MetricRow):
    kind = "histogram"
    buckets: Sequence[float] = SHORT

    @cached_property
    def _made(self) -> prometheus_client.Histogram:
        return prometheus_client.Histogram(
            self.name, self.what, tuple(self.labels), registry=REGISTRY, buckets=self.buckets
        )

    def begin(self) -> None:
        for labels in combinations(self):
            self._made.labels(**labels)

    def observe(self, seconds: float, **labels: str) -> None:
        (self._made.labels(**labels) if labels else self._made).observe(seconds)


# The client library would export a second series for each counter, with the time of its creation.
prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
Sample = tuple[MetricRow, Mapping[str, str], float]
"""(metric, labels, value), from a collector."""
# Not the library's default registry: its process_* and python_gc_* would be those of a worker's main process alone.
REGISTRY = prometheus_client.CollectorRegistry()
"""What this process counts."""

KIND_NAMES = tuple(kind.kind for kind in JOB_KINDS)
_RESULT = (
    "`done`; `stale`: the watch has not shown an own write yet, as happens often; `retried`: the work queue gives"
    " the key out again; `failed`: waiting does not cure it"
)
_KIND = "the job's kind, as `AITrainingJob`"
_RESOURCE = "as `pods`, `aitrainingjobs.elasticdeeplearning.ai`"
_LEADER: tuple[Process, ...] = ("leading watcher",)

PASSES = Histogram(
    "tj_pass_duration_seconds",
    "passes over jobs, from the claim of a key to its release (several keys of a task are claimed at once); the count"
    " is that of passes",
    {"result": _RESULT},
    ("worker",),
    known={"result": ("done", "stale", "retried", "failed")},
)
PROGRESS_REPORTS = Counter(
    "tj_progress_reports_total",
    "reports of training programs about their progress",
    {
        "result": "`Accepted`, or why not: `Forbidden` (the token, or a pod that does not count), `TooManyRequests`,"
        " `TooLarge`, `InvalidReport`, `MovedBackwards`, `NotFound`, `ServiceUnavailable` (the API server does not"
        " answer)"
    },
    ("reporter",),
    known={
        "result": (
            "Accepted",
            "Forbidden",
            "TooManyRequests",
            "TooLarge",
            "InvalidReport",
            "MovedBackwards",
            "NotFound",
            "ServiceUnavailable",
        )
    },
)
PROGRESS_WRITES = Counter(
    "tj_progress_writes_total",
    "writes of reported progress into the status of a job, at most one in ten seconds for each job",
    {
        "result": "`written`; `failed`: tried again with the next one; `unchanged`: the status had it already;"
        " `dropped`: the job is gone, or its spec cannot be read"
    },
    ("reporter",),
    known={"result": ("written", "failed", "unchanged", "dropped")},
)
HISTORY_ENTRIES = Counter(
    "tj_history_entries_total",
    "entries for the history",
    {
        "result": "`written`; `lost`: the history store was away, full or slow until the watcher let them"
        " go, or refused them; `cut`: pods and phases beyond the bounds of one job (500 and 200)"
    },
    ("watcher",),
    known={"result": ("written", "lost", "cut")},
)
PAGE_VIEWS = ("jobs", "job", "cluster", "history", "events", "logs", "other")
PAGE_REQUESTS = Counter(
    "tj_page_requests_total",
    "requests to the page that were answered; a stream when it has ended",
    {
        "view": "`jobs`, `job`, `cluster`, `history` (its JSON, too), `events` (streams of changes), `logs` (followed),"
        " `other`",
        "result": "`ok`; `refused`: no such address, a token that may not, too many streams of one viewer; `failed`:"
        " Redis, the API server, a bug",
    },
    ("page",),
    known={"view": PAGE_VIEWS, "result": ("ok", "refused", "failed")},
)
PAGE_STREAMS = Gauge(
    "tj_page_streams",
    "streams that browsers hold open",
    {"view": "`events`: open views; `logs`: followed logs"},
    ("page",),
)
PAGE_AGE = Gauge(
    "tj_page_data_age_seconds",
    "since the page has read Redis; each scrape makes it try, so an unused page is not old",
    {},
    ("page",),
)
PERIODIC_RUNS = Counter(
    "tj_periodic_runs_total",
    "runs of periodic tasks",
    {
        "task": "`resync`, `collect_orphans`, `autoscale`",
        "result": "`done`; `failed`: some object could not be served, or a bug or the limit of time ended the run",
    },
    ("worker",),
    known={"task": ("resync", "collect_orphans", "autoscale"), "result": ("done", "failed")},
)
WRONG_CLOCKS = Counter(
    "tj_wrong_clocks_total",
    "times that a process has found a clock to be wrong by more than 5 s, at most once in ten minutes",
    {"clock": "`process`: of its own machine; `redis`, `api_server`: decisions go by the earlier of these two"},
    ("worker",),
    known={"clock": ("process", "redis", "api_server")},
)
API_REQUESTS = Counter(
    "tj_api_requests_total",
    "requests to the API server",
    {"verb": "the HTTP method, `WATCH` for a watch", "code": "of the answer; `none` when none came"},
    ("watcher", "worker"),
)
API_SECONDS = Histogram(
    "tj_api_request_duration_seconds",
    "until the API server has answered; of a watch, until it is open",
    {"verb": "as above"},
    ("watcher", "worker"),
)
FIRST_POD = Histogram(
    "tj_job_time_to_first_pod_seconds",
    "from a job's creation until the operator has made its first pod, ReplicaSet or batch Job",
    {"kind": _KIND},
    ("worker",),
    LONG,
    known={"kind": KIND_NAMES},
)
ALL_RUNNING = Histogram(
    "tj_job_time_to_running_seconds",
    "from a job's creation until every desired replica ran for the first time",
    {"kind": _KIND},
    ("worker",),
    LONG,
    known={"kind": KIND_NAMES},
)
RESTARTS = Counter(
    "tj_restarts_total",
    "restarts of roles, as they are counted in `status.restartCounts`",
    {"cause": "`application`, `node`, `preemption`, `user`"},
    ("worker",),
    known={"cause": tuple(RestartCounts.model_fields)},
)
ENDS = Counter(
    "tj_job_ends_total",
    "jobs that came to an end",
    {"kind": _KIND, "phase": "`Succeed`, `Failed`, `Timeout`, `Preempted`, `NodeFail`"},
    ("worker",),
    known={"kind": KIND_NAMES, "phase": sorted(END_PHASES)},
)
SCALE_DECISIONS = Counter(
    "tj_scale_decisions_total",
    "targets that the autoscaler has written",
    {"direction": "`up`, `down`"},
    ("worker",),
    known={"direction": ("up", "down")},
)
PLANS_REJECTED = Counter(
    "tj_scale_plans_rejected_total",
    "runs of the autoscaler that moved nothing because its policy failed",
    {"why": "`raised`: the policy raised an error; `rejected`: its plan broke a rule"},
    ("worker",),
    known={"why": ("raised", "rejected")},
)
BEAT_SENT = Counter(
    "tj_beat_sent_total", "periodic tasks that beat has sent", {"task": "its name in `beat_schedule.py`"}, ("beat",)
)
# A time, not an age: Prometheus computes the age when it evaluates a rule, not when it last scraped.
BEAT_TICK = Gauge(
    "tj_beat_last_tick_timestamp_seconds",
    "when beat last looked at its schedule and Redis took the tasks that were due, in Unix seconds",
    {},
    ("beat",),
)

CONSUMING = Gauge(
    "tj_worker_consuming",
    "1 for a worker that takes tasks, 0 for one that does not, because Redis is away or because it is stuck",
    {},
    ("worker",),
)
LEADING = Gauge("tj_watcher_leading", "1 for the watcher that leads, 0 for a standby", {}, ("watcher",))
SYNCED = Gauge("tj_watcher_synced", "1 when every list is in the projection", {}, _LEADER)
STORE_UP = Gauge("tj_watcher_redis_up", "1 when Redis answers the leading watcher", {}, _LEADER)
STORE_FULL = Gauge(
    "tj_watcher_redis_full", "1 while Redis has reached maxmemory and refuses the leading watcher", {}, _LEADER
)
CERTIFICATE_ENDS = Gauge(
    "tj_redis_certificate_expiry_timestamp_seconds",
    "when the certificate that Redis shows runs out, in Unix seconds; not there without TLS",
    {},
    _LEADER,
)
WATCH_AGE = Gauge(
    "tj_watch_age_seconds",
    "since a watch last gave a sign; of several namespaces the oldest",
    {"resource": _RESOURCE},
    _LEADER,
)
PROJECTED = Gauge(
    "tj_projection_objects", "objects of jobs that the watcher has projected", {"resource": _RESOURCE}, _LEADER
)
UNREADABLE = Gauge(
    "tj_unreadable_objects", "objects that cannot be read at present, and are skipped", {"resource": _RESOURCE}, _LEADER
)
SKIPPED = Counter(
    "tj_objects_skipped_total",
    "how often an object was skipped since the watcher leads, as it could not be read",
    {"resource": _RESOURCE},
    _LEADER,
)
JOBS = Gauge("tj_jobs", "jobs", {"kind": _KIND, "phase": "`status.phase`; `New` before the first pass"}, _LEADER)
_ONE_JOB = {"kind": _KIND, "job_namespace": "its namespace", "job_name": "its name"}
JOB_RESTARTS = Counter(
    "tj_job_restarts_total", "restarts of one job, as its status counts them", _ONE_JOB, _LEADER, setting="metrics_jobs"
)
JOB_PHASE = Gauge(
    "tj_job_phase",
    "1 for the phase that one job is in",
    {**_ONE_JOB, "phase": "`status.phase`; `New` before the first pass"},
    _LEADER,
    setting="metrics_jobs",
)
JOBS_LEFT_OUT = Gauge(
    "tj_jobs_left_out",
    "jobs beyond the setting, which have no series of their own",
    {},
    _LEADER,
    setting="metrics_jobs",
)
QUEUE = Gauge(
    "tj_queue_keys",
    "keys of the work queue",
    {"state": "`queued`: wait for a worker; `running`; `delayed`: wait for their time; `failing`: with a backoff"},
    _LEADER,
)
QUEUE_AGE = Gauge(
    "tj_queue_oldest_key_age_seconds", "for how long the oldest queued key has waited; 0 without one", {}, _LEADER
)
_NODE_RESOURCE = {"resource": "`cpu`, `memory`, `pods`, extended ones by name", "unit": "`core`, `byte`, `integer`"}
ALLOCATABLE = Gauge(
    "tj_cluster_allocatable", "what nodes that are Ready and schedulable have for pods", _NODE_RESOURCE, _LEADER
)
REQUESTED = Gauge(
    "tj_cluster_requested", "what pods on these nodes, and pods without a node, ask for", _NODE_RESOURCE, _LEADER
)
NODES = Gauge("tj_cluster_nodes", "nodes", {"usable": "`true`: Ready and schedulable; `false`"}, _LEADER)

TABLE: tuple[MetricRow, ...] = tuple(value for value in list(globals().values()) if isinstance(value, MetricRow))


def combinations(metric: MetricRow) -> Iterator[dict[str, str]]:
    """The combinations of the labels' known values; none if the values of a label are not known."""
    if metric.labels and metric.known.keys() == metric.labels.keys():
        for values in product(*(metric.known[name] for name in metric.labels)):
            yield dict(zip(metric.labels, values, strict=True))


def begin(process: Process) -> None:
    """Show the counters and histograms of this process as 0, before it has counted anything."""
    for metric in TABLE:
        if isinstance(metric, Counter | Histogram) and process in metric.by:
            metric.begin()


def count_request(verb: str, status: int, seconds: float) -> None:
    """Count a request to the API server, as a transport reports it. `status`: 0 if no answer came."""
    API_REQUESTS.inc(verb=verb, code=str(status or "none"))
    API_SECONDS.observe(seconds, verb=verb)


def counted(samples: Iterable[Sample]) -> Iterator[Any]:
    """The samples as metric families of the client library."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    families: dict[str, Any] = {}
    for metric, labels, value in samples:
        family = CounterMetricFamily if isinstance(metric, Counter) else GaugeMetricFamily
        if metric.name not in families:
            families[metric.name] = family(metric.name, metric.what, labels=tuple(metric.labels))
        families[metric.name].add_metric([labels[name] for name in metric.labels], value)
    yield from families.values()


def markdown() -> Iterator[str]:
    """The lines of docs/metrics.md."""
    yield "# Metrics"
    yield ""
    yield "Generated by `python -m tjworker.telemetry.metrics` from `tjworker/telemetry/metrics.py`; `make"
    yield "verify` compares them. How to collect them, with a dashboard and alerts:"
    yield "[monitoring.md](monitoring.md)."
    yield ""
    yield "No label names a job, a namespace or a node, except where `TJ_METRICS_JOBS` asks for it. What is exported"
    yield "by the leading watcher is true of the whole operator and has one value; everything else is summed over"
    yield "processes. A worker's processes share one page. These labels have the same values everywhere:"
    yield ""
    common = {"kind": _KIND, "resource": _RESOURCE, "job_namespace": "its namespace", "job_name": "its name"}
    for name, values in common.items():
        yield f"- `{name}`: {values}"
    yield ""
    yield "| metric | type | exported by | labels | what |"
    yield "|---|---|---|---|---|"
    for metric in TABLE:
        labels = "; ".join(
            f"`{name}`" if common.get(name) == values else f"`{name}`: {values}"
            for name, values in metric.labels.items()
        )
        only = f"; only with `TJ_{metric.setting.upper()}`" if metric.setting else ""
        yield f"| `{metric.name}` | {metric.kind} | {', '.join(metric.by)} | {labels or 'none'} | {metric.what}{only} |"


def main(arguments: Sequence[str] = ()) -> int:
    # Imported here: every process loads this module, and none needs `generate`.
    from tjworker.api import generate

    return generate.main(arguments, outputs=lambda: {"docs/metrics.md": "\n".join(markdown()) + "\n"})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
