"""The shipped RBAC says what the table of verbs says, no more and no less, and never too much."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pytest

from tests.support import fast_yaml as yaml
from tjworker.api.kinds import KINDS
from tjworker.api.resources import LEASES
from tjworker.base import JsonDict
from tjworker.kube import rbac
from tjworker.kube.resources import RESOURCES, Process, Resource
from tjworker.settings import load_settings

FILES = {path: text for path, text in rbac.outputs().items() if path != rbac.TENANCY}


def granted(documents: list[JsonDict], process: Process) -> set[tuple[str, str, str]]:
    """(group, resource, verb) over all roles that a binding gives to the account of a process."""
    bound = {
        (d["roleRef"]["kind"], d["roleRef"]["name"])
        for d in documents
        if d["kind"].endswith("Binding") and [s["name"] for s in d["subjects"]] == [process]
    }
    roles = [d for d in documents if (d["kind"], d["metadata"]["name"]) in bound]
    return {
        (group, resource, verb)
        for d in roles
        for rule in d["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def tabled(process: Process, rows: Iterable[Resource]) -> set[tuple[str, str, str]]:
    rows = tuple(rows)
    return {(r.group, r.plural, verb) for r in rows for verb in r.verbs.get(process, ())} | {
        (r.group, f"{r.plural}/{sub}", verb)
        for r in rows
        for sub, verbs in r.subresources.items()
        for verb in verbs.get(process, ())
    }


@pytest.mark.parametrize("process", rbac.PROCESSES)
def test_roles_grant_exactly_what_the_table_says(process: Process) -> None:
    lease = RESOURCES[LEASES]
    own = [row for row in RESOURCES.values() if not row.guest and not row.needed_by and not row.gang]
    assert granted(rbac.cluster_wide(), process) == tabled(process, own)
    assert granted(rbac.own_namespace(), process) == tabled(process, [lease])
    in_namespaces = [row for row in own if row.namespaced and row != lease]
    assert granted(rbac.served(), process) == tabled(process, in_namespaces)
    assert granted(rbac.nodes(), process) == tabled(process, [r for r in own if not r.namespaced])
    for guest in rbac.GUESTS:
        assert granted(rbac.of_guest(guest), process) == tabled(process, rbac.with_needs([guest]))
    for gang in rbac.GANGS:
        assert granted(rbac.of_gang(gang), process) == tabled(process, [gang])
    with_guests = granted(rbac.served(["a"], guests=rbac.GUESTS), process)
    assert with_guests == tabled(process, [*in_namespaces, *rbac.with_needs(rbac.GUESTS)])


def test_only_the_worker_of_a_kind_with_mpi_makes_secrets_and_nobody_reads_one() -> None:
    may = {path for path, text in FILES.items() if "secrets" in text}
    kinds = ("mpijobs.kubeflow.org", "mpijobs.training.kubedl.io", "trainjobs.trainer.kubeflow.org")
    assert may == {f"k8s/kinds/{kind}/rbac.yaml" for kind in kinds}
    for path in may:
        rights = {process: granted(list(yaml.safe_load_all(FILES[path])), process) for process in rbac.PROCESSES}
        assert {right for right in rights["worker"] if right[1] == "secrets"} == {("", "secrets", "create")}
        assert not any(resource == "secrets" for _, resource, _ in rights["watcher"])


@pytest.mark.parametrize("text", FILES.values(), ids=FILES.keys())
def test_no_wildcard_no_reading_of_secrets_no_escalation(text: str) -> None:
    assert "*" not in text
    for document in yaml.safe_load_all(text):
        for rule in document.get("rules", []):
            assert "secrets" not in rule["resources"] or rule["verbs"] == ["create"]
            assert not {"serviceaccounts/token", "roles", "clusterroles", "pods/exec"} & set(rule["resources"])
            assert not {"escalate", "bind", "impersonate"} & set(rule["verbs"])


def test_for_single_namespaces_it_has_nothing_of_the_whole_cluster() -> None:
    documents = [*rbac.own_namespace(), *rbac.served()]
    assert {d["kind"] for d in documents} == {"ServiceAccount", "Role", "RoleBinding"}
    assert all("namespace" not in d["metadata"] for d in documents)


def test_of_the_whole_cluster_it_may_only_read() -> None:
    rules = [rule for d in rbac.nodes() for rule in d.get("rules", ())]
    kept = [rule for rule in rules if rule["resources"] != ["tokenreviews"]]  # a question: nothing is kept of it
    assert {verb for rule in kept for verb in rule["verbs"]} <= {"get", "list", "watch"}


def test_the_report_server_changes_nothing_but_the_status_of_jobs() -> None:
    """Everybody's pods may talk to it."""
    documents = [*rbac.cluster_wide(), *(d for row in rbac.GUESTS for d in rbac.of_guest(row))]
    mine = [d for d in documents if d["metadata"]["name"].startswith("tj-reporter")]
    rules = [rule for d in mine for rule in d.get("rules", ())]
    assert rules
    writes = {
        (name.partition("/")[2] or name, verb)
        for rule in rules
        for name in rule["resources"]
        for verb in rule["verbs"]
        if verb not in ("get", "list")
    }
    assert writes == {("status", "patch"), ("tokenreviews", "create")}


