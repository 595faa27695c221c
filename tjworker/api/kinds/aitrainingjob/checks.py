"""The rules of `rules` for the parser: a job may be older than its CRD. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tjworker.api import naming
from tjworker.api.kinds.aitrainingjob import rules
from tjworker.api.kinds.aitrainingjob.spec import AITrainingJobSpec, ReplicaSpec
from tjworker.api.kinds.batchsize import order_errors
from tjworker.api.kinds.runpolicy import MAX_PODS
from tjworker.api.model import FieldError


def least(role: ReplicaSpec) -> int:
    return role.replicas if role.min_replicas is None else role.min_replicas


def most(role: ReplicaSpec) -> int:
    return role.replicas if role.max_replicas is None else role.max_replicas


def scale_role(specs: Mapping[str, ReplicaSpec]) -> str | None:
    """The role that spec.replicas sets, and with it the scale subresource."""
    trainer = specs.get(rules.SCALE_ROLE)
    if trainer is not None and trainer.edl_policy != "Never":
        return rules.SCALE_ROLE
    # Without a trainer, it scales the only scalable role. If there are two, the choice would be arbitrary.
    elastic = [name for name, role in specs.items() if role.edl_policy != "Never" and least(role) < most(role)]
    return elastic[0] if len(elastic) == 1 else None


def total_replicas(spec: AITrainingJobSpec) -> int:
    """The sum of all replicas. spec.replicas overrides the number of the role that it scales."""
    scaled = scale_role(spec.replica_specs) if spec.replicas is not None else None
    own = sum(role.replicas for name, role in spec.replica_specs.items() if name != scaled)
    return own + (spec.replicas or 0 if scaled else 0)


def rule_errors(job: str, spec: AITrainingJobSpec) -> Iterator[FieldError]:
    """The errors by the CEL rules of the CRD, in the same words."""
    specs = spec.replica_specs
    if not rules.is_job_name(job):
        yield FieldError(
            "metadata.name", f"{job[:80]!r}: the name of a job {rules.NAME_RULE}: its services are named after it"
        )
    codes = spec.restarting_exit_code
    if codes is not None and not rules.are_exit_codes(codes):
        # A value is cut to 80 characters: the first value must leave room for the other errors in the condition's
        # message.
        yield FieldError("spec.restartingExitCode", f"{codes[:80]!r}: {rules.CODES_RULE}")
    yield from _disagreement(spec)
    total = total_replicas(spec)
    if not total:
        yield FieldError("spec.replicaSpecs", rules.NO_REPLICAS)
    if total > MAX_PODS:
        yield FieldError(
            "spec.replicaSpecs",
            f"{total} replicas of all roles together: they must be at most {MAX_PODS}; split the job",
        )
    yield from _scale_errors(spec)
    by_name: dict[str, str] = {}
    for name in sorted(specs):
        if (alike := by_name.setdefault(name.lower(), name)) != name:
            yield FieldError("spec.replicaSpecs", f"{alike} and {name}: {rules.ROLES_ALIKE}")
    for name in sorted(specs):
        yield from _role_errors(job, name, specs[name], spec.replicas or 0)


def _disagreement(spec: AITrainingJobSpec) -> Iterator[FieldError]:
    run = spec.run_policy
    if run is None:
        return
    ours, theirs = spec.clean_pod_policy, run.clean_pod_policy
    if ours and theirs and ours != theirs:
        yield FieldError(
            "spec.cleanPodPolicy",
            f"{ours} here and {theirs} in runPolicy.cleanPodPolicy: they must agree; set one of them",
        )
    wanted = run.scheduling_policy.min_available if run.scheduling_policy else None
    total = total_replicas(spec)
    if wanted is not None and wanted > total:
        yield FieldError(
            "spec.runPolicy.schedulingPolicy.minAvailable",
            f"{wanted}: must be at most the sum of all replicas ({total})",
        )


def port_errors(role: str, template: Mapping[str, Any]) -> Iterator[FieldError]:
    """A role's service has the counted ports of all its containers, each by its name."""
    # The API server refuses a Service that has a port's name twice.
    names: dict[str, int] = {}
    for port in naming.counted_ports(template):
        if (other := names.setdefault(port.name, port.number)) != port.number:
            yield FieldError(
                f"spec.replicaSpecs.{role}.template.spec.containers",
                f"two ports that count have the name {port.name}, {other} and {port.number}: rename one of them; "
                "the service of a pod has both",
            )


def _scale_errors(spec: AITrainingJobSpec) -> Iterator[FieldError]:
    if spec.replicas is None:
        return
    name = scale_role(spec.replica_specs)
    if name is None:
        yield FieldError("spec.replicas", f"{spec.replicas}: {rules.NOT_SCALED}")
        return
    role = spec.replica_specs[name]
    if role.min_replicas is not None and spec.replicas < role.min_replicas:
        yield FieldError(
            "spec.replicas", f"{spec.replicas}: must be at least minReplicas ({role.min_replicas}) of role {name}"
        )
    if role.max_replicas is not None and role.max_replicas < spec.replicas:
        yield FieldError(
            "spec.replicas", f"{spec.replicas}: must be at most maxReplicas ({role.max_replicas}) of role {name}"
        )


def _role_errors(job: str, name: str, role: ReplicaSpec, asked: int) -> Iterator[FieldError]:
    """`asked`: spec.replicas."""
    path = f"spec.replicaSpecs.{name}"
    if not rules.is_role_name(name):
        yield FieldError(path, f"the name of a role {rules.ROLE_RULE}, such as trainer or data-loader")
    if name.lower() in rules.RESERVED_ROLES:
        yield FieldError(path, f"the role name {name} is reserved: its environment variables would be the job's")
    if role.min_replicas is not None and role.max_replicas is not None and role.max_replicas < role.min_replicas:
        yield FieldError(
            f"{path}.minReplicas", f"{role.min_replicas}: must be at most maxReplicas ({role.max_replicas})"
        )
    if role.min_replicas is not None and role.min_replicas > role.replicas:
        yield FieldError(f"{path}.replicas", f"{role.replicas}: must be at least minReplicas ({role.min_replicas})")
    if role.max_replicas is not None and role.max_replicas < role.replicas:
        yield FieldError(f"{path}.replicas", f"{role.replicas}: must be at most maxReplicas ({role.max_replicas})")
    yield from order_errors(role.batch_size, f"{path}.batchSize")
    containers = role.template.spec.containers
    # The API server would refuse only the first pod of this role, when pods of other roles may already run.
    if len({c.name for c in containers}) < len(containers):
        yield FieldError(f"{path}.template.spec.containers", "two containers have one name")
    # The autoscaler may need the last of these names while the job runs, when it is too late to refuse it.
    longest = naming.longest_pod_name(job, name, max(role.replicas, role.max_replicas or 0, asked))
    if len(longest) > naming.MAX_NAME_LENGTH:
        yield FieldError(
            "metadata.name", f"{longest[:80]} has {len(longest)} characters: the longest pod name {rules.LENGTH_RULE}"
        )
