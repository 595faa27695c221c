"""Jobs at moments at which they stand still, each with what an attacker has collected until then."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from tests.poison.attacks import Arms
from tests.poison.world import PoisonedWorld
from tests.scenarios.world import job, play, role, training_job
from tests.simulation.guests import ADDONS, guest
from tests.simulation.scripts import Wish
from tests.support.memory_redis import Tables
from tjworker.base import JobKey

LONG = 10**7
AI = "aitrainingjobs.elasticdeeplearning.ai/default/"
EDL = "trainingjobs.paddlepaddle.org/default/"
MPI = "mpijobs.kubeflow.org/default/"
STAYS = play(run_seconds=LONG)


@dataclass
class Life:
    """Lives up to the moment; `earlier` are its moments before."""

    key: str
    live: Callable[[PoisonedWorld, Callable[[], None]], None]
    settings: Mapping[str, Any] = field(default_factory=dict)
    share: int = 6
    """One attack of so many is played in each run of the fast suite."""


def _runs(world: PoisonedWorld, moment: Callable[[], None]) -> None:
    """One that limits its restarts, so that each that is counted falsely brings its end nearer."""
    fails_once = play(failing_attempts=1, failing_exit_code=137, failing_run_seconds=3, run_seconds=LONG)
    world.apply(
        job(
            {
                "trainer": role(
                    2, annotations=fails_once, restartPolicy="OnFailure", restartLimit=3, restartScope="Pod"
                ),
                "ps": role(1, annotations=STAYS, restartPolicy="Never"),
                "quick": role(1, annotations=play(run_seconds=5), restartPolicy="Never", completePolicy="None"),
            }
        )
    )
    world.run()
    moment()
    world.advance(2)
    moment()
    world.until("one has failed and runs again", lambda: world.phase() == "Running", within_seconds=60)
    world.advance(10)
    assert world.status()["restartCounts"]["trainer"]["application"] == 2


def _scaled(world: PoisonedWorld, moment: Callable[[], None]) -> None:
    """One that was bigger, was suspended, and runs again."""
    world.apply(job({"trainer": role(3, annotations=STAYS, restartPolicy="Never", minReplicas=1, maxReplicas=4)}))
    world.until("it runs", lambda: world.phase() == "Running")
    moment()
    world.patch_job("digits", {"spec": {"suspend": True}}).advance(5)
    moment()
    world.patch_job("digits", {"spec": {"suspend": False}})
    world.until("it runs again", lambda: world.phase() == "Running")
    world.patch_job("digits", {"spec": {"replicaSpecs": {"trainer": {"replicas": 2}}}})
    world.until("two are left", lambda: sum(name.startswith("digits") for name in world.pods()) == 2)
    world.advance(5)


def _rests(world: PoisonedWorld, moment: Callable[[], None]) -> None:
    """One that is suspended: a pass over it has noted that there is nothing to do."""
    world.apply(job({"trainer": role(2, annotations=STAYS, restartPolicy="Never")}))
    world.until("it runs", lambda: world.phase() == "Running")
    moment()
    world.patch_job("digits", {"spec": {"suspend": True}})
    world.until("it is suspended", lambda: world.phase() == "Suspended")
    world.kick()
    assert world.tables.rests


def _waits(world: PoisonedWorld, moment: Callable[[], None]) -> None:
    """One whose image cannot be pulled: it waits, and would fail after that."""
    cannot = play(image_error="ImagePullBackOff")
    world.apply(job({"trainer": role(2, annotations={**cannot, **STAYS})}))
    world.run()
    moment()
    world.advance(20)


def _is_kept(world: PoisonedWorld, moment: Callable[[], None]) -> None:
    """Pods that a ReplicaSet and a batch Job keep; one trainer was lost and replaced."""
    runs = {"trainer": {"run_seconds": LONG}, "pserver": {"run_seconds": LONG}}
    world.apply(training_job(least=2, most=2, pservers=1, play=runs, fault_tolerant=True))
    world.run()
    moment()
    world.until("it runs", lambda: world.phase() == "Running")
    moment()
    trainer = next(name for name in world.pods() if "trainer" in name)
    world.delete_pod(trainer, grace_seconds=0)
    world.advance(3)
    moment()
    world.until("it runs again", lambda: world.phase() == "Running", within_seconds=120)
    world.advance(60)


def _has_guests(world: PoisonedWorld, moment: Callable[[], None]) -> None:
    """An MPIJob that is a gang, with a TensorBoard and code from git: records of every shape that a guest adds."""
    roles = {"Launcher": (1, Wish(run_seconds=LONG)), "Worker": (2, Wish(run_seconds=LONG))}
    made = guest("mpijobs.kubeflow.org", roles, "OnFailure")
    made["metadata"]["annotations"] = dict(ADDONS)
    world.apply(made).run()
    moment()
    world.until("it runs", lambda: world.phase() == "Running")
    world.delete_pod("digits-worker-1")
    moment()
    world.until("it runs again", lambda: world.phase() == "Running" and "digits-worker-1" in world.pods())
    world.until("the TensorBoard serves", lambda: world.condition("TensorBoard").get("status") == "True")
    world.advance(10)


LIVES: Mapping[str, Life] = {
    "a job that runs, after a restart": Life(f"{AI}digits", _runs),
    "a job that was scaled and suspended": Life(f"{AI}digits", _scaled),
    "a job that is suspended": Life(f"{AI}digits", _rests, share=12),
    "a job whose pods cannot start": Life(f"{AI}digits", _waits, {"enable_creating_failed": True}),
    "a job with pods that controllers keep": Life(f"{EDL}digits", _is_kept),
    "a guest in a gang, with a TensorBoard": Life(
        f"{MPI}digits", _has_guests, {"kinds": "mpijobs.kubeflow.org", "gang_scheduler": "kubernetes"}, share=18
    ),
}


def begin(name: str, *, seals: bool = True) -> tuple[PoisonedWorld, Arms]:
    life = LIVES[name]
    world = PoisonedWorld(seals=seals, nodes=2, autoscale_policy="off", **life.settings)
    pod = {"name": "main", "image": "stranger"}
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bystander", "annotations": STAYS}}
    world.create_pod({**manifest, "spec": {"containers": [pod]}})
    beside = role(1, annotations=STAYS, restartPolicy="Never")
    world.apply(job({"trainer": beside}, name="beside"))
    earlier: list[Tables] = []
    life.live(world, lambda: earlier.append(world.memory.snapshot()))
    stranger = world.pods()["bystander"]["metadata"]
    bystander = {"name": "bystander", "uid": stranger["uid"], "rv": int(stranger["resourceVersion"])}
    return world, Arms(seals, JobKey(life.key), earlier, {"another cluster": _elsewhere(name, seals)}, bystander)


@cache
def _elsewhere(name: str, seals: bool) -> Tables:
    """The same jobs, of the same names, in another cluster, under the same key and the same prefix."""
    life = LIVES[name]
    world = PoisonedWorld(seals=seals, nodes=2, seed=77, autoscale_policy="off", **life.settings)
    life.live(world, lambda: None)
    return world.memory.snapshot()
