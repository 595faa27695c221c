"""Which alert fires in which state of the operator: each expression of k8s/monitoring/rules.yaml, evaluated on made-up
series. The expression's form, names and labels: test_monitoring.py."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.alerts.faults import WAVES
from tests.integration.manifests import kubectl
from tests.support import fast_yaml as yaml
from tests.support.paths import ROOT
from tests.support.promql import MONITORING, expressions, rules
from tests.support.promql_eval import NOW, Series, Vector, alternates, counter, evaluate, gauge, gone, results, rose

RULES = {rule["alert"]: rule for rule in rules()}
PAGE = (ROOT / "docs" / "monitoring.md").read_text(encoding="utf-8")
World = Sequence[Series]
MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0


def within(namespace: str, world: World) -> World:
    """As a Prometheus sees the processes of an operator in that namespace."""
    return [replace(one, labels={**one.labels, "namespace": namespace}) for one in world]


def leading(*values: int) -> World:
    return [gauge("tj_watcher_leading", value, pod=f"tj-watcher-{n}") for n, value in enumerate(values)]


def passes(**per_second: float) -> World:
    name = "tj_pass_duration_seconds_count"
    return [
        counter(name, rate / 2, result=result, pod=f"tj-worker-{n}")
        for result, rate in per_second.items()
        for n in (0, 1)
    ]


def requests(per_second: float = 1.0, **by_code: float) -> World:
    """`c429=0.2`: so many a second with that code; besides, so many GETs that went well."""
    name = "tj_api_requests_total"
    return [
        counter(name, per_second, verb="GET", code="200", pod="a"),
        *(counter(name, rate, verb="POST", code=code.removeprefix("c"), pod="a") for code, rate in by_code.items()),
    ]


def first_pods(seconds: float, kind: str = "AITrainingJob", per_second: float = 1.0, *, by: str = "a") -> World:
    """Jobs that have all waited for so long, as two workers count them."""
    bounds = ("30", "60", "120", "300", "+Inf")
    name = "tj_job_time_to_first_pod_seconds_bucket"
    return [
        counter(name, per_second if seconds <= float(le) else 0.0, le=le, kind=kind, pod=pod)
        for le in bounds
        for pod in (by, f"{by}-2")
    ]


@dataclass(frozen=True)
class Alert:
    fires: Mapping[str, World]
    silent: Mapping[str, World]
    says: float | None = None
    """The value in its text, of the first that fires."""
    times: int = field(default=1, kw_only=True)
    """So many alerts come of the first that fires."""


ALERTS: dict[str, Alert] = {
    "TjNoLeader": Alert(
        {"no watcher": [], "two that stand by": within("tj-system", leading(0, 0))},
        {"one of two leads": within("tj-system", leading(1, 0))},
    ),
    "TjTwoLeaders": Alert(
        {
            "two of two": leading(1, 1),
            "two of three": leading(1, 0, 1),
            "two that take the lead from each other": [
                alternates("tj_watcher_leading", 2 * MINUTE, 6, pod=pod) for pod in "ab"
            ],
        },
        {
            "one": leading(1, 0),
            "nobody": leading(0, 0),
            "the lead has changed hands twice": [
                alternates("tj_watcher_leading", 5 * MINUTE, 2, pod="a"),
                gauge("tj_watcher_leading", 0, pod="b"),
                alternates("tj_watcher_leading", 5 * MINUTE, 2, pod="c"),
            ],
        },
        says=2,
    ),
    "TjNotSynced": Alert({"not yet": [gauge("tj_watcher_synced", 0)]}, {"whole": [gauge("tj_watcher_synced", 1)]}),
    "TjWatchOld": Alert(
        {
            "one of two resources": [
                gauge("tj_watch_age_seconds", 91, resource="pods", pod="a"),
                gauge("tj_watch_age_seconds", 5, resource="nodes", pod="a"),
            ],
            "of one resource one of two": [
                gauge("tj_watch_age_seconds", 91, resource="pods", pod="a"),
                gauge("tj_watch_age_seconds", 5, resource="pods", pod="b"),
            ],
        },
        {"all are young": [gauge("tj_watch_age_seconds", 90, resource="pods", pod="a")]},
        says=91,
    ),
    "TjRedisAway": Alert(
        {"it does not answer": [gauge("tj_watcher_redis_up", 0)]}, {"it does": [gauge("tj_watcher_redis_up", 1)]}
    ),
    "TjRedisFull": Alert(
        {"it refuses the watcher": [gauge("tj_watcher_redis_full", 1)]},
        {"it has room": [gauge("tj_watcher_redis_full", 0)]},
    ),
    "TjCertificateEnds": Alert(
        {
            "in less than 14 days": [gauge("tj_redis_certificate_expiry_timestamp_seconds", NOW + 13.9 * DAY)],
            "yesterday": [gauge("tj_redis_certificate_expiry_timestamp_seconds", NOW - DAY)],
            "it has run out, and who has seen it was started anew since": [
                gone("tj_redis_certificate_expiry_timestamp_seconds", NOW - HOUR, HOUR, pod="before")
            ],
            "it was replaced by a shorter one, and the watcher that saw the longer one is gone": [
                gone("tj_redis_certificate_expiry_timestamp_seconds", NOW + 90 * DAY, HOUR, pod="before"),
                gauge("tj_redis_certificate_expiry_timestamp_seconds", NOW + 5 * DAY, pod="after"),
            ],
        },
        {
            "it was renewed, and another watcher leads": [
                gone("tj_redis_certificate_expiry_timestamp_seconds", NOW - HOUR, HOUR, pod="before"),
                gauge("tj_redis_certificate_expiry_timestamp_seconds", NOW + 90 * DAY, pod="after"),
            ],
            "in more than that": [gauge("tj_redis_certificate_expiry_timestamp_seconds", NOW + 14.1 * DAY)],
            "there is none": [],
        },
        says=13.9 * DAY,
    ),
    "TjNoWorker": Alert({"none": []}, {"one that has done nothing yet": within("tj-system", passes(done=0))}),
    "TjWorkerStuck": Alert(
        {"one of two": [gauge("tj_worker_consuming", 0, pod="a"), gauge("tj_worker_consuming", 1, pod="b")]},
        {"both take tasks": [gauge("tj_worker_consuming", 1, pod=pod) for pod in "ab"], "there is none": []},
    ),
    "TjClockWrong": Alert(
        {"a worker's machine is ahead": [rose("tj_wrong_clocks_total", 1, 5 * MINUTE, clock="process")]},
        {
            "all agree": [rose("tj_wrong_clocks_total", 0, 5 * MINUTE, clock="process")],
            "one was put right half an hour ago": [rose("tj_wrong_clocks_total", 1, 30 * MINUTE, clock="process")],
        },
    ),
    "TjQueueOld": Alert(
        {"a key has waited": [gauge("tj_queue_oldest_key_age_seconds", 121)]},
        {"it moves": [gauge("tj_queue_oldest_key_age_seconds", 120)]},
        says=121,
    ),
    "TjPassesFail": Alert(
        {
            "some": passes(done=10, failed=0.01),
            "one, nine minutes ago": [rose("tj_pass_duration_seconds_count", 1, 9 * MINUTE, result="failed")],
        },
        {"none": passes(done=10, retried=5, stale=5, failed=0)},
    ),
    "TjPassesRetried": Alert(
        {
            "most": passes(done=4, retried=6),
            "most of those that were no old views": passes(done=1, retried=10, stale=5),
        },
        {
            "half": passes(done=5, retried=5),
            "old views": passes(done=1, stale=9),
            "failures, which have an alert of their own": passes(done=1, failed=9),
            "nothing happens": passes(done=0, retried=0),
        },
        says=0.6,
    ),
    "TjApiErrors": Alert(
        {
            "no answer": requests(0.8, none=0.2),
            "500": requests(0.8, c500=0.2),
            "503": requests(0.8, c503=0.2),
            "too many requests": requests(0.8, c429=0.2),
        },
        {
            "a tenth": requests(0.9, c500=0.1),
            "conflicts": requests(0.5, c409=0.5),
            "what is not there": requests(0.5, c404=0.5),
            "refusals, which have an alert of their own": requests(0.5, c403=0.5),
            "none": requests(),
        },
        says=0.2,
    ),
    "TjForbidden": Alert(
        {"a role lacks a verb": requests(c403=0.01), "credentials are not taken": requests(c401=0.01)},
        {"other errors": requests(c404=1, c409=1, c422=1, c500=1), "none": requests()},
    ),
    "TjBeatStands": Alert(
        {
            "no tick for a minute": within("tj-system", [gauge("tj_beat_last_tick_timestamp_seconds", NOW - 61)]),
            "no beat": [],
        },
        {
            "a tick": within("tj-system", [gauge("tj_beat_last_tick_timestamp_seconds", NOW - 59)]),
            "one of two": within(
                "tj-system",
                [
                    gauge("tj_beat_last_tick_timestamp_seconds", NOW - 900, pod="old"),
                    gauge("tj_beat_last_tick_timestamp_seconds", NOW - 5, pod="new"),
                ],
            ),
        },
        says=61,
    ),
    "TjPeriodicRunsFail": Alert(
        {
            "of one task, 29 minutes ago": [
                rose("tj_periodic_runs_total", 1, 29 * MINUTE, task="resync", result="failed", pod="a"),
                counter("tj_periodic_runs_total", 1, task="autoscale", result="done", pod="a"),
            ]
        },
        {
            "31 minutes ago": [rose("tj_periodic_runs_total", 1, 31 * MINUTE, task="resync", result="failed")],
            "they go well": [counter("tj_periodic_runs_total", 1, task="resync", result="done")],
        },
        says=1,
    ),
    "TjObjectsUnreadable": Alert(
        {
            "two pods": [
                gauge("tj_unreadable_objects", 2, resource="pods"),
                gauge("tj_unreadable_objects", 0, resource="x"),
            ]
        },
        {"none": [gauge("tj_unreadable_objects", 0, resource="pods")]},
        says=2,
    ),
    "TjJobsStartSlowly": Alert(
        {
            "all wait for two minutes": first_pods(100),
            "those of one kind of two": [*first_pods(100, "TrainingJob", 0.01), *first_pods(10, by="b")],
        },
        {
            "all within a minute": first_pods(50),
            "one in twenty waits": [*first_pods(50, per_second=19), *first_pods(100, by="b")],
            "no job began": first_pods(100, per_second=0),
        },
    ),
    "TjNodesRestartJobs": Alert(
        {"eleven within the hour": [rose("tj_restarts_total", 11, 59 * MINUTE, cause="node")]},
        {
            "ten": [rose("tj_restarts_total", 10, 59 * MINUTE, cause="node")],
            "eleven before": [rose("tj_restarts_total", 11, 61 * MINUTE, cause="node")],
            "programs that fail": [rose("tj_restarts_total", 100, HOUR / 2, cause="application")],
            "users who delete pods": [rose("tj_restarts_total", 100, HOUR / 2, cause="user")],
        },
        says=11,
    ),
}


def test_every_alert_has_its_row() -> None:
    assert ALERTS.keys() == RULES.keys()
    assert all(alert.fires and alert.silent for alert in ALERTS.values())


def test_every_alert_has_a_fault_that_really_causes_it() -> None:
    """`make test-alerts` plays them."""
    assert {alert for wave in WAVES for fault in wave.values() for alert in fault.fires} == RULES.keys()


@pytest.mark.parametrize("name", ALERTS)
def test_when_an_alert_fires(name: str) -> None:
    alert, expression = ALERTS[name], RULES[name]["expr"]
    fires = {sentence: results(expression, within("tj-system", world)) for sentence, world in alert.fires.items()}
    assert [sentence for sentence, found in fires.items() if len(found) != alert.times] == []
    assert [s for s, world in alert.silent.items() if results(expression, within("tj-system", world))] == []
    if alert.says is not None:
        assert next(iter(fires.values())) == [pytest.approx(alert.says)]


# -- several operators under one Prometheus --------------------------------------------------------
HERE = ("namespace", "tj-system")
"""The label of the operator whose rules these are."""
HEALTHY: World = [
    *leading(1, 0),
    gauge("tj_watcher_synced", 1),
    gauge("tj_watch_age_seconds", 5, resource="pods"),
    gauge("tj_watcher_redis_up", 1),
    gauge("tj_watcher_redis_full", 0),
    gauge("tj_redis_certificate_expiry_timestamp_seconds", NOW + 90 * DAY),
    *[gauge("tj_worker_consuming", 1, pod=pod) for pod in "ab"],
    counter("tj_wrong_clocks_total", 0, clock="process"),
    gauge("tj_queue_oldest_key_age_seconds", 1),
    *passes(done=1000, retried=0, failed=0),
    *requests(1000.0, c403=0),
    gauge("tj_beat_last_tick_timestamp_seconds", NOW - 5),
    counter("tj_periodic_runs_total", 0, task="resync", result="failed"),
    gauge("tj_unreadable_objects", 0, resource="pods"),
    *first_pods(1, per_second=1000),
    counter("tj_restarts_total", 0, cause="node"),
]


def fired(name: str, world: World) -> Vector:
    found = evaluate(RULES[name]["expr"], world)
    assert isinstance(found, dict)
    return {labels: value for labels, value in found.items() if not math.isnan(value)}


@pytest.mark.parametrize("name", ALERTS)
def test_two_healthy_operators_raise_nothing(name: str) -> None:
    assert fired(name, [*within("tj-system", HEALTHY), *within("tj-other", HEALTHY)]) == {}


@pytest.mark.parametrize("name", ALERTS)
def test_a_fault_is_told_with_its_namespace_beside_a_busy_operator_that_has_none(name: str) -> None:
    for sentence, world in ALERTS[name].fires.items():
        found = fired(name, [*within("tj-system", world), *within("tj-other", HEALTHY)])
        assert found, sentence
        assert all(HERE in labels for labels in found), sentence
        assert len(found) == len(fired(name, within("tj-system", world))), sentence


@pytest.mark.parametrize("name", ALERTS)
def test_the_fault_of_another_operator_is_told_by_its_own_rules_alone(name: str) -> None:
    """Else each alert would come once for each installation, and Prometheus refuse the second `ALERTS` series."""
    for sentence, world in ALERTS[name].fires.items():
        assert fired(name, [*within("tj-system", HEALTHY), *within("tj-other", world)]) == {}, sentence


@pytest.mark.parametrize("name", ["TjNoLeader", "TjNoWorker", "TjBeatStands"])
def test_an_operator_that_shows_nothing_is_missed_beside_another(name: str) -> None:
    assert list(fired(name, within("tj-other", HEALTHY))) == [frozenset({HERE})]


def test_the_rules_of_another_namespace_are_made_as_the_page_says() -> None:
    command = "kubectl kustomize k8s/monitoring | sed s/tj-system/YOUR-NAMESPACE/ | kubectl apply -f -"
    assert command in PAGE
    assert command in (MONITORING / "rules.yaml").read_text(encoding="utf-8")
    text = kubectl("kustomize", str(MONITORING)).stdout
    # `sed` without `g` replaces the first of each line.
    replaced = [line.replace("tj-system", "tj-other", 1) for line in text.splitlines()]
    assert [line for line in replaced if "tj-system" in line] == []
    made = {d["kind"]: d for d in yaml.safe_load_all("\n".join(replaced))}
    rules_there = {r["alert"]: r["expr"] for g in made["PrometheusRule"]["spec"]["groups"] for r in g["rules"]}
    assert rules_there == {name: rule["expr"].replace("tj-system", "tj-other") for name, rule in RULES.items()}


@pytest.mark.parametrize("name", RULES)
def test_the_page_says_how_grave_it_is_and_after_how_long_it_comes(name: str) -> None:
    rule = RULES[name]
    row = re.search(rf"^\| \[`{name}`\].+? \| (\w+) \| (.+?) \| .+ \|$", PAGE, re.MULTILINE)
    assert row, "no row `| alert | severity | after | what to do |` in docs/monitoring.md"
    assert (row[1], row[2]) == (rule["labels"]["severity"], "at once" if rule["for"] == "0m" else rule["for"])


# -- workers by the queue's age --------------------------------------------------------------------
AGES = [
    *within("tj-system", [gauge("tj_queue_oldest_key_age_seconds", 40, pod="a")]),
    *within("tj-system", [gauge("tj_queue_oldest_key_age_seconds", 3, pod="b")]),
    *within("tj-other", [gauge("tj_queue_oldest_key_age_seconds", 900, pod="c")]),
]


def read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((MONITORING / name).read_text(encoding="utf-8"))["spec"]
    return found


def test_the_scalers_ask_for_the_age_of_the_oldest_key_of_their_own_operator() -> None:
    assert results(expressions()["ScaledObject"], AGES) == [40]
    comment = (MONITORING / "hpa" / "hpa.yaml").read_text(encoding="utf-8").partition("apiVersion")[0]
    (rule,) = yaml.safe_load(re.sub("^# ?", "", comment[comment.index("#   externalRules") :], flags=re.M))[
        "externalRules"
    ]
    # prometheus-adapter puts the HorizontalPodAutoscaler's namespace into the matchers when a label is said to be one
    # (its docs/externalmetrics.md, "Namespacing").
    assert rule["resources"] == {"overrides": {"namespace": {"resource": "namespace"}}}
    filled = rule["metricsQuery"].replace("<<.Series>>", rule["seriesQuery"])
    assert results(filled.replace("<<.LabelMatchers>>", 'namespace="tj-system"'), AGES) == [40]


def test_both_scalers_do_what_the_page_says() -> None:
    said = re.search(r"(\d+) to (\d+) workers, more of them when the oldest key has waited for more than (\d+) s", PAGE)
    assert said
    least, most, age = map(int, said.groups())
    keda, hpa = read("keda/scaledobject.yaml"), read("hpa/hpa.yaml")
    assert (
        (keda["minReplicaCount"], keda["maxReplicaCount"]) == (hpa["minReplicas"], hpa["maxReplicas"]) == (least, most)
    )
    (trigger,), (metric,) = keda["triggers"], hpa["metrics"]
    assert trigger["metadata"]["threshold"] == metric["external"]["target"]["value"] == str(age)
    # Value, not AverageValue: an age does not shrink by being shared.
    assert trigger["metricType"] == metric["external"]["target"]["type"] == "Value"
    assert float(trigger["metadata"]["activationThreshold"]) < age
    assert least <= keda["fallback"]["replicas"] <= most
