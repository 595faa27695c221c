"""What seldom comes about by chance comes about often enough in random histories: a bug that shows only there is
flagged in several of 200, whatever the dice do."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.model.__main__ import BITES, FIRST, HISTORIES, LEAST, with_bug
from tests.simulation import themes
from tests.simulation.faults.histories import lived
from tests.simulation.histories import make_history
from tests.simulation.quiet import quiet
from tests.simulation.themes import THEMES, Theme, seeds_of

SHOWS: Mapping[str, Theme] = {
    "deadline-runs-while-suspended": themes.suspended_under_a_deadline,
    "server-restarts-are-the-most": themes.servers_restart,
    "empty-role-keeps-a-job-from-failing": themes.fails_beside_a_role_of_none,
    "gpu-fault-before-it-runs": themes.a_gpu_ails_under_a_pod_that_waits,
    "end-waits-for-a-strangers-service": themes.ends_beside_a_service_of_before,
}
"""Bug -> the theme that it shows in; the others show in many histories."""
REACHES: Mapping[Theme, str] = {
    themes.suspended_under_a_deadline: "an end has its reason",
    themes.suspended_under_a_time_limit: "an end has its reason",
    themes.servers_restart: "restarts of parameter servers are summed",
    themes.fails_beside_a_role_of_none: "an end has its reason",
    themes.a_gpu_ails_under_a_pod_that_waits: "a GPU at fault is acted on",
    themes.ends_beside_a_service_of_before: "an end is over once its pods are gone",
    themes.a_trainer_fails_that_is_not_borne: "a failed trainer ends a job that is not fault tolerant",
}
"""Theme -> the rule that it is there for."""


def test_each_theme_is_played_as_often_in_any_histories() -> None:
    assert set(REACHES) == set(THEMES)
    assert set(SHOWS) <= set(BITES)
    for first in (0, 100_000, FIRST, 1_234_567):
        counts = {theme.__name__: len(seeds_of(theme, first, HISTORIES)) for theme in THEMES}
        assert all(7 <= count <= 8 for count in counts.values()), (first, counts)


@pytest.mark.long
@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.__name__)
def test_a_theme_reaches_the_rule_that_it_is_there_for(theme: Theme) -> None:
    reached = []
    for seed in seeds_of(theme, FIRST, HISTORIES):
        with quiet():
            verdict, said = lived(make_history(seed))
        assert not verdict.wrong, verdict.trace
        if said.reached[REACHES[theme]]:
            reached.append(seed)
    assert len(reached) >= LEAST, reached


@pytest.mark.long
@pytest.mark.parametrize("bug", SHOWS)
def test_a_bug_that_shows_in_a_theme_alone_is_flagged_often_enough(bug: str) -> None:
    flagged = with_bug(bug, seeds_of(SHOWS[bug], FIRST, HISTORIES))["flagged"]
    assert len(flagged) >= LEAST, flagged
