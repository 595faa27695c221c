"""The local cluster in one process and in virtual time: API server, controllers, scheduler and the fake kubelet,
without a socket, a thread or a sleep. For tests and simulations; deterministic for one seed.

    cluster = LocalCluster(nodes=3)
    cluster.client.create("/api/v1/namespaces/default/pods", pod)
    cluster.run_until_idle()
    cluster.advance(30)
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from localcluster.apiserver import ApiServer
from localcluster.client import InProcessClient
from localcluster.controllers import controllers
from localcluster.driver import VirtualClock, VirtualDriver
from localcluster.informer import Informers
from localcluster.kubelet.fake import FakeKubelet
from localcluster.kubelet.node import RENEW_SECONDS, NodeConfig
from localcluster.kubelet.play import Script
from localcluster.machine import Machine
from localcluster.scheduler import SCHEDULER_NAMES, Scheduler
from localcluster.wire import Request, Response


class LocalCluster:
    """`nodes`: how many nodes named node-0 ..., or their configs. `endpoints=False` saves the EndpointSlices,
    `track_fields=False` the managedFields, `component_events=False` the Events of controllers and scheduler."""

    def __init__(  # noqa: PLR0913
        self,
        *,
        clock: VirtualClock | None = None,
        seed: int = 0,
        nodes: int | Sequence[NodeConfig] = 1,  # noqa: PLR0913, RUF100
        script: Script | None = None,
        endpoints: bool = False,
        kubelet_events: bool = False,
        data_dir: Path | None = None,
        lease_renew_seconds: float = RENEW_SECONDS,
        scheduler_names: Sequence[str] = SCHEDULER_NAMES,
        track_fields: bool = True,
        component_events: bool = True,
    ) -> None:
        self.clock = clock if clock is not None else VirtualClock()
        self.seed = seed
        self.apiserver = ApiServer(
            clock=self.clock, rng=random.Random(seed), data_dir=data_dir, track_fields=track_fields
        )
        self.client = InProcessClient(self.apiserver.handle, user="kubernetes-admin")
        components = InProcessClient(self.apiserver.handle, shares=True)
        self.informers = Informers(components)
        configs = [NodeConfig(name=f"node-{n}") for n in range(nodes)] if isinstance(nodes, int) else list(nodes)
        self.scheduler = Scheduler(components, self.informers, self.clock, scheduler_names, events=component_events)
        self.kubelet = FakeKubelet(
            components,
            self.informers,
            self.clock,
            configs,
            script=script,
            events=kubelet_events,
            renew_seconds=lease_renew_seconds,
        )
        made = controllers(components, self.informers, self.clock, endpoints=endpoints, events=component_events)
        machines: list[Machine] = [*made, self.scheduler, self.kubelet]
        self.driver = VirtualDriver([self.informers], machines, self.clock, self.apiserver)
        self.apiserver.log_source = self.kubelet.logs(self._log)
        self.run_until_idle()

    def run_until_idle(self) -> None:
        self.driver.run_until_idle()

    def advance(self, seconds: float) -> None:
        self.driver.advance(seconds)

    def fail_node(self, name: str, how: str = "NotReady") -> None:
        """The node falls silent, or fails in another way that `localcluster.kubelet.node` lists."""
        self.kubelet.fail(name, how)

    def recover_node(self, name: str) -> None:
        self.kubelet.recover(name)

    def close(self) -> None:
        self.informers.close()
        self.apiserver.close()

    def _log(self, namespace: str, pod: str, container: str, query: object) -> Response:
        text = self.kubelet.log_of(namespace, pod) or ""
        return Response(200, text.encode(), content_type="text/plain")

    def request(self, method: str, path: str, body: bytes = b"", **query: str) -> Response:
        """One raw request, for what the client does not do."""
        answer = self.apiserver.handle(
            Request(method=method, path=path, query=query, body=body, headers={"content-type": "application/json"})
        )
        if not isinstance(answer, Response):
            answer.close()
            raise TypeError(f"{method} {path} opened a watch; use client.watch")
        return answer
