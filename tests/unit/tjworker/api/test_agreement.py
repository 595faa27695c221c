"""Schema and parser agree on random jobs: what the API server stores can be used, and what it refuses is refused
again.

But for two things that the parser refuses alone: what has not a Pod's types, which no schema of ours repeats (the API
server would store the job and refuse each of its pods), and two roles whose pods would have the same names.
"""

from __future__ import annotations

import random
import re

import pytest

from localcluster.schema import StructuralSchema
from tests.support.kinds import TEST_KINDS
from tests.support.seeds import the_seed
from tests.support.tiers import drawn
from tjworker.api import crd
from tjworker.api.kinds import KINDS, parse
from tjworker.api.kinds.aitrainingjob.rules import ROLES_ALIKE
from tjworker.api.model import FieldError, InvalidJob
from tjworker.api.podtemplate import Container, PodSpec
from tjworker.base import GroupResource

ROUNDS = drawn(400)
OF_A_POD = [
    name
    for model in (Container, PodSpec)
    for name in model.model_fields.keys() - model.model_json_schema()["properties"].keys()
]
"""Fields of a template that the parser alone looks at."""
is_of_a_pod = re.compile(rf"\.template\.spec\.([\w\[\]]+\.)?({'|'.join(OF_A_POD)})\b").search


def refused_by_the_parser_alone(error: FieldError) -> bool:
    return ROLES_ALIKE in error.message or bool(is_of_a_pod(error.path))


@pytest.mark.wide
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
        errors = parsed.errors if isinstance(parsed, InvalidJob) else ()
        where = f"seed {seed}, round {i}: {job['spec']}\n schema: {causes}\n parser: {errors or 'accepts it'}"
        assert errors if causes else all(map(refused_by_the_parser_alone, errors)), where
        accepted += not errors
    assert ROUNDS // 10 < accepted < ROUNDS * 9 // 10, (
        f"seed {seed}: the random jobs show nothing, {accepted} were accepted"
    )
