"""Each manifest in examples/kinds is served as it is, and converted by `tj convert`: either way its job succeeds."""

from __future__ import annotations

import pytest

from localcluster.kubelet.play import Play
from tests.scenarios.world import World
from tests.support.tiers import one_in
from tests.unit.tjworker.convert.manifests import EXAMPLES, SERVED, converted, example, kind_of

SERVERS = ("-ps-", "mpijob-worker-", "marsjob-worker-")
"""Roles that serve until the others are done."""


def world(*kinds: str) -> World:
    made = World(kinds=",".join(kinds))
    made.cluster.kubelet.script = lambda pod, attempt: Play(
        run_seconds=3600 if any(role in pod["metadata"]["name"] for role in SERVERS) else 5, exit_code=0
    )
    return made


@pytest.mark.parametrize("name", one_in(3, EXAMPLES))
def test_a_converted_job_runs_to_its_end(name: str) -> None:
    played = world().apply(converted(example(name)).manifest)
    played.until("it has ended", lambda: played.phase(example(name)["metadata"]["name"]) == "Succeed")


@pytest.mark.long  # tests/peers plays every kind as it is in `make test`
@pytest.mark.parametrize("name", SERVED)
def test_a_job_that_is_served_as_it_is_runs_to_its_end(name: str) -> None:
    raw = example(name)
    kind = kind_of(raw)
    assert kind is not None
    played = world(kind.resource).apply(raw)
    job = raw["metadata"]["name"]
    played.until("it has ended", lambda: played.status(job).get("conditions", [{}])[-1].get("type") == "Succeeded")
