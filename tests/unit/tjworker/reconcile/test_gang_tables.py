"""Which size of a PodGroup a pass leaves alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.builders import make_job, make_pod
from tests.unit.tjworker.reconcile.passes import decide
from tests.unit.tjworker.reconcile.test_pod_group import group, rules, seen, trainers, words
from tjworker.api.model import TrainingJob
from tjworker.reconcile.gangs import GANGS
from tjworker.reconcile.pod_group import gang_size

SIZES = range(1, 6)
WHAT_PODS_DO: dict[str, tuple[str, dict[int, str], dict[int, str]]] = {
    "none has a node": ("---", {1: "again", 2: "again", 4: "again", 5: "again"}, {1: "~", 2: "~", 4: "~", 5: "~"}),
    "all run": ("nnn", {}, {1: "~", 2: "~", 4: "~", 5: "~"}),
    "one waits": ("nn-", {4: "alone", 5: "alone"}, {1: "~", 2: "~", 4: "~", 5: "~"}),
}
"""A gang of three (`-`: no node, `n`: runs), and what is done about a group of each size but those left alone: where
its number cannot be changed, and where it can. `again`: the group and its pods; `alone`: the pod that it would keep."""
GROUP, POD = "podgroups/digits", "pods/digits-trainer-"


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("sentence", WHAT_PODS_DO)
@pytest.mark.parametrize("gang", GANGS)
def test_a_group_of_as_many_as_start_together_is_left_alone_and_no_other(sentence: str, size: int, gang: str) -> None:
    pods, fixed, resized = WHAT_PODS_DO[sentence]
    job = trainers(3).build()
    made = [make_pod(job, "trainer", i).but(pod_group="digits") for i in range(3)]
    members = [pod.on("a").running() if what == "n" else pod for what, pod in zip(pods, made, strict=True)]
    plan = decide(job, seen(gang, job, [group(job, size)], members), rules=rules(gang))
    done = (fixed if GANGS[gang].resize is None else resized).get(size, "")
    waiting = [f"-{POD}{i}" for i, what in enumerate(pods) if what == "-"]
    want = {"": [], "~": [f"~{GROUP}"], "again": [f"-{GROUP}", *waiting], "alone": waiting}[done]
    assert words(plan.writes) == sorted(want)


def _elastic(replicas: int, least: int, most: int, **more: Any) -> TrainingJob:
    job = make_job().role("ps", 2).role("trainer", replicas, minReplicas=least, maxReplicas=most).build()
    return replace(job, **more)


@pytest.mark.parametrize("least", [0, 1, 4])
@pytest.mark.parametrize("available", [None, 1, 5, 6, 7, 11])
def test_so_many_start_together_as_the_job_cannot_do_without(least: int, available: int | None) -> None:
    """Two servers, and four trainers of eight at most. Eleven never are: the job waits until that is mended."""
    want = 2 + least if available is None else available if available > 10 else min(available, 6)
    assert gang_size(_elastic(4, least, 8, min_available=available)) == want
