"""`helm install` and `kubectl apply -k` install the same objects, and values that make no sense are refused.

Differences that are meant, and no others: the Namespace (Helm creates it itself), the Secrets (`secrets.create` stands
for k8s/secrets.sh), the name of the settings (kustomize names them by their content; the chart restarts pods by an
annotation), and the policy that keeps CRDs.
"""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest

from tests.chart.helm import Helm, Json
from tests.integration.manifests import K8S, render
from tests.support import fast_yaml as yaml
from tests.support.paths import ROOT

NO_SECRETS = "secrets.create=false"
PATCHED = "checksum/settings", "helm.sh/resource-policy"


def by_name(documents: list[Json]) -> dict[str, Json]:
    """`Kind namespace/name` -> the object, without what is meant to differ."""
    found = {}
    for document in documents:
        metadata = document["metadata"]
        if document["kind"] == "Namespace":
            continue
        _forget(metadata, PATCHED)
        if template := document.get("spec", {}).get("template"):
            _forget(template["metadata"], PATCHED)
        text = re.sub(r"\btj-settings-[a-z0-9]{10}\b", "tj-settings", yaml.safe_dump(document))
        plain: Json = yaml.safe_load(text)
        found[f"{plain['kind']} {metadata.get('namespace', '')}/{plain['metadata']['name']}"] = plain
    return found


def _forget(metadata: Json, annotations: tuple[str, ...]) -> None:
    kept = {name: value for name, value in metadata.pop("annotations", {}).items() if name not in annotations}
    if kept:
        metadata["annotations"] = kept


def kustomize(tmp_path: Path, text: str) -> list[Json]:
    """A user's own kustomization around ours; `K8S` in it is our folder."""
    folder = tmp_path / "own"
    folder.mkdir()
    # kustomize takes relative paths alone.
    (folder / "kustomization.yaml").write_text(text.replace("K8S", _relative(folder)))
    return render(folder)


def _relative(folder: Path) -> str:
    return "/".join([".."] * (len(folder.resolve().parts) - 1)) + str(K8S.resolve())


ROWS = {
    "the whole cluster": ((), "resources: [K8S]"),
    "another image and another setting": (
        ("image.repository=registry.example.com/operator", "image.tag=v7", "settings.TJ_WRITES_PER_PASS=100"),
        """
        resources: [K8S]
        images: [{name: trainingjob-operator.invalid/operator, newName: registry.example.com/operator, newTag: v7}]
        configMapGenerator:
          - {name: tj-settings, namespace: tj-system, behavior: merge, literals: [TJ_WRITES_PER_PASS=100]}
        """,
    ),
    "four workers": (("worker.replicas=4",), "{resources: [K8S], replicas: [{name: tj-worker, count: 4}]}"),
    "no worker": (("worker.replicas=0",), "{resources: [K8S], replicas: [{name: tj-worker, count: 0}]}"),
    "OpenShift": (("openshift=true",), "{resources: [K8S], components: [K8S/openshift]}"),
    "another operator's kind": (
        ("kinds={pytorchjobs.kubeflow.org}",),
        """
        resources: [K8S, K8S/kinds/pytorchjobs.kubeflow.org]
        configMapGenerator:
          - name: tj-settings
            namespace: tj-system
            behavior: merge
            literals: [TJ_KINDS=pytorchjobs.kubeflow.org]
        """,
    ),
    "the page": (("page.enabled=true",), "{resources: [K8S], components: [K8S/page]}"),
    "a history in PostgreSQL": (
        ("page.enabled=true", "history.existingSecret=tj-history"),
        "{resources: [K8S], components: [K8S/page, K8S/history]}",
    ),
    "gangs": (
        ("gangScheduler=volcano",),
        """
        resources: [K8S, K8S/gangs/volcano]
        configMapGenerator:
          - {name: tj-settings, namespace: tj-system, behavior: merge, literals: [TJ_GANG_SCHEDULER=volcano]}
        """,
    ),
}


@pytest.mark.parametrize("row", ROWS)
def test_helm_and_kustomize_install_the_same(row: str, helm: Helm, tmp_path: Path) -> None:
    values, kustomization = ROWS[row]
    text = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
    own = yaml.safe_dump({**yaml.safe_load(text), **yaml.safe_load(kustomization)})
    assert by_name(helm.render(NO_SECRETS, *values)) == by_name(kustomize(tmp_path, own))


def test_some_namespaces_are_served_with_the_same_roles(helm: Helm) -> None:
    wanted = by_name(render(K8S / "namespaced") + render(K8S / "nodes") + render(K8S / "pods"))
    for document in render(K8S / "served"):
        document["metadata"]["namespace"] = "training"
        wanted |= by_name([document])
    for document in wanted.values():
        if "template" in document.get("spec", {}):
            document["spec"]["template"]["spec"]["priorityClassName"] = "given"
    made = helm.render(
        *(NO_SECRETS, "namespaces={training}", "crds.install=false", "userRoles=false"),
        *("priorityClass.create=false", "priorityClass.name=given"),
    )
    assert by_name(made) == wanted


def test_without_rights_over_the_cluster_nothing_of_the_cluster_is_rendered(helm: Helm) -> None:
    made = helm.render(
        *("namespaces={training}", "kinds={mpijobs.kubeflow.org}", "gangScheduler=volcano", "clusterReads=false"),
        *("crds.install=false", "crds.kinds=false", "userRoles=false", "priorityClass.name="),
    )
    assert {d["kind"] for d in made} & {"ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"} == set()
    assert {d["metadata"].get("namespace") for d in made} == {"tj-system", "training"}


