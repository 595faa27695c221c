"""The chart builds from k8s/ as it is. What Helm makes of it: tests/chart."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from charts import build
from charts.build import schema
from tests.support import fast_yaml as yaml

Json = dict[str, Any]
chart_files = cache(build.chart_files)

pytestmark = pytest.mark.xdist_group("chart")  # they share what its fixture starts or renders


def paths(values: Json, head: str = "") -> Iterator[str]:
    for name, value in values.items():
        yield head + name
        if isinstance(value, dict) and value and name not in ("settings", "resources"):
            yield from paths(value, f"{head}{name}.")


def schema_paths(properties: Json, head: str = "") -> Iterator[str]:
    for name, value in properties.items():
        yield head + name
        if name != "settings":
            yield from schema_paths(value.get("properties", {}), f"{head}{name}.")


def test_every_mark_has_become_a_template() -> None:
    assert [path for path, text in chart_files().items() if "@@" in text] == []


def test_every_value_has_a_schema_and_every_schema_a_value() -> None:
    values = yaml.safe_load(chart_files()["values.yaml"])
    assert set(paths(values)) == set(schema_paths(schema()["properties"])) - {"global"}
