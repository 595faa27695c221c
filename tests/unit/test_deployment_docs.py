"""docs/operations.md and docs/settings.md say what is so: generated pages are current, names and links exist."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.support import fast_yaml as yaml
from tests.support.paths import ROOT
from tjworker.api.kinds import KINDS, KNOWN_KINDS
from tjworker.base import JsonDict
from tjworker.kube import rbac
from tjworker.kube.resources import RESOURCES, Process
from tjworker.settings import Settings

PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")


def test_settings_that_are_named_exist() -> None:
    known = {f"TJ_{name.upper()}" for name in Settings.model_fields} | {"TJ_NAME"}
    assert set(re.findall(r"\bTJ_[A-Z_]+\b", PAGE)) <= known


def test_objects_that_are_named_exist() -> None:
    made = set()
    for path in (path for folder in ("base", "page", "second") for path in (ROOT / "k8s" / folder).glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            made.add(document.get("metadata", {}).get("name"))
            made |= {g["name"] for g in document.get("configMapGenerator", ())}
    secrets = subprocess.run(
        ["sh", "k8s/secrets.sh"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=300
    ).stdout
    made |= {document["metadata"]["name"] for document in yaml.safe_load_all(secrets)}
    named = set(re.findall(r"(?<![:\w-])tj-[a-z-]+\b", PAGE))
    of_the_reader = {"tj-history"}
    assert named - {"tj-system", "tj-redis-", "tj-tasks"} - of_the_reader <= made


def test_the_variables_of_compose_are_those_of_the_file() -> None:
    file = Path(ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    wanted = set(re.findall(r"\$\{([A-Z_]+)", file))
    assert {name for name in wanted if name not in PAGE} == set()


def test_uninstalling_deletes_no_crd_but_the_operators_own_and_these_by_name() -> None:
    """A CRD takes all jobs of its kind along, also those that another operator runs."""
    whole, by_name = re.findall(r"kubectl delete (?:-k|crd) .*", PAGE[PAGE.index("### Uninstalling") :])
    assert "-l 'app.kubernetes.io/component!=crd'" in whole
    assert set(re.findall(r"[a-z]+\.[a-z]+\.[a-z]+", by_name)) == set(KINDS)
    for path in (ROOT / "k8s").glob("**/*.yaml"):
        for document in path.read_text(encoding="utf-8").split("\n---\n"):
            if "\nkind: CustomResourceDefinition\n" in document:
                head = document.partition("\nspec:\n")[0]
                assert "\n  labels:\n    app.kubernetes.io/component: crd" in head, path


PAGES = (
    "README.md",
    "docs/operations.md",
    "docker-compose.yml",
    *(f"k8s/{p}" for p in ("kustomization.yaml", "secrets.sh")),
)


def test_no_page_lets_kubectl_keep_a_copy_of_a_password() -> None:
    """A plain `kubectl apply` writes the whole object, passwords included, into an annotation of it."""
    piped = [
        (page, command)
        for page in PAGES
        for command in re.findall(r"secrets\.sh \| kubectl (.*)", (ROOT / page).read_text(encoding="utf-8"))
    ]
    assert {page for page, _ in piped} >= {"README.md", "docs/operations.md", "k8s/kustomization.yaml"}
    assert [p for p in piped if not re.match(r"(apply --server-side|create|replace) -f -", p[1])] == []


@pytest.mark.parametrize("page", ["docs/operations.md", "docker-compose.yml"])
def test_the_file_with_the_passwords_is_its_owners_alone(page: str, tmp_path: Path) -> None:
    """As documented, typed in a shell whose files everybody may read."""
    text = re.sub(r"(?m)^# ?", "", (ROOT / page).read_text(encoding="utf-8"))
    (command,) = re.findall(r"^ *\(umask 077; .*?> \.env\)$", text, re.MULTILINE | re.DOTALL)
    subprocess.run(["sh", "-c", f"umask 022\n{command}"], cwd=tmp_path, check=True, timeout=60)
    assert (tmp_path / ".env").stat().st_mode & 0o777 == 0o600
    made = dict(line.split("=", 1) for line in (tmp_path / ".env").read_text().splitlines())
    assert made.keys() >= {"REDIS_PASSWORD", "FLOWER_BASIC_AUTH"}
    assert len(made["REDIS_PASSWORD"]) == 48


SECURITY = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")


def test_the_tests_that_the_threat_model_names_are_there() -> None:
    named = set(re.findall(r"`(tests/[\w./-]+)`", SECURITY))
    assert named
    assert {path for path in named if not (ROOT / path).exists()} == set()


@pytest.mark.parametrize(("name", "part"), [("tj-job-templates", ""), ("tj-job-sizes", "/scale")])
def test_each_kind_of_job_is_judged_by_the_tenancy_policies(name: str, part: str) -> None:
    """One that is added to RESOURCES cannot be forgotten, another operator's no more than ours."""
    text = (ROOT / "k8s" / "tenancy" / "policy.yaml").read_text(encoding="utf-8")
    made = {(d["kind"], d["metadata"]["name"]): d["spec"] for d in yaml.safe_load_all(text)}
    policy, binding = (made["ValidatingAdmissionPolicy" + kind, name] for kind in ("", "Binding"))
    rules = policy["matchConstraints"]["resourceRules"]
    judged = {f"{plural}.{group}" for rule in rules for group in rule["apiGroups"] for plural in rule["resources"]}
    kinds = [row for row in RESOURCES.values() if row.is_job and (not part or KNOWN_KINDS[row.name].scale_spec_path)]
    assert judged == {f"{row.plural}{part}.{row.group}" for row in kinds}
    assert policy["failurePolicy"] == "Fail"
    assert binding == made["ValidatingAdmissionPolicyBinding", "tj-job-templates"] | {"policyName": name}


def test_no_right_comes_with_the_tenancy_option() -> None:
    for path in (ROOT / "k8s" / "tenancy").glob("*.yaml"):
        kinds = {d.get("kind") for d in yaml.safe_load_all(path.read_text(encoding="utf-8"))}
        assert not {k for k in kinds if k and ("Role" in k or k == "ServiceAccount")}, path


@pytest.mark.parametrize("process", rbac.PROCESSES)
def test_an_installation_for_some_namespaces_asks_for_no_right_that_the_whole_one_has_not(process: Process) -> None:
    """So that what the audit log proves of that one (tests/e2e/control_plane/test_rights.py) holds here, too."""

    def rights(documents: list[JsonDict]) -> set[tuple[str, str, str]]:
        return {
            (group, resource, verb)
            for document in documents
            if document["kind"] in ("Role", "ClusterRole") and document["metadata"]["name"] == rbac.role(process)
            for rule in document["rules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }

    some, whole = rights([*rbac.own_namespace(), *rbac.served()]), rights(rbac.cluster_wide())
    assert some
    assert some <= whole