def test_a_role_in_each_namespace_gives_the_rights_on_each_kind(helm: Helm) -> None:
    made = helm.render("namespaces={red,blue}", "kinds={jaxjobs.kubeflow.org}")
    roles = {(d["metadata"]["namespace"], d["metadata"]["name"]) for d in made if d["kind"] == "Role"}
    for namespace in ("red", "blue"):
        assert {(namespace, "tj-worker"), (namespace, "tj-worker-jaxjobs.kubeflow.org")} <= roles


def test_the_alerts_ask_for_the_namespace_of_the_release(helm: Helm) -> None:
    made = helm.render("monitoring.enabled=true", namespace="ops")
    (rules,) = (d for d in made if d["kind"] == "PrometheusRule")
    text = yaml.safe_dump(rules)
    assert 'namespace="ops"' in text
    assert "tj-system" not in text
    assert {d["metadata"]["namespace"] for d in made if d["metadata"]["name"] == "tj-dashboard"} == {"ops"}


REFUSED = {
    "a value that does not exist": ("worker.replica=4", "replica"),
    "a setting that does not exist": ("settings.TJ_FOO=60", "TJ_FOO"),
    "a kind that does not exist": ("kinds={pytorchjobs}", "kinds"),
    "a gang scheduler that does not exist": ("gangScheduler=yunikorn", "gangScheduler"),
    "the operator's own namespace": ("namespaces={tj-system}", "namespace of the operator itself"),
    "TJ_KINDS without the rights": ("settings.TJ_KINDS=all", "set the value `kinds` instead"),
    "no Redis at all": ("redis.enabled=false", "redis.external.url: required"),
    "TJ_HISTORY_URL without its Secret": (
        "settings.TJ_HISTORY_URL=postgresql://a/b",
        "set the value `history.url` instead",
    ),
    "a history in no database that is known": ("history.url=mysql://a/b", "history"),
    "no watcher": ("watcher.replicas=0", "replicas"),
}


@pytest.mark.parametrize("row", REFUSED)
def test_values_are_refused(row: str, helm: Helm) -> None:
    value, named = REFUSED[row]
    assert named in helm.refuse(value)


VALUES = yaml.safe_load((ROOT / "charts" / "operator" / "values.yaml").read_text(encoding="utf-8"))
FIELDS = [f"{name}.{field}" for name, found in VALUES.items() if isinstance(found, dict) for field in found]


def test_values_of_an_older_chart_lack_a_section_or_a_field_and_get_its_default(helm: Helm) -> None:
    """As `helm upgrade --reuse-values` gives them: what the older chart did not have is missing."""
    options = ("page.enabled=true", "history.existingSecret=tj-history", "monitoring.enabled=true")
    want = by_name(helm.render(NO_SECRETS, *options))
    kept = {option.partition("=")[0] for option in (NO_SECRETS, *options)} | {"secrets"}
    for name in VALUES.keys() - {"settings", "page", "history", "monitoring"} - kept:
        assert by_name(helm.render(NO_SECRETS, *options, f"{name}=null")) == want, name
    for part in (FIELDS[::2], FIELDS[1::2]):
        missing = [f"{field}=null" for field in part if field not in kept and not field.startswith("settings.")]
        assert by_name(helm.render(NO_SECRETS, *options, *missing)) == want
    assert by_name(helm.render(NO_SECRETS, "page=null", "history=null")) == by_name(helm.render(NO_SECRETS))
    assert by_name(helm.render(NO_SECRETS, "flower.enabled=false")).keys() == {
        name for name in by_name(helm.render(NO_SECRETS)) if "tj-flower" not in name
    }, "what is set stays, also where it is false"


def test_a_redis_elsewhere_needs_three_values(helm: Helm) -> None:
    made = helm.render(
        "redis.enabled=false",
        *("redis.external.url=rediss://a:b@redis.example.com:6379/0", "redis.external.caCertificate=PEM"),
        "redis.external.tasksUrl=rediss://c:d@redis.example.com:6379/0",
    )
    assert not [d for d in made if d["kind"] == "StatefulSet"]
    secrets = {d["metadata"]["name"]: set(d["data"]) for d in made if d["kind"] == "Secret"}
    assert secrets["tj-redis"] == {"url", "tasks-url"}
    assert secrets["tj-redis-tls"] == {"ca.crt"}


def test_the_url_of_a_history_stands_in_a_secret_and_nowhere_else(helm: Helm) -> None:
    url = "postgresql://tj:secret@db.example.com/tj"
    made = helm.render(f"history.url={url}", "history.caCertificate=PEM")
    (secret,) = (d for d in made if d["metadata"]["name"] == "tj-history")
    assert {name: base64.b64decode(value).decode() for name, value in secret["data"].items()} == {
        "url": url,
        "ca.crt": "PEM",
    }
    assert "secret@" not in yaml.safe_dump([d for d in made if d["kind"] != "Secret"])


def test_the_page_of_operations_names_values_that_exist() -> None:
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    values = yaml.safe_load((ROOT / "charts" / "operator" / "values.yaml").read_text(encoding="utf-8"))
    for path in re.findall(r"--set ([\w.]+)=", page):
        found = values
        for name in path.split("."):
            if name.startswith("TJ_"):
                break
            assert name in found, path
            found = found[name]
