"""Whether a disturbed scenario was as good as an undisturbed one. As Sieve (OSDI'22): the same end state as two
undisturbed runs, but for the fields in which those two differ, and the same number of creates and deletes of each
object. And: never a pod too many alive, no other's object touched, at the end passes that write nothing, and all of it
as the contract has it (`tests/model`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

import orjson

from tests.model.judge import Judgement
from tests.model.judge import judge as judged
from tests.simulation.points import Fault, Step
from tests.simulation.scenarios import SCENARIOS
from tests.simulation.scripts import Scenario
from tests.simulation.state import phase_of, state_of
from tests.simulation.trace import Trace
from tests.simulation.world import SimWorld

Json = dict[str, Any]
LOST_HOLDER_SECONDS = 30.0 + 30.0 + 5.0
"""Until what a dead worker held, or a lost task, is taken up again: TJ_LOCK_TTL_SECONDS for its lease to lapse,
TJ_RESYNC_SECONDS until the resync looks, and some for the rest. The full resync (TJ_FULL_RESYNC_SECONDS) heals nothing
in time."""
PATIENCE_SECONDS = 900.0
"""How long a disturbed scenario is played beyond its time, to tell how late it was."""
QUIET_PASSES = 3
ALL = 1_000
"""More objects than any scenario has."""
COMPANION = "other"
ON_THE_WAY = (
    "nothing is made after an end",
    "a pod is made because it is wanted",
    "a pod takes another's place for a reason",
)
"""Rules of the model that a create breaks which was on its way for as long as its worker stood still."""
UNTOLD = re.compile(
    r"conditions\[\d+\]\.(message: .*, undisturbed 'over'|reason: '\w+', undisturbed 'Restarted')$"
    r"|conditions(\[\d+\]|\.Running)\.last(Transition|Update)Time: \d+ s earlier than undisturbed$"
    r"|\.attempts\.roles\.\w+\.\w+: "
)
"""What differs where a restart was over and the status that would have told it never came: the condition Restarting is
over with the end, for the end's reason; Running is False since the restart; and the notes that the restart made for
itself stay."""
ROUNDING_SECONDS = 1.0
"""Times of Kubernetes have whole seconds: two that are cut differ by one more or less."""


@dataclass(frozen=True)
class Outcome:
    """One scenario, from the outside."""

    over: bool
    seconds: float
    state: Mapping[str, Any]
    """Path -> value, of the job and its objects at the end."""
    times: Mapping[str, float]
    """Path -> seconds after the job's creation, of all times in these."""
    untimely: tuple[str, ...]
    """Times that were written and cannot be."""
    creates: Mapping[str, int]
    deletes: Mapping[str, int]
    surplus: tuple[str, ...]
    touched: tuple[str, ...]
    """What was done to objects that are not the job's."""
    restless: tuple[str, ...]
    """Writes of passes after the end."""
    steps: Mapping[str, int]
    """Kind -> how many."""
    passes: int
    model: Judgement
    """What `tests/model` says of it."""
    trace: Trace = field(repr=False, compare=False)

    @property
    def unlike_the_model(self) -> tuple[str, ...]:
        """What no reading of the contract allows."""
        return self.model.wrong


@dataclass(frozen=True)
class Whole:
    """What a scenario comes to when nothing goes wrong."""

    first: Outcome
    second: Outcome
    chance_seconds: float = 0.0
    """So much earlier may a time be, as its cause (the user, the autoscaler) looks only every now and then."""

    @property
    def steps(self) -> Mapping[str, int]:
        """Of the first: the numbers at which a fault can strike."""
        return self.first.steps

    @property
    def passes(self) -> int:
        return self.first.passes


class Lag(Fault):
    """Nothing goes wrong, but no task comes at once."""

    def deliver(self, world: SimWorld, step: Step) -> tuple[float, ...]:
        return (world.rng.uniform(0.0, 1.5),)


BYSTANDER = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "bystander",
        "labels": {
            "group-name": "elasticdeeplearning.ai",
            "job-name": "digits",
            "replica-name": "trainer",
            "replica-index": "0",
        },
    },
    "spec": {"containers": [{"name": "a", "image": "b"}], "tolerations": [{"operator": "Exists"}]},
}
"""Has our labels and is not ours."""


