"""TensorFlow: TF_CONFIG, which tf.distribute reads (https://www.tensorflow.org/guide/distributed_training, "Setting up
the TF_CONFIG environment variable"; tf.distribute.cluster_resolver.TFConfigClusterResolver).

The cluster has the roles chief, master, worker and ps. An evaluator gets TF_CONFIG, but is not in the cluster. Other
roles, such as a data service, get none. A job of one pod has no TF_CONFIG, because there are no other pods. For a
replica of an elastic role it names only the replica itself and the parameter servers, as with training-operator's
enableDynamicWorker. So it does not depend on the number of replicas.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from tjworker.api.model import FieldError, Role, TrainingJob
from tjworker.reconcile.frameworks.framework import Env, Framework, host, world_size

CLUSTER = ("chief", "master", "worker", "ps")
EVALUATOR = "evaluator"


@dataclass(frozen=True, slots=True)
class TensorFlow(Framework):
    def is_master(self, job: TrainingJob, role: Role, index: int | None) -> bool:
        """True for the replica that saves checkpoints: the chief, else the first worker."""
        names = [each.name for name in ("chief", "master", "worker") for each in job.roles if each.name.lower() == name]
        return bool(names) and (role.name, index) == (names[0], 0)

    def environment(self, job: TrainingJob, role: Role, index: int | None) -> Env:
        own = role.name.lower()
        common = {"PYTHONUNBUFFERED": "1"}
        if own not in (*CLUSTER, EVALUATOR) or index is None:
            return common
        if world_size(job) == 1 and not any(each.elastic for each in job.roles):
            return common
        task = {"type": own, "index": index}
        dynamic = any(each.elastic for each in job.roles if each.name.lower() in CLUSTER)
        cluster = self._cluster(job, role, index)
        # TensorFlow reads `cluster` in either form. training-operator writes the sparse one under its own name.
        more = {"sparseCluster": {"worker": {}, "ps": []} | cluster} if dynamic else {"environment": "cloud"}
        return common | {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task, **more})}

    def _cluster(self, job: TrainingJob, role: Role, index: int) -> dict[str, object]:
        cluster: dict[str, object] = {}
        for each in self.ordered(job):
            name = each.name.lower()
            if name not in CLUSTER or not (each.replicas or each.elastic):
                continue
            domain, port = f".{job.name.namespace}.svc:", self.port_of(job, each)
            if each.elastic:
                if each.name == role.name:
                    cluster[name] = {str(index): f"{host(job, each, index)}{domain}{port(index)}"}
            else:
                cluster[name] = [f"{host(job, each, i)}{domain}{port(i)}" for i in range(each.replicas)]
        return cluster

    def errors(self, job: TrainingJob) -> Iterator[FieldError]:
        yield from Framework.errors(self, job)
        names = {role.name.lower() for role in job.roles}
        if not names & set(CLUSTER):
            yield FieldError(
                job.roles_path,
                f"has {', '.join(sorted(names))}, but {job.calls_itself} has at least one of the roles"
                f" {', '.join(CLUSTER)}: TF_CONFIG knows no other; rename the role, or set frameworkType to any",
            )
        if {"chief", "master"} <= names:
            yield FieldError(job.roles_path, "has chief and master, which are two names of one role; keep one")
