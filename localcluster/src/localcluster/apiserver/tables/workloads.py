"""Rows of ReplicaSets and Jobs. Pure."""

from __future__ import annotations

from typing import Any

from localcluster.apiserver.meta import parse_time
from localcluster.apiserver.tables.base import Printer, Row, age_of, container_cells, make_columns, selector_text
from localcluster.apiserver.tables.durations import format_duration
from localcluster.wire import Json

_JOB_WORDS = (
    ("Complete", "Complete"),
    ("Failed", "Failed"),
    ("", "Terminating"),
    ("Suspended", "Suspended"),
    ("FailureTarget", "FailureTarget"),
    ("SuccessCriteriaMet", "SuccessCriteriaMet"),
)


def _replicaset_row(obj: Json, now: float) -> tuple[Row, Any]:
    spec, status = obj.get("spec", {}), obj.get("status", {})
    names, images = container_cells(spec.get("template", {}).get("spec", {}))
    return [
        obj["metadata"]["name"],
        spec.get("replicas", 0),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        age_of(obj, now),
        names,
        images,
        selector_text(spec.get("selector")),
    ], None


def _job_row(obj: Json, now: float) -> tuple[Row, Any]:
    spec, status = obj.get("spec", {}), obj.get("status", {})
    succeeded, parallelism = status.get("succeeded", 0), spec.get("parallelism", 0)
    if "completions" in spec:
        completions = f"{succeeded}/{spec['completions']}"
    else:
        completions = f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"
    start, end = parse_time(status.get("startTime")), parse_time(status.get("completionTime"))
    lasted = "" if start is None else format_duration((now if end is None else end) - start)
    names, images = container_cells(spec.get("template", {}).get("spec", {}))
    return [
        obj["metadata"]["name"],
        _job_status(obj),
        completions,
        lasted,
        age_of(obj, now),
        names,
        images,
        selector_text(spec.get("selector")),
    ], None


def _job_status(obj: Json) -> str:
    true = {c.get("type") for c in obj.get("status", {}).get("conditions") or () if c.get("status") == "True"}
    for condition, word in _JOB_WORDS:
        if condition in true or (not condition and "deletionTimestamp" in obj["metadata"]):
            return word
    return "Running"


REPLICASET = Printer(
    make_columns("Name:name", "Desired#", "Current#", "Ready#", "Age", "Containers+", "Images+", "Selector+"),
    _replicaset_row,
)
JOB = Printer(
    make_columns("Name:name", "Status", "Completions", "Duration", "Age", "Containers+", "Images+", "Selector+"),
    _job_row,
)
