"""The CEL rules on several fields of a TrainingJob for the API server, and their messages.

Pure data. `checks` has the same rules and words for the parser; a test compares the two.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tjworker.api.kinds.runpolicy import min_available_rule
from tjworker.api.naming import MAX_NAME_LENGTH
from tjworker.api.podtemplate import DNS_LABEL

Rule = Mapping[str, Any]

MAX_WORDS = 32_768
"""Most characters of an entrypoint."""
LONGEST_CHILD = "-pserver-xxxxx"
"""The longest suffix of a pod's name after the job's name; `-trainer-xxxxx` has the same length."""
MAX_JOB_NAME = MAX_NAME_LENGTH - len(LONGEST_CHILD)


# Each quoted part ends, and each backslash quotes a character. A random test compares it with `shlex.split`.
_WORDS = r"""^([^'"\\]|\\.|'[^']*'|"([^"\\]|\\.)*")*$"""
are_words = re.compile(_WORDS, re.DOTALL).fullmatch
WORDS_RULE = (
    "must split into words as in a shell: a quotation mark is not closed, or a backslash ends the line; "
    "close it, or quote it with a backslash"
)
NAME_RULE = (
    "the name of a job must be a lower-case DNS label (letters, digits, -) of at most "
    f"{MAX_JOB_NAME} characters: the longest pod name, `<job>{LONGEST_CHILD}`, may have {MAX_NAME_LENGTH}"
)
TOLERANT_RULE = (
    "above min-instance the trainers come and go while the job runs, which needs fault_tolerant; "
    "set fault_tolerant to true, or max-instance to min-instance"
)
_SCALE_RULE = (
    "min-instance cannot change: only the trainers of a job that is fault_tolerant and not local come and go; "
    "delete the job and create it again"
)
_SHAPE_RULE = "decides which roles the job has and cannot change; delete the job and create it again"
PORT_RULE = "the last port must be at most 65535; lower the first port or the number of ports"
MOUNT_RULE = "must name one of spec.volumes"
TWICE_RULE = "a volume's name must be unique in the job"

# The same choice as `TrainingJobSpec.mode`, for the rules.
_MODE = "(has({0}.frame_work) ? {0}.frame_work.type : {0}.local_job ? 'local' : {0}.is_nccl ? 'nccl2' : 'multi')"
_ELASTIC = (
    # `-` is no letter of a CEL identifier. The API server offers such fields as `__dash__` (`Escape` of apiserver's
    # pkg/cel).
    "has(self.trainer.max__dash__instance) && self.trainer.min__dash__instance < self.trainer.max__dash__instance"
)
_ALL_REPLICAS = (
    f"((self.fault_tolerant ? 1 : 0) + ({_MODE.format('self')} == 'multi' ? self.pserver.min__dash__instance : 0)"
    f" + ({_MODE.format('self')} == 'local' ? 1 : self.trainer.min__dash__instance))"
)


def extension(*rules: Rule) -> dict[str, Any]:
    return {"x-kubernetes-validations": [dict(rule) for rule in rules]}


WORDS_CLOSE: Rule = {
    # The pattern twice escaped: CEL's string, then RE2.
    "rule": "self.matches({})".format("'(?s)" + _WORDS.replace("\\", "\\\\").replace("'", "\\'") + "'"),
    "message": f"entrypoint {WORDS_RULE}",
}
BOUNDS: Rule = {
    "rule": "!has(self.max__dash__instance) || self.max__dash__instance == 0"
    " || self.min__dash__instance <= self.max__dash__instance",
    "fieldPath": ".max-instance",
    "message": "max-instance must be at least min-instance",
    "messageExpression": "'max-instance is %d, it must be at least min-instance (%d)'"
    ".format([self.max__dash__instance, self.min__dash__instance])",
}
SPEC: tuple[Rule, ...] = (
    {
        "rule": f"self.fault_tolerant || {_MODE.format('self')} == 'local' || !({_ELASTIC})",
        "fieldPath": ".trainer.max-instance",
        "message": TOLERANT_RULE,
        "messageExpression": f"'max-instance is %d: {TOLERANT_RULE} (%d)'"
        ".format([self.trainer.max__dash__instance, self.trainer.min__dash__instance])",
    },
    min_available_rule(_ALL_REPLICAS),
    {
        # A default replaces an absent field, not a zero that the manifest sets. The parser takes 0 as 1, so the rule
        # must, too.
        "rule": "self.port + [self.ports_num, 1].max() + [self.ports_num_for_sparse, 1].max() <= 65536",
        "fieldPath": ".port",
        "message": PORT_RULE,
    },
    {
        "rule": "!has(self.trainer_port) || !has(self.trainer_ports_num)"
        " || self.trainer_port + self.trainer_ports_num <= 65536",
        "fieldPath": ".trainer_port",
        "message": PORT_RULE,
    },
    {
        "rule": "!has(self.VolumeMounts) || self.VolumeMounts.all(m, has(self.volumes)"
        " && self.volumes.exists(v, v.name == m.name))",
        "fieldPath": ".VolumeMounts",
        "message": f"each of VolumeMounts {MOUNT_RULE}",
    },
    {
        # A trainer that cannot be scaled has a batch Job with `completions`, which the API server keeps fixed
        # (`validateCompletions` of pkg/apis/batch).
        "rule": f"self.trainer.min__dash__instance == oldSelf.trainer.min__dash__instance || self.fault_tolerant"
        f" && {_MODE.format('self')} != 'local'",
        "fieldPath": ".trainer.min-instance",
        "message": _SCALE_RULE,
    },
    {
        # The field has a schema default, so that both objects have it, and the rule needs no `has`.
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
        "message": NAME_RULE,
        "messageExpression": f"'%s: {NAME_RULE}'.format([self.metadata.name])",
    },
)
