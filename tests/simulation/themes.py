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
Theme = Callable[[random.Random], tuple[Json, list[Told]]]
FOR_EVER = play(start_seconds=1, run_seconds=1_000_000)


def suspended_under_a_deadline(rng: random.Random) -> tuple[Json, list[Told]]:
    return _suspended(rng, runPolicy={"activeDeadlineSeconds": 200})


def suspended_under_a_time_limit(rng: random.Random) -> tuple[Json, list[Told]]:
    return _suspended(rng, timeLimit=200)


def _suspended(rng: random.Random, **limits: Any) -> tuple[Json, list[Told]]:
    """For so long that what it ran does not use up its limit of time by the end, and the suspension would."""
    since = round(rng.uniform(10, 60), 1)
    acts = [(since, "suspend", 0, True), (round(since + rng.uniform(100, 200), 1), "suspend", 0, False)]
    return job({"trainer": role(2, annotations=FOR_EVER, restartPolicy="Always", restartScope="Pod")}, **limits), acts


def fails_beside_a_role_of_none(rng: random.Random) -> tuple[Json, list[Told]]:
    how: Json = {"restartPolicy": "Never", "failPolicy": "Any", "annotations": FOR_EVER}
    roles = {"ps": role(0, **how), "trainer": role(1, **how)}
    return job(roles, failPolicy="All"), [(round(rng.uniform(10, 60), 1), "pod exits", 0, rng.choice((1, 137)))]


def servers_restart(rng: random.Random) -> tuple[Json, list[Told]]:
    """Each of two, in turn, and less often than their limit. By name they come after the master."""
    since = rng.uniform(10, 40)
    acts = [(round(since + 30 * turn, 1), "pod exits", 1 + turn % 2, 1) for turn in range(rng.randint(2, 4))]
    return trainingjob(Wish(run_seconds=1_000_000), pservers=2, fault_tolerant=True), acts


def ends_beside_a_service_of_before(rng: random.Random) -> tuple[Json, list[Told]]:
    """Its end takes the services, and one that has its name and is not its own stays."""
    since = rng.uniform(10, 60)
    ends = round(since + 20, 1), "role exits", 0, rng.choice((0, 1))
    how: Json = {"restartPolicy": "Never", "failPolicy": "Any", "annotations": FOR_EVER}
    return job({"trainer": role(rng.randint(1, 2), **how)}, cleanPodPolicy=rng.choice(("All", "Running"))), [
        (round(since, 1), "service of before", 0, None),
        ends,
    ]


def a_gpu_ails_under_a_pod_that_waits(rng: random.Random) -> tuple[Json, list[Told]]:
    """For its image, which is large: the node's GPUs are at fault before it has come."""
    does = play(start_seconds=800, run_seconds=1_000_000)
    trainer = role(2, annotations=does, restartPolicy="Always", restartScope="Pod", edlPolicy="Never")
    trainer["template"]["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": 1}}
    return job({"trainer": trainer}), [(round(rng.uniform(10, 60), 1), "GPUs ail", 0, None)]


def a_trainer_fails_that_is_not_borne(rng: random.Random) -> tuple[Json, list[Told]]:
    """By name the trainers come last. No other pod may end meanwhile."""
    wish = Wish(trainers=rng.randint(1, 2), run_seconds=1_000_000)
    since, code = round(rng.uniform(10, 200), 1), rng.choice((1, 137))
    return trainingjob(wish, pservers=1, fault_tolerant=False), [(since, "pod exits", 1, code)]


THEMES: tuple[Theme, ...] = (
    suspended_under_a_deadline,
    suspended_under_a_time_limit,
    servers_restart,
    fails_beside_a_role_of_none,
    a_gpu_ails_under_a_pod_that_waits,
    ends_beside_a_service_of_before,
    a_trainer_fails_that_is_not_borne,
)
EVERY = 4
"""So many seeds apart are histories with a theme, one theme after another: how often each is played is no matter of the
dice."""
BESIDE = 2
"""So many other acts at most."""


def theme_of(seed: int) -> Theme | None:
    number, rest = divmod(seed, EVERY)
    return None if rest else THEMES[number % len(THEMES)]
