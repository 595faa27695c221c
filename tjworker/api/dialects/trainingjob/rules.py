"""What no TrainingJob may be, beyond the bound of a single field: once as CEL for the API server, once for the parser.

Pure. Both say the same in the same words; a test holds them together. Sources: spec 1, the EDL operator's own checks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tjworker.api.model import FieldError
from tjworker.api.naming import MAX_NAME_LENGTH
from tjworker.api.podtemplate import DNS_LABEL

if TYPE_CHECKING:
    from tjworker.api.dialects.trainingjob.spec import TrainingJobSpec

Rule = Mapping[str, Any]

MAX_WORDS = 32_768
"""Characters of an entrypoint."""
LONGEST_CHILD = "-pserver-xxxxx"
"""What Kubernetes appends to the job's name for the longest of its pods; `-trainer-xxxxx` is as long."""
MAX_JOB_NAME = MAX_NAME_LENGTH - len(LONGEST_CHILD)

QUANTITY = r"^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]{1,3}))?$"
is_quantity = re.compile(QUANTITY, re.ASCII).fullmatch

# A quoted part ends, and a backslash has something to quote. `shlex.split` agrees, a random test says.
_WORDS = r"""^([^'"\\]|\\.|'[^']*'|"([^"\\]|\\.)*")*$"""
are_words = re.compile(_WORDS, re.DOTALL).fullmatch
_WORDS_RULE = (
    "must split into words as in a shell: a quotation mark is not closed, or a backslash ends the line; "
    "close it, or quote it with a backslash"
)
_NAME_RULE = (
    "the name of a job must be a lower-case DNS label (letters, digits, -) of at most "
    f"{MAX_JOB_NAME} characters: the longest pod name, `<job>{LONGEST_CHILD}`, may have {MAX_NAME_LENGTH}"
)
_TOLERANT_RULE = (
    "above min-instance the trainers come and go while the job runs, which needs fault_tolerant; "
    "set fault_tolerant to true, or max-instance to min-instance"
)
_SCALE_RULE = (
    "min-instance cannot change: only the trainers of a job that is fault_tolerant and not local come and go; "
    "delete the job and create it again"
)
_SHAPE_RULE = "decides which roles the job has and cannot change; delete the job and create it again"
_PORT_RULE = "the last port must be at most 65535; lower the first port or the number of ports"
_MOUNT_RULE = "must name one of spec.volumes"
_TWICE_RULE = "a volume's name must be unique in the job"

_MODE = "(has({0}.frame_work) ? {0}.frame_work.type : {0}.local_job ? 'local' : {0}.is_nccl ? 'nccl2' : 'multi')"
_ELASTIC = (
    "has(self.trainer.max__dash__instance) && self.trainer.min__dash__instance < self.trainer.max__dash__instance"
)


def extension(*rules: Rule) -> dict[str, Any]:
    return {"x-kubernetes-validations": [dict(rule) for rule in rules]}


