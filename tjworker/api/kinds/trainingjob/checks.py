"""The rules of `rules` for the parser: a job may be older than its CRD. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tjworker.api.kinds.trainingjob import rules
from tjworker.api.kinds.trainingjob.spec import TrainingJobSpec
from tjworker.api.model import FieldError
from tjworker.api.podtemplate import DNS_LABEL


def rule_errors(job: str, spec: TrainingJobSpec) -> Iterator[FieldError]:
    """The errors of a new job by the CEL rules of the CRD, in the same words."""
    if len(job) > rules.MAX_JOB_NAME or not re.fullmatch(DNS_LABEL, job):
        yield FieldError("metadata.name", f"{job[:80]!r}: {rules.NAME_RULE}")
    for name, role in (("master", spec.master), ("pserver", spec.pserver), ("trainer", spec.trainer)):
        most = role.max_instance
        # The bounds of the field itself leave a master no other number than 0 and 1.
        if name != "master" and most is not None and most < role.min_instance:
            yield FieldError(
                f"spec.{name}.max-instance", f"{most}: must be at least min-instance ({role.min_instance})"
            )
        if role.entrypoint and not rules.are_words(role.entrypoint):
            yield FieldError(f"spec.{name}.entrypoint", f"{role.entrypoint[:80]!r}: {rules.WORDS_RULE}")
    most = spec.trainer.max_instance
    if most is not None and most > spec.trainer.min_instance and not spec.fault_tolerant and spec.mode != "local":
        yield FieldError("spec.trainer.max-instance", f"{most}: {rules.TOLERANT_RULE} ({spec.trainer.min_instance})")
    if spec.port + spec.ports_num + spec.ports_num_for_sparse > 65_536:
        yield FieldError("spec.port", f"{spec.port}: {rules.PORT_RULE}")
    if (spec.trainer_port or 0) + (spec.trainer_ports_num or 0) > 65_536:
        yield FieldError("spec.trainer_port", f"{spec.trainer_port}: {rules.PORT_RULE}")
    yield from _volume_errors(spec)
    asked = spec.run_policy.scheduling_policy if spec.run_policy else None
    replicas = spec.fault_tolerant + (spec.pserver.min_instance if spec.mode == "multi" else 0)
    replicas += 1 if spec.mode == "local" else spec.trainer.min_instance
    if asked is not None and asked.min_available is not None and asked.min_available > replicas:
        yield FieldError(
            "spec.runPolicy.schedulingPolicy.minAvailable",
            f"{asked.min_available}: must be at most the sum of all replicas ({replicas})",
        )


def _volume_errors(spec: TrainingJobSpec) -> Iterator[FieldError]:
    names = [volume.name for volume in spec.volumes]
    # In the CRD the keys of a list-map say the same, which no rule has to repeat.
    if len(set(names)) < len(names):
        yield FieldError("spec.volumes", rules.TWICE_RULE)
    if len({mount.mountPath for mount in spec.volume_mounts}) < len(spec.volume_mounts):
        yield FieldError("spec.VolumeMounts", "two mounts have one mountPath")
    for i, mount in enumerate(spec.volume_mounts):
        if mount.name not in names:
            yield FieldError(f"spec.VolumeMounts[{i}].name", f"{mount.name[:80]!r}: {rules.MOUNT_RULE}")
