"""What a container finds in its environment: expansion, the downward API, ConfigMaps and Secrets.

https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
https://kubernetes.io/docs/concepts/workloads/pods/downward-api/
"""

from __future__ import annotations

import base64

import pytest

from localcluster.kubelet.env import ConfigError, PodFacts, build_environment, expand_references
from localcluster.wire import Json

EXPANSIONS = {
    "$(A)": "1",
    "x$(A)y$(B)z": "x1y2z",
    "$(C)": "$(C)",
    "$$(A)": "$(A)",
    "$$$(A)": "$1",
    "$$$$(A)": "$$(A)",
    "$A": "$A",
    "$": "$",
    "a$": "a$",
    "$(A": "$(A",
    "$()": "$()",
    "$(A)$(A)": "11",
    "": "",
}


@pytest.mark.parametrize("text", EXPANSIONS)
def test_expansion(text: str) -> None:
    assert expand_references(text, {"A": "1", "B": "2"}) == EXPANSIONS[text]


FACTS = PodFacts("10.1.0.1", "10.0.0.1", {"cpu": "8", "memory": "1Gi", "ephemeral-storage": "9"})
POD: Json = {
    "metadata": {
        "name": "p",
        "namespace": "team",
        "uid": "u-1",
        "labels": {"b": "2", "a": "1"},
        "annotations": {"note": 'say "x"'},
    },
    "spec": {"nodeName": "n", "serviceAccountName": "trainer", "containers": []},
}


def coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


OBJECTS: dict[tuple[str, str, str], Json] = {
    ("configmaps", "team", "c"): {"data": {"k": "of the map"}, "binaryData": {"bin": coded("bytes")}},
    ("secrets", "team", "s"): {"data": {"k": coded("of the secret")}},
    ("configmaps", "other", "elsewhere"): {"data": {"k": "not this"}},
}


def found(container: Json) -> dict[str, str]:
    return build_environment(POD, container, FACTS, lambda *which: OBJECTS.get(which))


FIELDS = {
    "metadata.name": "p",
    "metadata.namespace": "team",
    "metadata.uid": "u-1",
    "metadata.labels['a']": "1",
    "metadata.labels['none']": "",
    "metadata.annotations['note']": 'say "x"',
    "metadata.labels": 'a="1"\nb="2"',
    "spec.nodeName": "n",
    "spec.serviceAccountName": "trainer",
    "status.podIP": "10.1.0.1",
    "status.hostIP": "10.0.0.1",
}


@pytest.mark.parametrize("path", FIELDS)
def test_a_field_of_the_pod(path: str) -> None:
    entry = {"name": "X", "valueFrom": {"fieldRef": {"fieldPath": path}}}
    assert found({"env": [entry]}) == {"X": FIELDS[path]}


def test_a_field_that_there_is_not_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"unsupported fieldPath: spec\.nothing"):
        found({"env": [{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "spec.nothing"}}}]})


RESOURCES: dict[str, tuple[str, str, str]] = {
    "limits are rounded up to whole CPUs": ("limits.cpu", "", "2"),
    "in thousandths": ("limits.cpu", "1m", "1500"),
    "requests": ("requests.cpu", "1m", "250"),
    "memory in bytes": ("requests.memory", "", "3145728"),
    "in MiB": ("requests.memory", "1Mi", "3"),
    "rounded up": ("requests.memory", "2Mi", "2"),
    "without a limit what the node has": ("limits.memory", "1Mi", "1024"),
    "without a request nothing, whatever the node has": ("requests.ephemeral-storage", "", "0"),
    "without a limit, too, what the node does not have": ("limits.nvidia.com/gpu", "", "0"),
}


@pytest.mark.parametrize("what", RESOURCES)
def test_a_resource_of_the_container(what: str) -> None:
    resource, divisor, want = RESOURCES[what]
    ref = {"resource": resource, **({"divisor": divisor} if divisor else {})}
    own = {"requests": {"cpu": "250m", "memory": "3Mi"}, "limits": {"cpu": "1500m"}}
    entry = {"name": "X", "valueFrom": {"resourceFieldRef": ref}}
    assert found({"resources": own, "env": [entry]}) == {"X": want}


KEYS: dict[str, tuple[Json, str | None]] = {
    "of a ConfigMap": ({"configMapKeyRef": {"name": "c", "key": "k"}}, "of the map"),
    "of its binary data": ({"configMapKeyRef": {"name": "c", "key": "bin"}}, "bytes"),
    "of a Secret, decoded": ({"secretKeyRef": {"name": "s", "key": "k"}}, "of the secret"),
    "an optional one that is missing": ({"secretKeyRef": {"name": "s", "key": "none", "optional": True}}, None),
    "of an optional object that is missing": ({"secretKeyRef": {"name": "no", "key": "k", "optional": True}}, None),
}


@pytest.mark.parametrize("what", KEYS)
def test_a_key(what: str) -> None:
    source, want = KEYS[what]
    assert found({"env": [{"name": "X", "valueFrom": source}]}) == ({} if want is None else {"X": want})


MISSING: dict[str, tuple[Json, str]] = {
    "an object": ({"configMapKeyRef": {"name": "no", "key": "k"}}, 'configmap "no" not found'),
    "one of another namespace": (
        {"configMapKeyRef": {"name": "elsewhere", "key": "k"}},
        'configmap "elsewhere" not found',
    ),
    "a key": ({"secretKeyRef": {"name": "s", "key": "none"}}, "couldn't find key none in Secret team/s"),
}


@pytest.mark.parametrize("what", MISSING)
def test_what_is_missing_is_said_in_the_kubelets_words(what: str) -> None:
    source, words = MISSING[what]
    with pytest.raises(ConfigError) as caught:
        found({"env": [{"name": "X", "valueFrom": source}]})
    assert str(caught.value) == words


def test_whole_objects_come_first_with_their_prefix_and_single_variables_win() -> None:
    container: Json = {
        "envFrom": [
            {"configMapRef": {"name": "c"}},
            {"secretRef": {"name": "s"}, "prefix": "S_"},
            {"secretRef": {"name": "no", "optional": True}},
        ],
        "env": [
            {"name": "S_k", "value": "own"},
            {"name": "LATER", "value": "$(S_k) and $(k)"},
            {"name": "EARLIER", "value": "$(LAST)"},
            {"name": "LAST", "value": "x"},
        ],
    }
    assert found(container) == {
        "k": "of the map",
        "bin": "bytes",
        "S_k": "own",
        "LATER": "own and of the map",
        "EARLIER": "$(LAST)",
        "LAST": "x",
    }


def test_a_later_object_wins_over_an_earlier_one() -> None:
    assert found({"envFrom": [{"configMapRef": {"name": "c"}}, {"secretRef": {"name": "s"}}]})["k"] == "of the secret"
    with pytest.raises(ConfigError, match='secret "no" not found'):
        found({"envFrom": [{"secretRef": {"name": "no"}}]})
