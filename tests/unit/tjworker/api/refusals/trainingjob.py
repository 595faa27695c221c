"""Manifests of a TrainingJob: accepted ones, and those that are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.builders import make_training_job
from tests.unit.tjworker.api.refusals.case import GANG, Json, Refusal


def _job(name: str = "digits", **fields: Any) -> Json:
    return make_training_job(name, **fields).manifest()


def _elastic(least: int, most: int, **fields: Any) -> Json:
    return _job(least=least, most=most, fault_tolerant=True, **fields)


def _without(part: str) -> Json:
    manifest = _job()
    del manifest["spec"][part]
    return manifest


def _edit(change: Callable[[Json], object]) -> Json:
    manifest = _job()
    change(manifest)
    return manifest


CASES: dict[str, Refusal] = {
    # -- accepted ----------------------------------------------------------------------------------
    "trainers alone": Refusal({**_job(), "spec": {"trainer": {}}}),
    "the older version": Refusal(_edit(lambda m: m.update(apiVersion="paddlepaddle.org/v1alpha1"))),
    "an elastic job": Refusal(_elastic(2, 6)),
    "a local job with bounds that it does not use": Refusal(_job(least=2, most=6, local_job=True)),
    "the longest name that fits": Refusal(_job("j" * 49)),
    "a name that starts with a digit": Refusal(_job("2digits")),
    "zero values, as Go clients write them": Refusal(
        _job(image="", port=0, passes=0, trainer={"passes": 0, "max-instance": 0})
    ),
    "fields of earlier operators": Refusal(
        _job(
            mountpath="/mnt",
            nfsmount=[{"path": "/a"}],
            matrix=True,
            trainer={"index_succeed": False, "replicaSpec": {"replicas": 1}, "etcd-endpoint": "a:2379"},
        )
    ),
    "passes of the trainer": Refusal(_job(trainer={"passes": 50})),
    "quantities as numbers and as words": Refusal(
        _job(
            trainer={
                "resources": {"limits": {"cpu": 2, "memory": "1.5Gi"}, "requests": {"cpu": "500m", "memory": "1e9"}}
            }
        )
    ),
    "an entrypoint with quoted words": Refusal(_job(trainer={"entrypoint": "sh -c 'exit \"3\"' \\'"})),
    "an entrypoint of several lines": Refusal(_job(trainer={"entrypoint": "sh -c 'set -e\ntrain'"})),
    "any field of a volume, a toleration and a probe": Refusal(
        _job(
            volumes=[{"name": "data", "nfs": {"server": "a", "path": "/b"}}],
            VolumeMounts=[{"name": "data", "mountPath": "/d"}],
            trainer={"tolerations": [{"operator": "Exists"}], "liveness_probe": {"exec": {"command": ["true"]}}},
        )
    ),
    "the last port": Refusal(_job(port=65_534)),
    "ten thousand trainers": Refusal(_job(least=10_000)),
    "no parameter servers": Refusal(_job(pservers=0)),
    # -- trainers ----------------------------------------------------------------------------------
    "no spec": Refusal(_edit(lambda m: m.pop("spec")), "spec.trainer"),
    "no trainers": Refusal(_without("trainer"), "spec.trainer"),
    "a min-instance of zero": Refusal(_job(least=0), "spec.trainer.min-instance"),
    "a min-instance in words": Refusal(_job(least="two"), "spec.trainer.min-instance"),
    "a million trainers": Refusal(_elastic(1, 1_000_000), "spec.trainer.max-instance"),
    "a max-instance below min-instance": Refusal(_elastic(3, 2), "spec.trainer.max-instance"),
    "a max-instance of the parameter servers below their min-instance": Refusal(
        _job(pservers=3, pserver={"max-instance": 2}), "spec.pserver.max-instance"
    ),
    "an elastic job that is not fault tolerant": Refusal(_job(least=2, most=6), "spec.trainer.max-instance"),
    "two masters": Refusal(_job(fault_tolerant=True, master={"min-instance": 2}), "spec.master.min-instance"),
    # -- what a pod gets ---------------------------------------------------------------------------
    "a quantity that is none": Refusal(
        _job(trainer={"resources": {"limits": {"cpu": "2 cores"}}}), "spec.trainer.resources.limits.cpu"
    ),
    "a quantity below zero": Refusal(
        _job(pserver={"resources": {"requests": {"cpu": "-1"}}}), "spec.pserver.resources.requests.cpu"
    ),
    "a number below zero as a quantity": Refusal(
        _job(pserver={"resources": {"requests": {"cpu": -1}}}), "spec.pserver.resources.requests.cpu"
    ),
    "a fraction that is no text": Refusal(
        _job(trainer={"resources": {"limits": {"cpu": 0.5}}}), "spec.trainer.resources.limits.cpu"
    ),
    "a quotation mark that is not closed": Refusal(
        _job(trainer={"entrypoint": "sh -c 'train"}), "spec.trainer.entrypoint"
    ),
    "a backslash at the end": Refusal(_job(pserver={"entrypoint": "serve \\"}), "spec.pserver.entrypoint"),
    "a variable that is no text": Refusal(_job(trainer={"envs": {"A": 1}}), "spec.trainer.envs.A"),
    "a mount of no volume": Refusal(
        _job(VolumeMounts=[{"name": "data", "mountPath": "/d"}]), "spec.VolumeMounts[0].name"
    ),
    "two volumes of one name": Refusal(
        _job(volumes=[{"name": "data", "emptyDir": {}}, {"name": "data", "emptyDir": {}}]), "spec.volumes"
    ),
    "two mounts at one path": Refusal(
        _job(volumes=[{"name": "a", "emptyDir": {}}], VolumeMounts=[{"name": "a", "mountPath": "/d"}] * 2),
        "spec.VolumeMounts",
    ),
    "a priority that is no label": Refusal(_job(annotations={"priority": "very high"}), "spec.annotations.priority"),
    "a grace period below zero": Refusal(
        _job(trainer={"grace_period_seconds": -1}), "spec.trainer.grace_period_seconds"
    ),
    # -- the job -----------------------------------------------------------------------------------
    "a field that is not there": Refusal(_job(trainer={"minInstance": 2})),
    "a port that is no port": Refusal(_job(port=70_000), "spec.port"),
    "ports beyond the last": Refusal(_job(port=65_535), "spec.port"),
    "ports beyond the last, as zero is the default": Refusal(
        _job(port=65_535, ports_num=0, ports_num_for_sparse=0), "spec.port"
    ),
    "any field of a security context": Refusal(
        _job(podSecurityContext={"runAsNonRoot": True}, securityContext={"capabilities": {"drop": ["ALL"]}})
    ),
    "a security context in a word": Refusal(_job(securityContext="restricted"), "spec.securityContext"),
    "ports of a trainer beyond the last": Refusal(
        _job(trainer_port=65_500, trainer_ports_num=200), "spec.trainer_port"
    ),
    "an unknown type of framework": Refusal(_job(frame_work={"type": "gloo"}), "spec.frame_work.type"),
    "a framework without a type": Refusal(_job(frame_work={"name": "paddle"}), "spec.frame_work.type"),
    "a walltime below zero": Refusal(_job(annotations={"walltime": -1}), "spec.annotations.walltime"),
    "fault_tolerant as a word": Refusal(_job(fault_tolerant="yes"), "spec.fault_tolerant"),
    "a minAvailable of all replicas": Refusal(
        _job(fault_tolerant=True, runPolicy={"backoffLimit": 3, "schedulingPolicy": {"minAvailable": 5}})
    ),
    "a minAvailable above the sum of replicas": Refusal(
        _job(runPolicy={"schedulingPolicy": {"minAvailable": 5}}), f"{GANG}.minAvailable"
    ),
    "a minAvailable above a local job's one trainer": Refusal(
        _job(least=3, local_job=True, runPolicy={"schedulingPolicy": {"minAvailable": 2}}), f"{GANG}.minAvailable"
    ),
    "a cleanPodPolicy that there is not": Refusal(
        _job(runPolicy={"cleanPodPolicy": "Some"}), "spec.runPolicy.cleanPodPolicy"
    ),
    # -- names -------------------------------------------------------------------------------------
    "a name one too long": Refusal(_job("j" * 50), "metadata.name"),
    "a name with a dot": Refusal(_job("digits.v2"), "metadata.name"),
    # -- changes -----------------------------------------------------------------------------------
    "scaling an elastic job": Refusal(_elastic(4, 6), after=_elastic(2, 6)),
    "scaling above the most": Refusal(_elastic(7, 6), "spec.trainer.max-instance", after=_elastic(2, 6)),
    "another most": Refusal(_elastic(2, 9), after=_elastic(2, 6)),
    "scaling a job that is not fault tolerant": Refusal(_job(least=3), after=_job(least=2)),
    "scaling a local job": Refusal(
        _job(least=3, local_job=True, fault_tolerant=True), after=_job(least=2, local_job=True, fault_tolerant=True)
    ),
    "becoming fault tolerant": Refusal(_job(fault_tolerant=True), after=_job()),
    "becoming an nccl job": Refusal(_job(is_nccl=True), after=_job()),
    "saying the same in other words": Refusal(_job(frame_work={"type": "nccl2"}), after=_job(is_nccl=True)),
}
