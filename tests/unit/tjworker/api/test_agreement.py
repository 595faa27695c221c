"""Schema and parser agree on random jobs: what the API server stores can be used, and what it refuses is refused
again."""

from __future__ import annotations

import random

import pytest

from localcluster.schema import StructuralSchema
from tests.support.kinds import TEST_KINDS
from tests.support.seeds import the_seed
from tjworker.api import crd
from tjworker.api.kinds import KINDS, parse
from tjworker.api.model import TrainingJob
from tjworker.base import GroupResource

ROUNDS = 400


@pytest.mark.parametrize("resource", KINDS)
def test_what_is_stored_can_be_used_and_what_is_refused_is_refused_again(resource: GroupResource) -> None:
    seed = the_seed()
    rng = random.Random(seed)
    schema = StructuralSchema(crd.schema(KINDS[resource]))
    accepted = 0
    for i in range(ROUNDS):
        job = TEST_KINDS[resource].random(rng)
        schema.prune(job)
        schema.default(job)
        causes = [str(cause) for cause in schema.validate(job)]
        parsed = parse(resource, job)
        usable = isinstance(parsed, TrainingJob)
        where = (
            f"seed {seed}, round {i}: {job['spec']}\n schema: {causes}\n parser:"
            f" {getattr(parsed, 'errors', 'accepts it')}"
        )
        assert usable == (not causes), where
        accepted += usable
    assert ROUNDS // 10 < accepted < ROUNDS * 9 // 10, (
        f"seed {seed}: the random jobs show nothing, {accepted} were accepted"
    )
