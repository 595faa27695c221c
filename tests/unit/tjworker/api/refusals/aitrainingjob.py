"""Manifests of an AITrainingJob: accepted ones, and those that are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.builders import JobBuilder, make_job
from tests.unit.tjworker.api.refusals.case import GANG, Json, Refusal

TRAINER = "spec.replicaSpecs.trainer"


def _job(name: str = "digits") -> JobBuilder:
    return make_job(name).role("trainer", 2)


def _edit(change: Callable[[Json], object], job: JobBuilder | None = None) -> Json:
    manifest = (job or _job()).manifest()
    change(manifest)
    return manifest


def _container(change: Callable[[Json], object]) -> Json:
    return _edit(lambda m: change(m["spec"]["replicaSpecs"]["trainer"]["template"]["spec"]["containers"][0]))


def _pod(change: Callable[[Json], object]) -> Json:
    return _edit(lambda m: change(m["spec"]["replicaSpecs"]["trainer"]["template"]["spec"]))


def _trainer(**fields: Any) -> JobBuilder:
    return make_job().role("trainer", 2, **fields)


def _with_batch_size(**fields: Any) -> Json:
    batch = {"initial": 128, "max": 4096, "perReplicaMax": 256} | fields
    return _edit(lambda m: m["spec"]["replicaSpecs"]["trainer"].update(batchSize=batch))


def _five_roles(replicas: int, one_more: int = 0) -> JobBuilder:
    job = make_job()
    for number in range(5):
        job = job.role(f"r{number}", replicas)
    return job.role("more", one_more) if one_more else job


def _serving(name: str, number: int) -> Json:
    port = {"name": "aitj-port", "containerPort": number}
    return {"name": f"aitj-{name}", "image": "a", "ports": [port]}


CASES: dict[str, Refusal] = {
    # -- accepted ----------------------------------------------------------------------------------
    "a plain job": Refusal(_job()),
    "numbers as quantities": Refusal(
        _container(lambda c: c.update(resources={"limits": {"cpu": 1.0, "memory": 1000000}}))
    ),
    "any field of a pod": Refusal(
        _pod(lambda s: s.update(tolerations=[{"operator": "Exists"}], dnsConfig={"x": ["y"]}))
    ),
    "generated template metadata": Refusal(
        _edit(
            lambda m: m["spec"]["replicaSpecs"]["trainer"]["template"].update(
                metadata={"creationTimestamp": None, "labels": {"a": "b"}}
            )
        )
    ),
    "an elastic role": Refusal(_trainer(least=1, most=6, edl="Auto")),
    "a batch size": Refusal(_with_batch_size(perReplicaMin=16)),
    "a batch size that does not move": Refusal(_with_batch_size(initial=256, max=256, perReplicaMin=256)),
    "role names with capitals": Refusal(make_job().role("PS", 1).role("Worker", 2)),
    "spec.replicas of an elastic role of any name": Refusal(
        make_job().role("Worker", 1, most=3).role("ps", 2).spec(replicas=3)
    ),
    "spec.replicas of a trainer without bounds": Refusal(_job().role("worker", 1, most=3).spec(replicas=100)),
    "spec.replicas makes minAvailable possible": Refusal(
        _job().spec(replicas=5).run_policy(schedulingPolicy={"minAvailable": 5})
    ),
    "sixteen roles": Refusal(
        _edit(
            lambda m: m["spec"].update(replicaSpecs={f"r{i}": m["spec"]["replicaSpecs"]["trainer"] for i in range(16)})
        )
    ),
    "a role without pods beside one with pods": Refusal(_job().role("evaluator", 0)),
    "spaces between exit codes": Refusal(_job().spec(restartingExitCode="137, 143 ,0")),
    "the same clean-up policy twice": Refusal(
        _job().spec(cleanPodPolicy="Running").run_policy(cleanPodPolicy="Running")
    ),
    "a clean-up policy in runPolicy alone": Refusal(_job().run_policy(cleanPodPolicy="Running")),
    "a minAvailable of all replicas": Refusal(
        _job().role("pserver", 3).run_policy(schedulingPolicy={"minAvailable": 5})
    ),
    "the longest name that fits": Refusal(_job("j" * 53)),
    "ten thousand replicas": Refusal(make_job().role("trainer", 10_000)),
    "fifty thousand replicas": Refusal(_five_roles(10_000)),
    "one replica more than that": Refusal(_five_roles(10_000, one_more=1), "spec.replicaSpecs"),
    # -- roles -------------------------------------------------------------------------------------
    "no roles": Refusal(make_job(), "spec.replicaSpecs"),
    "seventeen roles": Refusal(
        _edit(
            lambda m: m["spec"].update(replicaSpecs={f"r{i}": m["spec"]["replicaSpecs"]["trainer"] for i in range(17)})
        ),
        "spec.replicaSpecs",
    ),
    "two ports of one name that count": Refusal(
        make_job().role("trainer", template={"spec": {"containers": [_serving("a", 1), _serving("b", 2)]}}),
        f"{TRAINER}.template.spec.containers",
    ),
    "two role names that differ in case alone": Refusal(make_job().role("PS", 1).role("ps", 1), "spec.replicaSpecs"),
    "spec.replicas of no elastic role": Refusal(make_job().role("worker", 1).spec(replicas=2), "spec.replicas"),
    "spec.replicas of a role that is never scaled": Refusal(
        make_job().role("trainer", 1, edl="Never").spec(replicas=2), "spec.replicas"
    ),
    "spec.replicas of two elastic roles": Refusal(
        make_job().role("a", 1, most=3).role("b", 1, most=3).spec(replicas=2), "spec.replicas"
    ),
    "spec.replicas above the most": Refusal(make_job().role("worker", 1, most=3).spec(replicas=4), "spec.replicas"),
    "spec.replicas below the least": Refusal(
        make_job().role("worker", 2, least=1).spec(replicas=0).role("ps", 1), "spec.replicas"
    ),
    "spec.replicas that leaves no pod": Refusal(_job().spec(replicas=0), "spec.replicaSpecs"),
    "spec.replicas that is too long for a pod's name": Refusal(_job("j" * 53).spec(replicas=11), "metadata.name"),
    "a role name that starts with a digit": Refusal(make_job().role("2nd", 1), "spec.replicaSpecs.2nd"),
    "a role name with an underscore": Refusal(make_job().role("data_loader", 1), "spec.replicaSpecs.data_loader"),
    "the reserved role name": Refusal(make_job().role("trainingjob", 1), "spec.replicaSpecs.trainingjob"),
    "no replicas at all": Refusal(make_job().role("trainer", 0), "spec.replicaSpecs"),
    "more than ten thousand replicas": Refusal(make_job().role("trainer", 10_001), f"{TRAINER}.replicas"),
    "replicas below zero": Refusal(make_job().role("trainer", -1), f"{TRAINER}.replicas"),
    "replicas as a word": Refusal(
        make_job().role("trainer", "two"),  # type: ignore[arg-type]
        f"{TRAINER}.replicas",
    ),
    "replicas as a fraction": Refusal(
        make_job().role("trainer", 1.5),  # type: ignore[arg-type]
        f"{TRAINER}.replicas",
    ),
    "replicas below minReplicas": Refusal(_trainer(least=3), f"{TRAINER}.replicas"),
    "replicas above maxReplicas": Refusal(_trainer(most=1), f"{TRAINER}.replicas"),
    "a batch size that begins beyond its end": Refusal(_with_batch_size(initial=4097), f"{TRAINER}.batchSize.initial"),
    "a replica that takes more of a batch than it can hold": Refusal(
        _with_batch_size(perReplicaMin=257), f"{TRAINER}.batchSize.perReplicaMin"
    ),
    "a batch size of nothing": Refusal(_with_batch_size(initial=0), f"{TRAINER}.batchSize.initial"),
    "half a batch size": Refusal(
        _edit(lambda m: m["spec"]["replicaSpecs"]["trainer"].update(batchSize={"initial": 8})),
        f"{TRAINER}.batchSize.max",
    ),
    "an unknown restart policy": Refusal(_trainer(restart="Sometimes"), f"{TRAINER}.restartPolicy"),
    "an unknown restart scope": Refusal(_trainer(scope="Node"), f"{TRAINER}.restartScope"),
    "an unknown complete policy": Refusal(_trainer(complete="Most"), f"{TRAINER}.completePolicy"),
    "an unknown fail policy": Refusal(_trainer(fail="Most"), f"{TRAINER}.failPolicy"),
    "an unknown EDL policy": Refusal(_trainer(edl="Maybe"), f"{TRAINER}.edlPolicy"),
    "a restart limit below zero": Refusal(_trainer(limit=-1), f"{TRAINER}.restartLimit"),
    # -- templates ---------------------------------------------------------------------------------
    "no template": Refusal(
        _edit(lambda m: m["spec"]["replicaSpecs"]["trainer"].pop("template")), f"{TRAINER}.template"
    ),
    "a template without a spec": Refusal(_trainer(template={"metadata": {}}), f"{TRAINER}.template.spec"),
    "a template without containers": Refusal(
        _pod(lambda s: s.pop("containers")), f"{TRAINER}.template.spec.containers"
    ),
    "a template with an empty list of containers": Refusal(
        _pod(lambda s: s.update(containers=[])), f"{TRAINER}.template.spec.containers"
    ),
    "a container without a name": Refusal(
        _container(lambda c: c.pop("name")), f"{TRAINER}.template.spec.containers[0].name"
    ),
    "a container with a bad name": Refusal(
        _container(lambda c: c.update(name="Main_1")), f"{TRAINER}.template.spec.containers[0].name"
    ),
    "two containers of one name": Refusal(
        _trainer(containers=("aitj-main", "aitj-main")), f"{TRAINER}.template.spec.containers"
    ),
    "a port that is no port": Refusal(
        _container(lambda c: c.update(ports=[{"containerPort": 70000}])),
        f"{TRAINER}.template.spec.containers[0].ports[0].containerPort",
    ),
    "a label that is no string": Refusal(
        _edit(lambda m: m["spec"]["replicaSpecs"]["trainer"]["template"].update(metadata={"labels": {"a": 1}})),
        f"{TRAINER}.template.metadata.labels.a",
    ),
    "a label that no pod may have": Refusal(
        _edit(lambda m: m["spec"]["replicaSpecs"]["trainer"]["template"].update(metadata={"labels": {"a": "b c"}})),
        f"{TRAINER}.template.metadata.labels.a",
    ),
    # -- the job -----------------------------------------------------------------------------------
    "no spec": Refusal(_edit(lambda m: m.pop("spec")), "spec.replicaSpecs"),
    "a field that is not there": Refusal(_job().spec(replicaSpec={})),
    "an unknown clean-up policy": Refusal(_job().spec(cleanPodPolicy="Some"), "spec.cleanPodPolicy"),
    "a clean-up policy that runPolicy contradicts": Refusal(
        _job().spec(cleanPodPolicy="All").run_policy(cleanPodPolicy="None"), "spec.cleanPodPolicy"
    ),
    "an exit code above 255": Refusal(_job().spec(restartingExitCode="137,256"), "spec.restartingExitCode"),
    "exit codes in words": Refusal(_job().spec(restartingExitCode="SIGKILL"), "spec.restartingExitCode"),
    "an exit code as a number": Refusal(_job().spec(restartingExitCode=137), "spec.restartingExitCode"),
    "an empty list of exit codes": Refusal(_job().spec(restartingExitCode=""), "spec.restartingExitCode"),
    "a time limit of zero": Refusal(_job().spec(timeLimit=0), "spec.timeLimit"),
    "a deadline of zero": Refusal(_job().run_policy(activeDeadlineSeconds=0), "spec.runPolicy.activeDeadlineSeconds"),
    "a TTL below zero": Refusal(
        _job().run_policy(ttlSecondsAfterFinished=-1), "spec.runPolicy.ttlSecondsAfterFinished"
    ),
    "a backoff limit below zero": Refusal(_job().run_policy(backoffLimit=-1), "spec.runPolicy.backoffLimit"),
    "a time limit beyond the calendar": Refusal(_job().spec(timeLimit=2**31), "spec.timeLimit"),
    "a minAvailable of zero": Refusal(_job().run_policy(schedulingPolicy={"minAvailable": 0}), f"{GANG}.minAvailable"),
    "a minAvailable above the sum of replicas": Refusal(
        _job().run_policy(schedulingPolicy={"minAvailable": 3}), f"{GANG}.minAvailable"
    ),
    "a queue that is no name": Refusal(_job().run_policy(schedulingPolicy={"queue": "Team A"}), f"{GANG}.queue"),
    "a priority class that is no name": Refusal(
        _job().run_policy(schedulingPolicy={"priorityClass": "very high"}), f"{GANG}.priorityClass"
    ),
    "a resource of a gang that is no quantity": Refusal(
        _job().run_policy(schedulingPolicy={"minResources": {"cpu": "lots"}}), f"{GANG}.minResources.cpu"
    ),
    "a schedule timeout below zero": Refusal(
        _job().run_policy(schedulingPolicy={"scheduleTimeoutSeconds": -1}), f"{GANG}.scheduleTimeoutSeconds"
    ),
    "a priority that is no label": Refusal(_job().spec(priority="very high"), "spec.priority"),
    "suspend as a word": Refusal(_job().spec(suspend="yes"), "spec.suspend"),
    # -- names -------------------------------------------------------------------------------------
    "a name one too long": Refusal(_job("j" * 54), "metadata.name"),
    "a name too long for the most replicas": Refusal(make_job("j" * 53).role("trainer", 2, most=11), "metadata.name"),
    "a name with a dot": Refusal(_job("digits.v2"), "metadata.name"),
    "a name that starts with a digit": Refusal(_job("2digits"), "metadata.name"),
    # -- changes -----------------------------------------------------------------------------------
    "scaling": Refusal(make_job().role("trainer", 3), after=_job()),
    "scaling a role that is never scaled": Refusal(
        make_job().role("trainer", 3, edl="Never"), after=_trainer(edl="Never")
    ),
    "scaling a role that is no longer never scaled": Refusal(
        make_job().role("trainer", 3, edl="Manual"), after=_trainer(edl="Never")
    ),
    "scaling to nothing": Refusal(make_job().role("trainer", 0), "spec.replicaSpecs", after=_job()),
    "adding a role": Refusal(_job().role("pserver", 1), after=_job()),
    "removing a role": Refusal(_job(), after=_job().role("pserver", 1)),
    "changing the framework": Refusal(_job().spec(frameworkType="jax"), after=_job().spec(frameworkType="paddle")),
    "a framework that there is not": Refusal(_job().spec(frameworkType="caffe"), "spec.frameworkType"),
    "no framework, as Go clients write it": Refusal(_job().spec(frameworkType="")),
    "setting a framework later": Refusal(_job().spec(frameworkType="jax"), after=_job()),
    "suspending": Refusal(_job().suspended(), after=_job()),
}
