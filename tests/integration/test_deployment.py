"""k8s/ as kubectl renders it.

The rendering, and Pod Security `restricted` rule by rule. What API servers say of it, as of a misspelt field, is in
test_deployment_apply.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.integration.manifests import K8S, Json, names, redis_secret, render, secrets, templates
from tests.support import fast_yaml as yaml
from tests.support.paths import ROOT
from tjworker.settings import Settings
from tjworker.store import users

pytestmark = pytest.mark.xdist_group("deployment")  # they share what its fixture starts or renders

INSTALLATIONS = {"the whole cluster": K8S, "some namespaces": K8S / "namespaced", "a second operator": K8S / "second"}


@pytest.fixture(scope="module", params=INSTALLATIONS)
def rendered(request: pytest.FixtureRequest) -> list[Json]:
    return render(INSTALLATIONS[request.param])


# -- the rendering ---------------------------------------------------------------------------------
def test_all_parts_are_there(rendered: list[Json]) -> None:
    assert {t.name: t.owner["spec"].get("replicas") for t in templates(rendered)} == {
        "tj-watcher": 2,
        "tj-worker": None,  # whoever applies k8s/ again leaves the number as it is
        "tj-beat": 1,
        "tj-flower": 1,
        "tj-reporter": 1,
        "tj-redis": 1,
    }


def test_every_generated_crd_is_installed() -> None:
    generated = {yaml.safe_load(path.read_text())["metadata"]["name"] for path in (K8S / "crds").glob("*.yaml")}
    assert names(render(K8S), "CustomResourceDefinition") == generated != set()


def test_some_namespaces_need_no_right_over_the_cluster() -> None:
    documents = [*render(K8S / "namespaced"), *render(K8S / "served")]
    of_the_cluster = {"ClusterRole", "ClusterRoleBinding", "Namespace", "CustomResourceDefinition"}
    assert not of_the_cluster & {d["kind"] for d in documents}


def test_the_operator_lives_apart_from_the_namespaces_that_it_serves() -> None:
    """In its own nobody's template takes its labels, its accounts and its Secrets."""
    own, served = render(K8S / "namespaced"), render(K8S / "served")
    assert {d["metadata"]["namespace"] for d in own} == {"tj-system"}
    (settings,) = [d for d in own if d["kind"] == "ConfigMap"]
    assert "tj-system" not in settings["data"]["TJ_NAMESPACES"].split(",")
    accounts = {("tj-system", name) for name in names(own, "ServiceAccount")}
    for document in served:  # applied with `kubectl -n`
        assert "namespace" not in document["metadata"]
        assert {(s["namespace"], s["name"]) for s in document.get("subjects", ())} <= accounts
    assert names(served, "RoleBinding") == {"tj-watcher", "tj-worker", "tj-reporter"}


def test_a_second_operator_takes_nothing_from_the_first() -> None:
    """Applying it changes no object of the first, and its rights are its own accounts'."""
    first, second = render(K8S), render(K8S / "second")

    def identities(documents: list[Json]) -> set[tuple[str, str, str]]:
        return {(d["kind"], d["metadata"].get("namespace", ""), d["metadata"]["name"]) for d in documents}

    assert identities(first) & identities(second) == set()
    accounts = {("tj-second", name) for name in names(second, "ServiceAccount")}
    bound = [d for d in second if d["kind"] in ("RoleBinding", "ClusterRoleBinding")]
    subjects = {(s.get("namespace", d["metadata"].get("namespace")), s["name"]) for d in bound for s in d["subjects"]}
    assert subjects == accounts
    of_the_cluster = [d for d in second if d["kind"] == "ClusterRole"]
    rights = {
        (verb, name)
        for role in of_the_cluster
        for rule in role["rules"]
        for verb in rule["verbs"]
        for name in rule["resources"]
    }
    assert {right for right in rights if right[0] not in ("get", "list", "watch")} == {("create", "tokenreviews")}
    classes = {t.spec.get("priorityClassName") for t in templates(second)}
    assert classes == names(first, "PriorityClass")


