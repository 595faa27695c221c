"""The last number that still fits and the first that does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.builders import make_node, make_pod
from tests.unit.tjworker.autoscale.test_decide import GPU, NOW, an_elastic, running
from tests.unit.tjworker.autoscale.test_obstacle import ROOM, why
from tjworker.api.node_requests import NodeRequests
from tjworker.api.status import Attempts, RoleAttempts
from tjworker.autoscale import AutoscaleRules, JobState, decide
from tjworker.autoscale.roles import auto_roles

RULES = AutoscaleRules(max_load_desired=1.0)


ACCOUNTS: dict[str, tuple[str, str, str, tuple[int, int, int]]] = {
    "all of its pods run": ("RRR", "", "", (3, 0, 0)),
    "one is expected soon": ("RR", "", "", (2, 0, 1)),
    "none is there yet": ("", "", "", (0, 0, 3)),
    "one is beyond the target": ("RRRR", "", "", (3, 1, 0)),
    "one is being deleted, and another will come": ("RRD", "", "", (2, 1, 1)),
    "one has succeeded: nobody makes it again": ("RRS", "2", "", (2, 0, 0)),
    "one has failed for good": ("RRF", "", "2", (2, 0, 0)),
    "all have succeeded": ("SSS", "0-2", "", (0, 0, 0)),
    "one has succeeded, and more run than are left": ("RRRS", "3", "", (3, 0, 0)),
    "one of those that are wanted has succeeded, and more run than are left": ("SRRR", "0", "", (2, 1, 0)),
}
"""Of a role of three replicas: what its pods do (R runs, D is being deleted, S succeeded, F failed), the completed and
the failed ordinals of its status; pods that stay and that leave, and replicas that are missing."""


@pytest.mark.parametrize("sentence", ACCOUNTS)
def test_each_replica_has_a_pod_needs_none_or_is_missing(sentence: str) -> None:
    does, completed, failed, want = ACCOUNTS[sentence]
    attempts = Attempts(roles={"trainer": RoleAttempts(completed=completed, failed=failed)})
    job = an_elastic(3, attempts=attempts).build()
    ways = {"R": "running", "D": "running", "S": "succeeded", "F": "failed"}
    pods = [getattr(make_pod(job, "trainer", i), ways[letter])() for i, letter in enumerate(does)]
    going = [pod.but(deleted_at="2026-01-01T00:59:00Z") if does[i] == "D" else pod for i, pod in enumerate(pods)]
    (auto,), _ = auto_roles([JobState(job, tuple(pod.build() for pod in going))], NOW, RULES)
    assert (len(auto.staying), len(auto.leaving), auto.missing) == want
    assert len(auto.elastic.placed) == want[0]
    assert (auto.elastic.parallelism, auto.refused) == (3, 0)


FILLED: dict[str, tuple[Mapping[str, Any], NodeRequests]] = {
    "CPU": ({"requests": {"cpu": "2"}}, NodeRequests(cpu_milli=6000)),
    "memory": ({"requests": {"memory": "4G"}}, NodeRequests(memory_bytes=60 * 10**9)),
    "GPU": ({"limits": {GPU: "2"}}, NodeRequests(extended=((GPU, 2),))),
    "pods": ({}, NodeRequests(pods=9)),
}
"""What one replica asks for, and what is asked for already where just one more fits."""
ONE_MORE = {
    "CPU": NodeRequests(cpu_milli=1),
    "memory": NodeRequests(memory_bytes=10**6),
    "GPU": NodeRequests(extended=((GPU, 1),)),
    "pods": NodeRequests(pods=1),
}


@pytest.mark.parametrize("what", FILLED)
def test_the_last_room_is_given_and_none_beyond_and_that_is_what_is_said(what: str) -> None:
    resources, asked = FILLED[what]
    node = make_node("a", cpu="8", memory="64G", pods="10", **{GPU: "4"})
    state = running(an_elastic(1, resources=resources), 1)
    for requests, fits in ((asked, True), (asked.plus(ONE_MORE[what]), False)):
        told = {"a": requests}
        moves = decide([state], {"a": node.build()}, told, NOW, RULES).moves
        assert [(m.from_, m.to) for m in moves] == ([(1, 2)] if fits else [])
        assert (why(state, (node,), told, RULES) == ROOM) is fits
