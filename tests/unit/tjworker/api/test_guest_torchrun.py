"""Each field of an elasticPolicy, alone and in pairs, as torchrun finds it in the environment of every pod: the fields'
meanings are those of docs/api-kinds.md, the variables torchrun's (PET_<OPTION>).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any

import pytest

from tests.unit.tjworker.api.guest_cases import Json, read, role
from tjworker.api.model import TrainingJob
from tjworker.base import GroupResource
from tjworker.reconcile.workloads.environment import role_environment
from tjworker.reconcile.workloads.podbody import pod_body

KUBEFLOW, KUBEDL = GroupResource("pytorchjobs.kubeflow.org"), GroupResource("pytorchjobs.training.kubedl.io")
M, W0, W1, W2 = "digits-master-0", "digits-worker-0", "digits-worker-1", "digits-worker-2"
Env = Mapping[str, str | None]
ABSENT = None
ELASTIC, FIXED = {"minReplicas": 1, "maxReplicas": 4}, {"minReplicas": 3, "maxReplicas": 3}


def torchrun(job: TrainingJob) -> dict[str, dict[str, str]]:
    """By pod: what torchrun reads."""
    env, found = role_environment(job), {}
    for one in job.roles:
        for index in range(one.replicas):
            body = pod_body(job, one, index, 0, env)
            told = body["spec"]["containers"][0]["env"]
            found[body["metadata"]["name"]] = {e["name"]: e["value"] for e in told if e["name"][:4] == "PET_"}
    return found


def theirs(**policy: Any) -> dict[str, dict[str, str]]:
    return torchrun(read(KUBEFLOW, {"Worker": role(3)}, elasticPolicy=policy))


def kubedls(**policy: Any) -> dict[str, dict[str, str]]:
    return torchrun(read(KUBEDL, {"Master": role(), "Worker": role(3)}, enableElastic=True, elasticPolicy=policy))


PLAIN: Env = {
    "PET_NNODES": "1:4",
    "PET_RDZV_BACKEND": "c10d",
    "PET_RDZV_ENDPOINT": f"{W0}:23456",
    "PET_RDZV_ID": "u",
    "PET_MAX_RESTARTS": "100",
}
"""And PET_RDZV_CONF: the first pod is the host."""
AWAY = {"PET_RDZV_CONF": ""}
"""No pod of the job is said to be the host of a rendezvous that is elsewhere."""
FIELDS: tuple[tuple[Json, Env], ...] = (
    ({}, {}),
    ({"rdzvBackend": "c10d"}, {}),
    ({"rdzvBackend": "etcd"}, {"PET_RDZV_BACKEND": "etcd"}),
    ({"rdzvBackend": "etcd-v2"}, {"PET_RDZV_BACKEND": "etcd-v2"}),
    ({"rdzvHost": ""}, {}),
    ({"rdzvHost": "etcd"}, {"PET_RDZV_ENDPOINT": "etcd:29400", **AWAY}),
    ({"rdzvHost": "etcd", "rdzvPort": 1}, {"PET_RDZV_ENDPOINT": "etcd:1", **AWAY}),
    ({"rdzvHost": "etcd", "rdzvPort": 65535}, {"PET_RDZV_ENDPOINT": "etcd:65535", **AWAY}),
    ({"rdzvId": "mine"}, {"PET_RDZV_ID": "mine"}),
    ({"rdzvConf": []}, {}),
    ({"rdzvConf": [{"key": "a", "value": "1"}]}, {"PET_RDZV_CONF": "a=1"}),
    ({"rdzvConf": [{"key": "a", "value": "1"}, {"key": "b", "value": "0"}]}, {"PET_RDZV_CONF": "a=1,b=0"}),
    ({"maxRestarts": 0}, {"PET_MAX_RESTARTS": "0"}),
    ({"maxRestarts": 1}, {"PET_MAX_RESTARTS": "1"}),
    ({"maxRestarts": 2**31 - 1}, {"PET_MAX_RESTARTS": "2147483647"}),
    ({"standalone": False}, {}),
    ({"standalone": True}, {"PET_STANDALONE": "1"}),
    ({"nProcPerNode": 1}, {"PET_NPROC_PER_NODE": "1"}),
    ({"nProcPerNode": 8}, {"PET_NPROC_PER_NODE": "8"}),
)
"""Fields of Kubeflow's, and the variables that they change."""


def as_told(changes: Iterable[Env], rank: int, plain: Env = PLAIN) -> dict[str, str]:
    want: dict[str, str | None] = {**plain, "PET_RDZV_CONF": f"is_host={'true' if rank == 0 else 'false'}"}
    for change in sorted(changes, key=lambda change: change.get("PET_RDZV_CONF") == "", reverse=True):
        want |= change
    return {name: value for name, value in want.items() if value is not ABSENT}


