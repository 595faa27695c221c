"""k8s/tenancy, judged by an evaluator of CEL: what a job may ask for, who may make, change and scale one, and what a
worker that is taken over may not do. That the API server says the same: tests/e2e/control_plane/test_tenancy*.py."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support import fast_yaml as yaml
from tests.support.admission import Policies, Request
from tests.support.kinds import TRAININGJOBS, resource_of
from tests.support.paths import ROOT
from tests.support.tenancy import (
    ACCOUNTS,
    CASES,
    FORBIDDEN,
    KINDS,
    LABEL,
    ROLES,
    Json,
    asks,
    container,
    edl,
    noted,
    of_kind,
    spoilt,
)
from tests.support.trainer import train_job
from tjworker.api.kinds import KNOWN_KINDS
from tjworker.api.kinds.base import JobKind
from tjworker.kube.rbac import TENANCY

DOCUMENTS = tuple(yaml.safe_load_all((ROOT / TENANCY).read_text(encoding="utf-8")))
POLICIES = {d["metadata"]["name"]: d["spec"] for d in DOCUMENTS if d["kind"] == "ValidatingAdmissionPolicy"}
JUDGED = {"tj-job-templates": ("", {"CREATE", "UPDATE"}), "tj-job-sizes": ("/scale", {"UPDATE"})}
SCALED = [kind for kind in KNOWN_KINDS.values() if kind.scale_spec_path]
MAKES_PODS = frozenset({("create", "", "pods", "team-a")})


def stored(manifest: Json) -> Json:
    """As admission sees it: without the fields of a spec that its kind does not have."""
    fields = KNOWN_KINDS[resource_of(manifest)].spec_model.model_fields
    known = {field.alias or name for name, field in fields.items()}
    return {**manifest, "spec": {name: value for name, value in manifest["spec"].items() if name in known}}


def said(manifest: Json, old: Json | None = None, **more: Any) -> str:
    """What the author reads, in a namespace with the label."""
    request = Request(str(resource_of(manifest)), stored(manifest), old and stored(old), labels=LABEL, may=MAKES_PODS)
    return Policies(DOCUMENTS).refusal(replace(request, **more))


@pytest.mark.parametrize("kind", KNOWN_KINDS.values(), ids=lambda kind: str(kind.resource))
def test_every_kind_is_judged_and_so_is_who_scales_it(kind: JobKind) -> None:
    for name, (subresource, operations) in JUDGED.items():
        rules = POLICIES[name]["matchConstraints"]["resourceRules"]
        mine = [rule for rule in rules if kind.group in rule["apiGroups"]]
        there = not subresource or bool(kind.scale_spec_path)
        asked = not subresource or any(of.scale_spec_path for of in KNOWN_KINDS.values() if of.group == kind.group)
        want = [there] if asked else []
        assert [kind.plural + subresource in rule["resources"] for rule in mine] == want, f"{name}: make generate"
        assert all(set(rule["operations"]) == operations for rule in mine)
        assert all(rule["apiVersions"] == ["*"] for rule in mine)


@pytest.mark.parametrize("kind", KNOWN_KINDS.values(), ids=lambda kind: str(kind.resource))
def test_a_kinds_templates_stand_where_the_policy_looks_for_them(kind: JobKind) -> None:
    fields = [
        field.alias or name
        for name, field in kind.spec_model.model_fields.items()
        if (field.alias or name).endswith("eplicaSpecs")
    ]
    assert len(fields) == (kind.resource != TRAININGJOBS and not kind.companions), (
        f"{fields}: name its templates in {TENANCY}"
    )


# -- what a template may ask for -------------------------------------------------------------------
@pytest.mark.parametrize("sentence", CASES)
def test_what_a_template_may_ask_for(sentence: str) -> None:
    case = CASES[sentence]
    made = said(case.manifest, annotations=case.annotations)
    assert bool(made) == bool(case.want), made
    assert case.want in made
    plain = (edl if case.manifest["kind"] == "TrainingJob" else asks)(suspend=True)
    changed = said(case.manifest, old=plain, annotations=case.annotations)
    assert changed == made, "an edit is judged as a job that is made"
    assert said(case.manifest, annotations=case.annotations, labels={}) == "", "only where the label is"
    assert said(case.manifest, annotations=case.annotations, labels={**LABEL, "team": "vision"}) == made


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.resource))
def test_what_a_template_of_any_kind_may_not_ask_for(kind: JobKind) -> None:
    for roles in ROLES:
        plain = of_kind(kind, roles)
        assert said(plain) == ""
        for words, asked in FORBIDDEN.items():
            assert words.removeprefix("the account ") in said(spoilt(plain, asked)), words
        assert "kubedl.io/network-mode" in said(noted(plain, **{"kubedl.io/network-mode": "host"}))


@pytest.mark.parametrize("words", FORBIDDEN)
def test_what_a_patch_of_a_runtime_may_not_ask_for(words: str) -> None:
    plain = train_job(runtimePatches=[{"manager": "a.io/x"}])
    assert said(plain) == ""
    jobs = [{"name": "node", "template": {"spec": {"template": {"spec": FORBIDDEN[words]}}}}]
    patch = {"manager": "b.io/x", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}}
    plain["spec"]["runtimePatches"].append(patch)
    assert words.removeprefix("the account ") in said(plain)


# -- who may make, change and scale a job ----------------------------------------------------------
RIGHTS = {
    "none": frozenset[tuple[str, str, str, str]](),
    "to see and delete pods": frozenset((verb, "", "pods", "team-a") for verb in ("get", "list", "delete", "update")),
    "to create pods elsewhere": frozenset({("create", "", "pods", "team-b")}),
    "to create pods of another group": frozenset({("create", "metrics.k8s.io", "pods", "team-a")}),
    "to create Deployments": frozenset({("create", "apps", "deployments", "team-a")}),
}


@pytest.mark.parametrize("may", RIGHTS.values(), ids=RIGHTS.keys())
@pytest.mark.parametrize("manifest", [asks(), edl()], ids=lambda manifest: str(manifest["kind"]))
def test_who_may_create_no_pods_may_create_no_jobs(manifest: Json, may: frozenset[tuple[str, str, str, str]]) -> None:
    want = "tj-job-templates: eve may not create pods in team-a, so not by a job either: ask for a role"
    assert said(manifest, user="eve", may=may).startswith(want)
    assert said(manifest, user="eve", may=may | MAKES_PODS) == ""


def _with(**metadata: Any) -> Json:
    made = asks()
    return {**made, "metadata": {**made["metadata"], **metadata}}


A, B = {"a": "1"}, {"a": "2"}
EDITS: dict[str, tuple[Json, Json, bool]] = {
    "a new spec": (asks(), asks(priorityClassName="high"), True),
    "a first annotation": (asks(), _with(annotations=A), True),
    "a first label": (asks(), _with(labels=A), True),
    "nothing": (_with(labels=A, annotations=B), _with(labels=A, annotations=B), False),
    "a finalizer": (_with(labels=A), _with(labels=A, finalizers=["example.org/held"]), False),
    "an owner": (asks(), _with(ownerReferences=[{"kind": "ConfigMap"}]), False),
}
"""What an edit changes: before, after, whether it is judged."""


@pytest.mark.parametrize(("before", "after", "judged"), EDITS.values(), ids=EDITS.keys())
def test_which_edits_need_the_right_to_create_pods(before: Json, after: Json, judged: bool) -> None:
    assert ("may not create pods" in said(after, old=before, may=frozenset())) == judged
    assert said(after, old=before) == ""


@pytest.mark.parametrize(("before", "after", "judged"), EDITS.values(), ids=EDITS.keys())
def test_a_job_from_before_the_label_is_judged_by_the_same_edits(before: Json, after: Json, judged: bool) -> None:
    old, new = spoilt(before, {"hostPID": True}), spoilt(after, {"hostPID": True})
    assert ("hostPID" in said(new, old=old)) == judged


SIZES: dict[str, tuple[int | None, int | None, bool]] = {
    "one more": (2, 3, True),
    "the first": (0, 1, True),
    "some where no number stood": (None, 1, True),
    "one less": (3, 2, False),
    "no number any more": (3, None, False),
}


@pytest.mark.parametrize(("before", "after", "more"), SIZES.values(), ids=SIZES.keys())
@pytest.mark.parametrize("kind", SCALED, ids=lambda kind: str(kind.resource))
def test_who_may_create_no_pods_asks_for_no_more_of_them_by_scale(
    kind: JobKind, before: int | None, after: int | None, more: bool
) -> None:
    old, new = ({"spec": {} if n is None else {"replicas": n}} for n in (before, after))
    request = Request(f"{kind.resource}/scale", new, old, labels=LABEL)
    refused = Policies(DOCUMENTS).refusal(request)
    assert ("so not by scaling a job either" in refused) == more
    assert bool(refused) == more
    others = (
        replace(request, may=MAKES_PODS),
        replace(request, labels={}),
        replace(request, user="system:serviceaccount:kube-system:horizontal-pod-autoscaler"),
    )
    for other in others:
        assert Policies(DOCUMENTS).refusal(other) == ""
    named_like_it = replace(request, user="system:serviceaccount:team-a:horizontal-pod-autoscaler")
    assert bool(Policies(DOCUMENTS).refusal(named_like_it)) == more


# -- a worker that is taken over -------------------------------------------------------------------
WORKER = "system:serviceaccount:tj-system:worker"


def _makes(resource: str, account: str | None, *, update: bool = False, **more: Any) -> str:
    pod = {"containers": [container()]} | ({} if account is None else {"serviceAccountName": account})
    templated = resource in ("replicasets.apps", "jobs.batch")
    spec = {"template": {"spec": pod}} if templated else pod if resource == "pods" else {}
    made = {"metadata": {"name": "theirs"}, **({} if resource == "secrets" else {"spec": spec})}
    request = Request(resource, made, made if update else None, user=WORKER)
    return Policies(DOCUMENTS).refusal(replace(request, **more))


MADE = ("pods", "services", "secrets", "persistentvolumeclaims", "replicasets.apps", "jobs.batch")


@pytest.mark.parametrize("update", [False, True], ids=["made", "changed"])
@pytest.mark.parametrize("resource", MADE)
def test_where_a_worker_makes_nothing(resource: str, update: bool) -> None:
    for namespace in ("kube-system", "kube-public", "kube-node-lease", "tj-system"):
        refused = _makes(resource, None, update=update, namespace=namespace)
        assert refused.startswith(f"tj-operator-reach: the operator makes nothing in {namespace}"), refused
        for somebody_else in ("system:serviceaccount:tj-system:watcher", "system:admin"):
            assert _makes(resource, None, update=update, namespace=namespace, user=somebody_else) == ""
    for namespace in ("default", "team-a", "kubeflow", "tj-system-2"):
        assert _makes(resource, None, update=update, namespace=namespace) == ""


@pytest.mark.parametrize("resource", ["pods", "replicasets.apps", "jobs.batch"])
@pytest.mark.parametrize(
    ("accounts", "account", "allowed"),
    [
        ("", None, True),
        ("", "default", True),
        ("", "", True),
        ("", "admin", False),
        ("default, trainer", "trainer", True),
        ("default, trainer", None, True),
        ("default, trainer", "admin", False),
        ("trainer", "trainer", True),
        ("trainer", None, False),
        ("trainer", "", False),
    ],
)
def test_as_whom_a_worker_runs_a_tenants_pods(resource: str, accounts: str, account: str | None, allowed: bool) -> None:
    annotations = {ACCOUNTS: accounts} if accounts else {}
    refused = _makes(resource, account, labels=LABEL, annotations=annotations)
    assert (refused == "") == allowed, refused
    assert allowed or refused.endswith(f"the operator makes pods in team-a as {accounts or 'default'} alone")
    assert _makes(resource, account, annotations=annotations) == "", "only where the label is"


def test_the_account_is_the_one_that_the_roles_are_bound_to() -> None:
    bound = yaml.safe_load_all((ROOT / "k8s/base/rbac.yaml").read_text(encoding="utf-8"))
    subjects = {
        f"system:serviceaccount:{subject['namespace']}:{subject['name']}"
        for document in bound
        if document["kind"] == "ClusterRoleBinding" and document["metadata"]["name"] == "tj-worker"
        for subject in document["subjects"]
    }
    assert subjects == {WORKER}


REACH = "tj-operator-reach: the operator makes"
SECRET_TYPES = {
    None: True,
    "": True,
    "Opaque": True,
    "kubernetes.io/ssh-auth": True,
    "kubernetes.io/service-account-token": False,
    "bootstrap.kubernetes.io/token": False,
}


@pytest.mark.parametrize("type_", SECRET_TYPES, ids=str)
def test_which_secrets_a_worker_makes(type_: str | None) -> None:
    made = {"metadata": {"name": "theirs"}, **({} if type_ is None else {"type": type_})}
    for old in (None, made):
        for labels in ({}, LABEL):
            refused = Policies(DOCUMENTS).refusal(Request("secrets", made, old, user=WORKER, labels=labels))
            assert (refused == "") == SECRET_TYPES[type_]
            assert not refused or refused.startswith(f"{REACH} no Secret of type {type_}")
    assert Policies(DOCUMENTS).refusal(Request("secrets", made, user="system:admin")) == ""


SERVICES: dict[str, tuple[Json, bool]] = {
    "one of a job": ({"clusterIP": "None", "selector": {"a": "b"}}, True),
    "of the type that it has anyway": ({"type": "ClusterIP", "externalIPs": [], "externalName": ""}, True),
    "with an address of somebody else": ({"externalIPs": ["8.8.8.8"]}, False),
    "with a name of somebody else": ({"type": "ExternalName", "externalName": "example.org"}, False),
    "on every node": ({"type": "NodePort"}, False),
}


@pytest.mark.parametrize(("spec", "allowed"), SERVICES.values(), ids=SERVICES.keys())
def test_which_services_a_worker_makes(spec: Json, allowed: bool) -> None:
    made = {"metadata": {"name": "theirs"}, "spec": spec}
    for old in (None, made):
        refused = Policies(DOCUMENTS).refusal(Request("services", made, old, user=WORKER))
        assert (refused == "") == allowed
        assert allowed or refused.startswith(f"{REACH} Services of type ClusterIP alone")
    assert Policies(DOCUMENTS).refusal(Request("services", made, user="system:admin")) == ""


PODS_OF_A_WORKER: dict[str, tuple[Json, str]] = {
    "nothing special": ({}, ""),
    "fields that say no": ({"hostNetwork": False, "nodeName": "", "volumes": [{"emptyDir": {}}]}, ""),
    "the host's network": ({"hostNetwork": True}, "no pod with hostNetwork, hostPID or hostIPC in team-a"),
    "the host's processes": ({"hostPID": True}, "no pod with hostNetwork, hostPID or hostIPC in team-a"),
    "the host's files": (
        {"volumes": [{"emptyDir": {}}, {"hostPath": {"path": "/"}}]},
        "no pod with a volume of hostPath in team-a",
    ),
    "a privileged container": (
        {"containers": [{"securityContext": {"privileged": True}}]},
        "no privileged container in team-a",
    ),
    "a privileged container before the others": (
        {"initContainers": [{"securityContext": {}}, {"securityContext": {"privileged": True}}]},
        "no privileged container in team-a",
    ),
    "a node": ({"nodeName": "n0"}, "no pod with a nodeName in team-a"),
}


@pytest.mark.parametrize("resource", ["pods", "replicasets.apps", "jobs.batch"])
@pytest.mark.parametrize(("asked", "says"), PODS_OF_A_WORKER.values(), ids=PODS_OF_A_WORKER.keys())
def test_what_a_workers_pods_may_not_ask_for_in_a_tenants_namespace(resource: str, asked: Json, says: str) -> None:
    def made(asked: Json, **more: Any) -> Json:
        pod = {"containers": [container()], **asked}
        return {
            "metadata": {"name": "theirs"},
            "spec": pod if resource == "pods" else {"template": {"spec": pod}, **more},
        }

    request = Request(resource, made(asked), user=WORKER, labels=LABEL)
    refused = Policies(DOCUMENTS).refusal(request)
    assert refused == (says and f"{REACH} {says}" + (": the scheduler chooses the node" if "nodeName" in says else ""))
    for other in (replace(request, labels={}), replace(request, user="system:admin")):
        assert Policies(DOCUMENTS).refusal(other) == ""
    scaled = replace(request, object=made(asked, replicas=2), old=made(asked, replicas=1))
    assert Policies(DOCUMENTS).refusal(scaled) == "", "a pod, and a workload with its template, stays what it was"
    if resource != "pods":
        assert Policies(DOCUMENTS).refusal(replace(request, old=made({}, replicas=1))) == refused
