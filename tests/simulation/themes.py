"""Histories that seldom come about by chance and that a rule of the contract is about: each a job and what befalls it
first; other acts are drawn beside."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tests.scenarios.world import job, play, role
from tests.simulation.scenarios import trainingjob
from tests.simulation.scripts import Wish

Json = dict[str, Any]
Told = tuple[float, str, int, Any]
"""When, what, of which, how: as in an act."""
FOR_EVER = play(start_seconds=1, run_seconds=1_000_000)


def _suspended_under_a_limit(rng: random.Random) -> tuple[Json, list[Told]]:
    """For so long that what it ran does not use up its limit of time by the end, and the suspension would."""
    limits: Json = rng.choice(({"runPolicy": {"activeDeadlineSeconds": 200}}, {"timeLimit": 200}))
    since = round(rng.uniform(10, 60), 1)
    acts = [(since, "suspend", 0, True), (round(since + rng.uniform(100, 200), 1), "suspend", 0, False)]
    return job({"trainer": role(2, annotations=FOR_EVER, restartPolicy="Always", restartScope="Pod")}, **limits), acts


def _fails_beside_a_role_of_none(rng: random.Random) -> tuple[Json, list[Told]]:
    how: Json = {"restartPolicy": "Never", "failPolicy": "Any", "annotations": FOR_EVER}
    roles = {"ps": role(0, **how), "trainer": role(1, **how)}
    return job(roles, failPolicy="All"), [(round(rng.uniform(10, 60), 1), "pod exits", 0, rng.choice((1, 137)))]


def _servers_restart(rng: random.Random) -> tuple[Json, list[Told]]:
    """Each of two, in turn, and less often than their limit."""
    since = rng.uniform(10, 40)
    acts = [(round(since + 30 * turn, 1), "pod exits", turn % 2, 1) for turn in range(rng.randint(2, 4))]
    return trainingjob(Wish(run_seconds=1_000_000), pservers=2, fault_tolerant=True), acts


THEMES: tuple[Callable[[random.Random], tuple[Json, list[Told]]], ...] = (
    _suspended_under_a_limit,
    _suspended_under_a_limit,
    _fails_beside_a_role_of_none,
    _servers_restart,
)
CHANCE = 0.15
BESIDE = 2
"""So many other acts at most."""
