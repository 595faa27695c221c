"""kubedl.io/network-mode: host. Each pod has ports of its own on its node, written down before they are used, and every
other pod is told them."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from tests.support.builders import make_job, make_training_job
from tests.support.seeds import the_seed
from tests.support.tiers import drawn
from tests.unit.tjworker.reconcile.addons.guests import guest
from tests.unit.tjworker.reconcile.passes import RULES, World, condition, decide, status_of
from tjworker.api.model import TrainingJob
from tjworker.base import GroupResource
from tjworker.reconcile.addons.hostnetwork import block
from tjworker.reconcile.frameworks import replica_ports
from tjworker.reconcile.plan import Create
from tjworker.settings import Settings

MODE = {"kubedl.io/network-mode": "host"}
MPIJOBS = GroupResource("mpijobs.kubeflow.org")
Json = dict[str, Any]


def bodies(job: TrainingJob, resource: str = "pods", ports: tuple[int, int] = (20000, 29999)) -> dict[str, Json]:
    plan = decide(job, rules=replace(RULES, host_ports=ports, writes_per_pass=10_000))
    return {w.name: dict(w.body) for w in plan.writes if isinstance(w, Create) and w.resource == resource}


def listens(pod: Json) -> list[int]:
    every = [port for c in pod["spec"]["containers"] for port in c.get("ports") or ()]
    assert all(port["hostPort"] == port["containerPort"] for port in every)
    return [port["hostPort"] for port in every]


def some_job(rng: random.Random, name: str) -> TrainingJob:
    built = make_job(name).metadata(uid=f"{rng.getrandbits(64):016x}").annotate(MODE)
    for role in rng.sample(["ps", "worker", "chief", "evaluator"], rng.randint(1, 3)):
        built = built.role(role, rng.randint(1, 3), ports=tuple(rng.sample(range(7000, 7100), rng.randint(1, 2))))
    return built.build()


@pytest.mark.wide
def test_no_two_pods_on_a_node_share_a_port_over_random_jobs() -> None:
    """All on one node, which takes a pod as the scheduler does: when no other there has its ports. A job that finds no
    room for all of its pods is started anew, as by its restart, and draws again."""
    rng = random.Random(the_seed())
    taken: set[int] = set()
    jobs = drawn(1000)
    blocks = 0
    for number in range(jobs):
        job = some_job(rng, f"job-{number}")
        for attempt in range(50):
            blocks += 1
            ports = every_port(replace(job, host_ports=block(job, (20000, 49999), attempt)))
            assert len(set(ports)) == len(ports), f"two pods of {job.name.name} share a port: {ports}"
            if taken.isdisjoint(ports):
                break
        else:
            raise AssertionError(f"{job.name.name} finds no room among {len(taken)} of 30000 ports")
        if number < 5:
            pods = bodies(job, ports=(20000, 49999)).values()
            first = replace(job, host_ports=block(job, (20000, 49999), 0))
            assert sorted(port for pod in pods for port in listens(pod)) == sorted(every_port(first))
        taken |= set(ports)
    assert len(taken) > 2 * jobs
    assert blocks < 3 * jobs, "a block seldom meets another"


def every_port(job: TrainingJob) -> list[int]:
    return [p.number for role in job.roles for i in range(role.replicas) for p in replica_ports(job, role, i)]


def test_ports_are_in_the_status_before_the_pods_and_stay() -> None:
    job = make_job().role("trainer", 2).annotate(MODE).build()
    plan = decide(job)
    written = status_of(plan).host_ports
    assert written is not None
    assert (written.low, written.high, written.attempt) == (20000, 29999, 0)
    world = World(job).settle().all("running").settle()
    assert world.job.status.host_ports == written
    moved = bodies(replace(job, status=world.job.status), ports=(40000, 40010))
    kept = {name: listens(pod) for name, pod in moved.items()}
    assert kept == {name: listens(pod) for name, pod in bodies(job).items()}, "whatever the range is by now"


def test_scaling_moves_nobody() -> None:
    def made(replicas: int) -> dict[str, list[int]]:
        built = make_job().role("ps", 2).role("trainer", replicas, least=1, most=9, edl="Manual").annotate(MODE).build()
        return {name: listens(pod) for name, pod in bodies(built).items()}

    few, many = made(2), made(9)
    assert few.items() <= many.items()


def test_a_restart_of_the_whole_job_draws_another_block() -> None:
    job = make_job().role("trainer", 2, restart="OnFailure", scope="All").annotate(MODE).build()
    world = World(job).settle().all("running").settle()
    before = world.job.status.host_ports
    world.set("digits-trainer-0", "failed", exit_code=1).settle()
    after = world.job.status.host_ports
    assert before is not None
    assert after is not None
    assert (after.attempt, after.first == before.first) == (1, False)


RANGES_SINCE: dict[str, tuple[tuple[int, int] | None, bool]] = {
    "another": ((40000, 40010), True),
    "too narrow": ((40000, 40000), False),
    "gone": (None, False),
}


@pytest.mark.parametrize("restarts", [False, True], ids=["it goes on", "it restarts"])
@pytest.mark.parametrize("since", RANGES_SINCE)
def test_a_job_that_has_its_ports_goes_on_whatever_the_range_is_by_now(since: str, restarts: bool) -> None:
    ports, redrawn = RANGES_SINCE[since]
    world = World(make_job().role("trainer", 2, restart="OnFailure", scope="All").annotate(MODE).build())
    world.settle().all("running").settle()
    before = world.job.status.host_ports
    assert before is not None
    world.rules = replace(RULES, host_ports=ports)
    if restarts:
        world.set("digits-trainer-0", "failed", exit_code=1)
    world.settle().all("running").settle()
    after = world.job.status.host_ports
    assert (world.job.status.phase, world.job.status.condition("Failed")) == ("Running", None)
    assert after is not None
    assert after.attempt == int(restarts)
    assert ((after.first, after.low) != (before.first, before.low)) == (redrawn and restarts)
    world.rules = RULES
    assert world.settle().job.status.host_ports == after, "a range that is back moves nobody"


def test_an_mpijob_is_refused() -> None:
    status, reason, message = condition(status_of(decide(guest(MPIJOBS, MODE))), "Failed")
    assert (status, reason) == ("True", "InvalidSpec")
    assert message.startswith(f"metadata.annotations[{next(iter(MODE))}]: host: mpirun reaches every worker"), message


REFUSED = {
    "another mode": (
        make_job().role("a").annotate({"kubedl.io/network-mode": "bridge"}),
        (20000, 29999),
        "the mode is host",
    ),
    "no ports": (make_job().role("a").annotate(MODE), None, "its owner sets TJ_HOST_PORTS"),
    "too few ports": (
        make_job().role("a", 11).annotate(MODE),
        (20000, 20009),
        "needs 11 ports (its replicas, times its roles, times the most ports of one), and TJ_HOST_PORTS has 10",
    ),
    "a TrainingJob": (make_training_job().annotate(MODE), (20000, 29999), "set spec.host_network instead"),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_what_is_refused_makes_nothing(sentence: str) -> None:
    built, ports, want = REFUSED[sentence]
    plan = decide(built.build(), rules=replace(RULES, host_ports=ports))
    status, reason, message = condition(status_of(plan), "Failed")
    assert (status, reason, plan.writes) == ("True", "InvalidSpec", ())
    assert message.startswith("metadata.annotations[kubedl.io/network-mode]"), message
    assert want in message, message


@pytest.mark.parametrize("value", ["30000-20000", "80-90", "20000-70000", "20000", "a-b"])
def test_a_range_that_has_no_ports_ends_the_process_with_its_name(value: str) -> None:
    with pytest.raises(ValidationError, match="host_ports"):
        Settings(host_ports=value)


@pytest.mark.parametrize(("own", "want"), [({}, "ClusterFirstWithHostNet"), ({"dnsPolicy": "Default"}, "Default")])
def test_pods_still_find_services_unless_the_template_says_how_they_look_names_up(own: Json, want: str) -> None:
    template = {"spec": {"containers": [{"name": "aitj-main", "image": "x"}], "hostNetwork": False, **own}}
    (pod,) = bodies(make_job().role("trainer", template=template).annotate(MODE).build()).values()
    assert (pod["spec"]["hostNetwork"], pod["spec"]["dnsPolicy"]) == (True, want)


@pytest.mark.parametrize(("ports", "fits"), [(23, False), (24, True), (25, True)])
def test_a_block_has_room_for_the_most_replicas_of_any_role(ports: int, fits: bool) -> None:
    """Of two roles with at most two ports each, one of which may grow to six: 6 x 2 x 2."""
    job = make_job().role("ps", 3).role("trainer", 2, minReplicas=1, maxReplicas=6, ports=(7000, 7001))
    made = bodies(job.annotate(MODE).build(), ports=(20000, 20000 + ports - 1))
    assert len(made) == (5 if fits else 0)