def test_the_operator_goes_before_its_jobs_where_its_class_may_be_made(tmp_path: Path) -> None:
    whole, some = render(K8S), render(K8S / "namespaced")
    (made,) = [d for d in whole if d["kind"] == "PriorityClass"]
    # Kubernetes keeps what is above for itself (scheduling.HighestUserDefinablePriority).
    assert (made["value"], made.get("globalDefault", False)) == (1_000_000_000, False)
    assert "namespace" not in made["metadata"]
    assert {t.spec.get("priorityClassName") for t in templates(whole)} == {made["metadata"]["name"]}
    # Without rights over the cluster nobody makes a class, and a pod that names one which is not there is refused.
    assert {t.spec.get("priorityClassName") for t in templates(some)} == {None}
    own = [os.path.relpath(K8S / name, tmp_path.resolve()) for name in ("namespaced", "priority")]
    (tmp_path / "kustomization.yaml").write_text(f"resources: [{own[0]}]\ncomponents: [{own[1]}]\n", encoding="utf-8")
    asked = render(tmp_path)
    assert {t.spec.get("priorityClassName") for t in templates(asked)} == {made["metadata"]["name"]}
    assert "PriorityClass" not in {d["kind"] for d in asked}


def test_what_is_referred_to_exists(rendered: list[Json]) -> None:
    found = templates(rendered)
    labels = [t.pod["metadata"]["labels"] for t in found]
    for template in found:
        spec = template.spec
        if spec.get("automountServiceAccountToken") is not False:
            assert spec["serviceAccountName"] == template.component in names(rendered, "ServiceAccount")
        for source in template.container.get("envFrom", ()):
            assert source["configMapRef"]["name"] in names(rendered, "ConfigMap")
        assert set(spec_labels(template.owner)) <= set(labels[found.index(template)].items())
        mounts = {m["name"] for m in template.container["volumeMounts"]}
        claims = {c["metadata"]["name"] for c in template.owner["spec"].get("volumeClaimTemplates", ())}
        assert mounts == {v["name"] for v in spec["volumes"]} | claims
    for document in rendered:
        if document["kind"] in ("Service", "PodDisruptionBudget"):
            selector = document["spec"]["selector"]
            wanted = set(selector.get("matchLabels", selector).items())
            assert [t for t in labels if wanted <= set(t.items())], document["metadata"]["name"]


def spec_labels(owner: Json) -> dict[tuple[str, str], None]:
    return dict.fromkeys(owner["spec"]["selector"]["matchLabels"].items())


def test_no_manifest_holds_a_password_or_asks_the_api_for_one(rendered: list[Json]) -> None:
    assert names(rendered, "Secret") == set()
    for role in (d for d in rendered if d["kind"].endswith("Role")):
        for rule in role["rules"]:
            assert not {"secrets", "*"} & {*rule["resources"], *rule["verbs"], *rule["apiGroups"]}


def test_every_setting_in_the_manifests_is_one(rendered: list[Json]) -> None:
    known = {f"TJ_{name.upper()}" for name in Settings.model_fields}
    used = {e["name"] for t in templates(rendered) for e in t.container.get("env", ()) if e["name"].startswith("TJ_")}
    used |= {key for d in rendered if d["kind"] == "ConfigMap" for key in d["data"]}
    assert used <= known
    Settings.model_validate(
        {k[3:].lower(): v for d in rendered if d["kind"] == "ConfigMap" for k, v in d["data"].items()}
    )


def test_flower_does_not_start_without_its_password(rendered: list[Json]) -> None:
    (flower,) = [t for t in templates(rendered) if t.component == "flower"]
    (password,) = [e for e in flower.container["env"] if e["name"] == "FLOWER_BASIC_AUTH"]
    assert "value" not in password
    assert not password["valueFrom"]["secretKeyRef"].get("optional")


def test_variables_of_services_reach_no_pod(rendered: list[Json]) -> None:
    """Of a Service named `flower`, FLOWER_PORT=tcp://... would end Flower."""
    assert all(t.spec["enableServiceLinks"] is False for t in templates(rendered))


