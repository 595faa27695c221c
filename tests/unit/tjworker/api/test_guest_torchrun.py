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
    "PET_NPROC_PER_NODE": "auto",
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


def test_a_master_hosts_the_rendezvous_and_is_one_of_its_nodes() -> None:
    found = torchrun(read(KUBEFLOW, {"Master": role(), "Worker": role(3)}, elasticPolicy=ELASTIC))
    plain = {**PLAIN, "PET_NNODES": "2:5", "PET_RDZV_ENDPOINT": f"{M}:23456"}
    assert found == {pod: as_told([], rank, plain) for rank, pod in enumerate((M, W0, W1, W2))}


OF_FIXED: Env = {"PET_NNODES": "3", "PET_NPROC_PER_NODE": "auto", "PET_MASTER_ADDR": W0, "PET_MASTER_PORT": "23456"}
THERE = {"PET_RDZV_BACKEND": "c10d", "PET_RDZV_ID": "u", "PET_RDZV_ENDPOINT": "etcd:29400", **AWAY}
FIXED_FIELDS: tuple[tuple[Json, Env], ...] = (
    ({}, {}),
    ({"rdzvBackend": "etcd"}, {}),
    ({"rdzvId": "mine"}, {}),
    ({"rdzvConf": [{"key": "a", "value": "1"}]}, {}),
    ({"maxRestarts": 0}, {"PET_MAX_RESTARTS": "0"}),
    ({"rdzvHost": "etcd"}, THERE),
    ({"rdzvHost": "etcd", "rdzvBackend": "etcd"}, {**THERE, "PET_RDZV_BACKEND": "etcd"}),
    ({"rdzvHost": "etcd", "rdzvId": "mine"}, {**THERE, "PET_RDZV_ID": "mine"}),
    ({"rdzvHost": "etcd", "rdzvConf": [{"key": "a", "value": "1"}]}, {**THERE, "PET_RDZV_CONF": "a=1"}),
)


@pytest.mark.parametrize("bounds", [FIXED, {"minReplicas": 3}, {"maxReplicas": 3}, {}], ids=str)
def test_workers_of_a_fixed_number_meet_at_the_first_but_where_the_job_has_a_rendezvous(bounds: Json) -> None:
    """Which is c10d's, and of this job alone, as the fields' defaults say."""
    for policy, change in FIXED_FIELDS:
        found = theirs(**bounds, **policy)
        assert found == {
            pod: {**OF_FIXED, "PET_NODE_RANK": str(rank), **change} for rank, pod in enumerate((W0, W1, W2))
        }, policy


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


@pytest.mark.parametrize(("policy", "change"), KUBEDL_FIELDS, ids=lambda one: str(one)[:60])
def test_what_kubedls_policy_tells_torchrun(policy: Json, change: Env) -> None:
    want = {pod: as_told([change], rank, OF_KUBEDL) for rank, pod in enumerate((M, W0, W1, W2))}
    assert kubedls(**ELASTIC, **policy) == want


def test_kubedls_workers_of_a_fixed_number() -> None:
    static = {**OF_FIXED, "PET_NNODES": "4", "PET_NPROC_PER_NODE": "1", "PET_MASTER_ADDR": M}
    there = {**THERE, "PET_RDZV_ENDPOINT": "etcd:2379"}
    for policy, change in (
        ({}, {}),
        ({"rdzvBackend": "etcd"}, {}),
        ({"rdzvEndpoint": "etcd:2379"}, there),
        ({"rdzvEndpoint": "etcd:2379", "rdzvBackend": "etcd"}, {**there, "PET_RDZV_BACKEND": "etcd"}),
    ):
        want = {p: {**static, "PET_NODE_RANK": str(rank), **change} for rank, p in enumerate((M, W0, W1, W2))}
        assert kubedls(**FIXED, **policy) == want, policy


TOLD: tuple[tuple[GroupResource, Json, tuple[str, ...]], ...] = (
    (KUBEFLOW, {**ELASTIC, "rdzvBackend": "etcd", "rdzvId": "a"}, ()),
    (KUBEFLOW, {**ELASTIC, "rdzvPort": 1}, ("rdzvPort (rdzvHost is not set: the first pod has the port of its",)),
    (KUBEFLOW, {**ELASTIC, "rdzvPort": 1, "rdzvHost": ""}, ("rdzvPort (rdzvHost is not set",)),
    (KUBEFLOW, {**ELASTIC, "rdzvPort": 1, "rdzvHost": "a"}, ()),
    (KUBEFLOW, {**FIXED, "rdzvBackend": "etcd", "rdzvId": "a"}, ("rdzvBackend (minR", "rdzvId (minReplicas is max")),
    (KUBEFLOW, {**FIXED, "rdzvBackend": "etcd", "rdzvHost": "a"}, ()),
    (KUBEDL, {**ELASTIC, "rdzvBackend": "etcd"}, ()),
    (KUBEDL, {**FIXED, "rdzvBackend": "etcd"}, ("rdzvBackend (minReplicas is maxReplicas)",)),
    (KUBEDL, {**FIXED, "rdzvBackend": "etcd", "rdzvEndpoint": "a:1"}, ()),
)


@pytest.mark.parametrize(("kind", "policy", "want"), TOLD, ids=str)
def test_a_field_that_does_nothing_is_told(kind: GroupResource, policy: Json, want: tuple[str, ...]) -> None:
    more = {"enableElastic": True} if kind == KUBEDL else {}
    found = read(kind, {"Master": role(), "Worker": role(3)}, elasticPolicy=policy, **more).ignored
    assert len(found) == len(want), found
    assert all(path.startswith(f"spec.elasticPolicy.{words}") for path, words in zip(found, want, strict=True)), found
