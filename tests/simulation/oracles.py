"""Whether a disturbed scenario was as good as an undisturbed one. As Sieve (OSDI'22): the same end state as two
undisturbed runs, but for the fields in which those two differ, and the same number of creates and deletes of each
object. And: never a pod too many alive, no other's object touched, and at the end passes that write nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import orjson

from tests.simulation.ledger import CHILDREN, JOBS, called
from tests.simulation.points import Fault, Step
from tests.simulation.scenarios import SCENARIOS, Scenario
from tests.simulation.trace import Trace
from tests.simulation.world import SimWorld

Json = dict[str, Any]
DISTURBED_SECONDS = 600.0
"""How much longer than planned a disturbed scenario may take; rows that promise a time say a shorter one."""
QUIET_PASSES = 3
COMPANION = "other"
_NEVER = frozenset(
    {
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "podIP",
        "podIPs",
        "hostIP",
        "hostIPs",
        "nodeName",
        "clusterIP",
        "clusterIPs",
    }
)
"""Fields that no two worlds need have in common."""
_LENGTHS = frozenset({"suspendedSeconds"})
"""How long something took, in whole seconds: a disturbance may take some. That it takes too many shows in when the
scenario is over."""
_ANY_OF = re.compile(r"\b(node|trainer)-\d+\b")
"""On which node it was, and which of two trainers fails first, is chance."""


@dataclass(frozen=True)
class Outcome:
    """One scenario, from the outside."""

    over: bool
    seconds: float
    state: Mapping[str, Any]
    """Path -> value, of the job and its objects at the end."""
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
    trace: Trace = field(repr=False, compare=False)


@dataclass(frozen=True)
class Whole:
    """What a scenario comes to when nothing goes wrong."""

    first: Outcome
    second: Outcome

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
    more_seconds: float = DISTURBED_SECONDS,
    companion: bool = False,
    world_type: type[SimWorld] = SimWorld,
) -> Outcome:
    """One scenario to its end, and some passes more. `companion`: beside a second job of the same spec, which is left
    alone."""
    world = world_type(seed=seed, fault=fault, nodes=scenario.nodes, autoscaled=scenario.autoscaled)
    world.cluster.client.create("/api/v1/namespaces/default/pods", BYSTANDER)
    world.cluster.run_until_idle()
    theirs = world.pods()["bystander"]["metadata"]["uid"]
    world.strangers = {"bystander"}
    world.acts = [partial(act, world) for act in scenario.acts]
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
    state = dict(_state(world, scenario.chance))
    world.forget()
    return Outcome(
        over=over,
        seconds=seconds,
        state=state,
        creates=dict(world.ledger.creates),
        deletes=dict(world.ledger.deletes),
        surplus=tuple(world.ledger.surplus),
        touched=touched,
        restless=restless,
        steps=steps,
        passes=passes,
        trace=world.trace,
    )


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


def _state(world: SimWorld, chance: Collection[str]) -> Iterator[tuple[str, Any]]:
    for bucket in (*sorted(JOBS), *CHILDREN):
        for name, obj in sorted(world.objects(bucket).items()):
            if name not in ("kubernetes", "bystander"):
                seen = _without(obj, chance) if bucket in JOBS and chance else obj
                found: list[tuple[str, Any]] = []
                _paths(f"{bucket}/{called(obj)}", seen, found)
                yield from (at for at in found if not _says_nothing(*at))


def _without(job: Json, chance: Collection[str]) -> Json:
    """The job without conditions of these types that are over."""
    status = job.get("status") or {}
    told = [c for c in status.get("conditions", ()) if c["status"] == "True" or c["type"] not in chance]
    return {**job, "status": {**status, "conditions": told}}


def _says_nothing(path: str, value: Any) -> bool:
    """Attempts that stand there with nothing in them, or not at all; and who has run, which is only noted while the
    job is not Running."""
    return ".status.attempts." in path and (not value or path.endswith(".ran"))


def _paths(path: str, value: Any, found: list[tuple[str, Any]]) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in _LENGTHS:
                found.append((f"{path}.{key}", inner > 0))
            elif key not in _NEVER:
                _paths(f"{path}.{key}", inner, found)
    elif isinstance(value, list):
        found.append((f"{path}#", len(value)))
        for index, inner in enumerate(value):
            _paths(f"{path}[{index}]", inner, found)
    else:
        found.append((path, _plain(value) if isinstance(value, str) else value))


def _plain(text: str) -> str:
    """What a condition remembers of an earlier failure names the first of those that failed at once."""
    return "over" if text.startswith("over; it was: ") else _ANY_OF.sub(r"\1-*", text)


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
        wrong = [*run.surplus, *run.touched, *run.restless]
        assert not wrong, f"{name}: undisturbed, and yet {wrong}\n{run.trace}"
    return Whole(*runs)


_NOTHING = object()


def differences(mine: Mapping[str, Any], first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[str]:
    """Where `mine` is neither as the first nor as the second, in what these two have in common."""
    for path in sorted({*mine, *first, *second}):
        want = first.get(path, _NOTHING)
        if want == second.get(path, _NOTHING) and mine.get(path, _NOTHING) != want:
            yield f"{path}: {mine.get(path, 'nothing')!r}, undisturbed {'nothing' if want is _NOTHING else repr(want)}"


def _counts(run: Outcome, of: Whole, spare: int) -> Iterator[str]:
    twice = {
        name
        for name, count in run.creates.items()
        if count == of.first.creates.get(name, 0) + 1 and run.deletes.get(name, 0) == of.first.deletes.get(name, 0) + 1
    }
    forgiven = twice if len(twice) <= spare else set()

    def rest(counts: Mapping[str, int]) -> Mapping[str, int]:
        return {name: count for name, count in counts.items() if name not in forgiven}

    for what in differences(rest(run.creates), rest(of.first.creates), rest(of.second.creates)):
        yield f"made {what}"
    for what in differences(rest(run.deletes), rest(of.first.deletes), rest(of.second.deletes)):
        yield f"deleted {what}"


def judge(run: Outcome, of: Whole, within_seconds: float = DISTURBED_SECONDS, spare: int = 0) -> list[str]:
    """What was wrong; empty for a scenario as good as an undisturbed one, and no later than that. So many objects as
    `spare` may have been made once more, and deleted again."""
    if not run.over:
        phase = next((v for p, v in run.state.items() if p.endswith(".status.phase")), "no job")
        return [f"the scenario is not over after {run.seconds:.0f} s: {phase}", *run.surplus[:2], *run.touched]
    late = run.seconds - max(of.first.seconds, of.second.seconds)
    wrong = (
        [f"over {late:.0f} s later than undisturbed, {within_seconds:.0f} s allowed"] if late > within_seconds else []
    )
    wrong += [*run.surplus[:3], *run.touched, *(f"a pass after the end wrote: {write}" for write in run.restless)]
    wrong += _counts(run, of, spare)
    wrong += differences(run.state, of.first.state, of.second.state)
    return wrong
