"""Every framework of the schema has a row of FRAMEWORKS, and gives each replica a rank."""

from __future__ import annotations

from typing import get_args

import pytest

from tests.support.builders import make_job
from tjworker.api.model import FrameworkType, GuestFramework
from tjworker.reconcile import frameworks
from tjworker.reconcile.frameworks import find_framework


def test_every_type_of_the_schema_has_a_row_and_every_row_a_type() -> None:
    assert {*get_args(FrameworkType), *get_args(GuestFramework)} - {""} == set(frameworks.FRAMEWORKS)


@pytest.mark.parametrize("roles", [("actor", "master"), ("master", "worker"), ("a", "b", "master", "z")], ids=",".join)
@pytest.mark.parametrize(
    ("framework", "variable"),
    [("pytorch", "RANK"), ("xgboost", "RANK"), ("paddle", "PADDLE_RANK"), ("jax", "PROCESS_ID")],
)
def test_each_replica_has_a_rank_and_the_one_that_others_look_for_has_the_first(
    framework: str, variable: str, roles: tuple[str, ...]
) -> None:
    """Whatever the roles are called: the process of rank 0 is the one that listens."""
    builder = make_job().spec(frameworkType=framework)
    for role in roles:
        builder = builder.role(role, 1 if role == "master" else 2)
    job = builder.build()
    made = find_framework(job)
    ranks = {
        (role.name, index): str(made.environment(job, role, index)[variable])
        for role in job.roles
        for index in range(role.replicas)
    }
    assert sorted(ranks.values()) == [str(n) for n in range(len(ranks))]
    assert ranks[made.head(job).name, 0] == "0"
