"""What the numbers and names of k8s/, docker-compose.yml and the Dockerfile must add up to, and no schema knows: for
how long a process may hang, as whom it runs, who owns what it writes, how many there are, and that all three name the
same versions.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.support import fast_yaml as yaml
from tests.support.paths import ROOT
from tests.unit.test_deployment_image import of
from tjworker.telemetry.worker_health import LOOP_LIMIT_SECONDS
from tjworker.worker.beat import TICK_LIMIT_SECONDS

Json = dict[str, Any]
K8S = ROOT / "k8s"


def documents(path: Path) -> list[Json]:
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


OWNERS: dict[str, Json] = {
    document["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/component"]: document
    for path in sorted((K8S / "base").glob("*.yaml"))
    for document in documents(path)
    if document["kind"] in ("Deployment", "StatefulSet")
}
PODS: dict[str, Json] = {name: owner["spec"]["template"]["spec"] for name, owner in OWNERS.items()}
CONTAINERS: dict[str, Json] = {name: pod["containers"][0] for name, pod in PODS.items()}
COMPOSE: Json = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
SERVICES: Json = COMPOSE["services"]
TMP = "/tmp"  # noqa: S108  of a container
OURS = ("watcher", "worker", "beat", "flower", "reporter")


def test_every_process_has_one_container_and_nothing_beside_it() -> None:
    assert OWNERS.keys() == {*OURS, "redis"}
    for name, pod in PODS.items():
        assert [container["name"] for container in pod["containers"]] == [name]
        assert "initContainers" not in pod, name
        assert {port["containerPort"] for port in CONTAINERS[name]["ports"]} == PORTS[name]


PORTS = {
    **{name: {8080, 9464} for name in ("watcher", "worker", "beat")},
    "flower": {5555},
    "reporter": {8080, 8082, 9464},
    "redis": {6379},
}


# -- probes ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(("name", "limit_seconds"), [("worker", LOOP_LIMIT_SECONDS), ("beat", TICK_LIMIT_SECONDS)])
def test_who_hangs_is_started_anew_within_three_minutes(name: str, limit_seconds: float) -> None:
    probe = CONTAINERS[name]["livenessProbe"]
    failures = probe.get("failureThreshold", 3)
    assert limit_seconds + (probe["periodSeconds"] + probe["timeoutSeconds"]) * failures <= 180


# -- as whom they run, and who owns what they write ------------------------------------------------
def test_as_whom_each_runs() -> None:
    own = of("operator", "USER")[-1]
    assert own == of("local", "USER")[-1] == "65532:65532"
    for name in OURS:
        assert "runAsUser" not in str(PODS[name]), f"{name}: the image says it, or OpenShift"
        assert SERVICES[name]["user"] == "${RUN_AS:-65532:65532}"
    context = PODS["redis"]["securityContext"]
    assert (context["runAsUser"], context["runAsGroup"], context["fsGroup"]) == (999, 999, 999)
    assert context["fsGroupChangePolicy"] == "OnRootMismatch"
    assert SERVICES["redis"]["user"] == SERVICES["setup"]["user"] == "999:1000", "who may read the key"
    assert "user" not in SERVICES["localcluster"]
    (certificate,) = [v for v in PODS["redis"]["volumes"] if v["name"] == "certificate"]
    assert certificate["secret"]["defaultMode"] == 0o440, "its group alone, which is fsGroup"


@pytest.mark.parametrize(
    ("folder", "stage", "owner"),
    [
        ("/kube", "operator", "65532:65532"),
        ("/kube", "local", "65532:65532"),
        ("/etc/redis-tls", "operator", "999:1000"),
        ("/etc/redis-ca", "operator", "999:1000"),
        ("/etc/reports-tls", "operator", "999:1000"),
        ("/etc/reports-ca", "operator", "999:1000"),
        ("/data", "local", "65532:65532"),
    ],
)
def test_a_volume_gets_the_owner_that_its_folder_has_in_the_image(folder: str, stage: str, owner: str) -> None:
    runs = [command.strip() for step in of(stage, "RUN") for command in step.split("&&")]
    made = [number for number, run in enumerate(runs) if run.startswith("mkdir") and folder in run.split()]
    owned = [
        (number, run.split()[1]) for number, run in enumerate(runs) if run.startswith("chown") and folder in run.split()
    ]
    assert made
    assert [who for _, who in owned] == [owner]
    assert made[0] < owned[0][0]


def test_each_writer_of_a_volume_is_its_owner() -> None:
    written = {
        (volume.split(":")[1], name)
        for name, service in SERVICES.items()
        for volume in service.get("volumes", ())
        if not volume.endswith(":ro")
    }
    assert written == {
        ("/etc/redis-tls", "setup"),
        ("/etc/redis-ca", "setup"),
        ("/etc/reports-tls", "setup"),
        ("/etc/reports-ca", "setup"),
        ("/data", "redis"),
        ("/data", "localcluster"),
        ("/kube", "localcluster"),
    }
    assert set(COMPOSE["volumes"]) == {"redis", "redis-tls", "redis-ca", "reports-tls", "reports-ca", "cluster", "kube"}
    assert all(not options for options in COMPOSE["volumes"].values())


def test_each_container_has_a_folder_of_its_own_to_write_to_and_no_more() -> None:
    for name, service in SERVICES.items():
        assert service["tmpfs"] == [TMP], name
    for name, pod in PODS.items():
        assert [v for v in pod["volumes"] if "emptyDir" in v] == [{"name": "tmp", "emptyDir": {}}], name
        assert {"name": "tmp", "mountPath": TMP} in CONTAINERS[name]["volumeMounts"], name
    configs = {
        (config["source"], config["target"]) for service in SERVICES.values() for config in service.get("configs", ())
    }
    # A config with `content` is copied into the container, which fails where its root file system is read-only.
    assert configs == {("certificates", "/certificates.sh")}
    assert not any("content" in config for config in COMPOSE["configs"].values())


# -- names and versions ----------------------------------------------------------------------------
def test_all_name_the_same_version_and_no_image_of_a_stranger() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    (kustomization,) = documents(K8S / "base" / "kustomization.yaml")
    tags = {image["name"]: image["newTag"] for image in kustomization["images"]}
    assert tags == {"trainingjob-operator.invalid/operator": version, "valkey/valkey": "9.1-alpine"}
    images = {name: service["image"] for name, service in SERVICES.items()}
    assert images.pop("redis") == "${REDIS_IMAGE:-valkey/valkey:9.1-alpine}"
    local = {name: images.pop(name) for name in ("localcluster", "crds")}
    assert set(local.values()) == {f"localhost/trainingjob-operator-local:{version}"}
    assert set(images.values()) == {f"localhost/trainingjob-operator:{version}"}
    for name, service in SERVICES.items():
        assert name == "redis" or service["pull_policy"] == "build", name
    for name, container in CONTAINERS.items():
        assert container["image"] == ("valkey/valkey" if name == "redis" else "trainingjob-operator.invalid/operator")
        assert "imagePullPolicy" not in container


# -- how many --------------------------------------------------------------------------------------
def test_how_many_of_each_and_what_may_scale_them() -> None:
    assert {name: owner["spec"].get("replicas") for name, owner in OWNERS.items()} == {
        "watcher": 2,
        "worker": None,
        "beat": 1,
        "flower": 1,
        "reporter": 1,
        "redis": 1,
    }
    assert SERVICES["worker"]["deploy"] == {"replicas": 2}
    assert not any("deploy" in service for name, service in SERVICES.items() if name != "worker")
    (hpa,) = documents(K8S / "monitoring" / "hpa" / "hpa.yaml")
    (keda,) = documents(K8S / "monitoring" / "keda" / "scaledobject.yaml")
    for spec in (hpa["spec"], keda["spec"]):
        assert spec["scaleTargetRef"]["name"] == OWNERS["worker"]["metadata"]["name"]
    assert (hpa["spec"]["minReplicas"], hpa["spec"]["maxReplicas"]) == (2, 10)
    assert (keda["spec"]["minReplicaCount"], keda["spec"]["maxReplicaCount"]) == (2, 10)
    assert keda["spec"]["fallback"]["replicas"] > keda["spec"]["minReplicaCount"]
    window = hpa["spec"]["behavior"]["scaleDown"]["stabilizationWindowSeconds"]
    assert window == keda["spec"]["cooldownPeriod"] == 300
    (trigger,) = keda["spec"]["triggers"]
    (metric,) = hpa["spec"]["metrics"]
    target = metric["external"]["target"]
    assert (target["type"], target["value"]) == (trigger["metricType"], trigger["metadata"]["threshold"])
    assert target["value"] == "15", "seconds that the oldest key has waited"
    assert int(trigger["metadata"]["activationThreshold"]) < int(trigger["metadata"]["threshold"])
    assert trigger["metadata"]["query"] == f'max({metric["external"]["metric"]["name"]}{{namespace="tj-system"}})'
