"""The last that is taken and the first that is not, of what the API's own modules bound."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.builders import make_job
from tjworker.api.kinds.runpolicy import MAX_PODS
from tjworker.api.model import InvalidJob
from tjworker.api.node_records import node_record


@pytest.mark.parametrize("replicas", [MAX_PODS - 1, MAX_PODS, MAX_PODS + 1])
def test_a_job_has_at_most_so_many_pods(replicas: int) -> None:
    builder = make_job()
    for role in range(5):
        builder = builder.role(f"r{role}", MAX_PODS // 5)
    builder = builder.role("rest", max(0, replicas - MAX_PODS)).role("r0", MAX_PODS // 5 - (replicas < MAX_PODS))
    assert isinstance(builder.parse(), InvalidJob) is (replicas > MAX_PODS)


@pytest.mark.parametrize("by", ["replicas", "maxReplicas", "spec.replicas"])
@pytest.mark.parametrize(("most", "fits"), [(10, True), (11, False)])
def test_the_longest_name_of_a_pod_counts_whichever_field_brings_it(by: str, most: int, fits: bool) -> None:
    """`<job>-trainer-<9 or 10>` of 63 or 64 characters."""
    job = make_job("j" * 53)
    fields: dict[str, Any] = {
        "replicas": {"replicas": most},
        "maxReplicas": {"replicas": 2, "least": 1, "most": most},
        "spec.replicas": {"replicas": 2},
    }[by]
    builder = job.role("trainer", **fields)
    builder = builder.spec(replicas=most) if by == "spec.replicas" else builder
    assert isinstance(builder.parse(), InvalidJob) is not fits


READY = {"True": "True", "False": "False", "Unknown": "Unknown", "": "Unknown", "maybe": "Unknown"}


@pytest.mark.parametrize(("word", "want"), READY.items())
def test_a_node_that_does_not_say_whether_it_is_ready_is_silent(word: str, want: str) -> None:
    conditions = [{"type": "Ready", "status": word}] if word else []
    meta = {"name": "a", "uid": "u", "resourceVersion": "1"}
    assert node_record({"metadata": meta, "status": {"conditions": conditions}}).ready == want
