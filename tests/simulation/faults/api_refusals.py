"""Row 15. The API server refuses: each request of a scenario once, in each way; and one in five of all at random.

The job comes to the same end with a bounded number of requests. One refusal alone is an end of its own: 422 for a child
means that no retry can ever help, so the job fails, says so in the server's words, and leaves nothing behind. A status
that is called invalid is tried again after minutes: what it alone would have told (that a restart was over) is told by
no later one.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

from celery.exceptions import SoftTimeLimitExceeded

from tests.simulation.fault import Row, Verdict, spread, verdict
from tests.simulation.oracles import COMPANION, UNTOLD, Allowance, Outcome, Whole, judge, live, whole
from tests.simulation.points import Fault, Step
from tests.simulation.refusals import ANSWERS, WORDS
from tests.simulation.scenarios import SCENARIOS
from tests.simulation.scripts import NAME, has_ended
from tests.simulation.state import phase_of, restarts_of
from tests.simulation.world import SimWorld
from tjworker.base import Transient
from tjworker.controllers.pass_end import TERMINAL_RETRY_SECONDS
from tjworker.kube.port import HttpResponse

STORMS = 20
"""Plays of each scenario in which every fifth request fails."""
STORM_CHANCE = 0.2
REQUESTS_MORE = 12
"""Than an undisturbed scenario makes, after one refusal: the pass again, and what it proves first."""
WAYS = (*ANSWERS, "time-out", "no-reply", "soft-limit")
"""`time-out`: the request never arrived; `no-reply`: it was carried out; `soft-limit`: Celery's, in its middle."""
FOR_WRITES = ("403", "409", "422", "soft-limit")
"""Nothing that only reads is in conflict, invalid or over a quota. (`soft-limit` is that of a pass: not of beat.)"""
IN_A_STORM = tuple(way for way in WAYS if way != "422")


class Refusing(Fault):
    def __init__(self) -> None:
        self.requests = 0
        self.struck = ""

    def way(self, step: Step) -> str:
        raise NotImplementedError

    def before(self, world: SimWorld, step: Step) -> None:
        if step.kind not in ("write", "read"):
            return
        self.requests += step.actor != "beat"
        self._now = self.way(step)
        if self._now == "soft-limit" and step.actor == "beat":
            self._now = ""
        if self._now:
            self.struck = step.what
            world.trace.note(world.clock(), "FAULT", f"{step.what}: {self._now}")
        if self._now == "time-out":
            raise Transient("the request timed out")
        if self._now == "soft-limit":
            raise SoftTimeLimitExceeded

    def answers(self, world: SimWorld, step: Step) -> HttpResponse | None:
        return ANSWERS.get(self._now)

    def after(self, world: SimWorld, step: Step) -> None:
        if step.kind in ("write", "read") and self._now == "no-reply":
            raise Transient("the connection broke before the answer")


class Once(Refusing):
    def __init__(self, kind: str, number: int, way: str) -> None:
        super().__init__()
        self._at = (kind, number)
        self._way = way
        self.late_seconds = TERMINAL_RETRY_SECONDS if way == "422" else 0.0

    def way(self, step: Step) -> str:
        return self._way if (step.kind, step.number) == self._at else ""


class Storm(Refusing):
    def __init__(self, seed: int) -> None:
        super().__init__()
        self._rng = random.Random(seed)
        self.late_seconds = TERMINAL_RETRY_SECONDS  # each failure in a row doubles the rest, as far as that

    def way(self, step: Step) -> str:
        way = self._rng.choice(IN_A_STORM) if self._rng.random() < STORM_CHANCE else ""
        return "503" if step.kind == "read" and way in FOR_WRITES else way


def points(undisturbed: Whole) -> Sequence[str]:
    once = [
        f"{kind}-{number}-{way}"
        for kind in ("write", "read")
        for number in range(undisturbed.steps.get(kind, 0))
        for way in WAYS
        if kind == "write" or way not in FOR_WRITES
    ]
    return [*once, *(f"storm-{seed}" for seed in range(STORMS))]


