"""The watcher of the simulation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.support.inprocess import InProcessWatcher
from tests.simulation.store import SimQueue, SimStore
from tests.simulation.transport import SimTransport
from tjworker.kube.reflector import Reflector

if TYPE_CHECKING:
    from tests.simulation.world import SimWorld

from tests.simulation.store import _Stopped


class SimWatcher(InProcessWatcher):
    """Steps only reflectors whose resource has news."""

    def __init__(self, world: SimWorld, token: int, actor: str = "watcher") -> None:
        self._world = world
        super().__init__(
            world.cluster.apiserver.handle,
            SimStore(world, actor),
            SimQueue(world, actor).publish,
            now=world.clock,
            token=token,
            seed=world.seed,
            settings=world.settings,
            transport=SimTransport(world, actor),
            stopped=_Stopped(world, actor),
        )
        self._shown: dict[Reflector, int] = {}

    def pump(self) -> None:
        self._lead()
        self._run_ahead()
        for reflector in self.reflectors:
            self._step(reflector)
        self._drain()

    def _step(self, reflector: Reflector) -> None:
        world = self._world
        newest = world.newest(reflector.resource)
        if self._shown.get(reflector) == newest and reflector.resource not in world.expired:
            return
        if world.blind.get(reflector.resource, 0.0) > world.clock():
            return
        self._shown.pop(reflector, None)
        for _ in range(3):
            reflector.step()
            if not reflector.needs_list or reflector.vitals.state in ("missing", "forbidden"):
                self._shown[reflector] = newest
                return
