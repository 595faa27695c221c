"""The schema library gives the API server's own answers: every case of tests/contract/schema_cases.py."""

from __future__ import annotations

import copy

import pytest

from localcluster.schema import FieldCause, StructuralSchema
from tests.contract.schema_cases import CHECK_CASES, PATH, SCHEMA_CASES, CheckCase, SchemaCase


def _tuples(causes: list[FieldCause]) -> list[tuple[str, str, str]]:
    return sorted((cause.reason, cause.message, cause.field) for cause in causes)


@pytest.mark.parametrize("case", SCHEMA_CASES.values(), ids=SCHEMA_CASES.keys())
def test_an_object_is_refused_with_the_api_servers_causes(case: SchemaCase) -> None:
    schema = StructuralSchema(case.full_schema())
    obj = copy.deepcopy(case.object())
    schema.prune(obj)
    schema.default(obj)
    before = copy.deepcopy(obj)
    assert _tuples(schema.validate(obj, case.old_object())) == sorted(case.want)
    assert obj == before, "validation changes nothing"


@pytest.mark.parametrize("case", CHECK_CASES.values(), ids=CHECK_CASES.keys())
def test_a_schema_is_refused_with_the_api_servers_causes(case: CheckCase) -> None:
    schema = copy.deepcopy(case.schema)
    assert _tuples(StructuralSchema(schema).check(PATH)) == sorted(case.want)
    assert schema == case.schema, "a check changes nothing"


def test_there_are_cases_of_each_kind() -> None:
    wants = [case.want for case in SCHEMA_CASES.values()] + [case.want for case in CHECK_CASES.values()]
    reasons = {reason for want in wants for reason, _, _ in want}
    assert {
        "FieldValueInvalid",
        "FieldValueRequired",
        "FieldValueNotSupported",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
        "FieldValueDuplicate",
        "FieldValueForbidden",
    } <= reasons
    assert any(not case.want for case in SCHEMA_CASES.values())