def fault(point: str) -> Refusing:
    first, *rest = point.split("-", 2)
    return Storm(int(rest[0])) if first == "storm" else Once(first, int(rest[0]), rest[1])


def play(run: str) -> Verdict:
    name, _, point = run.partition("/")
    scenario, undisturbed = SCENARIOS[name], whole(name)
    refusing = fault(point)
    invalid, storm = point.endswith("-422"), point.startswith("storm")
    goes = "ttlSecondsAfterFinished" in str(scenario.manifest)
    if invalid and not goes:  # one that goes after its end is over when it is gone
        scenario = replace(scenario, over=lambda world: scenario_over(name, world) or has_ended(world))
    within = TERMINAL_RETRY_SECONDS + 60 if invalid or storm else 60.0
    outcome = live(scenario, refusing)
    beside = "-tensorboard-" in refusing.struck  # it stands beside the job, which goes on without it
    if invalid and refusing.struck.startswith("POST") and not beside and _is_refused(outcome, refusing.struck, goes):
        wrong = [*_refused(outcome), *outcome.unlike_the_model]
    elif invalid and _ended_before_the_retry(outcome, undisturbed.first):
        wrong = [*outcome.touched, *outcome.surplus, *outcome.restless, *outcome.unlike_the_model]
    else:
        wrong = judge(outcome, undisturbed, Allowance(within, unlike=UNTOLD if invalid else None))
    usual = undisturbed.steps["write"] + undisturbed.steps.get("read", 0)
    most = 3 * usual + 40 if storm else usual + REQUESTS_MORE
    if refusing.requests > most:
        wrong.append(f"{refusing.requests} requests, {usual} undisturbed, {most} allowed")
    return verdict(outcome, undisturbed, wrong)


def scenario_over(name: str, world: SimWorld) -> bool:
    return SCENARIOS[name].over(world)


def _ended_before_the_retry(outcome: Outcome, undisturbed: Outcome) -> bool:
    """No pod is replaced before a status says so. What was to be replaced is not, where the rest of the job comes to
    the same end before that status is tried again."""
    phases = phase_of(outcome.state), phase_of(undisturbed.state)
    return outcome.over and phases[0] == phases[1] and restarts_of(outcome.state) < restarts_of(undisturbed.state)


def _is_refused(outcome: Outcome, struck: str, goes: bool) -> bool:
    """The job never had a pod, and the first one was invalid. (One that has had a pod goes on, and ends as it would.)
    `goes`: the job has a TTL, and may be gone by now."""
    phase = phase_of(outcome.state, COMPANION if f"/{COMPANION}-" in struck else NAME)
    return phase == "Failed" or (goes and not phase)


def _refused(outcome: Outcome) -> Iterator[str]:
    if not outcome.over:
        yield f"the scenario is not over after {outcome.seconds:.0f} s"
    said = {path: str(value) for path, value in outcome.state.items() if ".status." in path}
    for end, what in ((".refused", "Create"), (".message", WORDS)):
        if said and not any(what in value for path, value in said.items() if path.endswith(end)):
            yield f"no {end[1:]} of the job says {what}"
    yield from (*outcome.touched, *outcome.surplus, *outcome.restless)


def _runs() -> Sequence[str]:
    return [f"{name}/{point}" for name in SCENARIOS for point in points(whole(name))]


def _sample(name: str) -> Sequence[str]:
    found = points(whole(name))
    return [f"{name}/{point}" for point in (*spread(1)(found[:-STORMS]), found[-1])]


ROW = Row(
    15,
    "the API server refuses a request, or one in five of all",
    _runs,
    {name: lambda name=name: _sample(name) for name in SCENARIOS},  # type: ignore[misc]
    play,
)
