"""k8s/monitoring and its page: each expression is Prometheus' language, asks for metrics that are declared, by labels
that they have, and each alert says what to do. That the processes really show them: tests/e2e/test_whole_life.py."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.integration.manifests import render
from tests.support import fast_yaml as yaml
from tests.support.paths import ROOT
from tests.support.promql import MONITORING, OF_THE_TARGET, asked, dashboard, expressions, rules
from tjworker.telemetry import metrics
from tjworker.telemetry.metrics import TABLE, Counter, Histogram

PAGE = (ROOT / "docs" / "monitoring.md").read_text(encoding="utf-8")
EXPRESSIONS = expressions()
LABELS = {metric.name: frozenset(metric.labels) for metric in TABLE if not isinstance(metric, Histogram)} | {
    f"{metric.name}_{part}": frozenset(metric.labels) | ({"le"} if part == "bucket" else set())
    for metric in TABLE
    if isinstance(metric, Histogram)
    for part in ("bucket", "count", "sum")
}


@pytest.mark.parametrize("where", EXPRESSIONS)
def test_an_expression_asks_for_what_is_declared(where: str) -> None:
    found = asked(EXPRESSIONS[where])
    assert found
    for one in found:
        assert one.series in LABELS, f"{where}: no process shows {one.series}"
        strange = one.labels - LABELS[one.series] - OF_THE_TARGET
        assert not strange, f"{where}: {one.series} has no label {strange}"


def test_what_prometheus_would_refuse_is_no_expression() -> None:
    with pytest.raises(ValueError, match="unclosed left parenthesis"):
        asked("sum by (a rate(x[5m])")


@pytest.mark.parametrize("where", EXPRESSIONS)
def test_a_counter_is_asked_for_its_rise(where: str) -> None:
    """Its value says nothing: it begins anew with each process."""
    text = EXPRESSIONS[where]
    for series in {one.series for one in asked(text)}:
        if re.search("_(total|bucket|count|sum)$", series) and f"absent({series}{{" not in text:
            assert not re.search(rf"{series}(\{{[^}}]*\}})?(?!.)", text)
            assert re.search(rf"(rate|increase)\({series}(\{{[^}}]*\}})?\[", text), f"{where}: {series}"


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_an_alert_says_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    anchor = rule["alert"].lower()
    row = re.search(rf"^\| \[`{rule['alert']}`\]\(#{anchor}\) \| (.+) \|$", PAGE, re.MULTILINE)
    assert row, "no row in docs/monitoring.md"
    assert rule["annotations"]["runbook_url"] == f"docs/monitoring.md#{anchor}"
    entry = re.search(rf"^### {rule['alert']}\n\n```\n(.+?)```\n\n(.+?)\n", PAGE, re.MULTILINE | re.DOTALL)
    assert entry, "no entry of the runbook, with what to look at and what to do"
    shown = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
    kept = {label for one in asked(rule["expr"]) for label in one.labels}
    assert shown <= kept


def test_the_page_names_no_alert_that_there_is_not() -> None:
    assert set(re.findall(r"^(?:\| \[`|### )(Tj\w+)", PAGE, re.MULTILINE)) == {rule["alert"] for rule in rules()}


def test_a_dashboard_shows_the_one_operator_whose_namespace_is_chosen() -> None:
    variables = {one["name"]: one for one in dashboard()["templating"]["list"]}
    chosen = variables["namespace"]
    assert (chosen["type"], chosen["query"]) == ("query", "label_values(tj_watcher_leading, namespace)")
    assert not chosen["multi"], "the figures of two operators would be added up"
    assert not chosen["includeAll"]
    for where, text in EXPRESSIONS.items():
        if where.startswith("panel "):
            assert re.findall(r"\btj_\w+(?!\w|\{namespace=\"\$namespace\"\})", text) == [], where


def test_every_metric_is_on_the_dashboard_or_in_an_alert() -> None:
    used = {re.sub("_(bucket|count|sum)$", "", one.series) for text in EXPRESSIONS.values() for one in asked(text)}
    assert used == {metric.name for metric in TABLE if not metric.setting}


EXAMPLES = [
    rule
    for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    if isinstance(rules_of_block := yaml.safe_load(block), list)
    for rule in rules_of_block
]


@pytest.mark.parametrize("rule", EXAMPLES, ids=lambda rule: rule["alert"])
def test_an_example_of_the_page_asks_for_what_is_declared(rule: dict[str, Any]) -> None:
    found = asked(rule["expr"])
    assert all(one.labels <= LABELS[one.series] | OF_THE_TARGET for one in found)
    shown = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
    assert shown <= set().union(*(LABELS[one.series] for one in found))


def test_there_is_an_example_for_each_metric_of_single_jobs() -> None:
    used = {one.series for rule in EXAMPLES for one in asked(rule["expr"])}
    assert used == {metric.name for metric in TABLE if metric.setting}


def test_what_the_rules_compare_with_is_shown_before_it_happens() -> None:
    """A counter that appears with its first failure has not risen."""
    for name, labels in (("tj_pass_duration_seconds", {"result": "failed"}), ("tj_restarts_total", {"cause": "node"})):
        (metric,) = [metric for metric in TABLE if metric.name == name]
        assert isinstance(metric, Counter | Histogram)
        assert labels in list(metrics.combinations(metric))


# -- the objects -----------------------------------------------------------------------------------
def test_the_scraper_alone_reaches_the_port_that_the_pods_show() -> None:
    policy, monitor = (yaml.safe_load((MONITORING / f"{name}.yaml").read_text()) for name in ("network", "podmonitor"))
    (rule,) = policy["spec"]["ingress"]
    (source,), (port,) = rule["from"], rule["ports"]
    assert {"namespaceSelector", "podSelector"} <= source.keys(), "pods of that namespace, not either of both"
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    for component in ("watcher", "worker", "beat"):
        documents = list(yaml.safe_load_all((ROOT / f"k8s/base/{component}.yaml").read_text(encoding="utf-8")))
        container = documents[-1]["spec"]["template"]["spec"]["containers"][0]
        assert {"name": endpoint["port"], "containerPort": port["port"]} in container["ports"]
        assert {"name": "TJ_METRICS_PORT", "value": str(port["port"])} in container["env"]
        for selector in (policy["spec"]["podSelector"], monitor["spec"]["selector"]):
            assert component in selector["matchExpressions"][0]["values"]


@pytest.mark.parametrize("folder", ["", "keda", "hpa"])
def test_a_folder_can_be_applied(folder: str) -> None:
    made = render(MONITORING / folder)
    assert {document["metadata"]["namespace"] for document in made} == {"tj-system"}
    for document in made:
        target = document["spec"].get("scaleTargetRef") if "spec" in document else None
        assert target is None or target["name"] == "tj-worker"
