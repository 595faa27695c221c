"""Who wins where several say the same thing of a pod: its template, the job, the gang scheduler, the operator. Every
pair of them, for everything that more than one of them can say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import pytest

from tests.support.builders import make_job
from tests.support.guests import GUESTS, parsed
from tests.unit.tjworker.api.guest_cases import manifest
from tests.unit.tjworker.api.guest_cases import role as guest_role
from tests.unit.tjworker.reconcile.passes import created
from tests.unit.tjworker.reconcile.passes import decide as one_pass
from tjworker.api import labels
from tjworker.api.model import GangPolicy, Role, TrainingJob
from tjworker.base import GroupResource
from tjworker.reconcile.gangs import GANGS
from tjworker.reconcile.gangs.gang import Membership
from tjworker.reconcile.pod_group import _create_group
from tjworker.reconcile.workloads.environment import role_environment
from tjworker.reconcile.workloads.podbody import child_metadata, pod_body, service_body

Json = dict[str, Any]


@dataclass(frozen=True)
class Said:
    """How each says it, and where it stands in the pod."""

    read: Callable[[Json], object]
    template: Json
    """Laid over the template."""
    job: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the internal job."""
    gang: bool = False
    """The gang scheduler says it, too."""
    values: tuple[object, object, object] = ("template", "job", "gang")
    first: tuple[int, int, int] = (0, 1, 2)
    """Whose word goes before whose, by the places above."""


def _spec(name: str) -> Callable[[Json], object]:
    return lambda pod: pod["spec"].get(name)


SAID: dict[str, Said] = {
    "a label": Said(
        lambda pod: pod["metadata"]["labels"].get("team"),
        {"metadata": {"labels": {"team": "template"}}},
        {"labels": {"team": "job"}},
    ),
    "an annotation": Said(
        lambda pod: pod["metadata"].get("annotations", {}).get("note"),
        {"metadata": {"annotations": {"note": "template"}}},
        {"annotations": {"note": "job"}},
    ),
    "the label of its priority": Said(
        lambda pod: pod["metadata"]["labels"].get("priority"),
        {"metadata": {"labels": {"priority": "template"}}},
        {"priority": "job"},
    ),
    "its scheduler": Said(
        _spec("schedulerName"), {"spec": {"schedulerName": "template"}}, {"scheduler_name": "job"}, gang=True
    ),
    "its priority class": Said(
        _spec("priorityClassName"),
        {"spec": {"priorityClassName": "template"}},
        {"priority_class": "job"},
        gang=True,
        first=(0, 2, 1),  # the gang's is schedulingPolicy.priorityClass, for which the job's priority is the default
    ),
}


def _job(said: Said, *, by_template: bool, by_job: bool, by_gang: bool) -> TrainingJob:
    template: Json = {"metadata": {}, "spec": {"containers": [{"name": "aitj-main", "image": "x"}]}}
    for part, values in said.template.items() if by_template else ():
        template[part] = {**template[part], **values}
    job = replace(make_job().role("trainer", 2, template=template).build(), **(said.job if by_job else {}))
    return replace(job, gang=GangPolicy(priority_class="gang")) if by_gang else job


@pytest.mark.parametrize("sentence", SAID)
def test_the_template_goes_before_the_job_and_the_gang_scheduler(sentence: str) -> None:
    said = SAID[sentence]
    for by_template, by_job, by_gang in product((True, False), (True, False), (True, False) if said.gang else (False,)):
        job = _job(said, by_template=by_template, by_job=by_job, by_gang=by_gang)
        gang = Membership(GANGS["volcano"], "digits", "gang") if by_gang else None
        for index in (0, 1):
            found = said.read(pod_body(job, job.roles[0], index, 0, role_environment(job), gang))
            who = (by_template, by_job, by_gang)
            want = next((said.values[place] for place in said.first if who[place]), None)
            assert found == want, who


INHERITED = (
    "team",
    "app.kubernetes.io/name",
    "app.kubernetes.io/instance",
    "kubectl.kubernetes.io/default-container",
    "example.com/kueue.x-k8s.io",
    labels.ANNOTATION_TENANCY,
)
"""Keys of labels or annotations by which people find pods, or which say of a pod what they say of its job."""
NOT_INHERITED = (
    "Failed",
    "NodeFail",
    "Preempted",
    "elasticdeeplearning.ai/autoscale-policy",
    "kubedl.io/git-sync-config",
    "kubedl.io/network-mode",
    "kubedl.io/tensorboard-config",
    "kueue.x-k8s.io/queue-name",
    "kueue.x-k8s.io/priority-class",
    "kueue.x-k8s.io/prebuilt-workload-name",
    "provreq.kueue.x-k8s.io/maxRunDurationSeconds",
    "argocd.argoproj.io/tracking-id",
    "argocd.argoproj.io/instance",
    "argocd.argoproj.io/sync-wave",
    "argocd.argoproj.io/hook",
    "kustomize.toolkit.fluxcd.io/name",
    "kustomize.toolkit.fluxcd.io/prune",
    "helm.toolkit.fluxcd.io/name",
    "reconcile.fluxcd.io/requestedAt",
    "meta.helm.sh/release-name",
    "helm.sh/hook",
    "helm.sh/chart",
    "app.kubernetes.io/managed-by",
    "applyset.kubernetes.io/part-of",
    "config.k8s.io/owning-inventory",
    "config.kubernetes.io/origin",
    "internal.config.kubernetes.io/path",
    "cli-utils.sigs.k8s.io/inventory-id",
    "kapp.k14s.io/app",
    "objectset.rio.cattle.io/hash",
    "kubectl.kubernetes.io/last-applied-configuration",
)
"""Keys by which another program, or the operator, acts on the object that has them."""
_SAID = dict.fromkeys((*INHERITED, *NOT_INHERITED), "x")


