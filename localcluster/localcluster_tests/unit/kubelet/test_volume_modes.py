"""Files of a volume have the mode that the pod asks for: a script can be run, a key is its owner's alone."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from localcluster.kubelet.env import PodFacts
from localcluster.kubelet.volumes import prepare_volumes

FACTS = PodFacts("127.0.0.2", "127.0.0.1", {})
ANNOTATION_FILE = {"path": "b", "fieldRef": {"fieldPath": "metadata.annotations['run.sh']"}}
KEY = {"key": "id_rsa", "path": "b", "mode": 0o400}
OBJECTS = {
    "configmaps": {"data": {"run.sh": "#!/bin/sh\n"}},
    "secrets": {"data": {"id_rsa": base64.b64encode(b"key").decode()}},
}
CASES: dict[str, tuple[dict[str, Any], str, int]] = {
    "nothing is said: everybody may read": ({"configMap": {"name": "a"}}, "run.sh", 0o644),
    "of a whole ConfigMap": ({"configMap": {"name": "a", "defaultMode": 0o555}}, "run.sh", 0o555),
    "of a Secret": ({"secret": {"secretName": "a", "defaultMode": 0o600}}, "id_rsa", 0o600),
    "one item goes before the volume": (
        {"configMap": {"name": "a", "defaultMode": 0o600, "items": [{"key": "run.sh", "path": "b", "mode": 0o500}]}},
        "b",
        0o500,
    ),
    "of the downward API": ({"downwardAPI": {"items": [{**ANNOTATION_FILE, "mode": 0o555}]}}, "b", 0o555),
    "of a projected volume, for all its sources": (
        {"projected": {"defaultMode": 0o500, "sources": [{"downwardAPI": {"items": [ANNOTATION_FILE]}}]}},
        "b",
        0o500,
    ),
    "of one source's item": ({"projected": {"sources": [{"secret": {"name": "a", "items": [KEY]}}]}}, "b", 0o400),
}


@pytest.mark.parametrize("sentence", CASES)
def test_files_have_their_mode(sentence: str, tmp_path: Path) -> None:
    volume, file, want = CASES[sentence]
    metadata = {"name": "p", "namespace": "default", "uid": "u", "annotations": {"run.sh": "#!/bin/sh\n"}}
    pod = {"metadata": metadata, "spec": {"containers": [{"name": "main"}], "volumes": [{"name": "v", **volume}]}}
    made = prepare_volumes(pod, tmp_path, FACTS, lambda resource, namespace, name: OBJECTS[resource])
    assert (made["v"] / file).stat().st_mode & 0o777 == want