def test_compose_and_kubernetes_start_the_same_processes() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
    for template in templates(render(K8S)):
        container, service = template.container, services[template.component]
        if template.component == "redis":
            assert container["readinessProbe"]["exec"]["command"] == service["healthcheck"]["test"][1:]
            assert set(service["command"]) - {"/etc/redis-tls/users.acl"} <= set(container["args"])
        else:
            assert container["command"] == service["command"]
            if "exec" in (probe := container.get("livenessProbe", {})):
                assert ["CMD", *probe["exec"]["command"]] == service["healthcheck"]["test"]
            # A pod that may use the API has a token; a container has a kubeconfig.
            asks = template.spec.get("automountServiceAccountToken") is not False
            given = {e["name"] for e in container["env"]} - {"POD_NAMESPACE"}  # only a part of a URL
            env = given | {"TJ_LOG_FORMAT"} | ({"KUBECONFIG"} if asks else set())
            assert env == set(service["environment"])
            assert [v for v in service["volumes"] if ":/kube" in v] == ["${KUBE_DIR:-kube}:/kube:ro"] * asks


def test_a_disruption_budget_lets_a_drain_take_one_pod_and_never_all(rendered: list[Json]) -> None:
    budgets = {d["metadata"]["name"]: d["spec"] for d in rendered if d["kind"] == "PodDisruptionBudget"}
    of = {t.name: t for t in templates(rendered)}
    assert budgets.keys() == {name for name, t in of.items() if t.owner["spec"].get("replicas") != 1}
    for name, budget in budgets.items():
        replicas = of[name].owner["spec"].get("replicas", 2)
        assert budget["selector"]["matchLabels"].items() <= of[name].pod["metadata"]["labels"].items()
        assert 0 < may_go(budget, replicas) < replicas, name


