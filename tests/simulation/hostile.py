"""Row 18: jobs that do harm, on purpose or by mistake: names, labels, annotations, environment, templates,
status.

`make_hostile(seed)` takes a sensible job and puts hostile values into it. `harm(raw)` sends it through the watcher's
projection, the parser, reconcile and the Kubernetes client, as if no schema stood in front of it, and says what went
wrong: a request outside the job's namespace, a name or variable of the operator's overridden, an exception.
"""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from tests.simulation.inputs import make_input
from tests.support.kinds import AITRAININGJOBS
from tjworker.api import labels
from tjworker.api.kinds import parse
from tjworker.api.model import InvalidJob, TrainingJob
from tjworker.api.observed import Observed
from tjworker.api.resources import NAMESPACES, NODES, PODS
from tjworker.base import GroupResource
from tjworker.controllers.jobs import reconcile_rules
from tjworker.kube.client import KubeClient
from tjworker.kube.port import HttpResponse, Stream
from tjworker.reconcile import Plan, reconcile
from tjworker.reconcile.plan import Create, Delete
from tjworker.reconcile.workloads.environment import replica_environment, role_environment
from tjworker.settings import Settings
from watcher.projection import project

Json = dict[str, Any]
RULES = reconcile_rules(Settings())
NAMESPACE = "team-a"
NAMES = ("digits", "a", "a-b", "x9", "kube-system", "a" * 50, "x.y", "9", "trainer", "a--b", "default")
"""Of jobs: what the API server lets pass as a name, and what our rules then say to it."""

TEXTS: Sequence[str] = (
    "",
    " ",
    "../../kube-system/pods/x",
    "a/b",
    "..",
    "%2e%2e%2f",
    "kube-system",
    "x?watch=1",
    "x#y",
    "\n",
    "a\r\nX-Evil: 1",
    "\x00",
    "\x1b[31m",
    "\u202e",
    "🚀" * 40,
    "ß" * 300,
    "$(HOME)",
    "$(TRAININGJOB_NAME)",
    "$$(A)",
    "${x}",
    "`id`",
    "'; drop table x; --",
    "{{ .Values }}",
    "%s%d%n",
    "__proto__",
    "None",
    "null",
    "true",
    "-1",
    "1e999",
    "NaN",
    "0x10",
    "9" * 400,
    "a" * 5_000,
    "Traceback (most recent call last):",
    "TRAININGJOB_NAME",
    "TRAINER_HOSTS",
    "0-99999999",
    "0-,3",
    "2026-13-45T99:99:99Z",
    "not a time",
)
OTHERS: Sequence[Any] = (
    None,
    True,
    False,
    0,
    -1,
    2**31,
    2**63 - 1,
    -(2**62),
    1.5,
    [],
    {},
    [None],
    [[]],
    [{}],
    {"a": None},
    {"": ""},
    [1, "a"],
)
OUR_LABELS = (*labels.OURS, "priority")
OUR_VARIABLES = (
    "TRAININGJOB_NAME",
    "TRAININGJOB_NAMESPACE",
    "TRAININGJOB_REPLICA_INDEX",
    "TRAININGJOB_PORTS",
    "TRAINER_HOSTS",
    "TRAINER_INSTANCES_NUM",
    "PS_PORTS",
    "WORKER_HOSTS",
    "MASTER_INSTANCES",
)
FOREIGN_OWNER = {"apiVersion": "v1", "kind": "Node", "name": "node-0", "uid": "uid-of-node-0", "controller": True}


def text(rng: random.Random) -> str:
    return rng.choice(TEXTS)


def anything(rng: random.Random, depth: int = 2) -> Any:
    roll = rng.random()
    if roll < 0.5:
        return text(rng)
    if roll < 0.8 or depth == 0:
        return copy.deepcopy(rng.choice(OTHERS))
    if roll < 0.9:
        return [anything(rng, depth - 1) for _ in range(rng.randint(0, 3))]
    return {text(rng): anything(rng, depth - 1) for _ in range(rng.randint(0, 3))}


def make_hostile(seed: int) -> Json:
    rng = random.Random(seed)
    raw = make_input(seed).job_json()
    raw["metadata"] |= {"namespace": NAMESPACE, "name": rng.choice(NAMES), "resourceVersion": "7"}
    for _ in range(rng.randint(1, 5)):
        rng.choice((_anywhere, _anywhere, _template, _environment, _metadata, _status, _role))(rng, raw)
    return raw


def _anywhere(rng: random.Random, raw: Json) -> None:
    """Some place of spec or status becomes something else. (Labels and annotations are strings for any API server.)"""
    place: Any = raw
    step: Any = rng.choice(("spec", "spec", "spec", "status"))
    while isinstance(place.get(step) if isinstance(place, dict) else place[step], dict | list) and rng.random() < 0.85:
        inner = place[step]
        if not inner:
            break
        place, step = inner, rng.choice(sorted(inner)) if isinstance(inner, dict) else rng.randrange(len(inner))
    place[step] = anything(rng)


