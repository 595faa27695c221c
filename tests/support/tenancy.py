"""What a tenant's job may ask for under k8s/tenancy, as one table. The real API server is asked by it
(tests/e2e/control_plane/test_tenancy*.py), and so is the evaluator of the fast suite
(tests/unit/tjworker/kube/test_tenancy.py): they must agree.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

from tests.support.kinds import TRAININGJOBS
from tjworker.api.kinds import KNOWN_KINDS
from tjworker.api.kinds.base import JobKind

Json = dict[str, Any]
OWN = "elasticdeeplearning.ai"
LABEL = {"elasticdeeplearning.ai/tenancy": "restricted"}
ACCOUNTS = "elasticdeeplearning.ai/service-accounts"


def role(**pod: Any) -> Json:
    spec = {"containers": [{"name": "aitj-main", "image": "trainer:1"}], **pod}
    return {"replicas": 1, "template": {"spec": spec}}


def roles(**specs: Json) -> Json:
    metadata, kind = {"name": "digits"}, "AITrainingJob"
    return {"apiVersion": f"{OWN}/v1", "kind": kind, "metadata": metadata, "spec": {"replicaSpecs": specs}}


def asks(**pod: Any) -> Json:
    """A job whose template asks for this."""
    return roles(trainer=role(**pod))


def container(name: str = "aitj-main", **context: Any) -> Json:
    return {"name": name, "image": "trainer:1", "securityContext": context}


def edl(**spec: Any) -> Json:
    trainer = {"entrypoint": "train", "min-instance": 1}
    spec = {"image": "trainer:1", "trainer": trainer, "frame_work": {"name": "paddle", "type": "nccl2"}, **spec}
    return {"apiVersion": "paddlepaddle.org/v1", "kind": "TrainingJob", "metadata": {"name": "digits"}, "spec": spec}


def noted(manifest: Json, **annotations: str) -> Json:
    return {**manifest, "metadata": {**manifest["metadata"], "annotations": annotations}}


@dataclass(frozen=True)
class Case:
    manifest: Json
    want: str = ""
    """Words of the refusal; '' when it is taken."""
    annotations: dict[str, str] = field(default_factory=dict)
    """Annotations of the namespace."""


HOST_PATH = {"name": "root", "hostPath": {"path": "/"}}
CASES = {
    "a plain job": Case(asks()),
    "a plain EDL job": Case(edl()),
    "the account that every namespace has": Case(asks(serviceAccountName="default")),
    "an account of somebody else": Case(
        asks(serviceAccountName="admin"), "serviceAccountName must be one of default in this namespace"
    ),
    "the same by its older name": Case(asks(serviceAccount="admin"), "must be one of default"),
    "an account that the namespace allows": Case(
        asks(serviceAccountName="trainer"), annotations={ACCOUNTS: "default, trainer"}
    ),
    "one that it does not": Case(
        asks(serviceAccountName="admin"), "must be one of default, trainer", {ACCOUNTS: "default, trainer"}
    ),
    "no account, where even default is none of those": Case(asks(), "must be one of trainer", {ACCOUNTS: "trainer"}),
    "an EDL job, which runs as default, where that is none of those": Case(
        edl(), "must be one of trainer", {ACCOUNTS: "trainer"}
    ),
    "the same with roles of the other kind, which it has not": Case(
        edl(replicaSpecs=asks(serviceAccountName="trainer")["spec"]["replicaSpecs"]),
        "must be one of trainer",
        {ACCOUNTS: "trainer"},
    ),
    "an account that is the only one": Case(asks(serviceAccountName="trainer"), annotations={ACCOUNTS: "trainer"}),
    "the node's files": Case(asks(volumes=[HOST_PATH]), "volumes must not have hostPath"),
    "the node's files, by an EDL job": Case(edl(volumes=[HOST_PATH]), "volumes must not have hostPath"),
    "the node's files, by an EDL job, behind another volume": Case(
        edl(volumes=[{"name": "tmp", "emptyDir": {}}, HOST_PATH]), "volumes must not have hostPath"
    ),
    "other volumes, by an EDL job": Case(edl(volumes=[{"name": "tmp", "emptyDir": {}}])),
    "other volumes": Case(asks(volumes=[{"name": "tmp", "emptyDir": {}}])),
    "the node's network": Case(asks(hostNetwork=True), "hostNetwork"),
    "the node's network, by an EDL job": Case(edl(host_network=True), "host_network must not be true"),
    "the node's processes": Case(asks(hostPID=True), "hostPID"),
    "the node's shared memory": Case(asks(hostIPC=True), "hostIPC"),
    "none of these, in words": Case(asks(hostNetwork=False, hostPID=False, hostIPC=False)),
    "a privileged container": Case(asks(containers=[container(privileged=True)]), "must not be privileged"),
    "one that is said to be none": Case(asks(containers=[container(privileged=False)])),
    **{
        f"a privileged one, {which} of {containers}": Case(
            asks(**{containers: [container(name, privileged=name == which) for name in ("aitj-a", "aitj-b")]}),
            "containers must not be privileged",
        )
        for containers in ("containers", "initContainers", "ephemeralContainers")
        for which in ("aitj-a", "aitj-b")
    },
    "other rights of a container, which Pod Security judges": Case(
        asks(containers=[container(capabilities={"add": ["NET_ADMIN"]}, runAsUser=0)])
    ),
    "privileged containers, by an EDL job": Case(edl(securityContext={"privileged": True}), "must not be privileged"),
    "an EDL job's containers that are said to be none": Case(edl(securityContext={"privileged": False})),
    "a node of its choice, past the scheduler": Case(asks(nodeName="node-0"), "nodeName must not be set"),
    "no node of its choice, in words": Case(asks(nodeName="")),
    **{
        f"{which} alone of two roles: {words}": Case(
            roles(**{name: role(**(asked if name == which else {})) for name in ("ps", "trainer")}), words
        )
        for which in ("ps", "trainer")
        for words, asked in (
            ("nodeName must not be set", {"nodeName": "node-0"}),
            ("volumes must not have hostPath", {"volumes": [{"name": "tmp", "emptyDir": {}}, HOST_PATH]}),
            ("must be one of default", {"serviceAccountName": "admin"}),
            ("hostPID", {"hostPID": True}),
        )
    },
    "the node's network, by an annotation": Case(
        noted(asks(), **{"kubedl.io/network-mode": "host"}), "kubedl.io/network-mode not host"
    ),
    "another network, by that annotation": Case(noted(asks(), **{"kubedl.io/network-mode": "pod"})),
    "other annotations": Case(noted(asks(), team="vision")),
    "an account by its older name that the namespace allows": Case(
        asks(serviceAccountName="trainer", serviceAccount="trainer"), annotations={ACCOUNTS: "default, trainer"}
    ),
    "one name allowed, the other not": Case(
        asks(serviceAccountName="trainer", serviceAccount="admin"),
        "must be one of default, trainer",
        {ACCOUNTS: "default, trainer"},
    ),
    "an account whose name begins like an allowed one": Case(
        asks(serviceAccountName="train"), "must be one of default, trainer", {ACCOUNTS: "default, trainer"}
    ),
    "no account in one role of two, where even default is none of those": Case(
        roles(ps=role(serviceAccountName="trainer"), trainer=role()), "must be one of trainer", {ACCOUNTS: "trainer"}
    ),
    "an empty account, where even default is none of those": Case(
        asks(serviceAccountName=""), "must be one of trainer", {ACCOUNTS: "trainer"}
    ),
}


# -- any job kind ----------------------------------------------------------------------------------
ROLES = ("trainer",), ("Worker",), ("Master",), ("Master", "Worker"), ("Launcher", "Worker"), ("Scheduler", "Worker")
"""Some kind takes each of these."""
FORBIDDEN: dict[str, Json] = {
    "must be one of default": {"serviceAccountName": "admin"},
    "the account must be one of default": {"serviceAccount": "admin"},
    "hostNetwork": {"hostNetwork": True},
    "hostPID": {"hostPID": True},
    "hostIPC": {"hostIPC": True},
    "volumes must not have hostPath": {"volumes": [HOST_PATH]},
    "must not be privileged": {"containers": [container(privileged=True)]},
    "containers must not be privileged": {"initContainers": [container(privileged=True) | {"name": "init"}]},
    "nodeName must not be set": {"nodeName": "node-0"},
}
"""Words of the refusal -> what the template asks for."""
KINDS = [kind for kind in KNOWN_KINDS.values() if kind.resource != TRAININGJOBS and not kind.companions]
"""Kinds with templates. A TrainingJob has none, a TrainJob's are in its runtime; test_tenancy.py has their cases."""


def of_kind(kind: JobKind, roles: tuple[str, ...]) -> Json:
    field = kind.roles_field
    template: Json = {"spec": {"containers": [{"name": "aitj-main", "image": "trainer:1"}]}}
    specs = {name: {"replicas": 1, "template": copy.deepcopy(template)} for name in roles}
    return {
        "apiVersion": kind.api_versions[0],
        "kind": kind.kind,
        "metadata": {"name": "digits"},
        "spec": {field: specs},
    }


def spoilt(manifest: Json, asks: Json) -> Json:
    """The last role asks for it."""
    found: Json = copy.deepcopy(manifest)
    [specs] = [value for name, value in found["spec"].items() if name.endswith("eplicaSpecs")]
    specs[list(specs)[-1]]["template"]["spec"] |= asks
    return found
