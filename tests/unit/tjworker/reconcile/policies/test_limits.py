"""A limit that ends the job is named in its message."""

from __future__ import annotations

import pytest

from tests.support.builders import make_job, make_pod
from tests.support.builders.job import JobBuilder
from tests.unit.tjworker.reconcile.passes import decide, everything, status_of

LIMITS = {
    "of the role": (
        make_job().role("trainer", 1, restart="Always", limit=0),
        "restartLimit 0 of role trainer is used up",
    ),
    "of the job": (
        make_job().role("trainer", 1, restart="Always").run_policy(backoffLimit=0),
        "backoffLimit 0 of the job is used up",
    ),
}


@pytest.mark.parametrize(("builder", "want"), LIMITS.values(), ids=LIMITS.keys())
def test_a_limit_that_ends_the_job_is_named(builder: JobBuilder, want: str) -> None:
    job = builder.build()
    ending = status_of(decide(job, everything(job, make_pod(job, "trainer", 0).failed(1)))).ending
    assert ending is not None
    assert ending.message.endswith(f"; {want}")