def live(
    scenario: Scenario,
    fault: Fault | None = None,
    *,
    seed: int = 1,
    more_seconds: float = PATIENCE_SECONDS,
    companion: bool = False,
    world_type: type[SimWorld] = SimWorld,
) -> Outcome:
    """One scenario to its end, and some passes more. `companion`: beside a second job of the same spec, which is left
    alone."""
    companion = companion or scenario.beside
    world = world_type(seed=seed, fault=fault, **scenario.world)
    theirs = _put_a_bystander(world)
    world.acts = [partial(act, world) for act in scenario.acts]
    for path, named in scenario.named:
        world.cluster.client.create(path, named)
    world.cluster.client.create(scenario.path, scenario.manifest)
    if companion:
        other = orjson.loads(orjson.dumps(scenario.manifest))
        other["metadata"]["name"] = COMPANION
        world.cluster.client.create(scenario.path, other)
    began = world.clock()
    over = world.live(
        lambda: scenario.over(world) and (not companion or _settled(world)),
        within_seconds=scenario.within_seconds + more_seconds,
    )
    seconds = world.clock() - began
    steps, passes = dict(world.steps), sum(not result.startswith("nothing to do") for result in world.results)
    restless = _restless(world) if over else ()
    touched = _touched(world, theirs)
    state = state_of(world, scenario.chance)
    model = judged(world.chronicle, world.clock(), world.fault.late_seconds)
    world.forget()
    return Outcome(
        over=over,
        seconds=seconds,
        state=state.values,
        times=state.times,
        untimely=tuple(world.ledger.untimely),
        creates=dict(world.ledger.creates),
        deletes=dict(world.ledger.deletes),
        surplus=tuple(world.ledger.surplus),
        touched=touched,
        restless=restless,
        steps=steps,
        passes=passes,
        model=model,
        trace=world.trace,
    )


def _put_a_bystander(world: SimWorld) -> str:
    """Its uid."""
    world.cluster.client.create("/api/v1/namespaces/default/pods", BYSTANDER)
    world.cluster.run_until_idle()
    uid: str = world.pods()["bystander"]["metadata"]["uid"]
    world.strangers = {"bystander"}
    return uid


def _touched(world: SimWorld, bystander_uid: str) -> tuple[str, ...]:
    stands = world.objects("pods").get("bystander")
    if stands and stands["metadata"]["uid"] == bystander_uid and "deletionTimestamp" not in stands["metadata"]:
        return ()
    return ("a pod that is not the job's was deleted",)


def _settled(world: SimWorld) -> bool:
    """The companion has ended; or it runs for as long as it likes, beside a job that its user has ended."""
    status = world.status(COMPANION)
    left = [name for name in (*world.pods(), *world.services()) if name.startswith(COMPANION)]
    if status.get("completionTime"):
        return not left
    return status.get("phase") == "Running" and (world.the_job() is None or world.phase() == "Preempted")


def _restless(world: SimWorld) -> tuple[str, ...]:
    world.advance(65)  # whatever is late has come: two resyncs, a lease
    world.requests_made.clear()
    for _ in range(QUIET_PASSES):
        for key in world.memory.queue.add(world.keys()):
            world.enqueue(key)
        world.advance(1)
    return tuple(sorted(world.requests_made))


@cache
def whole(name: str, companion: bool = False) -> Whole:
    """Two undisturbed runs of a scenario. Raises AssertionError when they are no measure: not over, or not as
    promised."""
    scenario = SCENARIOS[name]
    runs = (
        live(scenario, seed=1, more_seconds=0, companion=companion),
        live(scenario, Lag(), seed=2, more_seconds=60, companion=companion),
    )
    for run in runs:
        assert run.over, f"{name}: undisturbed, and not over after {run.seconds:.0f} s\n{run.trace}"
        wrong = [*run.surplus, *run.touched, *run.untimely, *run.restless, *run.unlike_the_model]
        assert not wrong, f"{name}: undisturbed, and yet {wrong}\n{run.trace}"
    return Whole(*runs, chance_seconds=scenario.chance_seconds)


_NOTHING = object()


