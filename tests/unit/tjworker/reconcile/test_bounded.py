"""A pass costs what it writes, not what its job asks for; what a container or etcd cannot hold is left out or refused,
and said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson
import pytest

from tests.support.builders import make_job
from tests.support.builders.job import JobBuilder
from tests.unit.tjworker.reconcile.passes import RULES, decide, status_of
from tjworker.api.model import InvalidJob, TrainingJob
from tjworker.api.resources import PODS
from tjworker.reconcile import peers
from tjworker.reconcile.plan import Create
from tjworker.reconcile.workloads import pod
from tjworker.reconcile.workloads.environment import role_environment

EXEC_TAKES = 131_072
"""MAX_ARG_STRLEN of Linux (include/uapi/linux/binfmts.h): 32 pages of 4 KiB, for one string with its last byte."""
ETCD_HOLDS = 2 << 30
"""Its default quota."""


def _big() -> JobBuilder:
    job = make_job("a")
    for number in range(16):
        job = job.role(f"r{number}", 3_125, ports=(7000,))
    return job


@pytest.mark.parametrize("most", [1, 7, 500])
def test_a_pass_makes_the_bodies_that_it_writes(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def counted(what: str) -> Any:
        original = getattr(pod, what)

        def make(*given: Any) -> Any:
            made.append(what)
            return original(*given)

        return make

    for what in ("pod_body", "service_body"):
        monkeypatch.setattr(pod, what, counted(what))
    plan = decide(_big().build(), rules=replace(RULES, writes_per_pass=most))
    assert len(plan.writes) == most
    assert plan.requeue_after_seconds == 0, "the rest is for the next pass"
    assert len(made) == most + 1, "and one that tells it that there is more"


@dataclass(frozen=True, slots=True)
class Lists:
    job: JobBuilder
    without: Sequence[str] = ()
    """Kinds of lists that are left out, of every role."""


def _trainers(count: int, name: str = "digits", ports: tuple[int, ...] = (7000,)) -> JobBuilder:
    return make_job(name).role("trainer", count, ports=ports)


LISTS = {
    "a small job has all": Lists(_trainers(2)),
    "a thousand replicas have all": Lists(_trainers(1_000)),
    "four thousand pods would fill etcd with their hosts": Lists(_trainers(4_000), ["HOSTS"]),
    "ten thousand of a short name": Lists(_trainers(10_000, "a"), ["HOSTS", "INSTANCES"]),
    "two ports double the hosts": Lists(_trainers(2_800, ports=(7000, 7001)), ["HOSTS"]),
    "no ports, no hosts: only the names count": Lists(_trainers(10_000, "a", ports=()), ["INSTANCES"]),
    "a big role beside a small one leaves both without": Lists(
        _trainers(4_000).role("pserver", 2, ports=(7001,)), ["HOSTS"]
    ),
}


@pytest.mark.parametrize("sentence", LISTS)
def test_lists_above_what_can_be_run_are_left_out_whole(sentence: str) -> None:
    case = LISTS[sentence]
    job = case.job.build()
    env = role_environment(job)
    assert tuple(case.without) == peers.left_out(job)
    for role in job.roles:
        name = role.name.upper()
        for kind in peers.KINDS:
            assert (f"{name}_{kind}" in env) == (kind not in case.without)
            count = int(env[f"{name}_{kind}_NUM"])
            if kind not in case.without:
                assert count == len([entry for entry in env[f"{name}_{kind}"].split(",") if entry])
    assert max(len(f"{k}={v}") + 1 for k, v in env.items()) <= EXEC_TAKES
    writes = decide(job, rules=replace(RULES, writes_per_pass=2)).writes
    body = next(w.body for w in writes if isinstance(w, Create) and w.resource == PODS)
    assert len(orjson.dumps(body)) * sum(r.replicas for r in job.roles) < ETCD_HOLDS / 2


@pytest.mark.parametrize("sentence", LISTS)
def test_the_sizes_that_are_reckoned_are_those_that_are_made(sentence: str) -> None:
    job = LISTS[sentence].job.build()
    for role in job.roles:
        for kind in peers.KINDS:
            if role.replicas * max(1, peers.role_counts(job, role)["PORTS"]) > 20_000 and kind == "HOSTS":
                continue  # it would be built
            text = f"{role.name.upper()}_{kind}={','.join(peers.role_list(job, role, kind))}"
            assert peers._variable_size(job, role, peers._ports(job, role), kind) == len(text) + 1


def test_the_owner_is_told_what_is_left_out_and_what_to_use() -> None:
    told = status_of(decide(_trainers(10_000, "a").build())).condition("Created")
    assert told is not None
    assert told.message == (
        "the job is accepted; its pods get no *_HOSTS and *_INSTANCES: the lists of so many replicas are more than a"
        " container or etcd can take; replicas are called a-<role>-<index>, and *_NUM say how many there are"
    )
    told = status_of(decide(_trainers(3).build())).condition("Created")
    assert told is not None
    assert told.message == "the job is accepted"


def _with_args(kib: int, replicas: int, **role: Any) -> JobBuilder:
    job = make_job().role("trainer", replicas, **role)
    manifest = job.manifest()
    specs = manifest["spec"]["replicaSpecs"]
    specs["trainer"]["template"]["spec"]["containers"][0]["args"] = ["x" * (kib << 10)]
    return job.spec(replicaSpecs=specs)


def test_pods_that_etcd_cannot_hold_are_refused_with_the_way_out() -> None:
    refused = _with_args(300, 4_000).parse()
    assert isinstance(refused, InvalidJob)
    assert [error.path for error in refused.errors] == ["spec.replicaSpecs.trainer.replicas"]
    assert str(refused.errors[0]).endswith(
        "4000 pods of 300 KiB each: the pods of a job must be at most 1024 MiB together, as etcd holds a copy of the"
        " template for each; put what is large into a ConfigMap or a volume, or split the job"
    )
    assert isinstance(_with_args(300, 3_000).parse(), TrainingJob)
    assert isinstance(_with_args(300, 2, least=1, most=4_000).parse(), InvalidJob), "what it may grow to counts"
    assert isinstance(_with_args(2, 10_000).parse(), TrainingJob)
