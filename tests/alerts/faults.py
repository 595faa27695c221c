"""What can happen to an operator, each really caused, with the alerts that must come of it. Faults of one wave happen
at the same time; the next wave begins when all alerts of the last have cleared."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from localcluster.client import ApiError
from tests.alerts.operator import NODES, Operator
from tests.alerts.prometheus import find_library
from tests.chaos.proxy import Special
from tests.e2e.control_plane.install import WATCHER
from tests.support.waiting import until

Act = Callable[[Operator], object]
PODS, BATCH_JOBS = "/namespaces/default/pods", "/apis/batch/v1/jobs"


def nothing(_: Operator) -> None: ...


@dataclass(frozen=True)
class Fault:
    fires: Sequence[str]
    begins: Act
    ends: Act
    lasts: Act = nothing
    """Called every second while it lasts."""
    cannot: str = ""
    """Why it cannot be caused on this machine."""


# -- processes -------------------------------------------------------------------------------------
def kill(*names: str) -> Act:
    def act(operator: Operator) -> None:
        for name in names:
            operator.kill(name)

    return act


def launch(*names: str, command: Sequence[str] = (), **settings: str) -> Act:
    def act(operator: Operator) -> None:
        for name in names:
            operator.launch(name, command, settings)

    return act


def swallow(name: str) -> Act:
    return lambda operator: operator.lines[name].swallow()


def pass_on(name: str) -> Act:
    return lambda operator: operator.lines[name].pass_on()


def both(*acts: Act) -> Act:
    def act(operator: Operator) -> None:
        for one in acts:
            one(operator)

    return act


WATCHERS, WORKERS = ("watcher1", "watcher2"), ("worker1", "worker2")
BROKEN_WORKER = (sys.executable, "-m", "celery", "-A", "tests.alerts.broken", "worker", "-n", "broken@%h", "-c", "1")
BROKEN_WATCHER = (sys.executable, "-m", "tests.alerts.broken")
CLOCK_AHEAD = {
    "LD_PRELOAD": str(find_library()),
    "FAKETIME": "+120s",
    "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    "NO_FAKE_STAT": "1",
}


# -- the Lease -------------------------------------------------------------------------------------
def hold_the_lease(operator: Operator) -> None:
    """As a program that renews it would."""
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{operator.namespace}/leases/tj-watcher"
    with suppress(ApiError):
        taken = int(operator.api.get(lease)["spec"].get("leaseTransitions") or 0) + 1
        operator.api.patch(lease, {"spec": {"holderIdentity": "another-program", "leaseTransitions": taken}})


def free_the_lease(operator: Operator) -> None:
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{operator.namespace}/leases/tj-watcher"
    operator.api.patch(lease, {"spec": {"holderIdentity": ""}})


# -- the API server and the cluster ----------------------------------------------------------------
def answer(*specials: Special) -> Act:
    return lambda operator: operator.api_answers(*specials)


def new_jobs(prefix: str, count: int) -> Act:
    def act(operator: Operator) -> None:
        for n in range(count):
            operator.create_job(f"{prefix}-{n}")

    return act


def one_more_job(prefix: str) -> Act:
    def act(operator: Operator) -> None:
        operator.create_job(f"{prefix}-{len(operator.jobs())}")

    return act


def delete_jobs(operator: Operator) -> None:
    operator.delete_jobs()


def touch_jobs(operator: Operator) -> None:
    operator.touch_jobs()


def jobs_that_outlive_nodes(operator: Operator) -> None:
    for n in range(30):
        operator.create_job(f"node-{n}", restartPolicy="OnNodeFail", restartScope="Pod")


def pods_are_there(operator: Operator) -> None:
    """One at least: there must be something that cannot be read."""
    until("a pod is there", lambda: operator.api.get("/api/v1" + PODS)["items"], look_seconds=0.1)


def fail_nodes(operator: Operator) -> None:
    """Once the jobs run. Two of four."""
    running = [
        pod for pod in operator.api.get("/api/v1" + PODS)["items"] if pod.get("status", {}).get("phase") == "Running"
    ]
    if len(running) >= 30:
        for name in ("node-0", "node-1"):
            operator.api.patch(f"{NODES}/{name}", {"metadata": {"annotations": {"localcluster/fail": "NotReady"}}})


def mend_nodes(operator: Operator) -> None:
    for name in ("node-0", "node-1"):
        operator.api.patch(f"{NODES}/{name}", {"metadata": {"annotations": {"localcluster/fail": None}}})


WAVES: Sequence[dict[str, Fault]] = (
    {
        "both watchers are killed": Fault(["TjNoLeader"], kill(*WATCHERS), launch(*WATCHERS)),
        "beat is killed": Fault(["TjBeatStands"], kill("beat"), launch("beat")),
    },
    {
        "another program holds the Lease": Fault(["TjNoLeader"], hold_the_lease, free_the_lease, hold_the_lease),
        "Redis' certificate is good for ten days": Fault(
            ["TjCertificateEnds"], lambda operator: operator.certify(10), lambda operator: operator.certify(365)
        ),
    },
    {
        "a third watcher has its Lease elsewhere": Fault(
            ["TjTwoLeaders"], launch("watcher3", command=WATCHER, TJ_LEADER_NAMESPACE="default"), kill("watcher3")
        ),
        "a worker's line to Redis loses everything": Fault(["TjWorkerStuck"], swallow("worker1"), pass_on("worker1")),
    },
    {
        "the API server answers for Leases alone": Fault(
            ["TjWatchOld", "TjApiErrors"],
            lambda operator: operator.api_answers(dead=True),
            lambda operator: operator.api_answers(),
        ),
        "beat's line to Redis loses everything": Fault(["TjBeatStands"], swallow("beat"), pass_on("beat")),
    },
    {
        "the API server answers nothing": Fault(
            ["TjNoLeader", "TjApiErrors"],
            lambda operator: operator.api_answers(
                Special("GET", "/leases/tj-watcher", 503), Special("PUT", "/leases/tj-watcher", 503), dead=True
            ),
            lambda operator: operator.api_answers(),
        )
    },
    {
        "watchers start while the list of pods is refused": Fault(
            ["TjNotSynced"], both(answer(Special("GET", "/api/v1/pods", 500)), launch(*WATCHERS)), answer()
        )
    },
    {
        "Redis is killed": Fault(
            ["TjRedisAway", "TjWorkerStuck"],
            lambda operator: operator.redis.kill(),
            lambda operator: operator.redis.start(),
        )
    },
    {
        "a second operator is installed in the same namespace": Fault(
            ["TjTwoLeaders"], launch("watcher3", command=WATCHER, TJ_KEY_PREFIX="second"), kill("watcher3")
        ),
        "Redis has reached maxmemory": Fault(
            ["TjRedisFull"],
            both(lambda operator: operator.tell_redis("CONFIG", "SET", "maxmemory", "1"), one_more_job("full")),
            both(lambda operator: operator.tell_redis("CONFIG", "SET", "maxmemory", "0"), delete_jobs),
        ),
    },
    {
        "both workers are killed while jobs come": Fault(
            ["TjNoWorker", "TjQueueOld"],
            both(kill(*WORKERS), new_jobs("waits", 3)),
            both(launch(*WORKERS), delete_jobs),
        )
    },
    {
        "the API server makes pods slowly, and many jobs come": Fault(
            ["TjJobsStartSlowly"],
            both(answer(Special("POST", PODS, after_seconds=8)), new_jobs("slow", 150)),
            both(answer(), delete_jobs),
        ),
        "the clock of a worker's machine is two minutes ahead": Fault(
            ["TjClockWrong"],
            launch("worker1", **CLOCK_AHEAD),
            launch("worker1"),
            cannot="" if find_library() else "needs libfaketime, of Debian's package of that name",
        ),
    },
    {
        "a release whose passes and projections have a bug": Fault(
            ["TjPassesFail", "TjObjectsUnreadable"],
            both(
                new_jobs("bug", 2),
                pods_are_there,
                kill(*WATCHERS, *WORKERS),
                launch("watcher1", command=BROKEN_WATCHER),
                launch("worker1", command=BROKEN_WORKER),
            ),
            both(launch(*WATCHERS, *WORKERS), delete_jobs),
            touch_jobs,
        )
    },
    {
        "a webhook fails for every pod": Fault(
            ["TjPassesRetried", "TjApiErrors"],
            both(answer(Special("POST", PODS, 500)), new_jobs("hook", 4)),
            both(answer(), delete_jobs),
            one_more_job("hook"),
        )
    },
    {
        "a role lacks a verb": Fault(
            ["TjForbidden", "TjPeriodicRunsFail"],
            both(answer(Special("POST", PODS, 403), Special("GET", BATCH_JOBS, 403)), new_jobs("forbidden", 2)),
            both(answer(), delete_jobs),
            one_more_job("forbidden"),
        )
    },
    {
        "two of four nodes are lost": Fault(
            ["TjNodesRestartJobs"], jobs_that_outlive_nodes, both(mend_nodes, delete_jobs), fail_nodes
        )
    },
)