def differences(mine: Mapping[str, Any], first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[str]:
    """Where `mine` is neither as the first nor as the second, in what these two have in common."""
    for path in sorted({*mine, *first, *second}):
        want = first.get(path, _NOTHING)
        if want == second.get(path, _NOTHING) and mine.get(path, _NOTHING) != want:
            yield f"{path}: {mine.get(path, 'nothing')!r}, undisturbed {'nothing' if want is _NOTHING else repr(want)}"


@dataclass(frozen=True)
class Allowance:
    """What the recovery from a fault takes, and no more."""

    seconds: float
    """So much later may the scenario be over, and any time in a status be."""
    made_for_nothing: int = 0
    """So many objects may be made once more than wanted, if they are deleted again."""
    until_collected_seconds: float = 0.0
    """Such an object may take so long to go."""
    on_the_way: int = 0
    """So many writes may make what was wanted when they were sent, and no longer is."""
    unlike: re.Pattern[str] | None = None
    """What may differ: words of what is found wrong."""

    def of_a_new_job(self) -> Allowance:
        """Whose objects may all be made once more, without a count, and go again (`Fault.forgot_a_new_job`)."""
        return replace(
            self,
            made_for_nothing=ALL,
            on_the_way=ALL,
            until_collected_seconds=self.seconds,
            unlike=re.compile(r"\.(attempts|restartCounts)\.|\.restarts: "),
        )


def late_seconds(run: Outcome, of: Whole) -> float:
    return run.seconds - max(of.first.seconds, of.second.seconds)


def _untimely(run: Outcome, of: Whole, allowed_seconds: float) -> Iterator[str]:
    """A disturbance makes a time later, by so much at most, and none earlier. (A time that one of the three lives does
    not have differs as a value does.)"""
    for path in sorted(run.times.keys() & of.first.times.keys() & of.second.times.keys()):
        both = of.first.times[path], of.second.times[path]
        late = run.times[path] - max(both)
        if run.times[path] < min(both) - ROUNDING_SECONDS - of.chance_seconds:
            yield f"{path}: {min(both) - run.times[path]:.0f} s earlier than undisturbed"
        elif late > allowed_seconds + ROUNDING_SECONDS:
            yield f"{path}: {late:.0f} s later than undisturbed, {allowed_seconds:.0f} s allowed"


def _made_for_nothing(run: Outcome, of: Whole) -> set[str]:
    """Made once more than undisturbed, and deleted again."""
    return {
        name
        for name, count in run.creates.items()
        if count == of.first.creates.get(name, 0) + 1 and run.deletes.get(name, 0) == of.first.deletes.get(name, 0) + 1
    }


def _counts(run: Outcome, of: Whole, forgiven: Collection[str]) -> Iterator[str]:
    def rest(counts: Mapping[str, int]) -> Mapping[str, int]:
        return {name: count for name, count in counts.items() if name not in forgiven}

    for what in differences(rest(run.creates), rest(of.first.creates), rest(of.second.creates)):
        yield f"made {what}"
    for what in differences(rest(run.deletes), rest(of.first.deletes), rest(of.second.deletes)):
        yield f"deleted {what}"


def judge(run: Outcome, of: Whole, allowed: Allowance) -> list[str]:
    """What was wrong; empty for a scenario as good as an undisturbed one, and no later than is allowed."""
    if not run.over:
        phase = phase_of(run.state) or "no job"
        more = [*run.surplus[:2], *run.touched, *run.unlike_the_model[:3]]
        return [f"the scenario is not over after {run.seconds:.0f} s: {phase}", *more]
    spare = _made_for_nothing(run, of) if allowed.made_for_nothing else set()
    forgiven = spare if len(spare) <= allowed.made_for_nothing else set()
    seconds = allowed.until_collected_seconds if forgiven else allowed.seconds
    late = late_seconds(run, of)
    wrong = [f"over {late:.0f} s later than undisturbed, {seconds:.0f} s allowed"] if late > seconds else []
    wrong += run.surplus[:3] if len(run.surplus) > allowed.on_the_way else ()
    wrong += [one for one in run.unlike_the_model if not (allowed.on_the_way and one.startswith(ON_THE_WAY))][:3]
    wrong += [*run.touched, *run.untimely[:3], *_untimely(run, of, seconds)]
    wrong += [f"a pass after the end wrote: {write}" for write in run.restless]
    wrong += _counts(run, of, forgiven)
    wrong += differences(run.state, of.first.state, of.second.state)
    return [one for one in wrong if allowed.unlike is None or not allowed.unlike.search(one)]
