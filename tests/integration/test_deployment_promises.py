"""What the files of k8s/ and docker-compose.yml promise and no schema knows: how long a process may take to leave, what
Redis keeps, who waits for whom, what is published, who holds a key, who may scrape. Each promise is a table over all
processes, and both installations keep the same."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from tests.integration.manifests import K8S, Json, Template, render, templates
from tests.support import fast_yaml as yaml
from tests.support.paths import ROOT
from tests.support.promql import MONITORING
from tjworker.api.kinds import JOB_KINDS
from tjworker.app import make_app
from tjworker.settings import Settings

pytestmark = pytest.mark.xdist_group("deployment-promises")  # they share what its fixture starts or renders

INSTALLATIONS = {"the whole cluster": K8S, "some namespaces": K8S / "namespaced"}
PROCESSES = ("watcher", "worker", "beat", "flower")
"""Of the operator itself."""


@pytest.fixture(scope="module", params=INSTALLATIONS)
def documents(request: pytest.FixtureRequest) -> list[Json]:
    return render(INSTALLATIONS[request.param])


@pytest.fixture(scope="module")
def found(documents: list[Json]) -> dict[str, Template]:
    return {template.component: template for template in templates(documents)}


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
    return read


def seconds(text: str) -> int:
    match = re.fullmatch(r"(\d+)s", text)
    assert match, text
    return int(match[1])


# -- leaving ---------------------------------------------------------------------------------------
LEAVES: dict[str, int] = {"watcher": 20, "worker": 75, "beat": 10, "flower": 10, "reporter": 20}
"""Seconds. A watcher gives its lease back, a worker finishes what runs, the report
server writes what it has taken; the others have nothing to finish."""


def test_each_process_has_the_time_that_it_needs_to_leave(found: dict[str, Template], services: dict[str, Any]) -> None:
    assert {name: found[name].spec["terminationGracePeriodSeconds"] for name in LEAVES} == LEAVES
    assert {name: seconds(services[name].get("stop_grace_period", "10s")) for name in LEAVES} == LEAVES
    hard_seconds = 2 * Settings().task_soft_time_limit_seconds
    assert LEAVES["worker"] >= hard_seconds + 10, "a pass that has just begun is finished"


def test_of_what_there_is_one_the_old_goes_before_the_new_comes(found: dict[str, Template]) -> None:
    recreated = {
        name for name, template in found.items() if template.owner["spec"].get("strategy", {}).get("type") == "Recreate"
    }
    assert recreated == {"beat", "flower"}


# -- Redis -----------------------------------------------------------------------------------------
KEEPS: dict[str, str] = {
    "--appendonly": "yes",  # a restart loses nothing that was queued
    "--appendfsync": "everysec",
    "--save": "",
    "--maxmemory-policy": "noeviction",
    "--port": "0",  # TLS alone
    "--tls-port": "6379",
    "--tls-auth-clients": "no",  # clients show passwords
    "--tls-cert-file": "/etc/redis-tls/tls.crt",
    "--tls-key-file": "/etc/redis-tls/tls.key",
    "--tls-ca-cert-file": "/etc/redis-tls/ca.crt",
    "--dir": "/data",
}


def options(words: list[str]) -> dict[str, str]:
    assert words[0] == "valkey-server"
    return dict(zip(words[1::2], words[2::2], strict=True))


def test_redis_is_told_the_same_in_both_and_keeps_what_it_is_given(
    found: dict[str, Template], services: dict[str, Any]
) -> None:
    applied, composed = options(found["redis"].container["args"]), options(services["redis"]["command"])
    assert KEEPS.items() <= applied.items()
    # compose makes the file in the volume of the certificate, Kubernetes mounts a Secret
    assert composed.pop("--aclfile") == "/etc/redis-tls/users.acl"
    assert applied.pop("--aclfile") == "/etc/redis/users.acl"
    assert composed.items() <= applied.items()
    assert applied.keys() - composed.keys() == {"--aof-load-truncated", "--tcp-keepalive"}
    assert applied["--aof-load-truncated"] == "yes", "a file that was cut off is no reason not to start"


def test_where_redis_writes_is_what_is_kept(found: dict[str, Template], services: dict[str, Any]) -> None:
    mounts = {m["mountPath"]: m["name"] for m in found["redis"].container["volumeMounts"]}
    claims = {c["metadata"]["name"] for c in found["redis"].owner["spec"]["volumeClaimTemplates"]}
    assert {mounts["/data"]} == claims
    assert "redis:/data" in services["redis"]["volumes"]


# -- certificates ----------------------------------------------------------------------------------
def test_redis_alone_holds_its_key_and_the_others_know_who_signed_it(
    found: dict[str, Template], services: dict[str, Any]
) -> None:
    assert "tj-redis" not in str(found["reporter"].pod), "it asks nothing of Redis"
    for name, template in found.items():
        if name == "reporter":
            continue
        (volume,) = [v for v in template.spec["volumes"] if v.get("secret", {}).get("secretName") == "tj-redis-tls"]
        (mount,) = [m for m in template.container["volumeMounts"] if m["name"] == volume["name"]]
        assert mount.get("readOnly") is True, name
        if name == "redis":
            assert mount["mountPath"] == "/etc/redis-tls"
        else:
            assert volume["secret"]["items"] == [{"key": "ca.crt", "path": "ca.crt"}], name
            assert mount["mountPath"] == "/etc/redis-ca"
    key = {name for name, s in services.items() if any(v.startswith("redis-tls:") for v in s.get("volumes", ()))}
    assert key == {"redis", "setup"}
    assert "redis-tls:/etc/redis-tls:ro" in services["redis"]["volumes"]
    for name in PROCESSES:
        assert "redis-ca:/etc/redis-ca:ro" in services[name]["volumes"], name
        assert services[name]["environment"]["TJ_REDIS_URL"].endswith("@redis:6379/0?ssl_ca_certs=/etc/redis-ca/ca.crt")


def test_the_report_server_alone_holds_its_key_and_workers_know_who_signed_it(
    found: dict[str, Template], services: dict[str, Any]
) -> None:
    name = "tj-reports-tls"
    volumes = {
        t.component: [v for v in t.spec["volumes"] if v.get("secret", {}).get("secretName") == name]
        for t in found.values()
    }
    assert {component for component, some in volumes.items() if some} == {"reporter", "worker"}
    (ca,) = [volume["secret"] for volume in volumes["worker"]]
    assert ca["items"] == [{"key": "ca.crt", "path": "ca.crt"}]
    assert ca["optional"] is True, "an installation without the Secret trains as well"
    key = {name for name, s in services.items() if any(v.startswith("reports-tls:") for v in s.get("volumes", ()))}
    assert key == {"reporter", "setup"}
    assert "reports-ca:/etc/reports-ca:ro" in services["worker"]["volumes"]
    url = next(e["value"] for e in found["worker"].container["env"] if e["name"] == "TJ_REPORTS_URL")
    assert url == "https://tj-reports.$(POD_NAMESPACE).svc:8082"


USERS = {"watcher": "tj", "worker": "tj", "beat": "tj-tasks", "flower": "tj-tasks"}


def test_as_whom_each_process_comes_to_redis(found: dict[str, Template], services: dict[str, Any]) -> None:
    keys = {"tj": "url", "tj-tasks": "tasks-url"}
    for name, user in USERS.items():
        (given,) = [e for e in found[name].container["env"] if e["name"] == "TJ_REDIS_URL"]
        assert given["valueFrom"]["secretKeyRef"] == {"name": "tj-redis", "key": keys[user]}, name
        assert services[name]["environment"]["TJ_REDIS_URL"].startswith(f"rediss://{user}:"), name


# -- compose ---------------------------------------------------------------------------------------
PUBLISHED: dict[str, tuple[str, ...]] = {
    "flower": ("127.0.0.1:${FLOWER_PUBLISHED_PORT:-5555}:5555",),
    "page": ("127.0.0.1:${PAGE_PUBLISHED_PORT:-8088}:8088",),
    "localcluster": ("127.0.0.1:${LOCAL_API_PUBLISHED_PORT:-6443}:6443",),
}
"""For this machine alone."""
WAITS: dict[str, dict[str, str]] = {
    "setup": {},
    "redis": {"setup": "service_completed_successfully"},
    **{name: {"redis": "service_healthy", "localcluster": "service_healthy"} for name in ("watcher", "worker", "page")},
    **{name: {"redis": "service_healthy"} for name in ("beat", "flower")},
    "reporter": {"setup": "service_completed_successfully", "localcluster": "service_healthy"},
    "localcluster": {},
    "crds": {"localcluster": "service_healthy"},
}


def test_what_is_published_is_for_this_machine_alone(services: dict[str, Any]) -> None:
    assert {name: tuple(s["ports"]) for name, s in services.items() if s.get("ports")} == PUBLISHED
    assert not any("network_mode" in s for name, s in services.items() if name != "setup")
    assert services["setup"]["network_mode"] == "none"


def test_who_waits_for_whom(services: dict[str, Any]) -> None:
    said = {
        name: {other: how["condition"] for other, how in s.get("depends_on", {}).items()}
        for name, s in services.items()
    }
    assert said == WAITS
    for name in ("watcher", "worker", "reporter"):
        assert services[name]["depends_on"]["localcluster"]["required"] is False, "a cluster of one's own will do"
    for others in WAITS.values():
        for other, condition in others.items():
            assert condition != "service_healthy" or "healthcheck" in services[other]


def test_what_a_service_refers_to_is_declared(services: dict[str, Any]) -> None:
    file = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
    assert {key for key in file if not key.startswith("x-")} == {"name", "services", "volumes", "configs"}
    for name, service in services.items():
        assert set(service.get("depends_on", ())) <= services.keys(), name
        for volume in service.get("volumes", ()):
            assert re.sub(r"\$\{\w+:-(\w+)\}", r"\1", volume).split(":")[0] in file["volumes"], name
        assert {config["source"] for config in service.get("configs", ())} <= file["configs"].keys(), name


def test_every_container_is_hardened_and_comes_back(services: dict[str, Any]) -> None:
    once = {"setup", "crds"}
    for name, service in services.items():
        assert service["read_only"] is True, name
        assert (service["cap_drop"], service["security_opt"]) == (["ALL"], ["no-new-privileges:true"]), name
        assert service["restart"] == ("on-failure:5" if name in once else "unless-stopped"), name
        assert not {"privileged", "cap_add", "pid", "ipc", "userns_mode", "devices"} & service.keys(), name
        assert not any("docker.sock" in volume for volume in service.get("volumes", ())), name


def test_only_what_has_the_local_profile_is_left_out_without_it(services: dict[str, Any]) -> None:
    assert {name for name, s in services.items() if s.get("profiles") == ["local"]} == {"localcluster", "crds"}
    assert all(s.get("profiles", ["local"]) == ["local"] for s in services.values())


def test_both_give_each_process_the_same_values(found: dict[str, Template], services: dict[str, Any]) -> None:
    for name in PROCESSES:
        applied = {e["name"]: e["value"] for e in found[name].container["env"] if "value" in e}
        applied.pop("TJ_REPORTS_URL", None)  # a Service has another name than a container
        composed: Mapping[str, str] = services[name]["environment"]
        assert applied == {key: composed[key] for key in applied}, name


# -- the objects of Kubernetes ---------------------------------------------------------------------
def test_a_service_leads_to_a_port_that_its_pods_have(documents: list[Json], found: dict[str, Template]) -> None:
    seen = set()
    for service in (d for d in documents if d["kind"] == "Service"):
        (target,) = [
            t for t in found.values() if service["spec"]["selector"].items() <= t.pod["metadata"]["labels"].items()
        ]
        named = {p["name"]: p["containerPort"] for p in target.container["ports"]}
        for port in service["spec"]["ports"]:
            assert named[port["targetPort"]] == port["port"], service["metadata"]["name"]
        seen.add((service["metadata"]["name"], target.component))
    assert seen == {("tj-redis", "redis"), ("tj-flower", "flower"), ("tj-reports", "reporter")}
    assert found["redis"].owner["spec"]["serviceName"] == "tj-redis"


def test_pods_are_spread_over_nodes_among_their_own_kind(found: dict[str, Template]) -> None:
    for name, template in found.items():
        constraints = template.spec.get("topologySpreadConstraints", [])
        assert bool(constraints) == (template.owner["spec"].get("replicas") != 1), name
        for constraint in constraints:
            assert constraint["topologyKey"] == "kubernetes.io/hostname"
            assert constraint["whenUnsatisfiable"] == "ScheduleAnyway", "one node is enough"
            assert constraint["labelSelector"]["matchLabels"] == {"app.kubernetes.io/component": name}


def test_a_workers_children_fit_into_its_memory(found: dict[str, Template]) -> None:
    command = found["worker"].container["command"]
    children = int(command[command.index("--concurrency") + 1])
    each_kib = make_app(Settings()).conf.worker_max_memory_per_child
    assert found["worker"].container["resources"]["limits"]["memory"] == "1Gi"
    assert children * each_kib * 1024 <= 0.85 * 2**30, "the rest is the parent's"


def test_settings_stand_in_one_place(documents: list[Json], found: dict[str, Template]) -> None:
    (settings,) = [d["metadata"]["name"] for d in documents if d["kind"] == "ConfigMap"]
    for name in PROCESSES:
        assert found[name].container["envFrom"] == [{"configMapRef": {"name": settings}}], name


# -- who may scrape --------------------------------------------------------------------------------
PROMETHEUS = {"app.kubernetes.io/name": "prometheus"}
SCRAPERS: dict[str, tuple[str, Mapping[str, str], int, bool]] = {
    "Prometheus in its namespace": ("monitoring", PROMETHEUS, 9464, True),
    "another pod there": ("monitoring", {"app": "grafana"}, 9464, False),
    "a pod of that label elsewhere": ("team-a", PROMETHEUS, 9464, False),
    "another port": ("monitoring", PROMETHEUS, 8080, False),
}


@pytest.mark.parametrize(("namespace", "labels", "port", "may"), SCRAPERS.values(), ids=SCRAPERS.keys())
def test_who_may_scrape(namespace: str, labels: Mapping[str, str], port: int, may: bool) -> None:
    policy = yaml.safe_load((MONITORING / "network.yaml").read_text(encoding="utf-8"))["spec"]
    assert policy["policyTypes"] == ["Ingress"]

    def fits(peer: Json) -> bool:
        """Both selectors of one peer hold; one that is missing: any namespace of ours, any pod."""
        assert set(peer) <= {"namespaceSelector", "podSelector"}
        own = {"kubernetes.io/metadata.name": namespace}
        there = (
            peer["namespaceSelector"]["matchLabels"].items() <= own.items()
            if "namespaceSelector" in peer
            else (namespace == "tj-system")
        )
        return there and peer.get("podSelector", {}).get("matchLabels", {}).items() <= labels.items()

    allowed = [
        rule
        for rule in policy["ingress"]
        if {"protocol": "TCP", "port": port} in rule["ports"] and any(fits(peer) for peer in rule["from"])
    ]
    assert bool(allowed) == may


def test_the_scraper_asks_the_page_that_the_processes_show_often_enough() -> None:
    spec = yaml.safe_load((MONITORING / "podmonitor.yaml").read_text(encoding="utf-8"))["spec"]
    (endpoint,) = spec["podMetricsEndpoints"]
    assert endpoint["path"] == "/metrics"
    assert seconds(endpoint["interval"]) <= 30, "`rate` over five minutes, and alerts after one"
    assert "namespaceSelector" not in spec, "its own namespace"


# -- the sample quota ------------------------------------------------------------------------------
def test_the_sample_quota_counts_the_jobs_of_both_kinds() -> None:
    quota = yaml.safe_load((K8S / "tenancy" / "quota.yaml").read_text(encoding="utf-8"))["spec"]["hard"]
    counted = {key for key in quota if key.startswith("count/")}
    assert counted == {f"count/{kind.plural}.{kind.group}" for kind in JOB_KINDS if not kind.guest}
    assert quota.keys() - counted == {
        "pods",
        "services",
        *(f"requests.{r}" for r in ("cpu", "memory", "nvidia.com/gpu")),
    }
