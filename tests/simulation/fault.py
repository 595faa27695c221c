"""What a row is: the names of all its runs, and how one of them is played. A name decides everything about its run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from tests.simulation.oracles import Allowance, Outcome, Whole, judge, late_seconds, live, whole
from tests.simulation.points import Fault
from tests.simulation.scenarios import SCENARIOS
from tests.simulation.world import SimWorld


@dataclass(frozen=True)
class Verdict:
    wrong: tuple[str, ...] = ()
    """Empty: as good as undisturbed."""
    surplus: int = 0
    """How often a pod was made that nobody wanted."""
    trace: object = field(default="", repr=False, compare=False)
    """Its `str` is what happened, line by line."""
    late_seconds: float | None = None
    """How much later than undisturbed the scenario was over, in rows that allow a time."""


@dataclass(frozen=True)
class Row:
    number: int
    sentence: str
    runs: Callable[[], Sequence[str]]
    """The name of every run that the full figures are made of, in a fixed order."""
    first: Mapping[str, Callable[[], Sequence[str]]]
    """Those of them that `make test` plays, by what they have in common (the scenario): a group is one test, and groups
    of one name are played in one process, which then finds out once what undisturbed looks like."""
    play: Callable[[str], Verdict]

    def seed(self, run: str) -> str:
        """What `make sim SEED=` wants."""
        return f"{self.number}/{run}"


class Points(Protocol):
    def __call__(self, undisturbed: Whole, /) -> Sequence[str]:
        """Names of the points of a scenario at which the fault strikes, from what happens in an undisturbed
        scenario."""


def verdict(outcome: Outcome, undisturbed: Whole, wrong: Sequence[str]) -> Verdict:
    return Verdict(tuple(wrong), len(outcome.surplus), outcome.trace, late_seconds(outcome, undisturbed))


def spread(count: int) -> Callable[[Sequence[str]], Sequence[str]]:
    """So many of the points, evenly spread."""
    return lambda points: [points[int((n + 0.5) * len(points) / count)] for n in range(min(count, len(points)))]


def on_scenarios(
    number: int,
    sentence: str,
    points: Points,
    fault: Callable[[str], Fault],
    *,
    first: Callable[[Sequence[str]], Sequence[str]],
    allowed: Allowance | Callable[[str], Allowance],
    companion: bool = False,
    world: type[SimWorld] = SimWorld,
) -> Row:
    """A row that tries the fault of each point on each scenario. A run is named `<scenario>/<point>`. `allowed`: at
    every point, or of each. `companion`: beside a second job."""
    names = [name for name, scenario in SCENARIOS.items() if not (companion and scenario.alone)]

    def runs() -> Sequence[str]:
        return [f"{name}/{point}" for name in names for point in points(whole(name, companion))]

    def sample(name: str) -> Sequence[str]:
        return [f"{name}/{point}" for point in first(points(whole(name, companion)))]

    def play(run: str) -> Verdict:
        name, _, point = run.partition("/")
        undisturbed, struck = whole(name, companion), fault(point)
        outcome = live(SCENARIOS[name], struck, companion=companion, world_type=world)
        bounds = allowed if isinstance(allowed, Allowance) else allowed(point)
        wrong = judge(outcome, undisturbed, bounds.of_a_new_job() if struck.forgot_a_new_job else bounds)
        return verdict(outcome, undisturbed, wrong)

    return Row(number, sentence, runs, {name: partial(sample, name) for name in names}, play)
