"""Where something can go wrong: every step of a process that can be seen from outside, and what a fault may do there.

A process of the operator meets the world only at its requests to the API server and its commands to Redis. Each of
those is a `Step` with a number, the same in each run of one scenario up to the first disturbance: so a fault is told by
a number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from tjworker.base import JobKey
from tjworker.kube.port import HttpResponse
from tjworker.store.projection import View

if TYPE_CHECKING:
    from tests.simulation.world import SimWorld

Kind = Literal["write", "read", "redis", "event", "task"]
"""`write` and `read`: a request of a worker or of beat to the API server (Events are no writes: none counts on them).
`redis`: a call of the store, or the publishing of tasks, by any process. `event`: a line of a watch. `task`: a key on
its way to a worker."""


class Step(NamedTuple):
    kind: Kind
    number: int
    """Of its kind, from 0."""
    actor: str
    """`watcher`, `beat`, `worker-1` ..."""
    what: str


class Died(BaseException):
    """The process is gone, as by kill -9. Not an Exception: nothing may catch it but the world that starts another."""


class Fault:
    """Nothing goes wrong. A row's faults say what does; each lives for one run."""

    late_seconds: float = 0.0
    """By so much later than usual may come what is due, by the operator's own promise (how long it rests after what
    cannot be helped)."""
    forgot_a_new_job = False
    """The store lost what the operator had written for a job younger than `YOUNG_SECONDS`, which is what its first pods
    have for a proof: they may be made once more (ADR 30)."""

    def before(self, world: SimWorld, step: Step) -> None:
        """A write, a read or a command of Redis is about to be made. May raise Died or Transient, or let time pass."""

    def answers(self, world: SimWorld, step: Step) -> HttpResponse | None:
        """What this write or read is answered instead of being carried out; None: it is carried out."""
        return None

    def after(self, world: SimWorld, step: Step) -> None:
        """It has been carried out, and its caller has not heard so yet."""

    def sees(self, world: SimWorld, key: JobKey, view: View) -> View:
        """What a pass that begins gets to see, where Redis holds `view`."""
        return view

    def arrives(self, world: SimWorld, step: Step) -> bool:
        """Whether this event of a watch reaches the watcher."""
        return True

    def deliver(self, world: SimWorld, step: Step) -> tuple[float, ...]:
        """After how many seconds this task reaches a worker, once for each number."""
        return (0.0,)

    def passes(self, world: SimWorld) -> None:
        """Time has come to a new moment; nothing has been done in it yet."""

    def next_due(self, now_seconds: float) -> float | None:
        """When it wants to be asked again, in Unix seconds."""
        return None
