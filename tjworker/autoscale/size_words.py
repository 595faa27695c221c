"""The condition FullSize of a job: True if all its roles have their maximum of replicas, else the reason why not, from
the policy that decides. Pure.

The condition is written when a role's number of replicas or the text changes. It is not written when only numbers in
the reason change: they change with each run, and each write causes a pass over the job.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tjworker.api.model import TrainingJob
from tjworker.api.status import FULL_SIZE, Condition, renewed_condition
from tjworker.autoscale.decide import Posed, why_no_more
from tjworker.autoscale.rules import AutoscaleRules
from tjworker.autoscale.together import WrongPolicyName, policy_of

_NUMBER = re.compile(r"[0-9][0-9.,]*")
_SIZES = re.compile(r"\b(\S+ has [0-9]+ of [0-9]+)\b")


class RoleSize(NamedTuple):
    role: str
    replicas: int
    most: int


def full_size_condition(
    posed: Posed, rules: AutoscaleRules, job: TrainingJob, old: Condition | None, at: str
) -> Condition | None:
    """The condition as it is now; None for a job without a planned role. `old`: the job's present condition. `at`: RFC
    3339."""
    roles = [role for role in posed.problem.roles if role.id.job == job.key]
    if not roles:
        return None
    why = why_no_more(posed, rules, job.key)
    parts = []
    for role in roles:
        now, most = role.elastic.parallelism, role.elastic.max_instance
        if now < most:
            parts.append(f"{role.id.role} has {now} of {most}: {why[role.id]}")
    wrong = [problem for problem in posed.problems if isinstance(problem, WrongPolicyName)]
    parts += [problem.why for problem in wrong if problem.job == job.key]
    grown = all(role.elastic.parallelism >= role.elastic.max_instance for role in roles)
    if grown:
        parts.insert(0, f"{', '.join(f'{role.id.role} has {role.elastic.parallelism}' for role in roles)}, its maximum")
    policy = policy_of(roles[0], rules.policy).capitalize()
    return renewed_condition(old, FULL_SIZE, grown, policy, "; ".join(parts), now=at, generation=job.generation)


def sizes_of(posed: Posed, job: TrainingJob) -> tuple[RoleSize, ...]:
    """The size of each planned role of the job."""
    roles = (role for role in posed.problem.roles if role.id.job == job.key)
    return tuple(RoleSize(role.id.role, role.elastic.parallelism, role.elastic.max_instance) for role in roles)


def is_same_size(old: Condition | None, new: Condition) -> bool:
    """True if the difference is not worth a write: only numbers in the reason differ."""
    return old is not None and _gist_of(old) == _gist_of(new)


def names_same_sizes(old: Condition | None, new: Condition) -> bool:
    """True if only the reasons of the sizes differ."""
    if old is None or old.status != new.status:
        return False
    return _SIZES.findall(old.message) == _SIZES.findall(new.message)


def _gist_of(condition: Condition) -> tuple[object, ...]:
    # Of all numbers only those of sizes are worth a write.
    sizes = tuple(_SIZES.findall(condition.message))
    return condition.status, condition.reason, sizes, _NUMBER.sub("#", condition.message)
