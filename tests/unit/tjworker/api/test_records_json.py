"""Records to JSON and back: equal for every record, small for a quiet one, and a clear error for anything else."""

from __future__ import annotations

import random
from dataclasses import MISSING, fields, replace
from typing import Any

import orjson
import pytest

from tests.support.seeds import the_seed
from tjworker.api.observed import RECORD_TYPES, ContainerRecord, NodeRecord, PodRecord, WorkloadRecord
from tjworker.api.records_json import decode, decode_view, encode
from tjworker.api.resources import BATCH_JOBS, PODS
from tjworker.base import GroupResource, Terminal

MADE: dict[str, Any] = {
    "ports": (80, 2222),
    "unhealthy_devices": ("GPU-1",),
    "containers": (ContainerRecord("a", unhealthy_devices=("x", "y")),),
    "labels": {"job-name": "ä"},
    "gpus": {"nvidia.com/gpu": 2},
    "conditions": {"GpuXid": "m"},
    "allocatable": {"cpu": "4"},
    "requests": {"cpu": 1000},
    "taints": (("gpu", "", "NoSchedule"),),
    "ready": True,
    "scheduled": True,
    "unschedulable": "0/3",
}


def random_record(rng: random.Random, record_type: type[Any]) -> Any:
    values: dict[str, Any] = {}
    for entry in fields(record_type):
        required = entry.default is MISSING and entry.default_factory is MISSING
        if not required and rng.random() < 0.5:
            continue
        if entry.name in MADE and entry.type not in ("int",):
            values[entry.name] = MADE[entry.name]
        else:
            values[entry.name] = rng.randint(0, 9) if "int" in str(entry.type) else rng.choice(("", "x", "läuft 🚀"))
    if record_type is NodeRecord:
        values |= {"ready": rng.choice(("True", "False", "Unknown")), "unschedulable": rng.random() < 0.5}
    return record_type(**values)


@pytest.mark.parametrize("resource", RECORD_TYPES)
def test_every_record_survives(resource: GroupResource) -> None:
    seed = the_seed()
    rng = random.Random(seed)
    for _ in range(300):
        record = random_record(rng, RECORD_TYPES[resource])
        assert decode(resource, encode(record)) == record, f"seed {seed}"


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"containers":[1],"name":"a","uid":"u","rv":1}', b'"text"'])
def test_what_is_no_record_is_named(data: bytes) -> None:
    with pytest.raises(Terminal, match="projection of pods cannot be read"):
        decode(PODS, data)


def test_a_view_decodes_to_the_job_and_what_is_observed_sorted_by_name() -> None:
    pods = {name: encode(PodRecord(name, f"u-{name}", 1)) for name in ("b", "a")}
    raw, observed = decode_view(
        b'{"kind":"AITrainingJob"}',
        {PODS: pods, BATCH_JOBS: {"w": encode(WorkloadRecord("w", "u", 2))}},
        seen={PODS: 9},
    )
    assert raw == {"kind": "AITrainingJob"}
    assert [pod.name for pod in observed.pods] == ["a", "b"]
    assert observed.jobs == (WorkloadRecord("w", "u", 2),)
    assert observed.seen == {PODS: 9}


@pytest.mark.parametrize("resource", RECORD_TYPES)
def test_a_field_that_a_newer_version_has_written_is_passed_over(resource: GroupResource) -> None:
    """In a rolling upgrade the watcher may be newer than a worker."""
    record = random_record(random.Random(1), RECORD_TYPES[resource])
    if isinstance(record, PodRecord):
        record = replace(record, containers=MADE["containers"])
    newer = orjson.loads(encode(record)) | {"from_the_future": {"a": 1}}
    for container in newer.get("containers", ()):
        container["from_the_future"] = [1]
    assert decode(resource, orjson.dumps(newer)) == record