@pytest.mark.parametrize(("policy", "change"), FIELDS, ids=lambda one: str(one)[:60])
def test_what_torchrun_is_told_of_one_field(policy: Json, change: Env) -> None:
    """The first, the middle and the last of the workers."""
    assert theirs(**ELASTIC, **policy) == {pod: as_told([change], rank) for rank, pod in enumerate((W0, W1, W2))}


def test_two_fields_tell_torchrun_what_each_tells_it() -> None:
    """A field of the conf goes with any other; the rest is never the worse for another field."""
    for (one, first), (other, second) in combinations(FIELDS, 2):
        if not one.keys() & other.keys():
            found = theirs(**ELASTIC, **one, **other)
            want = {pod: as_told([first, second], rank) for rank, pod in enumerate((W0, W1, W2))}
            assert found == want, (one, other)


def static_of(job: TrainingJob) -> dict[str, Env]:
    """By pod: what a program reads that torchrun has not started."""
    names = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE")
    env, found = role_environment(job), dict[str, Env]()
    for one in job.roles:
        for index in range(one.replicas):
            body = pod_body(job, one, index, 0, env)
            told = {e["name"]: e["value"] for e in body["spec"]["containers"][0]["env"] if "value" in e}
            found[body["metadata"]["name"]] = {name: told.get(name) for name in names}
    return found


MASTERS: dict[str, tuple[GroupResource, Json, str]] = {
    # kind, spec -> WORLD_SIZE
    "Kubeflow's": (KUBEFLOW, {"elasticPolicy": ELASTIC}, "4"),
    "Kubeflow's, of a fixed number": (KUBEFLOW, {"elasticPolicy": FIXED}, "4"),
    "Kubeflow's, with two processes a pod": (KUBEFLOW, {"elasticPolicy": ELASTIC, "nprocPerNode": "2"}, "8"),
    "Kubeflow's, whose old field does not count": (KUBEFLOW, {"elasticPolicy": ELASTIC | {"nProcPerNode": 2}}, "4"),
    "KubeDL's": (KUBEDL, {"elasticPolicy": ELASTIC, "enableElastic": True}, "4"),
}


@pytest.mark.parametrize("sentence", MASTERS)
def test_an_elastic_job_with_a_master_has_the_static_variables_as_well(sentence: str) -> None:
    """training-operator 1.9, `setPodEnv`: whenever there is a master; KubeDL, `SetClusterSpec`: always."""
    kind, spec, size = MASTERS[sentence]
    job = read(kind, {"Master": role(), "Worker": role(3)}, **spec)
    assert static_of(job) == {
        pod: {"MASTER_ADDR": M, "MASTER_PORT": "23456", "RANK": str(rank), "WORLD_SIZE": size}
        for rank, pod in enumerate((M, W0, W1, W2))
    }


def test_elastic_workers_alone_have_no_static_variables() -> None:
    job = read(KUBEFLOW, {"Worker": role(3)}, elasticPolicy=ELASTIC, nprocPerNode="2")
    assert [*static_of(job).values()] == [dict.fromkeys(("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"))] * 3


def with_a_master(plain: Env, host: str = W0) -> dict[str, dict[str, str]]:
    """What torchrun reads in a job that has a master, too. `host`: the pod that hosts the rendezvous."""
    of_master = {"PET_MASTER_ADDR": M, "PET_MASTER_PORT": "23456"}
    return {
        pod: as_told([{**of_master, "PET_NODE_RANK": str(rank)}], 0 if pod == host else 1, plain)
        for rank, pod in enumerate((M, W0, W1, W2))
    }


@pytest.mark.parametrize(("bounds", "nodes"), [(ELASTIC, "1:4"), (FIXED, "3:3")], ids=str)
def test_the_nodes_of_the_rendezvous_are_the_workers_whether_there_is_a_master_or_not(bounds: Json, nodes: str) -> None:
    """training-operator 1.9, `generateEnvNNodes` and `generateEnvRDZVEndpoint`: the bounds, and worker 0."""
    found = torchrun(read(KUBEFLOW, {"Master": role(), "Worker": role(3)}, elasticPolicy=bounds))
    assert found == with_a_master({**PLAIN, "PET_NNODES": nodes, "PET_NPROC_PER_NODE": "auto"})


