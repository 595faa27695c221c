"""Scenarios of jobs under watchers that resume, one after another, and never come to their lists.

Every few seconds the watcher is killed, and its successor goes on where it stopped. What it lists are the nodes alone.
So the scenarios show that nothing in a job's life waits for a list; what only lists can do (sweep, sums of loads) has
tests of its own.
"""

from __future__ import annotations

import pytest

from tests.scenarios.scenarios import SCENARIOS
from tests.scenarios.world import World
from tests.support.tiers import one_in

LIFE_OF_A_WATCHER_SECONDS = 3.0


class Restless(World):
    _since: float | None = None

    def watch(self) -> None:
        if self._since is None:  # the first one fills an empty Redis
            self._since = self.clock()
        elif self.clock() >= self._since + LIFE_OF_A_WATCHER_SECONDS:
            self._since = self.clock()
            self.start_watcher()
            self.watcher.lists = False
        self.watcher.pump()


@pytest.mark.parametrize("sentence", one_in(5, SCENARIOS))
def test_scenario(sentence: str) -> None:
    SCENARIOS[sentence](Restless(nodes=3))
