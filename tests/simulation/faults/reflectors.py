"""Row 14. Whatever the API server does to a watch, what comes out of a reflector is ordered, unique, complete and
resumable.

A run is the life of a reflector: some sixteen random sessions, with 410 before and during a stream, ERROR events,
half-open connections, cut chunks, split UTF-8, doubled events and empty bookmarks, while pods come and go; then it is
quiet, and its reader knows exactly what there is. A watch that bookmarks have moved on needs no list when the history
before them is gone. That a half-open connection is seen within 90 s, and that a dead
server gets one list in 30 s, are tables of tests/unit/tjworker/kube/test_reflector.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.simulation.fault import Row, Verdict
from tests.support.reflector_bench import Bench
from tests.support.scripted_api import Server, World, answers, broken, random_session, status
from tjworker.kube.port import HttpResponse

RUNS = 2_000


def mutation(rng: random.Random) -> Callable[[World], None]:
    def mutate(world: World) -> None:
        for _ in range(rng.randint(0, 4)):
            name = f"p{rng.randint(0, 7)}"
            if name in world.pods and rng.random() < 0.35:
                world.remove(name)
            else:
                world.put(name, ours=rng.random() < 0.9, note=rng.choice(("", "läuft", "訓練中", "🚀")))
        if rng.random() < 0.1:
            world.compact()

    return mutate


def one_life(seed: int) -> int:
    """Gives the number of watch sessions in it; raises AssertionError when what came out is not what there was."""
    rng = random.Random(seed)
    bench = Bench(seed=seed, page_size=rng.choice((1, 3, 500)))
    mutate = mutation(rng)
    mutate(bench.server.world)
    for _ in range(20):
        roll = rng.random()
        if roll < 0.1:
            bench.server.lists.append(
                rng.choice(
                    (
                        broken,
                        answers(429, status(429, "TooManyRequests"), retry_after="1"),
                        answers(503, b"unavailable"),
                        lambda server: None,
                    )
                )
            )
        elif roll < 0.15:
            bench.server.lists.append(compacting_between_pages)
        bench.server.watches.append(random_session(rng, mutate))
        bench.steps(1)
        if rng.random() < 0.1:
            mutate(bench.server.world)
    sessions = bench.server.count("watch")
    # The storm is over: two quiet sessions, and the reader knows exactly what is.
    bench.server.watches.clear()
    bench.server.lists.clear()
    bench.run_for(120)
    assert bench.seen.pods == bench.truth
    assert bench.seen.position == bench.server.world.rv or bench.seen.position >= max(
        [rv for rv, _, _ in bench.server.world.events], default=0
    )
    _resumes_by_bookmarks(bench)
    return sessions


def _resumes_by_bookmarks(bench: Bench) -> None:
    """What happens to other resources is told by bookmarks alone; with these a watch outlives the loss of the history
    before."""
    lists = bench.server.count("list")
    bench.server.world.rv += 3
    bench.run_for(30)
    bench.server.world.compact()
    bench.run_for(30)
    assert bench.server.count("list") == lists, "it lists again, though a bookmark had told of that version"


def compacting_between_pages(server: Server) -> HttpResponse | None:
    server.world.put("p0")
    server.world.compact()
    return None


def play(run: str) -> Verdict:
    try:
        sessions = one_life(int(run))
    except AssertionError as error:
        return Verdict((str(error)[:500],))
    return Verdict(trace=f"{sessions} watch sessions")


ROW = Row(
    14,
    "a reflector gives an ordered, unique, complete, resumable stream; 16 sessions a run",
    lambda: [str(seed) for seed in range(RUNS)],
    {"reflectors": lambda: [str(seed) for seed in range(100_000, 100_060)]},
    play,
)
