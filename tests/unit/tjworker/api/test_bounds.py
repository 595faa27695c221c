"""The last that is taken and the first that is not, of what the API's own modules bound."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.builders import make_job
from tjworker.api.indices import parse_indices
from tjworker.api.kinds.runpolicy import MAX_PODS
from tjworker.api.model import InvalidJob
from tjworker.api.node_records import node_record

INDICES: dict[str, tuple[str, set[int]]] = {
    "ranges and single indices": ("0-2, 7", {0, 1, 2, 7}),
    "a part that is no index is skipped": ("x,1,2-y,\u00b2,-3", {1}),
    "an index of no replica is skipped": ("9,10,12", {9}),
    "a range is cut at the role's size, however far it goes": ("8-99999999999", {8, 9}),
    "so is one whose end Python refuses to parse": (f"8-{'9' * 5000}", {8, 9}),
    "and an index of so many digits is of no replica": ("9" * 5000, set()),
}
"""A text in a status, which a user may have edited, and the indices of a role of ten replicas that it names."""


@pytest.mark.parametrize(("text", "want"), INDICES.values(), ids=INDICES.keys())
def test_indices_of_an_edited_status(text: str, want: set[int]) -> None:
    assert parse_indices(text, 10) == want


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
