"""Plans of many inputs as digests, made in a process of its own: `python -m tests.simulation.purity ORDER FIRST COUNT
[MORE...]`.

The caller sets PYTHONHASHSEED. Prints one line for each seed from FIRST on, and for each of MORE: the seed, a digest of
the plan's exact bytes, and one of the plan for the same input with every dict and every list without an order of its
own shuffled by ORDER (there, keys are sorted before they are compared: a template that is written in another order
gives pods written in that order).
"""

from __future__ import annotations

import hashlib
import random
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson

from tests.simulation.inputs import Input, make_input
from tests.support.kinds import AITRAININGJOBS
from tjworker.api.kinds import parse
from tjworker.api.observed import Observed, PodRecord
from tjworker.controllers.jobs import reconcile_rules
from tjworker.reconcile import Plan, reconcile
from tjworker.settings import Settings

RULES = reconcile_rules(Settings())


def canonical(plan: Plan, option: int = 0) -> bytes:
    status = plan.status.to_json() if plan.status else None
    rest = (plan.writes, plan.events, plan.log_tails, plan.requeue_after_seconds, plan.decisions)
    return orjson.dumps((status, [type(w).__name__ for w in plan.writes], *rest), option=option)


def plain_plan(given: Input) -> Plan:
    _, observed, now = given.given()
    return reconcile(parse(AITRAININGJOBS, given.job_json()), observed, now, RULES)


def shuffled_plan(given: Input, rng: random.Random) -> Plan:
    _, observed, now = given.given()
    raw = _shuffled(given.job_json(), rng)
    return reconcile(parse(AITRAININGJOBS, raw), _shuffled_view(observed, rng), now, RULES)


def _shuffled(value: Any, rng: random.Random) -> Any:
    if isinstance(value, Mapping):
        keys = rng.sample(sorted(value), len(value))
        return {key: _shuffled(value[key], rng) for key in keys}
    return [_shuffled(v, rng) for v in value] if isinstance(value, list) else value


def _shuffled_view(seen: Observed, rng: random.Random) -> Observed:
    def pod(record: PodRecord) -> PodRecord:
        return replace(record, labels=_shuffled(record.labels, rng), gpus=_shuffled(record.gpus, rng))

    return replace(
        seen,
        pods=tuple(pod(p) for p in rng.sample(seen.pods, len(seen.pods))),
        services=tuple(rng.sample(seen.services, len(seen.services))),
        nodes={name: seen.nodes[name] for name in rng.sample(sorted(seen.nodes), len(seen.nodes))},
        seen=_shuffled(seen.seen, rng),
    )


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:24]


def main(order: int, first: int, count: int, *more: int) -> None:
    lines = []
    for seed in (*range(first, first + count), *more):
        given = make_input(seed)
        shuffled = shuffled_plan(given, random.Random(order * 1_000_003 + seed))
        exact = digest(canonical(plain_plan(given)))
        lines.append(f"{seed} {exact} {digest(canonical(shuffled, orjson.OPT_SORT_KEYS))}")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
