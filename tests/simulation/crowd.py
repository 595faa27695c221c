"""The operator as it is deployed: two watchers that stand for one Lease, three beats, as many workers as there are just
then.

The election, its renewals and the term are the watcher's own code; only their waits are the world's virtual time. A
leader that sleeps goes on when it wakes, in the middle of the command that it was about to make, and does not know that
another leads.
"""

from __future__ import annotations

import random
import threading
from datetime import UTC, datetime
from typing import Any

from tests.simulation.points import Died
from tests.simulation.transport import SimTransport
from tests.simulation.watcher import SimWatcher
from tests.simulation.world import SimWorld
from tjworker.base import Fenced
from tjworker.kube.client import KubeClient
from watcher.app import BETWEEN_TERMS_SECONDS
from watcher.leader import Election, Elector, Tenure

WATCHERS = ("watcher-1", "watcher-2")
BEATS = 3
LEASE = ("default", "tj-watcher")


class Candidate:
    """One watcher's process, from its start to its death."""

    def __init__(self, world: SimWorld, name: str, incarnation: int) -> None:
        self.name = name
        self._world = world
        election = Election(
            f"{name}_{incarnation}", *LEASE, lease_duration_seconds=world.settings.lease_duration_seconds
        )
        self._elector = Elector(
            KubeClient(SimTransport(world, name)),
            election,
            stopped=threading.Event(),
            now=world.clock,
            wall=lambda: datetime.fromtimestamp(world.clock(), UTC),
            renew_seconds=world.settings.lease_renew_seconds,
            rng=random.Random(f"{world.seed} {name} {incarnation}"),
        )
        self._token = 0
        self._tenure: Tenure | None = None
        self.term: SimWatcher | None = None
        self.looked = False
        """It has seen the Lease: from then on it knows when that runs out."""
        self.due_at = world.clock()
        """Its next look at the Lease, in Unix seconds."""

    def step(self) -> bool:
        """What it does at this moment. Whether it has just come to lead."""
        if self.term is not None:
            self._lead(self.term)
            return False
        if self._world.clock() < self.due_at:
            return False
        token = self._elector.try_acquire()
        self.looked = True
        if token is None:
            self.due_at = self._world.clock() + self._elector.wait_seconds()
            return False
        self._token, self._tenure = token, self._elector.tenure(token)
        self.term = SimWatcher(self._world, token, self.name)
        self.due_at = self._world.clock() + self._tenure.wait_seconds
        return True

    def leave(self) -> None:
        """In order, as at SIGTERM."""
        if self.term is not None:
            self._elector.release(self._token)
            self.term = None

    def _lead(self, term: SimWatcher) -> None:
        why = ""
        try:
            term.pump()
            if self._world.clock() >= self.due_at and self._tenure is not None:
                why = self._tenure.renew()
                self.due_at = self._world.clock() + self._tenure.wait_seconds
        except Fenced as error:
            why = error.message
            self._elector.leap_ahead(self._token)
            self._elector.release(self._token)
        if why:
            self._world.trace.note(self._world.clock(), self.name, f"leads no more: {why}")
            self.term, self._tenure = None, None
            self.due_at = self._world.clock() + BETWEEN_TERMS_SECONDS


class CrowdWorld(SimWorld):
    def __init__(self, **more: Any) -> None:
        self.candidates: dict[str, Candidate] = {}
        self._incarnations = 0
        self._back_at: dict[str, float] = {}
        """Watcher or worker that is away -> when it is started again."""
        self.leader = ""
        """The last to have taken the Lease."""
        self.struck_at: float | None = None
        """Since when the leader does not work, until another leads."""
        self.take_overs_seconds: list[float] = []
        super().__init__(**more)
        self._beat_due = {
            f"{task}#{beat}": at + self.rng.uniform(0.0, self._periods[task])
            for task, at in self._beat_due.items()
            for beat in range(BEATS)
        }

    # -- who comes and goes ------------------------------------------------------------------------

    def start_watcher(self) -> None:
        for name in WATCHERS:
            self.start_candidate(name)
        self.watch()

    def start_candidate(self, name: str) -> None:
        self._incarnations += 1
        self.candidates[name] = Candidate(self, name, self._incarnations)

    def standby(self) -> Candidate | None:
        """That could take over from the leader at any time: it is awake and knows the Lease."""
        found = (c for c in self.candidates.values() if c.term is None and c.looked and c.name not in self._busy)
        return next(found, None) if len(self.candidates) == len(WATCHERS) else None

    def loses(self, name: str, back_seconds: float) -> None:
        """This watcher's process is gone, and another is started in its place after so long."""
        self.trace.note(self.clock(), name, f"is gone for {back_seconds:.1f} s")
        if name == self.leader:
            self.struck_at = self.clock()
        del self.candidates[name]
        self._back_at[name] = self.clock() + back_seconds

    def free_watchers(self) -> list[str]:
        return [name for name in self.candidates if name not in self._busy]

    def free_workers(self) -> list[str]:
        return [name for name in self.worker_names() if name not in self._busy]

    def worker_names(self) -> list[str]:
        return [f"worker-{number + 1}" for number in range(len(self.workers))]

    def worker_goes(self, name: str, back_seconds: float) -> None:
        """Between two tasks, as one that is told to."""
        self.trace.note(self.clock(), name, f"goes, and is back in {back_seconds:.1f} s")
        self._busy.add(name)
        self._back_at[name] = self.clock() + back_seconds

    def worker_comes(self) -> None:
        self.workers.append(self.make_worker(f"worker-{len(self.workers) + 1}"))
        self.trace.note(self.clock(), self.worker_names()[-1], "comes")

    def beat_goes(self, beat: int, seconds: float) -> None:
        self.trace.note(self.clock(), f"beat-{beat}", f"is gone for {seconds:.1f} s")
        for row, at in self._beat_due.items():
            if row.endswith(f"#{beat}"):
                self._beat_due[row] = max(at, self.clock() + seconds)

    def come_back(self) -> None:
        for name in [name for name, at in self._back_at.items() if at <= self.clock()]:
            del self._back_at[name]
            if name in WATCHERS:
                self.start_candidate(name)
            else:
                self.workers[self.worker_names().index(name)] = self.make_worker(name)
                self._busy.discard(name)

    # -- time --------------------------------------------------------------------------------------

    def watch(self) -> None:
        self.come_back()
        for name in WATCHERS:
            candidate = self.candidates.get(name)
            if candidate is None or name in self._busy:
                continue
            self._busy.add(name)
            try:
                if candidate.step():
                    self._leads(candidate)
            except Died:
                self._died(name)
                self.loses(name, self.rng.uniform(1.0, 4.0))
            finally:
                self._busy.discard(name)
        dues = [c.due_at for c in self.candidates.values() if c.name not in self._busy]
        self._watcher_due = min([*dues, *self._back_at.values()], default=None)

    def _leads(self, candidate: Candidate) -> None:
        assert candidate.term is not None
        if self.struck_at is not None and candidate.name != self.leader:
            self.take_overs_seconds.append(self.clock() - self.struck_at)
        self.trace.note(self.clock(), candidate.name, "leads")
        self.leader, self.struck_at, self.watcher = candidate.name, None, candidate.term

    def _beat(self) -> None:
        for row, at in list(self._beat_due.items()):
            if at <= self.clock() and "beat" not in self._busy:
                task = row.partition("#")[0]
                self._beat_due[row] = self.clock() + self._periods[task]
                self.beat(task)
