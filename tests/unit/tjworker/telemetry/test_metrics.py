"""The table of metrics keeps Prometheus' rules, and what a job's status means is counted once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import prometheus_client
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.scenarios.world import World, job, play, role
from tests.support.builders import make_job
from tjworker.api.status import JobStatus, RestartCounts
from tjworker.telemetry import metrics
from tjworker.telemetry.job_metrics import count_first_pod, count_status
from tjworker.telemetry.metrics import REGISTRY, TABLE, Counter, Histogram, MetricRow, count_request

NOT_BASE = (
    "milliseconds",
    "ms",
    "minutes",
    "hours",
    "kilobytes",
    "megabytes",
    "mb",
    "percent",
    "count",
    "sum",
    "bucket",
)
HIGH_CARDINALITY = {"job", "name", "namespace", "node", "pod", "uid", "key", "instance", "owner"}
NAMES_OF_JOBS = {"job_namespace", "job_name"}


@pytest.mark.parametrize("metric", TABLE, ids=lambda m: m.name)
def test_a_metric_keeps_prometheus_rules(metric: MetricRow) -> None:
    assert re.fullmatch(r"tj_[a-z0-9_]+", metric.name)
    assert metric.name.endswith("_total") is isinstance(metric, Counter), "of counters, and of nothing else"
    assert not set(metric.name.split("_")) & set(NOT_BASE), "base units; the client adds count, sum and bucket"
    if isinstance(metric, Histogram):
        assert metric.name.endswith("_seconds")
    assert not set(metric.labels) & HIGH_CARDINALITY
    assert not set(metric.labels) & NAMES_OF_JOBS or metric.setting == "metrics_jobs", "none without a bound"
    assert all(re.fullmatch(r"[a-z_]+", label) for label in metric.labels)
    assert metric.by, "somebody exports it"
    assert metric.what[0].islower() or metric.what.startswith(("API", "1 "))


def test_what_is_shown_can_be_parsed() -> None:
    metrics.count_request("GET", 200, 0.1)
    metrics.count_request("WATCH", 0, 0.1)
    metrics.PASSES.observe(0.2, result="done")
    text = prometheus_client.generate_latest(REGISTRY).decode()
    found = {family.name: family for family in text_string_to_metric_families(text)}
    codes = {s.labels["code"] for s in found["tj_api_requests"].samples}
    assert {"200", "none"} <= codes
    assert "_created" not in text


def test_what_is_read_becomes_families_with_all_their_samples() -> None:
    samples = [
        (metrics.QUEUE, {"state": "queued"}, 3),
        (metrics.LEADING, {}, 1),
        (metrics.QUEUE, {"state": "running"}, 1),
    ]
    found = {f.name: [(s.labels, s.value) for s in f.samples] for f in metrics.counted(samples)}
    assert found == {
        "tj_queue_keys": [({"state": "queued"}, 3), ({"state": "running"}, 1)],
        "tj_watcher_leading": [({}, 1)],
    }


def value(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


@dataclass(frozen=True)
class Case:
    before: dict[str, Any]
    after: dict[str, Any]
    want: Mapping[tuple[str, tuple[tuple[str, str], ...]], float]


def sample(name: str, **labels: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    return name, tuple(sorted(labels.items()))


KIND = "AITrainingJob"
RUNNING = {"phase": "Running", "start_running_time": "2026-01-01T00:00:40Z"}
CASES = {
    "a job that ends is counted with its phase": Case(
        {"phase": "Running"}, {"phase": "Failed"}, {sample("tj_job_ends_total", kind=KIND, phase="Failed"): 1}
    ),
    "restarts are counted by what has been added, by cause": Case(
        {"restart_counts": {"trainer": RestartCounts(application=2)}},
        {"restart_counts": {"trainer": RestartCounts(application=3, node=2), "ps": RestartCounts(user=1)}},
        {
            sample("tj_restarts_total", cause="application"): 1,
            sample("tj_restarts_total", cause="node"): 2,
            sample("tj_restarts_total", cause="user"): 1,
        },
    ),
    "a job runs whole for the first time, 40 s after its creation": Case(
        {"phase": "Creating"},
        RUNNING,
        {
            sample("tj_job_time_to_running_seconds_sum", kind=KIND): 40,
            sample("tj_job_time_to_running_seconds_count", kind=KIND): 1,
        },
    ),
    "that it runs again is not the first time": Case({**RUNNING, "phase": "Restarting"}, RUNNING, {}),
    "counts that begin anew take nothing away": Case(
        {"restart_counts": {"trainer": RestartCounts(application=5)}},
        {"restart_counts": {"trainer": RestartCounts(preemption=1)}},
        {sample("tj_restarts_total", cause="preemption"): 1},
    ),
}
COUNTED = sorted({name for case in CASES.values() for name in case.want})


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_a_written_status_counts(case: Case) -> None:
    job = replace(make_job().workers(1).build(), status=JobStatus(**case.before), created_at=1767225600)
    before = {one: value(one[0], **dict(one[1])) for one in COUNTED}
    count_status(job, JobStatus(**case.after))
    grown = {one: value(one[0], **dict(one[1])) - before[one] for one in COUNTED}
    assert {one: by for one, by in grown.items() if by} == case.want


def test_the_first_pod_is_counted_from_the_jobs_creation() -> None:
    job = replace(make_job().workers(1).build(), created_at=60)
    before = value("tj_job_time_to_first_pod_seconds_sum", kind=KIND)
    count_first_pod(job, 62.5)
    assert value("tj_job_time_to_first_pod_seconds_sum", kind=KIND) - before == 2.5


def test_a_life_of_several_restarts_is_counted_as_one_job() -> None:
    """Through whole passes: what one counts must not be counted by the passes after it."""
    names = ("tj_job_time_to_first_pod_seconds_count", "tj_job_time_to_running_seconds_count")

    def counted() -> dict[str, float]:
        found = {name: value(name, kind=KIND) for name in names}
        found["restarts"] = value("tj_restarts_total", cause="application")
        found["ends"] = value("tj_job_ends_total", kind=KIND, phase="Failed")
        return found

    before, world = counted(), World()
    crashing = play(run_seconds=5, exit_code=1)
    world.apply(job({"trainer": role(1, annotations=crashing, restartPolicy="OnFailure", restartLimit=2)})).run()
    world.until("it has failed", lambda: world.phase() == "Failed", within_seconds=300)
    world.advance(60)
    assert {name: n - before[name] for name, n in counted().items()} == {
        **dict.fromkeys(names, 1),
        "restarts": 2,
        "ends": 1,
    }


@pytest.mark.parametrize(("status", "code"), [(200, "200"), (409, "409"), (0, "none")])
def test_a_request_is_counted_by_verb_and_code_with_its_seconds(status: int, code: str) -> None:
    def counted() -> tuple[float, float, float]:
        seconds = "tj_api_request_duration_seconds"
        return (
            value("tj_api_requests_total", verb="PATCH", code=code),
            value(f"{seconds}_sum", verb="PATCH"),
            value(f"{seconds}_count", verb="PATCH"),
        )

    before = counted()
    count_request("PATCH", status, 0.25)
    assert [round(now - was, 6) for was, now in zip(before, counted(), strict=True)] == [1, 0.25, 1]
