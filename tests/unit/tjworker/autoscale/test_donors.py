"""What room costs, as it is remembered: after any steps it is what one would find who remembers nothing."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from tests.support.autoscaling import problems
from tests.support.tiers import examples
from tjworker.autoscale.donors import Donors
from tjworker.autoscale.problem import Problem
from tjworker.autoscale.trial import Trial

HELPS = [(False, False, False), (True, False, False), (False, True, True)]


def loss(role: int, replicas: int) -> float:
    """Each replica more is worth less."""
    return (role % 3 + 1) / replicas


@examples(25)
@given(problems(), st.data())
def test_prices_that_are_remembered_are_those_of_now(problem: Problem, data: st.DataObject) -> None:
    trial = Trial(problem)
    roles, nodes = range(len(trial.sizes)), range(len(trial.fleet.index))
    least = [role.elastic.min_instance for role in trial.roles]
    share = [0.1 + i / 10 for i in roles]
    donors = Donors(trial, loss, share, least)
    for _ in range(data.draw(st.integers(1, 6)) if trial.sizes else 0):
        fresh = Donors(trial, loss, share, least)
        for helps in HELPS:
            assert donors.cheapest(3, -1, helps) == fresh.cheapest(3, -1, helps)
        for i in roles:
            for node in nodes:
                for limit in (0.5, math.inf):
                    asked = trial.sizes[i], 1, node, limit, i
                    found = donors.price(*asked, sums=False, wanted=2)
                    assert found == fresh.price(*asked, sums=False, wanted=2), (i, node, limit)
        i, node = data.draw(st.sampled_from(roles)), data.draw(st.sampled_from(nodes))
        match data.draw(st.sampled_from(["gives", "takes", "takes", "a pod waits", "must keep what it has"])):
            case "gives" if trial.nodes[i]:
                donors.change(i, trial.give(i))
            case "takes":
                trial.add(i, node)
                donors.change(i, node)
            case "a pod waits":
                trial.hold(trial.sizes[i], node)
                donors.hold(node)
            case "must keep what it has":
                least = [*least[:i], trial.count(i), *least[i + 1 :]]
                donors.require(least)
