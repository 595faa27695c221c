"""The rules of `rules` for the parser: a job may be older than its CRD. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from tjworker.api import naming
from tjworker.api.kinds.aitrainingjob import rules
from tjworker.api.kinds.aitrainingjob.spec import AITrainingJobSpec, ReplicaSpec
from tjworker.api.model import FieldError


def broken(job: str, spec: AITrainingJobSpec) -> Iterator[FieldError]:
    """What the CRD says in CEL, in the same words."""
    specs = spec.replica_specs
    if not rules.is_role_name(job):
        yield FieldError(
            "metadata.name", f"{job[:80]!r}: the name of a job {rules.NAME_RULE}: its services are named after it"
        )
    codes = spec.restarting_exit_code
    if codes is not None and not rules.are_exit_codes(codes):
        yield FieldError("spec.restartingExitCode", f"{codes[:80]!r}: {rules.CODES_RULE}")
    yield from _disagreement(spec)
    if not any(role.replicas for role in specs.values()):
        yield FieldError("spec.replicaSpecs", rules.NO_REPLICAS)
    total = sum(role.replicas for role in specs.values())
    if total > rules.MAX_PODS:
        yield FieldError(
            "spec.replicaSpecs",
            f"{total} replicas of all roles together: they must be at most {rules.MAX_PODS}; split the job",
        )
    for name in sorted(specs):
        yield from _role_errors(job, name, specs[name])


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
    total = sum(role.replicas for role in spec.replica_specs.values())
    if wanted is not None and wanted > total:
        yield FieldError(
            "spec.runPolicy.schedulingPolicy.minAvailable",
            f"{wanted}: must be at most the sum of all replicas ({total})",
        )


def _role_errors(job: str, name: str, role: ReplicaSpec) -> Iterator[FieldError]:
    path = f"spec.replicaSpecs.{name}"
    if not rules.is_role_name(name):
        yield FieldError(path, f"the name of a role {rules.NAME_RULE}, such as trainer or data-loader")
    if name in rules.RESERVED_ROLES:
        yield FieldError(path, f"the role name {name} is reserved: its environment variables would be the job's")
    if role.min_replicas is not None and role.min_replicas > role.replicas:
        yield FieldError(f"{path}.replicas", f"{role.replicas}: must be at least minReplicas ({role.min_replicas})")
    if role.max_replicas is not None and role.max_replicas < role.replicas:
        yield FieldError(f"{path}.replicas", f"{role.replicas}: must be at most maxReplicas ({role.max_replicas})")
    containers = role.template.spec.containers
    if len({c.name for c in containers}) < len(containers):
        yield FieldError(f"{path}.template.spec.containers", "two containers have one name")
    longest = naming.longest_pod_name(job, name, max(role.replicas, role.max_replicas or 0))
    if len(longest) > naming.MAX_NAME_LENGTH:
        yield FieldError(
            "metadata.name", f"{longest[:80]} has {len(longest)} characters: the longest pod name {rules.LENGTH_RULE}"
        )
