"""What the files of k8s/monitoring ask Prometheus, taken apart with a parser of its language."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import promql_parser

from tests.support import fast_yaml as yaml
from tests.support.paths import ROOT

MONITORING = ROOT / "k8s" / "monitoring"
OF_THE_TARGET = frozenset({"namespace"})
"""Labels that no process shows: Prometheus' operator gives them to every series of a PodMonitor."""


@dataclass(frozen=True)
class Asked:
    """One series that an expression selects, with the labels that it must have."""

    series: str
    labels: frozenset[str]


def rules() -> list[dict[str, Any]]:
    document = yaml.safe_load((MONITORING / "rules.yaml").read_text(encoding="utf-8"))
    return [rule for group in document["spec"]["groups"] for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((MONITORING / "dashboard.json").read_text(encoding="utf-8"))
    return found


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = dashboard()["panels"]
    return found


def expressions() -> dict[str, str]:
    """Alert or panel -> its expression."""
    found = {f"alert {rule['alert']}": rule["expr"] for rule in rules()}
    for panel in panels():
        for target in panel["targets"]:
            found[f"panel {panel['title']}, {target['legendFormat']}"] = target["expr"]
    scaled = yaml.safe_load((MONITORING / "keda" / "scaledobject.yaml").read_text(encoding="utf-8"))
    found["ScaledObject"] = scaled["spec"]["triggers"][0]["metadata"]["query"]
    hpa = yaml.safe_load((MONITORING / "hpa" / "hpa.yaml").read_text(encoding="utf-8"))
    found["HorizontalPodAutoscaler"] = hpa["spec"]["metrics"][0]["external"]["metric"]["name"]
    return found


def parse(expression: str) -> Any:
    return promql_parser.parse(expression.replace("$__rate_interval", "5m"))


def asked(expression: str) -> set[Asked]:
    """Raises ValueError for an expression that Prometheus would refuse."""
    return set(_walk(parse(expression), frozenset()))


def _walk(node: Any, grouped: frozenset[str]) -> Iterator[Asked]:
    match node:
        case promql_parser.VectorSelector():
            yield Asked(str(node.name), grouped | {matcher.name for matcher in node.matchers.matchers})
        case promql_parser.MatrixSelector():
            yield from _walk(node.vector_selector, grouped)
        case promql_parser.AggregateExpr():
            by = frozenset(node.modifier.labels) if node.modifier else frozenset()
            yield from _walk(node.expr, grouped | by)
        case promql_parser.BinaryExpr():
            yield from _walk(node.lhs, grouped)
            yield from _walk(node.rhs, grouped)
        case promql_parser.Call():
            for part in node.args:
                yield from _walk(part, grouped)
        case promql_parser.ParenExpr() | promql_parser.UnaryExpr() | promql_parser.SubqueryExpr():
            yield from _walk(node.expr, grouped)
        case promql_parser.NumberLiteral() | promql_parser.StringLiteral():
            return
        case _:
            raise AssertionError(f"{type(node).__name__} is not known to this test")
