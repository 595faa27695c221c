"""Who wins where several say the same thing of a pod: its template, the job, the gang scheduler, the operator. Every
pair of them, for everything that more than one of them can say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import pytest

from tests.support.builders import make_job
from tests.unit.tjworker.reconcile.passes import created
from tests.unit.tjworker.reconcile.passes import decide as one_pass
from tjworker.api import labels
from tjworker.api.model import GangPolicy, Role, TrainingJob
from tjworker.reconcile.gangs import GANGS
from tjworker.reconcile.gangs.gang import Membership
from tjworker.reconcile.workloads.environment import role_environment
from tjworker.reconcile.workloads.podbody import pod_body

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


THEIRS = {
    "volcano": {"metadata": {"annotations": {"scheduling.k8s.io/group-name": "theirs"}}},
    "scheduler-plugins": {"metadata": {"labels": {"scheduling.x-k8s.io/pod-group": "theirs"}}},
    "kubernetes": {"spec": {"schedulingGroup": {"podGroupName": "theirs"}}},
}


@pytest.mark.parametrize("name", GANGS)
def test_the_pod_group_that_a_template_names_goes_before_the_operators(name: str) -> None:
    def named(template: Json) -> object:
        job = _job(Said(lambda _: None, template), by_template=True, by_job=False, by_gang=False)
        pod = pod_body(job, job.roles[0], 0, 0, {}, Membership(GANGS[name], "digits", ""))
        (part, values), *_ = THEIRS[name].items()
        return {key: pod[part].get(key) for key in values} if part == "spec" else _groups(pod)

    def _groups(pod: Json) -> object:
        (kind, values), *_ = THEIRS[name]["metadata"].items()
        return {"metadata": {kind: {key: pod["metadata"].get(kind, {}).get(key) for key in values}}}

    theirs = THEIRS[name]
    assert named(theirs) in (theirs, theirs.get("spec"))
    assert "digits" in str(named({}))


_ANNOTATIONS = {value for name, value in vars(labels).items() if name.startswith("ANNOTATION_")}
ACTING = sorted(_ANNOTATIONS - {labels.ANNOTATION_TENANCY})
"""But the one that says whose the job is, and its pods with it."""


def test_no_annotation_that_speaks_to_the_operator_reaches_a_pod() -> None:
    """A copy on the pod would say of the pod what was said of the job."""
    kept = {"note": "x", labels.ANNOTATION_TENANCY: "x"}
    said = dict.fromkeys((*ACTING, "kubectl.kubernetes.io/last-applied-configuration"), "x") | kept
    job = replace(make_job().role("trainer").build(), annotations=said)
    assert pod_body(job, job.roles[0], 0, 0, {})["metadata"]["annotations"] == kept
    assert len(ACTING) >= 6


OURS = ("group-name", "job-name", "replica-type", "replica-name", "replica-index", "restart-attempt", labels.JOB_UID)


@pytest.mark.parametrize("label", OURS)
def test_a_label_of_ours_is_ours_whoever_else_sets_it(label: str) -> None:
    template = {"metadata": {"labels": {label: "evil"}}, "spec": {"containers": [{"name": "aitj-main", "image": "x"}]}}
    job = make_job().labels(**{label: "evil"}).role("trainer", 3, template=template).build()
    want = {"replica-type": "trainer", "replica-name": "trainer", "replica-index": "2", "restart-attempt": "5"}
    told = want | {"group-name": "elasticdeeplearning.ai", "job-name": "digits", labels.JOB_UID: "uid-of-digits"}
    assert pod_body(job, job.roles[0], 2, 5, {})["metadata"]["labels"][label] == told[label]


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


def test_a_dollar_of_ours_stays_one_dollar_and_the_users_variables_stay_as_they_are_in_their_order() -> None:
    """Kubernetes reads `$(NAME)` in values, and `$$` as `$`."""
    own = [{"name": "Z", "value": "$(A)"}, {"name": "TRAININGJOB_NAME", "value": "evil"}, {"name": "A", "value": "$$"}]
    template = {"spec": {"containers": [{"name": "aitj-main", "image": "x", "env": own}]}}
    job = make_job().role("trainer", template=template).build()
    entries = pod_body(job, job.roles[0], 0, 0, {"PRICE": "5$ a $(HOUR)"})["spec"]["containers"][0]["env"]
    assert {"name": "PRICE", "value": "5$$ a $$(HOUR)"} in entries
    assert entries[-2:] == [own[0], own[2]], "after ours, to which they may refer"
