"""Requests that have once been answered differently, or could be: each as (method, path, body, content type). What a real
kube-apiserver answers is in `answers.json`, recorded by `python -m tests.contract.kubectl.probe FILE`."""

from __future__ import annotations

import json
from typing import Any

import yaml

from tests.contract.kubectl import manifests as m

POD_PATH = "/api/v1/namespaces/default/pods"
ROCKET_PATH = "/apis/space.example.com/v1/namespaces/default/rockets"
CONFIG_PATH = "/api/v1/namespaces/default/configmaps"


def pod(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "x"}], **spec},
    }


def config(name: str, **meta: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **meta}, "data": {"a": "1"}}


MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
DEFINITION: dict[str, Any] = yaml.safe_load(m.CRD)


def rocket(name: str, **spec: Any) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(m.rocket(name, **spec))
    return body


def versioned(name: str, meta: dict[str, Any], **spec: Any) -> dict[str, Any]:
    body = rocket(name, **spec)
    body["metadata"] |= meta
    return body


STEPS: list[tuple[Any, ...]] = [
    ("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION),
    ("POST", CONFIG_PATH, config("a")),
    ("POST", CONFIG_PATH, config("a")),
    ("POST", CONFIG_PATH, {"metadata": {"name": "x"}}),
    ("POST", CONFIG_PATH, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}),
    ("POST", CONFIG_PATH, {"apiVersion": "v2", "kind": "ConfigMap", "metadata": {"name": "x"}}),
    ("POST", CONFIG_PATH, b"{bad"),
    ("POST", CONFIG_PATH, b"[]"),
    ("POST", CONFIG_PATH, config("A_b")),
    ("POST", CONFIG_PATH, config("x", namespace="other")),
    ("POST", CONFIG_PATH, config("x", resourceVersion="1")),
    ("POST", CONFIG_PATH, config("x", labels={"a b": "c"})),
    ("POST", CONFIG_PATH, config("x", labels={"a": "c d"})),
    ("POST", CONFIG_PATH, config("x", labels={"a": 1})),
    ("POST", CONFIG_PATH, config("x", annotations={"a/b/c": "c d"})),
    ("POST", CONFIG_PATH, config("x", finalizers=["a b"])),
    ("POST", CONFIG_PATH, config("x", ownerReferences=[{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": ""}])),
    (
        "POST",
        CONFIG_PATH,
        config(
            "x",
            ownerReferences=[
                {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u", "controller": True},
                {"apiVersion": "v1", "kind": "Pod", "name": "b", "uid": "v", "controller": True},
            ],
        ),
    ),
    ("POST", "/api/v1/namespaces/nowhere/configmaps", config("x")),
    ("POST", CONFIG_PATH, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "gen-"}}),
    ("POST", CONFIG_PATH, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}),
    ("POST", CONFIG_PATH + "?dryRun=All", config("dry")),
    ("POST", CONFIG_PATH + "?dryRun=Bad", config("dry")),
    ("GET", CONFIG_PATH + "/dry"),
    ("POST", CONFIG_PATH + "?fieldValidation=Strict", config("s") | {"foo": 1}),
    ("POST", CONFIG_PATH + "?fieldValidation=Warn", config("s") | {"foo": 1}),
    ("POST", CONFIG_PATH + "?fieldValidation=Huh", config("s2")),
    ("PUT", CONFIG_PATH + "/a", config("b")),
    ("PUT", CONFIG_PATH + "/missing", config("missing")),
    ("PUT", CONFIG_PATH + "/a", config("a", resourceVersion="1")),
    ("PUT", CONFIG_PATH + "/a", config("a", uid="x")),
    ("PUT", CONFIG_PATH + "/a", config("a")),
    ("GET", CONFIG_PATH + "?limit=2"),
    ("GET", CONFIG_PATH + "?labelSelector=a%20b"),
    ("GET", CONFIG_PATH + "?labelSelector=a%3Db,c"),
    ("GET", CONFIG_PATH + "?fieldSelector=data.a%3D1"),
    ("GET", CONFIG_PATH + "?fieldSelector=bad"),
    ("GET", CONFIG_PATH + "?resourceVersion=999999999"),
    ("GET", CONFIG_PATH + "?resourceVersion=abc"),
    ("GET", CONFIG_PATH + "?resourceVersionMatch=Exact"),
    ("GET", CONFIG_PATH + "?resourceVersion=0&resourceVersionMatch=Exact"),
    ("GET", CONFIG_PATH + "?resourceVersion=5&resourceVersionMatch=Foo"),
    ("GET", CONFIG_PATH + "?continue=abc"),
    ("GET", CONFIG_PATH + "?watch=1&sendInitialEvents=true&timeoutSeconds=1"),
    ("GET", CONFIG_PATH + "?watch=1&resourceVersion=1&timeoutSeconds=1"),
    ("GET", CONFIG_PATH + "?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3Da"),
    (
        "GET",
        CONFIG_PATH
        + "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1"
        + "&fieldSelector=metadata.name%3Da",
    ),
    ("GET", "/api/v1/foos"),
    ("GET", "/apis/nope/v1"),
    ("GET", "/nope"),
    ("DELETE", "/api/v1/namespaces"),
    ("POST", CONFIG_PATH + "/a", config("a")),
    ("PUT", CONFIG_PATH, config("a")),
    ("PATCH", CONFIG_PATH + "/a", {"data": {"b": "2"}}, MERGE),
    ("PATCH", CONFIG_PATH + "/a", {"data": {"b": "2"}}, MERGE),
    ("PATCH", CONFIG_PATH + "/a", {"data": {"b": 2}}, MERGE),
    ("PATCH", CONFIG_PATH + "/a", {"data": {}}, "application/foo"),
    ("PATCH", CONFIG_PATH + "/a", [{"op": "test", "path": "/data/b", "value": "3"}], JSON),
    ("PATCH", CONFIG_PATH + "/a", [{"op": "remove", "path": "/data/zz"}], JSON),
    ("PATCH", CONFIG_PATH + "/a", {"x": 1}, JSON),
    ("PATCH", CONFIG_PATH + "/a", [1], MERGE),
    ("PATCH", CONFIG_PATH + "/a", {"metadata": {"name": "b"}}, MERGE),
    ("PATCH", CONFIG_PATH + "/a", {"metadata": {"resourceVersion": "1"}}, MERGE),
    ("PATCH", CONFIG_PATH + "/a", {"metadata": {"uid": "x"}}, MERGE),
    ("PATCH", CONFIG_PATH + "/missing", {"data": {"b": "2"}}, MERGE),
    ("PATCH", CONFIG_PATH + "/a", {"metadata": {"labels": {"x y": "1"}}}, MERGE),
    ("PATCH", CONFIG_PATH + "/a?fieldValidation=Strict", {"foo": 1}, MERGE),
    ("PATCH", CONFIG_PATH + "/ap", config("ap"), APPLY),
    ("PATCH", CONFIG_PATH + "/ap?fieldManager=m", config("ap"), APPLY),
    ("PATCH", CONFIG_PATH + "/ap?fieldManager=n", {**config("ap"), "data": {"a": "2"}}, APPLY),
    ("PATCH", CONFIG_PATH + "/ap?fieldManager=n", {**config("other")}, APPLY),
    ("DELETE", CONFIG_PATH + "/a", {"preconditions": {"uid": "x"}}),
    ("DELETE", CONFIG_PATH + "/a", {"preconditions": {"resourceVersion": "1"}}),
    ("DELETE", CONFIG_PATH + "/a", {"propagationPolicy": "Huh"}),
    ("DELETE", CONFIG_PATH + "/a", {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Foreground"}),
    ("PATCH", CONFIG_PATH + "/a", {"metadata": {"finalizers": ["foregroundDeletion", "x.y/z"]}}, MERGE),
    ("DELETE", CONFIG_PATH + "/a"),
    ("PATCH", CONFIG_PATH + "/a", {"metadata": {"finalizers": None}}, MERGE),
    ("GET", CONFIG_PATH + "/a"),
    ("DELETE", CONFIG_PATH + "/missing"),
    ("DELETE", CONFIG_PATH + "?labelSelector=none%3Dnone"),
    ("DELETE", "/api/v1/namespaces/default"),
    ("DELETE", "/api/v1/namespaces/kube-system"),
    ("POST", POD_PATH, pod("p")),
    ("POST", POD_PATH, pod("q", nodeName="n9")),
    ("DELETE", POD_PATH + "/q"),
    ("DELETE", POD_PATH + "/q", {"gracePeriodSeconds": 5}),
    ("GET", POD_PATH + "/q"),
    ("DELETE", POD_PATH + "/q", {"gracePeriodSeconds": 0}),
    ("GET", POD_PATH + "/q"),
    ("DELETE", POD_PATH + "/p"),
    (
        "POST",
        POD_PATH,
        pod("bad", restartPolicy="X", dnsPolicy="Y", terminationGracePeriodSeconds=-1, nodeSelector={"a b": "c"}),
    ),
    ("POST", POD_PATH, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "e"}, "spec": {"containers": []}}),
    ("POST", POD_PATH, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "e"}}),
    ("POST", POD_PATH, pod("e", containers=[{"name": "c", "image": "x"}, {"name": "c", "image": "x"}])),
    ("POST", POD_PATH, pod("e", containers=[{"name": "C", "image": ""}])),
    (
        "POST",
        POD_PATH,
        pod(
            "e",
            containers=[
                {
                    "name": "c",
                    "image": "x",
                    "ports": [
                        {"containerPort": 80, "name": "p"},
                        {"containerPort": 81, "name": "p"},
                        {"containerPort": 0},
                        {"containerPort": 82, "name": "Toooooooooooooolong"},
                    ],
                }
            ],
        ),
    ),
    (
        "POST",
        POD_PATH,
        pod(
            "e",
            containers=[
                {
                    "name": "c",
                    "image": "x",
                    "env": [
                        {"name": ""},
                        {"name": "A=B", "value": "1"},
                        {"name": "C", "valueFrom": {}},
                        {"name": "D", "valueFrom": {"fieldRef": {"fieldPath": "spec.foo"}}},
                    ],
                }
            ],
        ),
    ),
    (
        "POST",
        POD_PATH,
        pod("e", containers=[{"name": "c", "image": "x", "resources": {"limits": {"foo": "1"}, "requests": {}}}]),
    ),
    (
        "POST",
        POD_PATH,
        pod("e", containers=[{"name": "c", "image": "x", "resources": {"requests": {"nvidia.com/gpu": "1"}}}]),
    ),
    (
        "POST",
        POD_PATH,
        pod(
            "e",
            volumes=[
                {"name": "v"},
                {"name": "v", "emptyDir": {}},
                {"name": "V", "emptyDir": {}},
                {"name": "w", "emptyDir": {}, "hostPath": {"path": "/"}},
            ],
            containers=[
                {
                    "name": "c",
                    "image": "x",
                    "volumeMounts": [
                        {"name": "v", "mountPath": ""},
                        {"name": "zz", "mountPath": "/a"},
                        {"name": "v", "mountPath": "/a"},
                    ],
                }
            ],
        ),
    ),
    (
        "POST",
        POD_PATH,
        pod(
            "e",
            tolerations=[
                {"operator": "Foo"},
                {"key": "", "operator": "Equal"},
                {"key": "a", "operator": "Exists", "value": "x"},
                {"key": "a", "effect": "Bad"},
                {"key": "a", "tolerationSeconds": 3, "effect": "NoSchedule"},
            ],
        ),
    ),
    ("POST", POD_PATH, pod("e", priorityClassName="none")),
    (
        "POST",
        POD_PATH,
        pod("e", hostNetwork=True, containers=[{"name": "c", "image": "x:1", "ports": [{"containerPort": 80}]}]),
    ),
    ("POST", POD_PATH, pod("e2", activeDeadlineSeconds=0, hostname="A_B")),
    ("POST", POD_PATH, pod("up", nodeName="n1")),
    ("PATCH", POD_PATH + "/up", {"spec": {"activeDeadlineSeconds": 10}}, STRATEGIC),
    ("PATCH", POD_PATH + "/up", {"spec": {"activeDeadlineSeconds": 20}}, STRATEGIC),
    ("PATCH", POD_PATH + "/up", {"spec": {"containers": [{"name": "d", "image": "x"}]}}, STRATEGIC),
    ("PATCH", POD_PATH + "/up", {"spec": {"nodeName": "n2"}}, STRATEGIC),
    (
        "PATCH",
        POD_PATH + "/up/status",
        {"status": {"phase": "Running"}, "spec": {"nodeName": "zzz"}, "metadata": {"labels": {"a": "b"}}},
        STRATEGIC,
    ),
    ("PATCH", POD_PATH + "/up/status", {"status": {"phase": "Failed"}}, MERGE),
    ("DELETE", POD_PATH + "/up"),
    ("POST", POD_PATH + "/up/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "up"}}),
    ("POST", POD_PATH, pod("ev", nodeName="n1")),
    ("POST", POD_PATH + "/ev/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "ev"}}),
    ("GET", POD_PATH + "/ev"),
    ("POST", POD_PATH, pod("bi")),
    (
        "POST",
        POD_PATH + "/bi/binding",
        {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "bi"}, "target": {"kind": "Node", "name": "n1"}},
    ),
    ("GET", POD_PATH + "/bi"),
    (
        "POST",
        POD_PATH + "/bi/binding",
        {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "bi"}, "target": {}},
    ),
    ("GET", POD_PATH + "/bi/log?container=zz"),
    ("POST", POD_PATH, pod("two", containers=[{"name": "a", "image": "x"}, {"name": "b", "image": "x"}])),
    ("GET", POD_PATH + "/two/log"),
    ("GET", POD_PATH + "/two/log?container=a"),
    (
        "POST",
        "/api/v1/namespaces/default/services",
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "1a"}, "spec": {"ports": [{"port": 0}]}},
    ),
    (
        "POST",
        "/api/v1/namespaces/default/services",
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "ok"},
            "spec": {"selector": {"a": "b"}, "ports": [{"port": 80, "name": "a"}, {"port": 80, "name": "b"}]},
        },
    ),
    (
        "POST",
        "/api/v1/namespaces/default/services",
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "ok"},
            "spec": {"clusterIP": "10.96.3.3", "ports": [{"port": 80, "name": "a"}]},
        },
    ),
    (
        "PATCH",
        "/api/v1/namespaces/default/services/ok",
        {"spec": {"clusterIP": "10.96.4.4", "clusterIPs": ["10.96.4.4"]}},
        MERGE,
    ),
    (
        "POST",
        "/api/v1/namespaces/default/services",
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "noports"}, "spec": {}},
    ),
    ("POST", ROCKET_PATH, rocket("r", pilot="ann")),
    ("GET", ROCKET_PATH + "/r"),
    ("PUT", ROCKET_PATH + "/r", rocket("r", pilot="bob")),
    (
        "PUT",
        ROCKET_PATH + "/r/status",
        {**versioned("r", {"resourceVersion": "1"}, pilot="x"), "status": {"phase": "a"}},
    ),
    (
        "PATCH",
        ROCKET_PATH + "/r/status",
        {"status": {"phase": "a", "foo": 1}, "spec": {"pilot": "zzz"}, "metadata": {"labels": {"a": "b"}}},
        MERGE,
    ),
    ("PATCH", ROCKET_PATH + "/r", {"status": {"phase": "zzz"}, "spec": {"fuel": "kerosene"}}, MERGE),
    ("PATCH", ROCKET_PATH + "/r", {"spec": {"pilot": None}}, MERGE),
    ("PATCH", ROCKET_PATH + "/r", {"spec": {}}, STRATEGIC),
    ("GET", ROCKET_PATH + "/r/scale"),
    ("PATCH", ROCKET_PATH + "/r/scale", {"spec": {"replicas": 4}}, MERGE),
    ("PATCH", ROCKET_PATH + "/r/scale", {"spec": {"replicas": "x"}}, MERGE),
    (
        "PUT",
        ROCKET_PATH + "/r/scale",
        {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "r"}, "spec": {"replicas": 2}},
    ),
    ("GET", "/apis/space.example.com/v1alpha1/namespaces/default/rockets/r"),
    ("GET", "/apis/space.example.com/v1alpha1/namespaces/default/rockets/r/scale"),
    ("GET", "/apis/space.example.com/v1/rockets?limit=1"),
    ("POST", "/apis/space.example.com/v1/rockets", rocket("z", pilot="ann")),
    ("POST", ROCKET_PATH, rocket("n", pilot=None)),
    (
        "POST",
        ROCKET_PATH,
        {"apiVersion": "space.example.com/v1", "kind": "Rocket", "metadata": {"name": "q"}, "spec": "str"},
    ),
    ("POST", ROCKET_PATH, {"apiVersion": "space.example.com/v1", "kind": "Rocket", "metadata": "str", "spec": {}}),
    ("POST", ROCKET_PATH, rocket("st", pilot="ann") | {"status": {"phase": "x"}}),
    ("PATCH", ROCKET_PATH + "/st/status", {"status": {"engines": "x"}}, MERGE),
    ("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", {**DEFINITION, "metadata": {"name": "x.y"}}),
    (
        "POST",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "as.b.c"},
            "spec": {
                "group": "b.c",
                "scope": "Foo",
                "names": {"plural": "as", "kind": "A"},
                "versions": [{"name": "v1", "served": True, "storage": False}],
            },
        },
    ),
    (
        "POST",
        "/apis/batch/v1/namespaces/default/jobs",
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "j"},
            "spec": {"template": {"spec": {"containers": [{"name": "c", "image": "x"}]}}},
        },
    ),
    (
        "POST",
        "/apis/batch/v1/namespaces/default/jobs",
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "j"},
            "spec": {
                "completions": 3,
                "parallelism": 2,
                "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}},
            },
        },
    ),
    ("PATCH", "/apis/batch/v1/namespaces/default/jobs/j", {"spec": {"completions": 4}}, MERGE),
    ("PATCH", "/apis/batch/v1/namespaces/default/jobs/j", {"spec": {"parallelism": 5, "suspend": True}}, MERGE),
    ("DELETE", "/apis/batch/v1/namespaces/default/jobs/j"),
    ("GET", "/apis/batch/v1/namespaces/default/jobs/j"),
    (
        "POST",
        "/apis/coordination.k8s.io/v1/namespaces/default/leases",
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "l"},
            "spec": {"holderIdentity": "a", "leaseDurationSeconds": 0, "renewTime": "2024-01-01T00:00:00.000000Z"},
        },
    ),
    (
        "POST",
        "/apis/coordination.k8s.io/v1/namespaces/default/leases",
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "l"},
            "spec": {"holderIdentity": "a", "leaseDurationSeconds": 5, "renewTime": "2024-01-01T00:00:00.000000Z"},
        },
    ),
    (
        "POST",
        "/api/v1/namespaces/default/events",
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "e1"},
            "involvedObject": {"kind": "Pod", "name": "a", "namespace": "other"},
        },
    ),
    (
        "POST",
        "/api/v1/namespaces/default/events",
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "e1"},
            "involvedObject": {"kind": "Pod", "name": "a", "namespace": "default"},
            "reason": "R",
            "message": "m",
            "type": "Normal",
        },
    ),
    ("GET", "/apis/events.k8s.io/v1/namespaces/default/events/e1"),
    (
        "POST",
        "/apis/events.k8s.io/v1/namespaces/default/events",
        {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": "e2"},
            "regarding": {"kind": "Pod", "name": "a", "namespace": "default"},
            "reason": "R",
            "note": "m",
            "type": "Normal",
            "eventTime": "2024-01-01T00:00:00.000000Z",
            "reportingController": "a/b",
            "reportingInstance": "i",
            "action": "x",
        },
    ),
    ("GET", "/api/v1/namespaces/default/events/e2"),
    (
        "POST",
        "/api/v1/namespaces/default/secrets",
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": "!!"}},
    ),
    (
        "POST",
        "/api/v1/namespaces/default/secrets",
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": "x"}, "immutable": True},
    ),
    ("PATCH", "/api/v1/namespaces/default/secrets/s", {"stringData": {"a": "y"}}, MERGE),
    (
        "POST",
        "/apis/apps/v1/namespaces/default/replicasets",
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": "rs"},
            "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {
                    "metadata": {"labels": {"a": "c"}},
                    "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]},
                },
            },
        },
    ),
    (
        "POST",
        "/apis/apps/v1/namespaces/default/replicasets",
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": "rs"},
            "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}},
            },
        },
    ),
    ("GET", "/apis/apps/v1/namespaces/default/replicasets/rs/scale"),
    ("PATCH", "/apis/apps/v1/namespaces/default/replicasets/rs/scale", {"spec": {"replicas": 0}}, MERGE),
    ("PATCH", "/apis/apps/v1/namespaces/default/replicasets/rs/scale", {"spec": {"replicas": -1}}, MERGE),
    ("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "t"}}),
    ("DELETE", "/api/v1/namespaces/t"),
    ("POST", "/api/v1/namespaces/t/configmaps", config("x")),
    (
        "PUT",
        "/api/v1/namespaces/t/finalize",
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "t"}, "spec": {"finalizers": []}},
    ),
    ("GET", "/api/v1/namespaces/t"),
    ("DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/rockets.space.example.com"),
]