def _templates(raw: Json) -> list[Json]:
    """Those that still look like one."""
    found = []
    for role in _dict(_dict(raw.get("spec")).get("replicaSpecs")).values():
        template = _dict(_dict(role).get("template"))
        containers = _dict(template.get("spec")).get("containers")
        if isinstance(containers, list) and all(isinstance(c, dict) for c in containers):
            found.append(template)
    return found


def _dict(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _template(rng: random.Random, raw: Json) -> None:
    for template in _templates(raw)[:1]:
        template["metadata"] = rng.choice(
            (
                {"namespace": "kube-system", "name": "evil", "generateName": "x-", "uid": "u", "resourceVersion": "1"},
                {"ownerReferences": [FOREIGN_OWNER], "finalizers": ["example.com/for-ever"]},
                {"labels": dict.fromkeys(OUR_LABELS, "evil")},
                {"labels": {text(rng): text(rng)}, "annotations": {text(rng): text(rng)}},
                {"annotations": dict.fromkeys(("Preempted", "Failed", "NodeFail"), text(rng))},
            )
        )
        template["spec"] |= rng.choice(
            (
                {"restartPolicy": "Always"},
                {"nodeName": text(rng)},
                {"hostNetwork": True, "dnsPolicy": text(rng)},
                {"containers": [*template["spec"]["containers"], copy.deepcopy(template["spec"]["containers"][0])]},
                {
                    "initContainers": [
                        {"name": "i", "image": "x", "env": [{"name": rng.choice(OUR_VARIABLES), "value": "evil"}]}
                    ]
                },
                {"initContainers": anything(rng)},
                {text(rng): anything(rng)},
                {"schedulerName": text(rng)},
            )
        )


def _environment(rng: random.Random, raw: Json) -> None:
    for template in _templates(raw):
        for container in template["spec"]["containers"]:
            container["env"] = [
                rng.choice(
                    (
                        {"name": rng.choice(OUR_VARIABLES), "value": text(rng)},
                        {"name": rng.choice(OUR_VARIABLES), "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                        {"name": text(rng), "value": anything(rng)},
                        {"value": "no name"},
                    )
                )
                for _ in range(rng.randint(1, 5))
            ]
            if rng.random() < 0.4:
                container["envFrom"] = [{"secretRef": {"name": "theirs"}}]
            if rng.random() < 0.4:
                container["ports"] = [
                    {
                        "name": rng.choice(("aitj-1", "aitj-" + text(rng)[:9], text(rng))),
                        "containerPort": rng.choice((1, 7164, 65535, 65536, 0, "7164", 1.5, None)),
                    }
                    for _ in range(rng.randint(1, 4))
                ]


def _metadata(rng: random.Random, raw: Json) -> None:
    what = rng.choice(("labels", "annotations"))
    keys = OUR_LABELS if what == "labels" else ("Preempted", "Failed", "NodeFail", "fake.localcluster/run-seconds")
    raw["metadata"][what] = {**_dict(raw["metadata"].get(what)), rng.choice(keys): text(rng), text(rng): text(rng)}


def _status(rng: random.Random, raw: Json) -> None:
    roles = rng.choice(
        (
            {"trainer": {"all": rng.choice((-5, 2**63 - 1, "3", None)), "pods": {text(rng): anything(rng)}}},
            {"ps": {"completed": text(rng), "failed": text(rng)}},
            anything(rng),
        )
    )
    raw["status"] = {
        **_dict(raw.get("status")),
        **rng.choice(
            (
                {"attempts": {"job": anything(rng), "roles": roles}},
                {"conditions": anything(rng)},
                {"startTime": text(rng), "suspendTime": text(rng), "startRunningTime": text(rng)},
                {"replicaStatuses": anything(rng)},
                {"creatingSince": {"trainer": {text(rng): text(rng)}}},
                {"missingNodes": {text(rng): text(rng)}},
                {"failures": [{"pod": text(rng), "time": text(rng), "exitCode": anything(rng)}]},
                {"ending": anything(rng)},
                {"phase": rng.choice(("Running", "Succeed", text(rng)))},
                {"completionTime": text(rng), "phase": "Succeed"},
            )
        ),
    }


def _role(rng: random.Random, raw: Json) -> None:
    spec = raw.get("spec")
    roles = spec.get("replicaSpecs") if isinstance(spec, dict) else None
    if isinstance(roles, dict) and roles:
        name = rng.choice((text(rng), "trainingjob", "Trainer", "trainer", "default", "a-b-c", "kube-system", "t" * 40))
        roles[name] = copy.deepcopy(roles[min(roles)])


# -- what must hold --------------------------------------------------------------------------------


@dataclass
class Recorder:
    """A Transport that answers every request with an object, and keeps where it went."""

    paths: list[str]

    def request(self, method: str, path: str, **more: Any) -> HttpResponse:
        self.paths.append(path)
        return HttpResponse(200, b'{"metadata": {"uid": "u", "resourceVersion": "8"}}', {})

    def stream(self, path: str, **more: Any) -> Stream:
        raise NotImplementedError

    def close(self) -> None: ...


def harm(raw: Json, resource: GroupResource = AITRAININGJOBS) -> list[str]:
    """What this job could do that it must not. Raises nothing but for a bug."""
    raw = orjson.loads(orjson.dumps(raw))
    record = project(resource, raw)
    assert record is not None
    read = orjson.loads(record.change.record or b"{}")
    if read.get("finished"):
        read = raw
    job = parse(resource, read)
    now = 1_767_225_600.0
    plan = reconcile(job, Observed(seen={NODES: 1}), now, RULES)
    wrong = list(_requests_elsewhere(job, plan))
    if plan.status is not None:
        said = orjson.dumps(plan.status.to_json()).decode()
        wrong += (
            [f"a traceback in the status: {said[:300]}"] if "Traceback" in said and "Traceback" not in str(raw) else []
        )
    if isinstance(job, TrainingJob):
        for write in plan.writes:
            if isinstance(write, Create) and write.resource == PODS and not _is_a_tensorboard(write):
                wrong += [f"pod {write.name}: {what}" for what in _overridden(job, write.body)]
    return wrong


def _requests_elsewhere(job: TrainingJob | InvalidJob, plan: Plan) -> Iterator[str]:
    recorder = Recorder([])
    client = KubeClient(recorder)
    for write in plan.writes:
        if isinstance(write, Create):
            client.create(write.resource, job.name.namespace, write.body)
            if write.body["metadata"]["namespace"] != NAMESPACE or write.body["metadata"]["name"] != write.name:
                yield f"the body of {write.name} says {write.body['metadata']}"
        elif isinstance(write, Delete):
            client.delete(write.resource, job.name.namespace, write.name, uid=write.uid)
        else:
            client.merge_patch(write.resource, job.name.namespace, write.name, write.body)
    for path in recorder.paths:
        parts = path.split("/")
        at = parts.index(NAMESPACES) if NAMESPACES in parts else -1
        fixed = not set(path) & set("?#%\n\r \\") and ".." not in parts
        if not fixed or at < 0 or parts[at + 1] != NAMESPACE or len(parts) - at not in (3, 4):
            yield f"a request to {path}"


def _is_a_tensorboard(write: Create) -> bool:
    return labels.TENSORBOARD_CONFIG in write.body["metadata"]["labels"]


def _overridden(job: TrainingJob, body: Mapping[str, Any]) -> Iterator[str]:
    meta = body["metadata"]
    role = next((r for r in job.roles if r.name == meta["labels"].get(labels.REPLICA_NAME)), None)
    if role is None:
        yield f"label {labels.REPLICA_NAME} is {meta['labels'].get(labels.REPLICA_NAME)!r}"
        return
    index = int(meta["labels"][labels.REPLICA_INDEX])
    want = {
        labels.JOB_NAME: job.name.name,
        labels.JOB_UID: job.uid,
        labels.GROUP_NAME: job.api_version.partition("/")[0],
        labels.REPLICA_TYPE: role.name.lower() if job.guest_labels and not job.guest_labels.prefix else role.name,
    }
    for key, value in want.items():
        if meta["labels"].get(key) != value:
            yield f"label {key} is {meta['labels'].get(key)!r}, not {value!r}"
    owners = [(o["kind"], o["uid"], o["controller"]) for o in meta["ownerReferences"]]
    if owners != [(job.kind, job.uid, True)]:
        yield f"owners {owners}"
    unknown = set(meta) - {"name", "namespace", "labels", "annotations", "ownerReferences"}
    if unknown:
        yield f"metadata {sorted(unknown)} of the user's"
    if body["spec"]["restartPolicy"] != "Never":
        yield "kubelet restarts it"
    attempt = int(meta["labels"][labels.RESTART_ATTEMPT])
    ours = {**replica_environment(job, role, index, attempt), **role_environment(job)}
    if labels.ANNOTATION_NETWORK_MODE in job.annotations:  # the pass has drawn its ports
        ours = {name: value for name, value in ours.items() if not re.search("PORT|HOST", name)}
    for kind in ("initContainers", "containers"):
        for container in body["spec"].get(kind) or ():
            for name, value in ours.items():
                found = [e for e in container["env"] if isinstance(e, Mapping) and e.get("name") == name]
                if found != [{"name": name, "value": value.replace("$", "$$")}]:
                    yield f"{kind} {container.get('name')}: variable {name} is {found}"
