"""The controllers of the local cluster. `controllers(...)` makes one of each; each is a step machine.

Serves: the line "Controllers" of docs/local-cluster.md; `kubectl scale rs`, `delete --cascade`, `wait`.
"""

from __future__ import annotations

from collections.abc import Callable

from localcluster.client import Client
from localcluster.controllers.endpoints import EndpointsController
from localcluster.controllers.garbage import GarbageCollector
from localcluster.controllers.job import JobController
from localcluster.controllers.namespace import NamespaceController
from localcluster.controllers.nodelifecycle import NodeLifecycleController
from localcluster.controllers.podgc import PodGarbageCollector
from localcluster.controllers.podgroups import PodGroupProtection
from localcluster.controllers.replicaset import ReplicaSetController
from localcluster.controllers.serviceaccount import ServiceAccountController
from localcluster.controllers.ttl import TtlController
from localcluster.controllers.volumes import VolumeController
from localcluster.informer import Informers
from localcluster.machine import Machine
from localcluster.recorder import Recorder


def controllers(
    client: Client, informers: Informers, clock: Callable[[], float], *, endpoints: bool = True, events: bool = True
) -> list[Machine]:
    """`endpoints=False` leaves out EndpointSlices and Endpoints, `events=False` the Events, which tests of jobs have no
    use for."""

    def recorder(component: str) -> Recorder:
        return Recorder(client if events else None, clock, component)

    machines: list[Machine] = [
        GarbageCollector(client, informers),
        NamespaceController(client, informers),
        ServiceAccountController(client, informers),
        ReplicaSetController(client, informers, recorder("replicaset-controller"), clock),
        JobController(client, informers, recorder("job-controller"), clock),
        TtlController(client, informers),
        NodeLifecycleController(client, informers, recorder("node-controller")),
        PodGarbageCollector(client, informers),
        PodGroupProtection(client, informers),
        VolumeController(client, informers, recorder("persistentvolume-controller")),
    ]
    if endpoints:
        machines.append(EndpointsController(client, informers))
    return machines
