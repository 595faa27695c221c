"""What must not run is refused twice: by the CRD's schema, and by the parser for jobs older than it."""

from __future__ import annotations

import copy

import pytest

from localcluster.schema import StructuralSchema
from tests.support.kinds import AITRAININGJOBS, TRAININGJOBS
from tests.unit.tjworker.api.refusals import ALL, TABLES, Json
from tjworker.api import crd
from tjworker.api.kinds import KINDS, parse
from tjworker.api.model import InvalidJob, TrainingJob
from tjworker.base import GroupResource

SCALE_CHECKS_IT_TOO = "the scale subresource checks it too"
NEEDS_A_SERVER: dict[GroupResource, dict[str, str]] = {
    AITRAININGJOBS: {
        "replicas below zero": SCALE_CHECKS_IT_TOO,
        "replicas as a word": SCALE_CHECKS_IT_TOO,
        "replicas as a fraction": SCALE_CHECKS_IT_TOO,
        "a field that is not there": "field validation comes before the schema",
    },
    TRAININGJOBS: {
        "a min-instance in words": SCALE_CHECKS_IT_TOO,
        "a field that is not there": "field validation comes before the schema",
    },
}
SCHEMAS = {resource: StructuralSchema(crd.schema(job_kind)) for resource, job_kind in KINDS.items()}


def test_every_kind_has_its_table() -> None:
    assert TABLES.keys() == KINDS.keys()


@pytest.mark.parametrize("resource", TABLES)
def test_the_schema_itself_is_sound(resource: GroupResource) -> None:
    assert [str(cause) for cause in SCHEMAS[resource].check()] == []


@pytest.mark.parametrize(("resource", "sentence"), [one for one in ALL if one[1] not in NEEDS_A_SERVER.get(one[0], {})])
def test_the_schema_says_what_kubernetes_says(resource: GroupResource, sentence: str) -> None:
    case, schema = TABLES[resource].cases[sentence], SCHEMAS[resource]
    old = _admitted(case.after, schema) if case.after else None
    new = _admitted(case.apply, schema)
    assert sorted(str(cause) for cause in schema.validate(new, old)) == TABLES[resource].want_says(sentence)


@pytest.mark.parametrize(("resource", "sentence"), ALL)
def test_the_parser_agrees(resource: GroupResource, sentence: str) -> None:
    case = TABLES[resource].cases[sentence]
    parsed = parse(resource, case.apply)
    if case.want_path is None:
        assert isinstance(parsed, TrainingJob)
        return
    assert isinstance(parsed, InvalidJob)
    assert case.want_path in [error.path for error in parsed.errors]
    assert parsed.name.name == case.apply["metadata"]["name"]


@pytest.mark.parametrize("resource", TABLES)
def test_every_recorded_answer_has_its_case(resource: GroupResource) -> None:
    assert TABLES[resource].answers.keys() - TABLES[resource].cases.keys() == set()


@pytest.mark.parametrize("resource", TABLES)
def test_the_parser_lets_nothing_pass_that_the_schema_refuses_at_creation(resource: GroupResource) -> None:
    strictness_alone = {"a field that is not there"}
    passed = {s for s, case in TABLES[resource].cases.items() if case.want_path is None and case.after is None}
    assert (passed & TABLES[resource].answers.keys()) - strictness_alone == set()


def _admitted(manifest: Json, schema: StructuralSchema) -> Json:
    """As the API server has it when it validates: pruned, with defaults."""
    obj = copy.deepcopy(manifest)
    schema.prune(obj)
    schema.default(obj)
    return obj