def test_people_get_the_jobs_with_the_roles_that_they_have() -> None:
    """`edit` and `admin` may make pods anyway; `view` may not, and changes nothing here either."""
    given: dict[str, set[str]] = {"view": set(), "edit": set(), "admin": set()}
    for document in rbac.users():
        verbs = {verb for rule in document["rules"] for verb in rule["verbs"]}
        for label in document["metadata"]["labels"]:
            given[label.rpartition("-")[2]] |= verbs
        for rule in document["rules"]:
            assert {name.partition("/")[0] for name in rule["resources"]} <= {k.partition(".")[0] for k in KINDS}
            assert not {name for name in rule["resources"] if name.endswith(("/status", "/finalizers"))} or rule[
                "verbs"
            ] == ["get"], "the status is the operator's"
    assert given["view"] == {"get", "list", "watch"}
    assert given["edit"] == given["admin"] >= given["view"] | {"create", "update", "patch", "delete"}


@dataclass(frozen=True)
class Asked:
    arguments: list[str]
    want_code: int
    want: str


ASKED = {
    "Roles for two namespaces": Asked(["--namespaces", "b,a"], 0, "in a, b"),
    "those of TJ_NAMESPACES": Asked(["--namespaces"], 0, "in team-x"),
    "its own is refused": Asked(["--namespaces", "a,tj-system"], 2, "tj-system is the operator's own namespace"),
    "no name": Asked(["--namespaces", "a,Team_B"], 2, "'Team_B' is no name of a namespace"),
    "none at all": Asked(["--namespaces", ","], 2, "no namespace is named"),
}


@pytest.mark.parametrize("case", ASKED.values(), ids=list(ASKED))
def test_roles_for_a_list_of_namespaces(
    case: Asked, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TJ_NAMESPACES", "team-x")
    load_settings.cache_clear()
    try:
        assert rbac.main(case.arguments) == case.want_code
    finally:
        load_settings.cache_clear()
    said = capsys.readouterr()
    assert case.want in said.out + said.err
    assert bool(said.out) is (case.want_code == 0)
    made = [d for d in yaml.safe_load_all(said.out) if d]
    assert all(d["kind"] in ("Role", "RoleBinding") for d in made)
    subjects = {s["namespace"] for d in made for s in d.get("subjects", ())}
    assert not subjects & {d["metadata"]["namespace"] for d in made}


def test_an_operator_of_single_namespaces_may_read_what_its_jobs_name_outside_of_them() -> None:
    trainjobs = [row for row in rbac.GUESTS if row.plural == "trainjobs"]
    documents = rbac.served(["a"], "tj-system", trainjobs)
    roles = {d["metadata"]["name"]: d for d in documents if d["kind"] == "ClusterRole"}
    resource = ("trainer.kubeflow.org", "clustertrainingruntimes")
    wanted: dict[Process, tuple[str, ...]] = {"worker": ("list",), "watcher": ("list", "watch")}
    for process, verbs in wanted.items():
        assert [rule["resources"] for rule in roles[f"tj-{process}-references"]["rules"]] == [[resource[1]]]
        assert granted(documents, process) >= {(*resource, verb) for verb in verbs}
    in_roles = [r for d in documents if d["kind"] == "Role" for rule in d["rules"] for r in rule["resources"]]
    assert "clustertrainingruntimes" not in in_roles
    assert "trainingruntimes" in in_roles