def test_a_pod_inherits_what_is_no_mark_for_another_program() -> None:
    """A copy on the pod would say of the pod what was said of the job: Kueue would queue it, and pruning delete it."""
    job = replace(make_job().role("trainer").build(), labels=_SAID, annotations=_SAID)
    told = pod_body(job, job.roles[0], 0, 0, {})["metadata"]
    for kind in ("labels", "annotations"):
        assert [key for key in _SAID if key in told[kind]] == [*INHERITED], kind


def test_no_child_of_a_job_has_a_mark_for_another_program() -> None:
    job = replace(make_job().role("trainer").build(), labels=_SAID, annotations=_SAID)
    group = _create_group(job, GANGS["volcano"], 1).body
    for child in (service_body(job, job.roles[0], 0)["metadata"], child_metadata(job, "a"), group["metadata"]):
        assert [key for key in _SAID if key in child["labels"]] == [*INHERITED]
        assert not set(_SAID) & set(child.get("annotations", {}))


def test_every_mark_has_a_case_here() -> None:
    cased = {key for key in labels.NOT_INHERITED for said in NOT_INHERITED if said == key or said.startswith(key)}
    assert cased == labels.NOT_INHERITED.keys()


@pytest.mark.parametrize("kind", GUESTS)
def test_a_pod_of_another_operators_kind_inherits_nothing_but_whose_it_is(kind: GroupResource) -> None:
    """training-operator, the MPI operator and KubeDL copy no labels or annotations of a job (`createNewPod`)."""
    raw = manifest(kind, {name: guest_role(n) for name, n in GUESTS[kind].items()})
    raw["metadata"] |= {"labels": _SAID, "annotations": {k: v for k, v in _SAID.items() if "git-sync" not in k}}
    job = parsed(kind, raw)
    for each in job.roles:
        told = pod_body(job, each, 0, 0, {})["metadata"]
        assert not set(_SAID) & set(told["labels"])
        assert set(_SAID) & set(told["annotations"]) == {labels.ANNOTATION_TENANCY}
        assert not set(_SAID) & set(service_body(job, each, 0)["metadata"]["labels"])


# -- what every pod is told, by a description of its own -------------------------------------------


def _hosts(job: str, role: str, replicas: int, ports: tuple[int, ...]) -> Mapping[str, str]:
    names = [f"{job}-{role}-{i}" for i in range(replicas)]
    hosts = [f"{name}:{port}" for name in names for port in ports]
    prefix = role.upper().replace("-", "_")
    return {
        f"{prefix}_INSTANCES": ",".join(names),
        f"{prefix}_INSTANCES_NUM": str(len(names)),
        f"{prefix}_PORTS": ",".join(map(str, ports)),
        f"{prefix}_PORTS_NUM": str(len(ports)),
        f"{prefix}_HOSTS": ",".join(hosts),
        f"{prefix}_HOSTS_NUM": str(len(hosts)),
    }


def test_every_replica_of_every_role_is_told_itself_and_all_the_others() -> None:
    roles = {"data-loader": (1, ()), "ps": (2, (7000, 7001)), "trainer": (12, (7164,))}
    builder = make_job("mnist", "team-a")
    for name, (replicas, ports) in roles.items():
        builder = builder.role(name, replicas, ports=ports)
    job = builder.build()
    everyone: dict[str, str] = {}
    for name, (replicas, ports) in roles.items():
        everyone |= _hosts("mnist", name, replicas, ports)
    for role in job.roles:
        replicas, ports = roles[role.name]
        for index in range(replicas):
            assert _told(job, role, index) == everyone | {
                "TRAININGJOB_NAME": "mnist",
                "TRAININGJOB_NAMESPACE": "team-a",
                "TRAININGJOB_REPLICA_NAME": role.name,
                "TRAININGJOB_REPLICA_TYPE": role.name,
                "TRAININGJOB_REPLICA_INDEX": str(index),
                "TRAININGJOB_REPLICA_RESTARTCOUNT": str(index + 3),
                "TRAININGJOB_SERVICE": f"mnist-{role.name}-{index}",
                "TRAININGJOB_PORTS": ",".join(map(str, ports)),
            }
    assert sorted(created(one_pass(job))) == sorted(f"mnist-{r}-{i}" for r, (n, _) in roles.items() for i in range(n))


def _told(job: TrainingJob, role: Role, index: int) -> Mapping[str, str]:
    pod = pod_body(job, role, index, index + 3, role_environment(job))
    return {entry["name"]: entry["value"] for entry in pod["spec"]["containers"][0]["env"]}
