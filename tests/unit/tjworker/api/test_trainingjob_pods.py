"""A TrainingJob's pods: where each field of the spec arrives, and what stands there when it is not given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from tests.support.builders import JobBuilder, make_training_job
from tjworker.api.kinds.trainingjob import ANNOTATION_ETCD_IMAGE, spec

Json = dict[str, Any]
ROLES = ("master", "pserver", "trainer")
TOLERATIONS = [{"key": "gpu", "operator": "Exists"}]
PROBE = {"exec": {"command": ["true"]}, "periodSeconds": 5}
RESOURCES = {"limits": {"cpu": "2", "nvidia.com/gpu": 4}, "requests": {"cpu": "1500m"}}


def tolerant(**fields: Any) -> JobBuilder:
    return make_training_job(fault_tolerant=True, **fields)


def pod(job: JobBuilder, role: str = "trainer") -> Json:
    template: Any = job.build().role(role).template
    return template["spec"]  # type: ignore[no-any-return]


def main(job: JobBuilder, role: str = "trainer") -> Json:
    container: Json = pod(job, role)["containers"][0]
    return container


def env(job: JobBuilder, role: str = "trainer") -> dict[str, Any]:
    return {e["name"]: e.get("value", e.get("valueFrom")) for e in main(job, role)["env"]}


def metadata(job: JobBuilder, role: str = "trainer") -> Json:
    template: Any = job.build().role(role).template
    return template["metadata"]  # type: ignore[no-any-return]


def numbers(job: JobBuilder, role: str = "trainer") -> list[int]:
    return [port["containerPort"] for port in main(job, role).get("ports", ())]


@dataclass(frozen=True)
class Case:
    got: Callable[[], Any]
    want: Any
    fields: tuple[str, ...] = ()
    """Of the spec, that this shows to arrive: `port`, `trainer.envs`."""


CASES: dict[str, Case] = {
    # -- containers --------------------------------------------------------------------------------
    "the image is that of all roles": Case(
        lambda: [main(tolerant(image="a:1"), role)["image"] for role in ROLES], ["a:1"] * 3, ("image",)
    ),
    "the master has an etcd beside it": Case(
        lambda: [c["name"] for c in pod(tolerant(), "master")["containers"]], ["master", "etcd"], ("fault_tolerant",)
    ),
    "its image may come from another registry": Case(
        lambda: pod(tolerant().annotate({ANNOTATION_ETCD_IMAGE: "here/etcd:1"}), "master")["containers"][1]["image"],
        "here/etcd:1",
    ),
    "a container has the name of its role": Case(lambda: [main(tolerant(), role)["name"] for role in ROLES], [*ROLES]),
    "commands of a fault-tolerant job": Case(
        lambda: [main(tolerant(), role)["command"] for role in ROLES],
        [["paddle_k8s", "start_master"], ["paddle_k8s", "start_new_pserver"], ["paddle_k8s", "start_new_trainer"]],
    ),
    "an entrypoint is split as a shell splits words": Case(
        lambda: main(make_training_job(trainer={"entrypoint": "sh -c 'train --name \"a b\"'  --last\\ one"}))[
            "command"
        ],
        ["sh", "-c", 'train --name "a b"', "--last one"],
        ("trainer.entrypoint",),
    ),
    "each role has its own": Case(
        lambda: [
            main(tolerant(master={"entrypoint": "m 1"}, pserver={"entrypoint": "p 2"}), r)["command"]
            for r in ("master", "pserver")
        ],
        [["m", "1"], ["p", "2"]],
        ("master.entrypoint", "pserver.entrypoint"),
    ),
    "ports of a parameter server": Case(
        lambda: main(make_training_job(port=6000, ports_num=2), "pserver")["ports"],
        [{"name": f"jobport-{n}", "containerPort": n} for n in (6000, 6001, 6002)],
        ("port", "ports_num", "ports_num_for_sparse"),
    ),
    "unless it is given some": Case(
        lambda: numbers(make_training_job(trainer_port=9000, trainer_ports_num=2)),
        [9000, 9001],
        ("trainer_port", "trainer_ports_num"),
    ),
    "a trainer of an nccl job listens where the parameter servers would": Case(
        lambda: numbers(make_training_job(is_nccl=True)), [7164, 7165], ("is_nccl",)
    ),
    "a trainer of frame_work nccl2 listens on its own ports": Case(
        lambda: numbers(make_training_job(frame_work={"type": "nccl2"}, trainer_port=9000, trainer_ports_num=1)),
        [9000],
        ("frame_work.type",),
    ),
    "a local trainer listens nowhere": Case(
        lambda: numbers(make_training_job(local_job=True, trainer_port=9000, trainer_ports_num=1)), [], ("local_job",)
    ),
    "their values": Case(
        lambda: {
            k: v
            for k, v in env(
                make_training_job(
                    least=3,
                    pservers=4,
                    port=6000,
                    ports_num=2,
                    ports_num_for_sparse=0,
                    passes=7,
                    trainer={"entrypoint": "python t.py", "workspace": "/w"},
                ),
                "pserver",
            ).items()
            if isinstance(v, str)
        },
        {
            "PADDLE_JOB_NAME": "digits",
            "TRAINERS": "3",
            "PSERVERS": "4",
            "ENTRY": "python t.py",
            "TOPOLOGY": "python t.py",
            "TRAINER_PACKAGE": "/w",
            "PADDLE_INIT_PORT": "6000",
            "PADDLE_INIT_TRAINER_COUNT": "1",
            "PADDLE_INIT_PORTS_NUM": "2",
            "PADDLE_INIT_PORTS_NUM_FOR_SPARSE": "1",
            "PADDLE_INIT_NUM_GRADIENT_SERVERS": "3",
            "PADDLE_INIT_NUM_PASSES": "7",
            "PADDLE_INIT_USE_GPU": "0",
            "LD_LIBRARY_PATH": "/usr/local/cuda/lib64",
        },
        ("passes", "trainer.workspace", "trainer.min-instance", "pserver.min-instance"),
    ),
    "the pod tells its name, its address and its namespace": Case(
        lambda: [
            env(make_training_job())[name]["fieldRef"]["fieldPath"] for name in ("NAMESPACE", "POD_IP", "POD_NAME")
        ],
        ["metadata.namespace", "status.podIP", "metadata.name"],
    ),
    "an elastic job says its least number of trainers": Case(
        lambda: env(tolerant(least=2, most=9))["TRAINERS"], "2", ("trainer.max-instance",)
    ),
    "passes of the trainer win": Case(
        lambda: env(make_training_job(passes=7, trainer={"passes": 50}))["PADDLE_INIT_NUM_PASSES"],
        "50",
        ("trainer.passes",),
    ),
    "GPUs are counted": Case(
        lambda: [
            env(make_training_job(trainer={"resources": RESOURCES}))[n]
            for n in ("PADDLE_INIT_USE_GPU", "PADDLE_INIT_TRAINER_COUNT")
        ],
        ["1", "4"],
    ),
    "without GPUs, a part of a CPU counts as one": Case(
        lambda: env(make_training_job(trainer={"resources": {"requests": {"cpu": "2100m"}}}))[
            "PADDLE_INIT_TRAINER_COUNT"
        ],
        "3",
    ),
    "a role's own variable wins and stands there once": Case(
        lambda: [
            e
            for e in main(make_training_job(trainer={"envs": {"LD_LIBRARY_PATH": "/mine"}}))["env"]
            if e["name"] == "LD_LIBRARY_PATH"
        ],
        [{"name": "LD_LIBRARY_PATH", "value": "/mine"}],
        ("trainer.envs",),
    ),
    "each role has its own variables": Case(
        lambda: [
            env(tolerant(master={"envs": {"X": "m"}}, pserver={"envs": {"X": "p"}}), r)["X"]
            for r in ("master", "pserver")
        ],
        ["m", "p"],
        ("master.envs", "pserver.envs"),
    ),
    "each role may have its own workspace": Case(
        lambda: [
            env(tolerant(trainer={"workspace": "/t"}, pserver={"workspace": "/p"}, master={"workspace": "/m"}), r)[
                "TRAINER_PACKAGE"
            ]
            for r in ROLES
        ],
        ["/m", "/p", "/t"],
        ("master.workspace", "pserver.workspace"),
    ),
    # -- the pod -----------------------------------------------------------------------------------
    "a trainer that has ended stays ended, the others are kept": Case(
        lambda: [pod(tolerant(), role)["restartPolicy"] for role in ROLES], ["Always", "Always", "Never"]
    ),
    "the network of the node": Case(
        lambda: [
            (pod(tolerant(host_network=True), r)["hostNetwork"], pod(tolerant(host_network=True), r)["dnsPolicy"])
            for r in ROLES
        ],
        [(True, "ClusterFirstWithHostNet")] * 3,
        ("host_network",),
    ),
    "security of each pod, and of each container": Case(
        lambda: [
            (p["securityContext"], [c["securityContext"] for c in p["containers"]])
            for p in (pod(tolerant(podSecurityContext={"a": 1}, securityContext={"a": 2}), r) for r in ROLES)
        ],
        [({"a": 1}, [{"a": 2}] * n) for n in (2, 1, 1)],
        ("podSecurityContext", "securityContext"),
    ),
    "a scheduler of its own": Case(
        lambda: pod(make_training_job(schedulerName="kube-batchd"))["schedulerName"], "kube-batchd", ("schedulerName",)
    ),
    "annotations.scheduler wins": Case(
        lambda: pod(make_training_job(schedulerName="a", annotations={"scheduler": "b"}))["schedulerName"],
        "b",
        ("annotations.scheduler",),
    ),
    "volumes and mounts": Case(
        lambda: [
            (pod(j, r)["volumes"], main(j, r)["volumeMounts"])
            for j in [
                tolerant(
                    volumes=[{"name": "d", "nfs": {"server": "s", "path": "/x"}}],
                    VolumeMounts=[{"name": "d", "mountPath": "/d", "readOnly": True}],
                )
            ]
            for r in ROLES
        ],
        [([{"name": "d", "nfs": {"server": "s", "path": "/x"}}], [{"name": "d", "mountPath": "/d", "readOnly": True}])]
        * 3,
        ("volumes", "VolumeMounts"),
    ),
    "mountPath takes the first volume that is not mounted": Case(
        lambda: main(
            make_training_job(
                volumes=[{"name": "a", "emptyDir": {}}, {"name": "b", "emptyDir": {}}],
                VolumeMounts=[{"name": "a", "mountPath": "/a"}],
                mountPath="/b",
            )
        )["volumeMounts"],
        [{"name": "a", "mountPath": "/a"}, {"name": "b", "mountPath": "/b"}],
        ("mountPath",),
    ),
    # -- metadata ----------------------------------------------------------------------------------
    "the labels that scripts on clusters select by": Case(
        lambda: [metadata(tolerant(), role)["labels"] for role in ROLES],
        [{"paddle-job-master": "digits"}, {"paddle-job-pserver": "digits"}, {"paddle-job": "digits"}],
    ),
    "the priority is a label": Case(
        lambda: metadata(make_training_job(annotations={"priority": "high"}))["labels"],
        {"paddle-job": "digits", "priority": "high"},
        ("annotations.priority",),
    ),
    "the pod group, as kube-batch reads it, and whose job it is": Case(
        lambda: metadata(make_training_job(podGroupName="g", annotations={"userid": "u", "usergroupid": "v"}))[
            "annotations"
        ],
        {"scheduling.k8s.io/group-name": "g", "userid": "u", "usergroupid": "v"},
        ("podGroupName", "annotations.userid", "annotations.usergroupid"),
    ),
}
ROLE_FIELDS: dict[str, tuple[Any, Callable[[Json], Any], Any]] = {
    "resources": (RESOURCES, lambda p: p["containers"][0]["resources"], RESOURCES),
    "imagePullSecrets": ([{"name": "s"}], lambda p: p["imagePullSecrets"], [{"name": "s"}]),
    "grace_period_seconds": (0, lambda p: p["terminationGracePeriodSeconds"], 0),
    "pre_stop_cmd": (
        ["sh", "-c", "save"],
        lambda p: p["containers"][0]["lifecycle"]["preStop"]["exec"]["command"],
        ["sh", "-c", "save"],
    ),
    "tolerations": (TOLERATIONS, lambda p: p["tolerations"], TOLERATIONS),
    "node_selector": ({"disk": "ssd"}, lambda p: p["nodeSelector"], {"disk": "ssd"}),
    "liveness_probe": (PROBE, lambda p: p["containers"][0]["livenessProbe"], PROBE),
    "readiness_probe": (PROBE, lambda p: p["containers"][0]["readinessProbe"], PROBE),
}
"""Field of every role: what is given, where it arrives in the pod, what arrives."""
NOT_IN_A_POD = {
    **dict.fromkeys(("runPolicy", "suspend"), "of the job as a whole"),
    "annotations.walltime": "the job's limit of time",
    "frame_work.name": "a note: an EDL job has the variables of PaddlePaddle EDL",
    **dict.fromkeys(("master.min-instance", "master.max-instance"), "there is one master"),
    "pserver.max-instance": "parameter servers are not scaled",
    **dict.fromkeys(
        (
            *("mountpath", "nfsmount", "matrix"),
            *(f"{role}.{name}" for role in ROLES for name in ("etcd-endpoint", "index_succeed", "replicaSpec")),
        ),
        "without effect",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_where_it_arrives(case: Case) -> None:
    assert case.got() == case.want


@pytest.mark.parametrize("field", ROLE_FIELDS)
@pytest.mark.parametrize("role", ROLES)
def test_a_field_of_a_role_arrives_in_its_pods_and_in_no_others(role: str, field: str) -> None:
    given, read, want = ROLE_FIELDS[field]
    job = tolerant(**({"master": {}} | {role: {field: given}}))
    assert read(pod(job, role)) == want
    for other in {*ROLES} - {role}:
        if (role, field) != ("trainer", "imagePullSecrets"):  # the image is the same, so are the secrets
            with pytest.raises(KeyError):
                read(pod(job, other))


def test_every_field_of_the_spec_is_in_a_table() -> None:
    parts: dict[str, type[BaseModel]] = {
        "master": spec.Master,
        "pserver": spec.Pserver,
        "trainer": spec.Trainer,
        "annotations": spec.Annotations,
        "frame_work": spec.FrameworkSpec,
    }
    whole: set[str] = set()
    for name, field in spec.TrainingJobSpec.model_fields.items():
        if name in parts:
            whole |= {f"{name}.{inner.alias or key}" for key, inner in parts[name].model_fields.items()}
        else:
            whole.add(field.alias or name)
    shown = {f for case in CASES.values() for f in case.fields} | {
        f"{role}.{field}" for role in ROLES for field in ROLE_FIELDS
    }
    assert whole - shown - NOT_IN_A_POD.keys() == set()
    assert shown - whole == set()
