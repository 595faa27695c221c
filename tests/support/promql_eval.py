"""What an expression of Prometheus' language gives on made-up series: the part of it that k8s/monitoring uses; anything
else is refused. Prometheus extrapolates what a counter did at the edges of a range, this does not."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import promql_parser

from tests.support.promql import parse

NOW = 1_800_000_000.0
SCRAPE_SECONDS = 15.0
Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]


@dataclass(frozen=True)
class Series:
    name: str
    labels: Mapping[str, str]
    at: Callable[[float], float]
    """Its value so many seconds ago; NaN when it was not shown then."""


def gauge(name: str, value: float, **labels: str) -> Series:
    return Series(name, labels, lambda _ago: value)


def counter(name: str, per_second: float, **labels: str) -> Series:
    """One that rises steadily."""
    return Series(name, labels, lambda ago: 1e6 - per_second * ago)


def rose(name: str, by: float, ago_seconds: float, **labels: str) -> Series:
    """One that rose once."""
    return Series(name, labels, lambda ago: 0 if ago > ago_seconds else by)


def gone(name: str, value: float, ago_seconds: float, **labels: str) -> Series:
    """A gauge that was shown for the last time so long ago."""
    return Series(name, labels, lambda ago: value if ago >= ago_seconds else math.nan)


def alternates(name: str, every_seconds: float, times: int, **labels: str) -> Series:
    """A gauge that went from 1 to 0, or back, so many times; the last time so long ago as the times are apart."""
    return Series(name, labels, lambda ago: min(int(ago / every_seconds), times) % 2)


_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda a, b: a / b if b else math.nan if not a else math.inf,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
}
_FILTERS = frozenset({">", "<", "=="})
_AGGREGATES: Mapping[str, Callable[[Iterable[float]], float]] = {"sum": sum, "max": max, "min": min}


def evaluate(expression: str, world: Sequence[Series]) -> Vector | float:
    return _Evaluation(world).of(parse(expression))


def results(expression: str, world: Sequence[Series]) -> list[float]:
    """The values that it gives; none: an alert by it is silent."""
    found = evaluate(expression, world)
    assert isinstance(found, dict), f"{expression} is a number and would always fire"
    return [value for value in found.values() if not math.isnan(value)]


class _Evaluation:
    def __init__(self, world: Sequence[Series]) -> None:
        assert len({(one.name, _labels(one)) for one in world}) == len(world), "two series of the same labels"
        self._world = world

    def of(self, node: Any) -> Vector | float:
        match node:
            case promql_parser.NumberLiteral():
                return float(node.val)
            case promql_parser.ParenExpr():
                return self.of(node.expr)
            case promql_parser.VectorSelector():
                return {_labels(one): one.at(0.0) for one in self._selected(node) if not math.isnan(one.at(0.0))}
            case promql_parser.AggregateExpr():
                return self._aggregate(node)
            case promql_parser.BinaryExpr():
                return self._binary(str(node.op), self.of(node.lhs), self.of(node.rhs), node.modifier)
            case promql_parser.Call():
                return self._call(str(node.func.name), node.args)
        raise AssertionError(f"{type(node).__name__}: teach this evaluator what it means")

    def _vector(self, node: Any) -> Vector:
        found = self.of(node)
        assert isinstance(found, dict), node
        return found

    def _selected(self, selector: Any) -> list[Series]:
        assert not any((selector.offset, selector.at, selector.matchers.or_matchers))
        wanted = [(m.name, str(m.op), m.value) for m in selector.matchers.matchers]
        return [
            one
            for one in self._world
            if one.name == selector.name and all(_fits(one.labels.get(n, ""), o, v) for n, o, v in wanted)
        ]

    def _aggregate(self, node: Any) -> Vector:
        assert node.modifier is None or str(node.modifier).startswith("by "), node.modifier
        by = frozenset(node.modifier.labels) if node.modifier else frozenset()
        groups: dict[Labels, list[float]] = {}
        for labels, value in self._vector(node.expr).items():
            groups.setdefault(frozenset(pair for pair in labels if pair[0] in by), []).append(value)
        return {labels: _AGGREGATES[str(node.op)](values) for labels, values in groups.items()}

    def _binary(self, sign: str, left: Vector | float, right: Vector | float, modifier: Any) -> Vector | float:
        assert not str(modifier or ""), f"{modifier}: teach this evaluator what it means"
        if sign == "or":
            assert isinstance(left, dict)
            assert isinstance(right, dict)
            return {**right, **left}
        apply = _OPERATORS[sign]
        if not isinstance(left, dict) and not isinstance(right, dict):
            return float(apply(left, right))
        pairs: dict[Labels, tuple[float, float]]
        if not isinstance(left, dict):
            assert isinstance(right, dict)
            pairs = {labels: (left, value) for labels, value in right.items()}
        elif not isinstance(right, dict):
            pairs = {labels: (value, right) for labels, value in left.items()}
        else:
            pairs = {labels: (value, right[labels]) for labels, value in left.items() if labels in right}
        if sign in _FILTERS:
            return {labels: a for labels, (a, b) in pairs.items() if apply(a, b)}
        return {labels: float(apply(a, b)) for labels, (a, b) in pairs.items()}

    def _call(self, name: str, args: Sequence[Any]) -> Vector | float:
        if name == "time":
            return NOW
        if name == "absent":
            return {} if self._vector(args[0]) else {_labels_of_absent(args[0]): 1.0}
        if name == "last_over_time":
            chosen = self._selected(args[0].vector_selector)
            latest = {_labels(one): _latest(one, args[0].range.total_seconds()) for one in chosen}
            return {labels: value for labels, value in latest.items() if value is not None}
        if name == "changes":
            chosen = self._selected(args[0].vector_selector)
            return {_labels(one): _changes(one, args[0].range.total_seconds()) for one in chosen}
        if name in ("rate", "increase"):
            seconds = args[0].range.total_seconds()
            per = seconds if name == "rate" else 1.0
            chosen = self._selected(args[0].vector_selector)
            return {_labels(one): (one.at(0.0) - one.at(seconds)) / per for one in chosen}
        if name == "histogram_quantile":
            return _quantiles(float(args[0].val), self._vector(args[1]))
        raise AssertionError(f"{name}(): teach this evaluator what it means")


def _labels(series: Series) -> Labels:
    return frozenset(series.labels.items())


def _labels_of_absent(argument: Any) -> Labels:
    """Prometheus takes them from the equalities of a plain selector; of any other expression it knows none."""
    if not isinstance(argument, promql_parser.VectorSelector):
        return frozenset()
    return frozenset((m.name, m.value) for m in argument.matchers.matchers if str(m.op) == "MatchOp.Equal")


def _latest(series: Series, within_seconds: float) -> float | None:
    step = SCRAPE_SECONDS
    shown = (series.at(step * n) for n in range(int(within_seconds / step) + 1))
    return next((value for value in shown if not math.isnan(value)), None)


def _changes(series: Series, within_seconds: float) -> float:
    step = SCRAPE_SECONDS
    shown = [series.at(step * n) for n in range(int(within_seconds / step) + 1)]
    shown = [value for value in shown if not math.isnan(value)]
    return sum(before != after for before, after in pairwise(shown))


def _fits(value: str, sign: str, wanted: str) -> bool:
    by_pattern = re.fullmatch(wanted, value) is not None
    return {
        "MatchOp.Equal": value == wanted,
        "MatchOp.NotEqual": value != wanted,
        "MatchOp.Re": by_pattern,
        "MatchOp.NotRe": not by_pattern,
    }[sign]


def _quantiles(part: float, buckets: Vector) -> Vector:
    """The quantile as in Prometheus: linear within the bucket, and the last finite bound beyond it."""
    found: dict[Labels, list[tuple[float, float]]] = {}
    for labels, count in buckets.items():
        others = frozenset(pair for pair in labels if pair[0] != "le")
        found.setdefault(others, []).append((float(dict(labels)["le"].replace("+Inf", "inf")), count))
    return {labels: _quantile(part, sorted(of)) for labels, of in found.items()}


def _quantile(part: float, buckets: Sequence[tuple[float, float]]) -> float:
    rank = part * buckets[-1][1]
    below, lower = 0.0, 0.0
    for bound, count in buckets:
        if count >= rank and count > below:
            return lower if math.isinf(bound) else lower + (bound - lower) * (rank - below) / (count - below)
        below, lower = count, bound if not math.isinf(bound) else lower
    return math.nan
