"""The seed of a random test: the same in every run of `make test`, so that what is red there was made red by a change;
another each time where one looks for new bugs (`make test-random`). `TJ_TEST_SEED` names it."""

from __future__ import annotations

import os

FIXED = 20_261_122


def the_seed() -> int:
    """The seed, which a failure prints: `TJ_TEST_SEED=<it>` plays it again."""
    return int(os.environ.get("TJ_TEST_SEED", FIXED))
