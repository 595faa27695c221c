"""No user reads pydantic: every value that a model of a kind refuses is told in words of this project."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.builders import make_job
from tests.support.guests import GUESTS, whole_guest
from tests.support.kinds import ODD, TEST_KINDS
from tests.support.seeds import the_seed
from tests.support.tiers import drawn
from tjworker.api.kinds import parse
from tjworker.api.model import InvalidJob
from tjworker.base import GroupResource

ODDER = (*ODD, "a" * 70_000, ["a"] * 2000, {str(n): "x" for n in range(2000)}, "A b", "true", "2", 1e400)
PYDANTIC = ("nput should", "a valid", "tring should", "ictionary", "ist should", "nteger", "alue error", "NoneType")
VALUES_OF_A_PLACE = 4


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    for step, part in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(part, (*path, step))


def put(value: Any, path: tuple[Any, ...], odd: Any) -> Any:
    if not path:
        return odd
    whole = inner = copy.deepcopy(value)
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = odd
    return whole


@pytest.mark.wide
@pytest.mark.parametrize("resource", [*TEST_KINDS, *GUESTS])
def test_every_place_of_a_manifest_with_every_odd_value(resource: GroupResource) -> None:
    rng = random.Random(the_seed())
    manifest = TEST_KINDS[resource].whole() if resource in TEST_KINDS else whole_guest(resource)
    refused = 0
    for place in places(manifest["spec"]):
        for odd in rng.sample(ODDER, min(len(ODDER), drawn(VALUES_OF_A_PLACE))):
            job = parse(resource, put(manifest, ("spec", *place), odd))
            for error in job.errors if isinstance(job, InvalidJob) else ():
                refused += 1
                assert not any(words in error.message for words in PYDANTIC), (place, odd, error)
    assert refused > 20


SAYS: dict[str, tuple[dict[str, Any], str]] = {
    "a number in quotes": ({"timeLimit": "2"}, "spec.timeLimit: '2' is text: write it without quotes"),
    "a truth value in quotes": ({"suspend": "true"}, "spec.suspend: 'true' is text: write it without quotes"),
    "words for a number": ({"timeLimit": "soon"}, "spec.timeLimit: 'soon': must be a whole number"),
    "half a number": ({"timeLimit": 1.5}, "spec.timeLimit: 1.5: must be a whole number"),
    "words for a truth value": ({"suspend": "maybe"}, "spec.suspend: 'maybe': must be true or false"),
    "a number for a text": ({"priority": 7}, "spec.priority: 7 is not text: write it in quotes"),
    "a truth value for a text": ({"schedulerName": True}, "spec.schedulerName: true is not text: write it in quotes"),
    "a list for an object": ({"runPolicy": []}, "spec.runPolicy: a list: must be an object"),
    "a text for a map": ({"replicaSpecs": "trainer"}, "spec.replicaSpecs: 'trainer': must be an object"),
    "an empty map": ({"replicaSpecs": {}}, "spec.replicaSpecs: an object: must not be empty"),
    "too small": ({"timeLimit": 0}, "spec.timeLimit: 0: must be at least 1"),
    "too large": ({"replicas": 10_001}, "spec.replicas: 10001: must be at most 10000"),
    "too long": ({"priority": "a" * 64}, "must have at most 63 characters"),
    "a word of a list": ({"failPolicy": "Some"}, "spec.failPolicy: 'Some': must be Any, All or None"),
    "characters that a label has not": (
        {"priority": "very high"},
        "spec.priority: 'very high': letters, digits, '-', '_' and '.', with a letter or digit at both ends",
    ),
}


@pytest.mark.parametrize(("fields", "says"), SAYS.values(), ids=list(SAYS))
def test_the_field_the_value_and_the_rule_are_named(fields: dict[str, Any], says: str) -> None:
    job = make_job().role("trainer").spec(**fields).parse()
    assert isinstance(job, InvalidJob)
    assert says in str(job.errors[0])
