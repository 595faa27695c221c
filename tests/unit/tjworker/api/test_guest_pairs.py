"""Where two fields of another operator's job say the same: which of them wins, with each of them given and absent.

Who wins is said in docs/api-kinds.md, docs/kinds.md and docs/kubedl.md, in the descriptions of the fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.guests import parsed
from tests.unit.tjworker.api.guest_cases import Json, manifest, role
from tjworker.api.containers import with_environment
from tjworker.api.model import Enough, TrainingJob
from tjworker.base import GroupResource

PYTORCH, PADDLE = GroupResource("pytorchjobs.kubeflow.org"), GroupResource("paddlejobs.kubeflow.org")
MPI = GroupResource("mpijobs.kubeflow.org")
XDL, MARS = GroupResource("xdljobs.training.kubedl.io"), GroupResource("marsjobs.training.kubedl.io")
KUBEDL_MPI, KUBEDL_PYTORCH = (GroupResource(f"{name}.training.kubedl.io") for name in ("mpijobs", "pytorchjobs"))
Roles = Mapping[str, Json]
ONE = {"Worker": role(3)}
WITH_MASTER = {"Master": role(), "Worker": role(3)}
MPI_ROLES = {"Launcher": role(), "Worker": role(2)}
XDL_ROLES = {"PS": role(), "Worker": role(20)}
MARS_ROLES = {"Scheduler": role(), "Worker": role(1, {"resources": {"requests": {"memory": "1000"}}})}


@dataclass(frozen=True)
class Pair:
    kind: GroupResource
    roles: Roles
    first: Json
    second: Json
    """Parts of the manifest: deep ones are put together."""
    found: Callable[[TrainingJob], Any]
    want: tuple[Any, Any, Any, Any]
    """With neither, the first, the second, both."""
    always: Json | None = None


def env(name: str) -> Callable[[TrainingJob], Any]:
    def find(job: TrainingJob) -> Any:
        template = with_environment(job.role("Worker").template, job.torch.variables())
        told = template["spec"]["containers"][0].get("env", ())
        values = [e["value"] for e in told if e["name"] == name]
        assert len(values) <= 1, "once"
        return values[0] if values else None

    return find


def bounds(job: TrainingJob) -> Any:
    return job.role("Worker").min_replicas, job.role("Worker").max_replicas


def spec(**fields: Any) -> Json:
    return {"spec": fields}


def elastic(**fields: Any) -> Json:
    return spec(elasticPolicy=fields)


def annotated(name: str, value: str) -> Json:
    return {"metadata": {"annotations": {name: value}}}


def template_env(name: str, value: str) -> Json:
    return spec(pytorchReplicaSpecs={"Worker": role(3, {"env": [{"name": name, "value": value}]})})


PAIRS: dict[str, Pair] = {
    "PyTorchJob: nprocPerNode of the spec over that of the elasticPolicy, which is for older manifests": Pair(
        PYTORCH, ONE, spec(nprocPerNode="4"), elastic(nProcPerNode=2), env("PET_NPROC_PER_NODE"), (None, "4", "2", "4")
    ),
    "and a word over a number": Pair(
        PYTORCH,
        ONE,
        spec(nprocPerNode="gpu"),
        elastic(nProcPerNode=2),
        env("PET_NPROC_PER_NODE"),
        (None, "gpu", "2", "gpu"),
    ),
    "PyTorchJob: the template's own variable over nprocPerNode": Pair(
        PYTORCH,
        ONE,
        template_env("PET_NPROC_PER_NODE", "1"),
        spec(nprocPerNode="8"),
        env("PET_NPROC_PER_NODE"),
        (None, "1", "8", "1"),
    ),
    "PyTorchJob: rdzvPort is of rdzvHost": Pair(
        PYTORCH,
        ONE,
        elastic(rdzvHost="etcd"),
        elastic(rdzvPort=2379),
        env("PET_RDZV_ENDPOINT"),
        (None, "etcd:29400", None, "etcd:2379"),
        elastic(minReplicas=1, maxReplicas=3),
    ),
    "PyTorchJob: the autoscaler moves what is elastic and says so": Pair(
        PYTORCH,
        ONE,
        elastic(minReplicas=1, maxReplicas=4),
        annotated("elasticdeeplearning.ai/edl-policy", "Auto"),
        lambda job: job.role("Worker").autoscaled,
        (False, False, False, True),
    ),
    "PaddleJob: the same": Pair(
        PADDLE,
        ONE,
        elastic(minReplicas=1, maxReplicas=4),
        annotated("elasticdeeplearning.ai/edl-policy", "Auto"),
        lambda job: job.role("Worker").autoscaled,
        (False, False, False, True),
    ),
    "Kubeflow's MPIJob v1: cleanPodPolicy of the run policy over that of the spec": Pair(
        MPI,
        MPI_ROLES,
        spec(runPolicy={"cleanPodPolicy": "All"}),
        spec(cleanPodPolicy="Running"),
        lambda job: (job.clean_pod_policy, job.ignored),
        (("None", ()), ("All", ()), ("Running", ()), ("All", ())),
        spec(manifestVersion="v1"),
    ),
    "and an empty one is none": Pair(
        MPI,
        MPI_ROLES,
        spec(runPolicy={"cleanPodPolicy": ""}),
        spec(cleanPodPolicy="Running"),
        lambda job: job.clean_pod_policy,
        ("None", "None", "Running", "Running"),
        spec(manifestVersion="v1"),
    ),
    "Kubeflow's MPIJob v2beta1: that of the spec does nothing, and is told": Pair(
        MPI,
        MPI_ROLES,
        spec(runPolicy={"cleanPodPolicy": "All"}),
        spec(cleanPodPolicy="Running"),
        lambda job: (job.clean_pod_policy, len(job.ignored)),
        (("None", 0), ("All", 0), ("None", 1), ("All", 1)),
    ),
    "KubeDL's MPIJob: cleanPodPolicy of the spec over that of the run policy": Pair(
        KUBEDL_MPI,
        MPI_ROLES,
        spec(cleanPodPolicy="None"),
        spec(runPolicy={"cleanPodPolicy": "All"}),
        lambda job: (job.clean_pod_policy, job.ignored),
        (("Running", ()), ("None", ()), ("All", ()), ("None", ())),
    ),
    "and an empty one is none, as in the other": Pair(
        KUBEDL_MPI,
        MPI_ROLES,
        spec(cleanPodPolicy=""),
        spec(runPolicy={"cleanPodPolicy": "All"}),
        lambda job: job.clean_pod_policy,
        ("Running", "Running", "All", "All"),
    ),
    **{
        f"KubeDL's MPIJob: {name} of the run policy alone; that of the spec is told, were it zero": Pair(
            KUBEDL_MPI,
            MPI_ROLES,
            spec(runPolicy={name: 7}),
            spec(**{name: 0}),
            lambda job, field=field: (getattr(job, field), len(job.ignored)),  # type: ignore[misc]
            ((None, 0), (7, 0), (None, 1), (7, 1)),
        )
        for name, field in (
            ("backoffLimit", "backoff_limit"),
            ("ttlSecondsAfterFinished", "ttl_seconds_after_finished"),
            ("activeDeadlineSeconds", "active_deadline_seconds"),
        )
    },
    "KubeDL's PyTorchJob: an elasticPolicy counts when it is switched on": Pair(
        KUBEDL_PYTORCH,
        WITH_MASTER,
        spec(enableElastic=True),
        elastic(minReplicas=1, maxReplicas=4),
        lambda job: (job.role("Worker").elastic, len(job.ignored)),
        ((False, 0), (False, 0), (False, 1), (True, 0)),
    ),
    "XDLJob: a share over a number, and nine tenths without either": Pair(
        XDL,
        XDL_ROLES,
        spec(minFinishWorkRate=50),
        spec(minFinishWorkNum=3),
        lambda job: job.enough,
        tuple(Enough(("Worker",), n) for n in (18, 10, 3, 10)),  # type: ignore[arg-type]
    ),
    "XDLJob: the least share, and more than there are": Pair(
        XDL,
        XDL_ROLES,
        spec(minFinishWorkRate=1),
        spec(minFinishWorkNum=999),
        lambda job: job.enough,
        tuple(Enough(("Worker",), n) for n in (18, 1, 20, 1)),  # type: ignore[arg-type]
    ),
    "MarsJob: a size over a share of the memory": Pair(
        MARS,
        MARS_ROLES,
        spec(workerMemoryTuningPolicy={"workerCacheSize": "64"}),
        spec(workerMemoryTuningPolicy={"workerCachePercentage": 40}),
        env("MARS_CACHE_MEM_SIZE"),
        (None, "64", "400", "64"),
    ),
    "MarsJob: a size of zero is none, whatever the share": Pair(
        MARS,
        MARS_ROLES,
        spec(workerMemoryTuningPolicy={"workerCacheSize": "0"}),
        spec(workerMemoryTuningPolicy={"workerCachePercentage": 40}),
        env("MARS_CACHE_MEM_SIZE"),
        (None, None, "400", None),
    ),
}


def put(into: Json, part: Json) -> Json:
    return {
        **into,
        **{
            name: put(into[name], value) if isinstance(value, dict) and isinstance(into.get(name), dict) else value
            for name, value in part.items()
        },
    }


COMBINATIONS = {"neither": (False, False), "the first": (True, False), "the second": (False, True), "both": (True,) * 2}


@pytest.mark.parametrize("sentence", PAIRS)
def test_which_of_two_fields_wins(sentence: str) -> None:
    pair, found = PAIRS[sentence], {}
    for name, (first, second) in COMBINATIONS.items():
        raw = put(manifest(pair.kind, dict(pair.roles)), pair.always or {})
        raw = put(put(raw, pair.second if second else {}), pair.first if first else {})
        found[name] = pair.found(parsed(pair.kind, raw))
    assert found == dict(zip(COMBINATIONS, pair.want, strict=True))


BOUNDS: tuple[tuple[Json, int, tuple[int, int]], ...] = (
    ({}, 3, (3, 3)),
    ({"minReplicas": 3}, 3, (3, 3)),
    ({"maxReplicas": 3}, 3, (3, 3)),
    ({"minReplicas": 1, "maxReplicas": 5}, 3, (1, 5)),
    ({"minReplicas": 3, "maxReplicas": 5}, 3, (3, 5)),
    ({"minReplicas": 1, "maxReplicas": 3}, 3, (1, 3)),
)


@pytest.mark.parametrize(("policy", "replicas", "want"), BOUNDS, ids=str)
@pytest.mark.parametrize("kind", [PYTORCH, PADDLE, KUBEDL_PYTORCH])
def test_one_bound_stands_for_the_other(
    kind: GroupResource, policy: Json, replicas: int, want: tuple[int, int]
) -> None:
    roles = {"Worker": role(replicas), **({"Master": role()} if kind == KUBEDL_PYTORCH else {})}
    more: Json = {"enableElastic": True} if kind == KUBEDL_PYTORCH else {}
    job = parsed(kind, manifest(kind, roles, elasticPolicy=policy, **more))
    assert bounds(job) == want
    assert job.role("Worker").elastic is (want[0] < want[1])


@pytest.mark.parametrize("kind", [PYTORCH, PADDLE, KUBEDL_PYTORCH])
def test_a_bound_alone_is_both_and_workers_beyond_it_are_as_many_as_are_asked_for(kind: GroupResource) -> None:
    """As at its own operator, where an HPA brings their number back."""
    roles = {"Worker": role(3), **({"Master": role()} if kind == KUBEDL_PYTORCH else {})}
    more: Json = {"enableElastic": True} if kind == KUBEDL_PYTORCH else {}
    for bound, number in (("maxReplicas", 5), ("minReplicas", 2)):
        job = parsed(kind, manifest(kind, roles, elasticPolicy={bound: number}, **more))
        worker = job.role("Worker")
        assert (worker.replicas, worker.min_replicas, worker.max_replicas) == (3, number, number)


SHARES: dict[str, tuple[str, int, str | None]] = {
    "half of it": ("4Gi", 50, str(2 << 30)),
    "all of it": ("1000000077", 100, "1000000077"),
    "a share that is no whole number of bytes": ("1000000077", 33, "330000025"),
    "less than a hundred bytes": ("77", 50, "38"),
    "none of it": ("4Gi", 0, None),
    "a share of less than one byte": ("1", 50, None),
}


@pytest.mark.parametrize("sentence", SHARES)
def test_the_share_of_a_mars_workers_memory(sentence: str) -> None:
    memory, percent, want = SHARES[sentence]
    roles = {"Scheduler": role(), "Worker": role(1, {"resources": {"requests": {"memory": memory}}})}
    job = parsed(
        MARS, manifest(MARS, roles, **spec(workerMemoryTuningPolicy={"workerCachePercentage": percent})["spec"])
    )
    assert env("MARS_CACHE_MEM_SIZE")(job) == want
