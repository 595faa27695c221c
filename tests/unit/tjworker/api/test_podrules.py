"""Tables: pod templates that Kubernetes refuses when the pod is made (pkg/apis/core/validation/validation.go), and
names of images that no registry has (distribution/reference). Where Kubernetes accepts, these rules are silent.
"""

from __future__ import annotations

from typing import Any

import pytest

from tjworker.api.podrules import image_error, template_rules

Json = dict[str, Any]
GPU = "nvidia.com/gpu"


def container(**fields: Any) -> Json:
    return {"spec": {"containers": [{"name": "a", "image": "x", **fields}]}}


def resources(requests: Json, limits: Json) -> Json:
    return container(resources={"requests": requests, "limits": limits})


def pod(**fields: Any) -> Json:
    return {"spec": {"containers": [{"name": "a", "image": "x"}], **fields}}


def init(*volumes: Json, **fields: Any) -> Json:
    return pod(initContainers=[{"name": "i", "image": "x", **fields}], volumes=list(volumes))


def probe(**fields: Any) -> Json:
    return container(livenessProbe={"exec": {"command": ["a"]}, **fields})


DATA: Json = {"name": "data", "emptyDir": {}}
CLAIM: Json = {"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}}
C = "t.spec.containers[0]"

REFUSED: dict[str, tuple[Json, str]] = {
    "a limit below its request": (
        resources({"cpu": "2"}, {"cpu": "500m"}),
        f"{C}.resources.requests.cpu: 2: must be at most limits.cpu (500m)",
    ),
    "a GPU without a limit": (
        resources({GPU: 1}, {}),
        f"{C}.resources.requests.{GPU}: 1: needs the same in limits.{GPU}",
    ),
    "more GPUs as a limit": (resources({GPU: 1}, {GPU: 2}), f"{C}.resources.requests.{GPU}: 1: must equal limits"),
    "half a GPU": (resources({}, {GPU: "500m"}), f"{C}.resources.limits.{GPU}: 500m: must be a whole number"),
    "huge pages without a limit": (
        resources({"hugepages-2Mi": "2Mi", "cpu": 1}, {}),
        f"{C}.resources.requests.hugepages-2Mi: 2Mi: needs the same",
    ),
    "huge pages alone": (
        resources({"hugepages-2Mi": "2Mi"}, {"hugepages-2Mi": "2Mi"}),
        f"{C}.resources: hugepages also need a request or a limit of cpu or memory",
    ),
    "a resource that containers have not": (
        resources({"gpu": 1}, {}),
        f"{C}.resources.requests.gpu: gpu is not a resource of containers: cpu, memory",
    ),
    "a resource of a wrong domain": (resources({}, {"Nvidia.com/gpu": 1}), f"{C}.resources.limits.Nvidia.com/gpu: "),
    "less than nothing": (resources({}, {"cpu": -1}), f"{C}.resources.limits.cpu: -1: must not be negative"),
    "a mount without its volume": (
        container(volumeMounts=[{"name": "data", "mountPath": "/data"}]),
        f"{C}.volumeMounts[0].name: data: no volume of this name; the pod has no volumes",
    ),
    "a folder as a device": (
        pod(
            volumes=[DATA],
            containers=[{"name": "a", "image": "x", "volumeDevices": [{"name": "data", "devicePath": "/d"}]}],
        ),
        f"{C}.volumeDevices[0].name: data: a device must be a persistentVolumeClaim or ephemeral volume",
    ),
    "two mounts at one path": (
        init(DATA, volumeMounts=[{"name": "data", "mountPath": "/d"}, {"name": "data", "mountPath": "/d"}]),
        "volumeMounts[1].mountPath: /d: volumeMounts[0] is at this path already",
    ),
    "a subPath that leaves the volume": (
        init(DATA, volumeMounts=[{"name": "data", "mountPath": "/d", "subPath": "../x"}]),
        "volumeMounts[0].subPath: '../x': must be a path inside the volume",
    ),
    "two volumes of a name": (
        pod(volumes=[DATA, DATA]),
        "t.spec.volumes[1].name: data: volumes[0] has this name already",
    ),
    "a volume of two sources": (
        pod(volumes=[DATA | {"hostPath": {"path": "/x"}}]),
        "t.spec.volumes[0]: emptyDir and hostPath: a volume has one source",
    ),
    "a volume with a strange name": (pod(volumes=[{"name": "My_data"}]), "t.spec.volumes[0].name: 'My_data'"),
    "no image": (pod(containers=[{"name": "a"}]), f"{C}.image: is missing"),
    "an image with a space": (
        container(image="registry/My Image:1"),
        f"{C}.image: 'registry/My Image:1': the name of an",
    ),
    "a container and an init container of a name": (
        pod(initContainers=[{"name": "a", "image": "x"}]),
        "t.spec.initContainers[0].name: a: containers[0] has this name already",
    ),
    "two ports of a name": (
        container(ports=[{"name": "http", "containerPort": 1}, {"name": "http", "containerPort": 2}]),
        f"{C}.ports[1].name: http: ports[0] has this name already",
    ),
    "a port with a long name": (container(ports=[{"name": "a" * 16, "containerPort": 1}]), f"{C}.ports[0].name: "),
    "a port of the node twice": (
        container(ports=[{"containerPort": 1, "hostPort": 80}, {"containerPort": 2, "hostPort": 80}]),
        f"{C}.ports[1].hostPort: 80: containers[0].ports[0] takes this port of the node already",
    ),
    "another port on the node's network": (
        pod(hostNetwork=True, containers=[{"name": "a", "image": "x", "ports": [{"containerPort": 1, "hostPort": 2}]}]),
        f"{C}.ports[0].hostPort: 2: must equal containerPort (1)",
    ),
    "a variable with two origins": (
        container(env=[{"name": "A", "value": "1", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
        f"{C}.env[0].valueFrom: is set together with value",
    ),
    "a variable from nowhere": (
        container(env=[{"name": "A", "valueFrom": {}}]),
        f"{C}.env[0].valueFrom: needs fieldRef",
    ),
    "a variable with a strange name": (container(env=[{"name": "A=B", "value": "1"}]), f"{C}.env[0].name: 'A=B'"),
    "a probe that asks twice": (
        probe(tcpSocket={"port": 1}),
        f"{C}.livenessProbe: exec and tcpSocket: must have one of them",
    ),
    "a probe of no port": (
        container(readinessProbe={"tcpSocket": {"port": 70_000}}),
        "tcpSocket.port: 70000: must be from 1",
    ),
    "a probe of a port in quotes": (
        container(readinessProbe={"httpGet": {"port": "80"}}),
        "httpGet.port: '80' is text, which names a port: write the number without quotes",
    ),
    "a probe back in time": (probe(initialDelaySeconds=-1), f"{C}.livenessProbe.initialDelaySeconds: -1: must not be"),
    "a liveness that must succeed twice": (
        probe(successThreshold=2),
        f"{C}.livenessProbe.successThreshold: 2: must be 1",
    ),
    "a probe of an init container": (
        init(readinessProbe={"tcpSocket": {"port": 1}}),
        "t.spec.initContainers[0].readinessProbe: an init container runs to its end",
    ),
    "a hook that does nothing": (container(lifecycle={"preStop": {}}), f"{C}.lifecycle.preStop: needs exec"),
    "privileged without its escalation": (
        container(securityContext={"privileged": True, "allowPrivilegeEscalation": False}),
        f"{C}.securityContext.allowPrivilegeEscalation: cannot be false",
    ),
    "a deadline of nothing": (pod(activeDeadlineSeconds=0), "t.spec.activeDeadlineSeconds: 0: must be from 1"),
    "a key of a node selector": (pod(nodeSelector={"-gpu": "a"}), "t.spec.nodeSelector.-gpu: '-gpu'"),
    "a value of a node selector": (pod(nodeSelector={"gpu": "a b"}), "t.spec.nodeSelector.gpu: 'a b'"),
    "a domain of an annotation": (
        {"metadata": {"annotations": {"a_b/c": "x"}}},
        "t.metadata.annotations.a_b/c: 'a_b/c'",
    ),
    "a service account": (pod(serviceAccountName="My account"), "t.spec.serviceAccountName: 'My account'"),
    "a toleration of everything and a value": (
        pod(tolerations=[{"key": "a", "operator": "Exists", "value": "b"}]),
        "t.spec.tolerations[0].value: b: must be empty where operator is Exists",
    ),
    "a toleration of nothing": (
        pod(tolerations=[{"value": "b"}]),
        "t.spec.tolerations[0].operator: Equal: must be Exists",
    ),
    "a toleration for a time": (
        pod(tolerations=[{"key": "a", "operator": "Exists", "tolerationSeconds": 1}]),
        "t.spec.tolerations[0].effect: must be NoExecute",
    ),
    "no name servers of its own": (pod(dnsPolicy="None"), "t.spec.dnsConfig.nameservers: dnsPolicy None needs"),
}


@pytest.mark.parametrize(("template", "says"), REFUSED.values(), ids=list(REFUSED))
def test_what_kubernetes_refuses_is_named(template: Json, says: str) -> None:
    found = [str(error) for error in template_rules(template, "t")]
    assert any(says in error for error in found), found
    assert len(found) == 1, found


ACCEPTED: dict[str, Json] = {
    "GPUs as a limit alone": resources({}, {GPU: 2}),
    "a request equal to its limit, in other words": resources({"cpu": "1", GPU: "1"}, {"cpu": "1000m", GPU: 1}),
    "a request without a limit": resources({"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi"}, {}),
    "huge pages beside memory": resources(
        {"hugepages-2Mi": "2Mi", "memory": "1Gi"}, {"hugepages-2Mi": "2Mi", "memory": "1Gi"}
    ),
    "a volume without a source is an empty folder": pod(volumes=[{"name": "a"}]),
    "a claim as a device": init(CLAIM, volumeDevices=[{"name": "disk", "devicePath": "/dev/x"}]),
    "two ports without a name": container(ports=[{"containerPort": 1}, {"containerPort": 2}]),
    "a port over TCP and UDP": container(
        ports=[{"containerPort": 1, "hostPort": 1, "protocol": p} for p in ("TCP", "UDP")]
    ),
    "a variable with a dot": container(env=[{"name": "a.b-c", "value": "1"}]),
    "an empty value beside its origin": container(
        env=[{"name": "A", "value": "", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}]
    ),
    "a readiness that must succeed twice": container(readinessProbe={"tcpSocket": {"port": 1}, "successThreshold": 2}),
    "a hook that sleeps": container(lifecycle={"preStop": {"sleep": {"seconds": 1}}}),
    "an empty value of a label": {"metadata": {"labels": {"example.com/a": ""}, "annotations": {"A.b/c": "x y"}}},
    "every taint tolerated": pod(tolerations=[{"operator": "Exists"}]),
    "a part of another shape, which is told elsewhere": {
        "metadata": [],
        "spec": {"containers": {"name": 1}, "volumes": "x", "nodeSelector": 3, "tolerations": [7]},
    },
    "resources of another shape": container(resources={"limits": ["x"], "requests": {"cpu": "lots"}}, ports=7, env={}),
}


@pytest.mark.parametrize("template", ACCEPTED.values(), ids=list(ACCEPTED))
def test_what_kubernetes_accepts_is_not_refused(template: Json) -> None:
    assert [str(error) for error in template_rules(template, "t")] == []


IMAGES: dict[str, bool] = {
    "busybox": True,
    "registry.example.com/team/image:tag": True,
    "localhost:5000/image": True,
    "Registry.example.com/image": True,
    "[2001:db8::1]:5000/image": True,
    "a/b__c/d-e--f:V_1.x": True,
    f"image@sha256:{'a' * 64}": True,
    f"image:1@sha256:{'a' * 64}": True,
    "registry.example.com/My-Image:1": False,
    "my image": False,
    " image": False,
    "image:": False,
    "image:-a": False,
    "image:a:b": False,
    f"image:{'a' * 129}": False,
    "/image": False,
    "a___b": False,
    "image@sha256:abc": False,
    "https://registry.example.com/image": False,
    "$(IMAGE)": False,
    "a" * 64: False,
    "a" * 256: False,
    "": False,
}


@pytest.mark.parametrize(("image", "is_one"), IMAGES.items())
def test_names_of_images(image: str, is_one: bool) -> None:
    assert (image_error(image) == "") is is_one, image_error(image)
