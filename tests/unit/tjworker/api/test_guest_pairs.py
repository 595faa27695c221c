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

PYTORCH = GroupResource("pytorchjobs.kubeflow.org")
MPI = GroupResource("mpijobs.kubeflow.org")
XDL, MARS = GroupResource("xdljobs.training.kubedl.io"), GroupResource("marsjobs.training.kubedl.io")
KUBEDL_MPI = GroupResource("mpijobs.training.kubedl.io")
Roles = Mapping[str, Json]
ONE = {"Worker": role(3)}
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


def spec(**fields: Any) -> Json:
    return {"spec": fields}


def elastic(**fields: Any) -> Json:
    return spec(elasticPolicy=fields)


def annotated(name: str, value: str) -> Json:
    return {"metadata": {"annotations": {name: value}}}


PAIRS: dict[str, Pair] = {
    "PyTorchJob: nprocPerNode of the spec over that of the elasticPolicy, which is for older manifests": Pair(
        PYTORCH, ONE, spec(nprocPerNode="4"), elastic(nProcPerNode=2), env("PET_NPROC_PER_NODE"), (None, "4", "2", "4")
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
    "Kubeflow's MPIJob v1: cleanPodPolicy of the run policy over that of the spec": Pair(
        MPI,
        MPI_ROLES,
        spec(runPolicy={"cleanPodPolicy": "All"}),
        spec(cleanPodPolicy="Running"),
        lambda job: (job.clean_pod_policy, job.ignored),
        (("None", ()), ("All", ()), ("Running", ()), ("All", ())),
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
    "XDLJob: a share over a number, and nine tenths without either": Pair(
        XDL,
        XDL_ROLES,
        spec(minFinishWorkRate=50),
        spec(minFinishWorkNum=3),
        lambda job: job.enough,
        tuple(Enough(("Worker",), n) for n in (18, 10, 3, 10)),  # type: ignore[arg-type]
    ),
    "MarsJob: a size over a share of the memory": Pair(
        MARS,
        MARS_ROLES,
        spec(workerMemoryTuningPolicy={"workerCacheSize": "64"}),
        spec(workerMemoryTuningPolicy={"workerCachePercentage": 40}),
        env("MARS_CACHE_MEM_SIZE"),
        (None, "64", "400", "64"),
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
