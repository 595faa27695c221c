"""What nobody may run is refused twice: by the CRD's schema, and by the parser for jobs older than it."""

from __future__ import annotations

import copy

import pytest

from localcluster.schema import StructuralSchema
from tests.unit.tjworker.api.refusals import ANSWERS, CASES, Json, Refusal, want_says
from tjworker.api import crd
from tjworker.api.dialects import DIALECTS, parse
from tjworker.api.model import InvalidJob, TrainingJob

NEEDS_A_SERVER = {
    "replicas below zero": "the scale subresource checks it too",
    "replicas as a word": "the scale subresource checks it too",
    "replicas as a fraction": "the scale subresource checks it too",
    "a field that is not there": "field validation comes before the schema",
}


@pytest.fixture(scope="module")
def schema() -> StructuralSchema:
    return StructuralSchema(crd.schema(DIALECTS["aitrainingjobs"]))


def test_the_schema_itself_is_sound(schema: StructuralSchema) -> None:
    assert [str(cause) for cause in schema.check()] == []


@pytest.mark.parametrize("sentence", [s for s in CASES if s not in NEEDS_A_SERVER])
def test_the_schema_says_what_kubernetes_says(sentence: str, schema: StructuralSchema) -> None:
    case = CASES[sentence]
    old = _admitted(case.after, schema) if case.after else None
    new = _admitted(case.apply, schema)
    assert sorted(str(cause) for cause in schema.validate(new, old)) == want_says(sentence)


@pytest.mark.parametrize(("sentence", "case"), CASES.items(), ids=CASES.keys())
def test_the_parser_agrees(sentence: str, case: Refusal) -> None:
    parsed = parse("aitrainingjobs", case.apply)
    if case.want_path is None:
        assert isinstance(parsed, TrainingJob)
        return
    assert isinstance(parsed, InvalidJob)
    assert case.want_path in [error.path for error in parsed.errors]
    assert parsed.name.name == case.apply["metadata"]["name"]


def test_every_recorded_answer_has_its_case() -> None:
    assert ANSWERS.keys() - CASES.keys() == set()


def test_the_parser_lets_nothing_pass_that_the_schema_refuses_at_creation() -> None:
    strictness_alone = {"a field that is not there"}
    passed = {s for s, case in CASES.items() if case.want_path is None and case.after is None}
    assert (passed & ANSWERS.keys()) - strictness_alone == set()


def _admitted(manifest: Json, schema: StructuralSchema) -> Json:
    """As the API server has it when it validates: pruned, with defaults."""
    obj = copy.deepcopy(manifest)
    schema.prune(obj)
    schema.default(obj)
    return obj
