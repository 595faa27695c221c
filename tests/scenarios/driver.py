"""What a scenario (`tests.scenarios.scenarios`) needs of the world that it is played in. Two worlds have it:
`tests.scenarios.world.World` (one process, virtual time, the local cluster) and
`tests.e2e.control_plane.world.RealWorld` (real processes, real time, etcd and kube-apiserver). Each scenario has a
namespace to itself. Times are seconds of that world.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol

from tjworker.base import GroupResource

Json = dict[str, Any]
HOLD = ["example.com/hold"]
"""The finalizers of a pod that is held."""


class Driver(Protocol):
    # -- the user's hands --------------------------------------------------------------------------
    def apply(self, manifest: Json) -> object: ...

    def patch_job(self, name: str, patch: Json) -> object:
        """A merge patch."""

    def scale(self, name: str, replicas: int) -> object:
        """Through the scale subresource."""

    def delete(self, name: str) -> object:
        """A job, in the background, as kubectl does."""

    def delete_pod(self, name: str) -> object: ...

    def end_pod(self, name: str, exit_code: int = 0) -> object:
        """Its program ends now. A script's seconds end it at their own time: before a slow test has seen it run."""

    def delete_pod_group(self, name: str) -> object:
        """Of Kubernetes' own scheduler."""

    def create(self, resource: GroupResource, manifest: Json) -> object:
        """An object of somebody else's."""

    def hold_pod(self, name: str, *, held: bool = True) -> object:
        """With a finalizer; or take it off."""

    def create_pod(self, manifest: Json) -> object: ...

    def fail_node(self, name: str, how: str = "NotReady") -> object:
        """It falls silent, with all that runs on it; or another of the ways in `localcluster.kubelet.node`."""

    def taint_node(self, name: str, key: str) -> object:
        """With NoExecute; '' takes it off."""

    def recover_node(self, name: str) -> object: ...

    # -- time --------------------------------------------------------------------------------------
    def until(self, what: str, condition: Callable[[], bool], *, within_seconds: float = 60) -> None:
        """Let time pass until it holds; fail with `what` and the state of things when it does not in time."""

    def now(self) -> float:
        """The API server's clock, in Unix seconds."""

    def late_seconds(self) -> float:
        """By which a slow machine may miss a promise about time."""

    def stays(self, what: str, condition: Callable[[], bool], *, for_seconds: float) -> None:
        """It holds now and at each look for so long."""

    def quiet(self) -> None:
        """Whatever is under way comes to its end, as far as that can be seen from outside."""

    # -- what there is -----------------------------------------------------------------------------
    def status(self, name: str = "digits") -> Json: ...

    def phase(self, name: str = "digits") -> str: ...

    def condition(self, type_: str, name: str = "digits") -> Json: ...

    def jobs(self) -> list[str]: ...

    def pods(self) -> dict[str, Json]: ...

    def uids(self) -> dict[str, str]: ...

    def owners(self, resource: GroupResource) -> dict[str, Json]:
        """REPLICASETS or BATCH_JOBS, by name."""

    def services(self) -> list[str]: ...

    def events(self) -> dict[str, int]:
        """On jobs: reason -> how often."""

    def requests(self) -> Counter[str]:
        """What workers have sent about this namespace: `<verb as RBAC names it> <resource[/subresource]>` -> how
        often."""

    def most_status_writes(self, pods: int) -> int:
        """Of a scenario in which so many pods start, run and succeed."""
