"""Roles of other operators' kinds may be written in any case of their letters, and mean the same
(training-operator: pkg/apis/kubeflow.org/v1/*_defaults.go, setTypeNamesToCamelCase)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.support import fast_yaml as yaml
from tests.support.guests import GUESTS, KIND_OF, parsed, whole_guest
from tests.support.paths import ROOT
from tjworker.api.kinds import OWNERS
from tjworker.api.model import TrainingJob
from tjworker.base import GroupResource

Json = dict[str, Any]
SPELLINGS: Mapping[str, Callable[[str], str]] = {
    "in lower case": str.lower,
    "in upper case": str.upper,
    "with upper and lower case exchanged": str.swapcase,
}


def manifests() -> Iterator[tuple[str, GroupResource, Json]]:
    """(name, kind, manifest) of each kind: everything a little, and the examples that users copy."""
    for resource in GUESTS:
        yield f"{resource} with everything", resource, whole_guest(resource)
    for path in sorted((ROOT / "examples" / "kinds").glob("*.yaml")):
        for raw in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            of = OWNERS.get((raw["apiVersion"].partition("/")[0], raw["kind"]))
            if of is not None and of in GUESTS:
                yield path.name, of, raw


MANIFESTS = {name: (resource, raw) for name, resource, raw in manifests()}


def test_each_kind_of_another_operator_has_an_example() -> None:
    examples = {resource for name, (resource, _) in MANIFESTS.items() if name.endswith(".yaml")}
    assert examples == set(GUESTS)


def without_paths(job: TrainingJob) -> TrainingJob:
    """Messages name a role as its user wrote it; everything else must be the same."""
    return replace(
        job,
        roles=tuple(replace(role, spec_path=role.spec_path.lower()) for role in job.roles),
        ignored=tuple(replace(one, path=one.path.lower()) for one in job.ignored),
    )


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("name", MANIFESTS)
def test_a_job_means_the_same_however_its_roles_are_spelled(name: str, spelling: str) -> None:
    resource, raw = MANIFESTS[name]
    other, field = copy.deepcopy(raw), KIND_OF[resource].roles_field
    other["spec"][field] = {SPELLINGS[spelling](role): spec for role, spec in raw["spec"][field].items()}
    assert without_paths(parsed(resource, other)) == without_paths(parsed(resource, raw))
