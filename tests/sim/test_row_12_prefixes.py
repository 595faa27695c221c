"""Row 12: any prefix of a plan, then another worker reconciles again: the same end. Of any plan, in the middle of any life."""

from __future__ import annotations

import random

from tests.sim.inputs import make_input
from tests.sim.prefixes import try_prefixes

FIRST_TIER, FULL = 12, 5_000
"""Plans; each gives four prefixes or so."""


def test_any_prefix_of_a_plan_leads_to_the_same_end() -> None:
    first = random.SystemRandom().randrange(2**31)
    tried = sum(try_prefixes(make_input(seed)) for seed in range(first, first + FIRST_TIER))
    assert tried > FIRST_TIER, f"seeds from {first}: plans of hardly any write"
