"""What nobody may run is refused twice: by the CRD's schema, and by the parser for jobs older than it."""

from __future__ import annotations

import copy

import pytest

from localcluster.schema import StructuralSchema
from tests.unit.tjworker.api.refusals import ALL, TABLES, Json
from tjworker.api import crd
from tjworker.api.dialects import DIALECTS, parse
from tjworker.api.model import InvalidJob, TrainingJob

SCALE_CHECKS_IT_TOO = "the scale subresource checks it too"
NEEDS_A_SERVER = {
    "aitrainingjobs": {
        "replicas below zero": SCALE_CHECKS_IT_TOO,
        "replicas as a word": SCALE_CHECKS_IT_TOO,
        "replicas as a fraction": SCALE_CHECKS_IT_TOO,
        "a field that is not there": "field validation comes before the schema",
    },
    "trainingjobs": {
        "a min-instance in words": SCALE_CHECKS_IT_TOO,
        "a field that is not there": "field validation comes before the schema",
    },
}
SCHEMAS = {plural: StructuralSchema(crd.schema(dialect)) for plural, dialect in DIALECTS.items()}


def test_every_kind_has_its_table() -> None:
    assert TABLES.keys() == DIALECTS.keys()


@pytest.mark.parametrize("plural", TABLES)
def test_the_schema_itself_is_sound(plural: str) -> None:
    assert [str(cause) for cause in SCHEMAS[plural].check()] == []


@pytest.mark.parametrize(("plural", "sentence"), [(p, s) for p, s in ALL if s not in NEEDS_A_SERVER[p]])
def test_the_schema_says_what_kubernetes_says(plural: str, sentence: str) -> None:
    case, schema = TABLES[plural].cases[sentence], SCHEMAS[plural]
    old = _admitted(case.after, schema) if case.after else None
    new = _admitted(case.apply, schema)
    assert sorted(str(cause) for cause in schema.validate(new, old)) == TABLES[plural].want_says(sentence)


@pytest.mark.parametrize(("plural", "sentence"), ALL)
def test_the_parser_agrees(plural: str, sentence: str) -> None:
    case = TABLES[plural].cases[sentence]
    parsed = parse(plural, case.apply)
    if case.want_path is None:
        assert isinstance(parsed, TrainingJob)
        return
    assert isinstance(parsed, InvalidJob)
    assert case.want_path in [error.path for error in parsed.errors]
    assert parsed.name.name == case.apply["metadata"]["name"]


@pytest.mark.parametrize("plural", TABLES)
def test_every_recorded_answer_has_its_case(plural: str) -> None:
    assert TABLES[plural].answers.keys() - TABLES[plural].cases.keys() == set()


@pytest.mark.parametrize("plural", TABLES)
def test_the_parser_lets_nothing_pass_that_the_schema_refuses_at_creation(plural: str) -> None:
    strictness_alone = {"a field that is not there"}
    passed = {s for s, case in TABLES[plural].cases.items() if case.want_path is None and case.after is None}
    assert (passed & TABLES[plural].answers.keys()) - strictness_alone == set()


def _admitted(manifest: Json, schema: StructuralSchema) -> Json:
    """As the API server has it when it validates: pruned, with defaults."""
    obj = copy.deepcopy(manifest)
    schema.prune(obj)
    schema.default(obj)
    return obj