def may_go(budget: Json, replicas: int) -> int:
    """How many of them a drain may take at once. A percentage is rounded up, as the disruption controller does."""

    def number(value: int | str) -> int:
        return value if isinstance(value, int) else -(-replicas * int(value.removesuffix("%")) // 100)

    return number(budget["maxUnavailable"]) if "maxUnavailable" in budget else replicas - number(budget["minAvailable"])


def test_the_kustomization_of_the_documentation_works(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```yaml\n# kustomization.yaml.*?```", page, re.DOTALL)
    ours = os.path.relpath(K8S, tmp_path.resolve())
    (tmp_path / "kustomization.yaml").write_text(
        example.removeprefix("```yaml\n").removesuffix("```").replace("../trainingjob-operator/k8s", ours),
        encoding="utf-8",
    )
    documents = render(tmp_path)
    (settings,) = [d for d in documents if d["kind"] == "ConfigMap"]
    assert settings["data"] == {"TJ_LOG_FORMAT": "json", "TJ_NODE_FAILURE_GRACE_SECONDS": "60"}
    assert names(render(K8S), "ConfigMap") != names(documents, "ConfigMap"), (
        "running pods would not see the new setting"
    )
    for template in templates(documents):
        if template.component != "redis":
            assert template.container["image"] == "registry.example.com/ml/operator:0.1.0"
            assert template.container["envFrom"][0]["configMapRef"]["name"] == settings["metadata"]["name"]
    assert {t.name: t.owner["spec"]["replicas"] for t in templates(documents)}["tj-worker"] == 2


# -- Pod Security Standards, `restricted` ----------------------------------------------------------
def test_pods_pass_the_restricted_standard(rendered: list[Json]) -> None:
    """https://kubernetes.io/docs/concepts/security/pod-security-standards/"""
    allowed_volumes = {
        "configMap",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
    for template in templates(rendered):
        spec, own = template.spec, template.container["securityContext"]
        assert spec["securityContext"]["runAsNonRoot"] is True, template.name
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
        assert own["allowPrivilegeEscalation"] is False
        assert own["readOnlyRootFilesystem"] is True
        assert own["capabilities"] == {"drop": ["ALL"]}
        assert all(set(volume) - {"name"} <= allowed_volumes for volume in spec["volumes"])
        assert {"cpu", "memory"} <= set(template.container["resources"]["requests"])
        assert "memory" in template.container["resources"]["limits"]


@pytest.mark.parametrize("installation", INSTALLATIONS.values(), ids=INSTALLATIONS.keys())
def test_on_openshift_no_pod_names_a_user_or_a_group(installation: Path, tmp_path: Path) -> None:
    """Its default, the constraint restricted-v2, refuses any but those of the namespace, and gives them itself."""
    own = {"resources": [installation], "components": [K8S / "openshift"]}
    relative = {key: [os.path.relpath(path, tmp_path.resolve()) for path in paths] for key, paths in own.items()}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(relative), encoding="utf-8")
    named = {"runAsUser", "runAsGroup", "fsGroup", "supplementalGroups", "seLinuxOptions"}
    for template in templates(render(tmp_path)):
        for context in (template.spec["securityContext"], template.container["securityContext"]):
            assert not named & set(context), template.name
        # What a user of no name can write: volumes alone.
        assert {"name": "tmp", "mountPath": "/tmp"} in template.container["volumeMounts"]  # noqa: S108


def test_the_operators_namespace_enforces_it() -> None:
    (namespace,) = [d for d in render(K8S) if d["kind"] == "Namespace"]
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_the_secrets_hold_every_key_that_the_pods_ask_for(rendered: list[Json]) -> None:
    made = {s["metadata"]["name"]: set(s["stringData"]) for s in secrets()}
    for template in templates(rendered):
        for entry in template.container.get("env", ()):
            if reference := entry.get("valueFrom", {}).get("secretKeyRef"):
                assert reference["key"] in made[reference["name"]]
        for volume in template.spec["volumes"]:
            for item in volume.get("secret", {}).get("items", ()):
                assert item["key"] in made[volume["secret"]["secretName"]]


def test_watcher_and_workers_alone_have_the_record_keys(rendered: list[Json]) -> None:
    asking = {
        template.component
        for template in templates(rendered)
        if "tj-records" in str(template.pod) or "TJ_RECORD_KEYS" in str(template.pod)
    }
    assert asking == {"watcher", "worker"}
    made = {s["metadata"]["name"]: s["stringData"] for s in secrets()}
    assert Settings(record_keys=made["tj-records"]["keys"]).record_key_list


TLS = "tj-redis-tls"
TOOLS = (
    *("sh", "cat", "tr", "cut", "od", "sha256sum", "shasum"),
    *("openssl", "mktemp", "mkdir", "dirname", "sed", "mv", "rm", "chmod"),  # the certificate's
)
WITHOUT = {
    "nothing that makes certificates": {"openssl"},
    "nowhere to make them": {"mktemp"},
    "nothing that reads random bytes": {"od"},
    "nothing that cuts them out": {"tr"},
    "nothing that hashes": {"sha256sum", "shasum"},
}


@pytest.mark.parametrize("missing", WITHOUT.values(), ids=list(WITHOUT))
def test_without_its_tools_secrets_sh_prints_no_secret_at_all(missing: set[str], tmp_path: Path) -> None:
    """An empty password would be one."""
    for tool in TOOLS:
        if tool not in missing and (found := shutil.which(tool)):
            (tmp_path / tool).symlink_to(found)
    done = subprocess.run(
        [str(tmp_path / "sh"), str(K8S / "secrets.sh")],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode != 0
    assert done.stdout == ""
    assert "could not make a" in done.stderr or "mktemp" in done.stderr


def test_a_new_certificate_can_be_had_alone() -> None:
    """Passwords stay as they are."""
    done = subprocess.run(
        ["sh", str(K8S / "secrets.sh"), "certificate"], capture_output=True, text=True, check=True, timeout=60
    )
    (secret,) = yaml.safe_load_all(done.stdout)
    (whole,) = [s for s in secrets() if s["metadata"]["name"] == "tj-redis-tls"]
    assert {**secret, "stringData": secret["stringData"].keys()} == {**whole, "stringData": whole["stringData"].keys()}
    wrong = subprocess.run(
        ["sh", str(K8S / "secrets.sh"), "certficate"], capture_output=True, text=True, check=False, timeout=60
    )
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "unknown argument certficate" in wrong.stderr


def test_secrets_differ_each_time_and_follow_namespace_and_prefix() -> None:
    first, second = secrets(), secrets(NAMESPACE="training", KEY_PREFIX="other")
    assert {s["metadata"]["namespace"] for s in second} == {"training"}
    redis, other = (
        next(s for s in some if s["metadata"]["name"] == "tj-redis")["stringData"] for some in (first, second)
    )
    assert "~other:* " in other["users.acl"]
    assert redis["url"] != other["url"]
    assert "tj-redis" in names(render(K8S), "Service")
    assert re.fullmatch(r"rediss://tj:[0-9a-f]{48}@tj-redis:6379/0\?ssl_ca_certs=/etc/redis-ca/ca.crt", redis["url"])
    assert redis["tasks-url"].startswith("rediss://tj-tasks:")
    assert redis["page-url"].startswith("rediss://tj-page:")


def test_the_users_of_redis_are_those_of_the_table() -> None:
    for prefix in ("tj", "another"):
        made = redis_secret(KEY_PREFIX=prefix)["users.acl"]
        assert re.sub(r"#[0-9a-f]{64}", "#", made).splitlines() == users.acl(prefix, "#", "#", "#")


def with_components(folder: Path, installation: Path, *components: str) -> list[Json]:
    """A user's own kustomization around ours, rendered."""
    own = {"resources": [installation], "components": [K8S / name for name in components]}
    text: Json = {key: [os.path.relpath(path, folder.resolve()) for path in paths] for key, paths in own.items()}
    if installation.name == "second":
        text["namespace"] = "tj-second"
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(text), encoding="utf-8")
    return render(folder)


@pytest.mark.parametrize("installation", INSTALLATIONS.values(), ids=INSTALLATIONS.keys())
def test_the_page_is_added_with_a_user_of_redis_who_only_reads_and_without_a_role(
    installation: Path, tmp_path: Path
) -> None:
    objects = with_components(tmp_path, installation, "page")
    (page,) = [template for template in templates(objects) if template.name == "tj-page"]
    plain = next(template for template in templates(objects) if template.name == "tj-beat").container
    assert page.container["image"] == plain["image"]
    assert page.container["envFrom"] == plain["envFrom"], "the settings of the others, under their name"
    env = {one["name"]: one for one in page.container["env"]}
    assert env["TJ_REDIS_URL"]["valueFrom"]["secretKeyRef"] == {"name": "tj-redis", "key": "page-url"}
    assert env["TJ_PAGE_ACCESS"]["value"] == "token"
    assert "TJ_RECORD_KEYS" not in env
    assert page.spec["securityContext"]["runAsNonRoot"] is True
    assert page.container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    bound = [subject["name"] for one in objects if "Binding" in one["kind"] for subject in one["subjects"]]
    assert page.spec["serviceAccountName"] == "page"
    assert "page" not in bound
    assert page.owner["metadata"]["namespace"] == ("tj-second" if installation.name == "second" else "tj-system")


@pytest.mark.parametrize("installation", INSTALLATIONS.values(), ids=INSTALLATIONS.keys())
def test_a_database_for_the_history_is_named_to_who_writes_and_who_reads_it_and_to_no_other(
    installation: Path, tmp_path: Path
) -> None:
    objects = with_components(tmp_path, installation, "page", "history")
    told = {}
    for template in templates(objects):
        env = {one["name"]: one for one in template.container.get("env", ())}
        if found := env.get("TJ_HISTORY_URL"):
            told[template.name] = (
                found["valueFrom"]["secretKeyRef"],
                "history-ca"
                in {mount["name"] for mount in template.container["volumeMounts"]}
                & {volume["name"] for volume in template.spec["volumes"]},
            )
    assert told == dict.fromkeys(("tj-watcher", "tj-page"), ({"name": "tj-history", "key": "url"}, True))
    (policy,) = (one for one in objects if one["metadata"]["name"] == "tj-to-history")
    (who,) = policy["spec"]["podSelector"]["matchExpressions"]
    assert (who["values"], policy["spec"]["egress"][0]["ports"][0]["port"]) == (["watcher", "page"], 5432)
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
    urls = {name: of["environment"].get("TJ_REDIS_URL", "") for name, of in services.items() if "environment" in of}
    composed = {name: url.removeprefix("rediss://").partition(":")[0] for name, url in urls.items() if url}
    assert composed["page"] == "tj-page"