@pytest.mark.parametrize("bounds", [FIXED, {"minReplicas": 3}, {"maxReplicas": 3}, {}], ids=str)
def test_workers_of_a_fixed_number_have_the_rendezvous_of_the_policy_as_well(bounds: Json) -> None:
    """An absent bound is the other one; without any it is the number of workers (`setElasticPolicy`)."""
    for policy, change in FIELDS:
        found = theirs(**bounds, **policy)
        plain = {**PLAIN, "PET_NNODES": "3:3"}
        assert found == {pod: as_told([change], rank, plain) for rank, pod in enumerate((W0, W1, W2))}, policy


PROCESSES: dict[str, tuple[Json, str | None]] = {
    # roles -> PET_NPROC_PER_NODE, by training-operator's defaults and `setPodEnv`
    "workers alone": ({"Worker": role(3)}, None),
    "a master and workers": ({"Master": role(), "Worker": role(3)}, "auto"),
}


@pytest.mark.parametrize("sentence", PROCESSES)
def test_how_many_processes_a_pod_has_where_nobody_says_it(sentence: str) -> None:
    roles, want = PROCESSES[sentence]
    for policy in ({}, {"elasticPolicy": ELASTIC}):
        found = torchrun(read(KUBEFLOW, roles, **policy))
        assert {env.get("PET_NPROC_PER_NODE") for env in found.values()} == {want}
        said = torchrun(read(KUBEFLOW, roles, nprocPerNode="gpu", **policy))
        assert {env.get("PET_NPROC_PER_NODE") for env in said.values()} == {"gpu"}


OF_KUBEDL: Env = {**PLAIN, "PET_NNODES": "2:5", "PET_NPROC_PER_NODE": "1", "PET_RDZV_ENDPOINT": f"{M}:23456"}
KUBEDL_FIELDS: tuple[tuple[Json, Env], ...] = (
    ({}, {}),
    ({"rdzvBackend": "etcd"}, {"PET_RDZV_BACKEND": "etcd"}),
    ({"rdzvEndpoint": ""}, {}),
    ({"rdzvEndpoint": "etcd:2379"}, {"PET_RDZV_ENDPOINT": "etcd:2379", **AWAY}),
    (
        {"rdzvEndpoint": "etcd:2379", "rdzvBackend": "etcd"},
        {"PET_RDZV_ENDPOINT": "etcd:2379", "PET_RDZV_BACKEND": "etcd", **AWAY},
    ),
    ({"nProcPerNode": 1}, {}),
    ({"nProcPerNode": 8}, {"PET_NPROC_PER_NODE": "8"}),
)


@pytest.mark.parametrize(("bounds", "nodes"), [(ELASTIC, "2:5"), (FIXED, "4:4")], ids=str)
@pytest.mark.parametrize(("policy", "change"), KUBEDL_FIELDS, ids=lambda one: str(one)[:60])
def test_what_kubedls_policy_tells_torchrun(policy: Json, change: Env, bounds: Json, nodes: str) -> None:
    want = {pod: {**env, **change} for pod, env in with_a_master({**OF_KUBEDL, "PET_NNODES": nodes}, host=M).items()}
    assert kubedls(**bounds, **policy) == want


TOLD: tuple[tuple[GroupResource, Json, tuple[str, ...]], ...] = (
    (KUBEFLOW, {**ELASTIC, "rdzvBackend": "etcd", "rdzvId": "a"}, ()),
    (KUBEFLOW, {**ELASTIC, "rdzvPort": 1}, ("rdzvPort (rdzvHost is not set: the first pod has the port of its",)),
    (KUBEFLOW, {**ELASTIC, "rdzvPort": 1, "rdzvHost": ""}, ("rdzvPort (rdzvHost is not set",)),
    (KUBEFLOW, {**ELASTIC, "rdzvPort": 1, "rdzvHost": "a"}, ()),
    (KUBEFLOW, {**FIXED, "rdzvBackend": "etcd", "rdzvId": "a"}, ()),
    (KUBEFLOW, {**FIXED, "rdzvBackend": "etcd", "rdzvHost": "a"}, ()),
    (KUBEDL, {**ELASTIC, "rdzvBackend": "etcd"}, ()),
    (KUBEDL, {**FIXED, "rdzvBackend": "etcd"}, ()),
    (KUBEDL, {**FIXED, "rdzvBackend": "etcd", "rdzvEndpoint": "a:1"}, ()),
)


@pytest.mark.parametrize(("kind", "policy", "want"), TOLD, ids=str)
def test_a_field_that_does_nothing_is_told(kind: GroupResource, policy: Json, want: tuple[str, ...]) -> None:
    more = {"enableElastic": True} if kind == KUBEDL else {}
    found = read(kind, {"Master": role(), "Worker": role(3)}, elasticPolicy=policy, **more).ignored
    assert len(found) == len(want), found
    assert all(str(one).startswith(f"spec.elasticPolicy.{words}") for one, words in zip(found, want, strict=True)), (
        found
    )
