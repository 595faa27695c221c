"""The shipped RBAC says what the table of verbs says, no more and no less, and never too much."""

from __future__ import annotations

import pytest
import yaml

from tests.support.paths import ROOT
from tjworker.kube import rbac
from tjworker.kube.resources import RESOURCES, Process

FILES = rbac.outputs()


def granted(documents: list[rbac.Json], process: Process) -> set[tuple[str, str, str]]:
    """(group, resource, verb) over all roles of a process."""
    roles = [
        d for d in documents if d["kind"] in ("Role", "ClusterRole") and d["metadata"]["name"] == rbac.role(process)
    ]
    return {
        (group, resource, verb)
        for d in roles
        for rule in d["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def tabled(process: Process, *, nodes: bool) -> set[tuple[str, str, str]]:
    rows = [r for r in RESOURCES.values() if r.namespaced or nodes]
    return {(r.group, r.plural, verb) for r in rows for verb in r.verbs.get(process, ())} | {
        (r.group, f"{r.plural}/{sub}", verb)
        for r in rows
        for sub, verbs in r.subresources.items()
        for verb in verbs.get(process, ())
    }


@pytest.mark.parametrize("process", rbac.PROCESSES)
def test_roles_grant_exactly_what_the_table_says(process: Process) -> None:
    assert granted(rbac.cluster_wide(), process) == tabled(process, nodes=True)
    assert granted(rbac.namespaced(), process) == tabled(process, nodes=False)


@pytest.mark.parametrize("text", FILES.values(), ids=FILES.keys())
def test_no_wildcard_no_secret_no_escalation(text: str) -> None:
    assert "*" not in text
    for document in yaml.safe_load_all(text):
        for rule in document.get("rules", []):
            assert not {"secrets", "serviceaccounts/token", "roles", "clusterroles", "pods/exec"} & set(
                rule["resources"]
            )
            assert not {"escalate", "bind", "impersonate"} & set(rule["verbs"])


def test_a_namespaced_install_has_nothing_of_the_whole_cluster() -> None:
    kinds = {d["kind"] for d in rbac.namespaced()}
    assert kinds == {"ServiceAccount", "Role", "RoleBinding"}
    assert all("namespace" not in d["metadata"] for d in rbac.namespaced())


def test_leases_are_granted_in_the_operators_own_namespace_only() -> None:
    for document in rbac.cluster_wide():
        if any("leases" in rule["resources"] for rule in document.get("rules", [])):
            assert (document["kind"], document["metadata"]["namespace"]) == ("Role", rbac.NAMESPACE)


@pytest.mark.parametrize("path", FILES)
def test_what_is_committed_is_what_would_be_generated(path: str) -> None:
    assert (ROOT / path).read_text(encoding="utf-8") == FILES[path]