WORDS_CLOSE: Rule = {
    # The pattern twice escaped: CEL's string, then RE2.
    "rule": "self.matches({})".format("'(?s)" + _WORDS.replace("\\", "\\\\").replace("'", "\\'") + "'"),
    "message": f"entrypoint {_WORDS_RULE}",
}
BOUNDS: Rule = {
    "rule": "!has(self.max__dash__instance) || self.min__dash__instance <= self.max__dash__instance",
    "fieldPath": ".max-instance",
    "message": "max-instance must be at least min-instance",
    "messageExpression": "'max-instance is %d, it must be at least min-instance (%d)'"
    ".format([self.max__dash__instance, self.min__dash__instance])",
}
SPEC: tuple[Rule, ...] = (
    {
        "rule": f"self.fault_tolerant || {_MODE.format('self')} == 'local' || !({_ELASTIC})",
        "fieldPath": ".trainer.max-instance",
        "message": _TOLERANT_RULE,
        "messageExpression": f"'max-instance is %d: {_TOLERANT_RULE} (%d)'"
        ".format([self.trainer.max__dash__instance, self.trainer.min__dash__instance])",
    },
    {
        "rule": "self.port + self.ports_num + self.ports_num_for_sparse <= 65536",
        "fieldPath": ".port",
        "message": _PORT_RULE,
    },
    {
        "rule": "!has(self.trainer_port) || !has(self.trainer_ports_num)"
        " || self.trainer_port + self.trainer_ports_num <= 65536",
        "fieldPath": ".trainer_port",
        "message": _PORT_RULE,
    },
    {
        "rule": "!has(self.VolumeMounts) || self.VolumeMounts.all(m, has(self.volumes)"
        " && self.volumes.exists(v, v.name == m.name))",
        "fieldPath": ".VolumeMounts",
        "message": f"each of VolumeMounts {_MOUNT_RULE}",
    },
    {
        "rule": f"self.trainer.min__dash__instance == oldSelf.trainer.min__dash__instance || self.fault_tolerant"
        f" && {_MODE.format('self')} != 'local'",
        "fieldPath": ".trainer.min-instance",
        "message": _SCALE_RULE,
    },
    {
        "rule": "self.fault_tolerant == oldSelf.fault_tolerant",
        "fieldPath": ".fault_tolerant",
        "message": f"fault_tolerant {_SHAPE_RULE}",
    },
    {
        "rule": f"{_MODE.format('self')} == {_MODE.format('oldSelf')}",
        "fieldPath": ".frame_work",
        "message": f"the kind of job (frame_work.type, else local_job or is_nccl) {_SHAPE_RULE}",
    },
)
ROOT: tuple[Rule, ...] = (
    {
        "rule": f"size(self.metadata.name) <= {MAX_JOB_NAME} && self.metadata.name.matches('{DNS_LABEL}')",
        "fieldPath": ".metadata.name",
        "message": _NAME_RULE,
        "messageExpression": f"'%s: {_NAME_RULE}'.format([self.metadata.name])",
    },
)


def broken(job: str, spec: TrainingJobSpec) -> Iterator[FieldError]:
    """What the CRD says in CEL about a new job, in the same words."""
    if len(job) > MAX_JOB_NAME or not re.fullmatch(DNS_LABEL, job):
        yield FieldError("metadata.name", f"{job[:80]!r}: {_NAME_RULE}")
    for name, role in (("master", spec.master), ("pserver", spec.pserver), ("trainer", spec.trainer)):
        most = role.max_instance
        if name != "master" and most is not None and most < role.min_instance:
            yield FieldError(
                f"spec.{name}.max-instance", f"{most}: must be at least min-instance ({role.min_instance})"
            )
        if role.entrypoint and not are_words(role.entrypoint):
            yield FieldError(f"spec.{name}.entrypoint", f"{role.entrypoint[:80]!r}: {_WORDS_RULE}")
    most = spec.trainer.max_instance
    if most is not None and most > spec.trainer.min_instance and not spec.fault_tolerant and spec.mode != "local":
        yield FieldError("spec.trainer.max-instance", f"{most}: {_TOLERANT_RULE} ({spec.trainer.min_instance})")
    if spec.port + spec.ports_num + spec.ports_num_for_sparse > 65_536:
        yield FieldError("spec.port", f"{spec.port}: {_PORT_RULE}")
    if (spec.trainer_port or 0) + (spec.trainer_ports_num or 0) > 65_536:
        yield FieldError("spec.trainer_port", f"{spec.trainer_port}: {_PORT_RULE}")
    yield from _volume_errors(spec)


def _volume_errors(spec: TrainingJobSpec) -> Iterator[FieldError]:
    names = [volume.name for volume in spec.volumes]
    if len(set(names)) < len(names):
        yield FieldError("spec.volumes", _TWICE_RULE)
    if len({mount.mountPath for mount in spec.volume_mounts}) < len(spec.volume_mounts):
        yield FieldError("spec.VolumeMounts", "two mounts have one mountPath")
    for i, mount in enumerate(spec.volume_mounts):
        if mount.name not in names:
            yield FieldError(f"spec.VolumeMounts[{i}].name", f"{mount.name[:80]!r}: {_MOUNT_RULE}")
