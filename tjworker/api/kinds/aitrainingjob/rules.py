"""The bounds of an AITrainingJob, and the CEL rules on several fields for the API server.

Pure data. `checks` has the same rules and words for the parser; a test compares the two.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tjworker.api import naming
from tjworker.api.kinds.runpolicy import MAX_PODS, min_available_rule

Rule = Mapping[str, Any]

# The schema's maxProperties. Without it the API server estimates a rule over the map by the largest possible object,
# and refuses the CRD as too expensive.
MAX_ROLES = 16
MAX_REPLICAS = 10_000
"""Replicas of a job: its restarts by index must always fit into one object of etcd (1.5 MiB)."""
RESERVED_ROLES = ("trainingjob",)
"""The variable TRAININGJOB_PORTS of such a role would replace the pod's own."""

# Services are named after the job. Their names had to be RFC 1035 labels, which begin with a letter, until the feature
# gate RelaxedServiceNameValidation, on by default from Kubernetes 1.36 on.
JOB_NAME = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"
# No underscore: in names of variables `_` replaces `-`, and two roles must not share their variables.
ROLE_NAME = r"^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$"
_EXIT_CODE = r"(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
EXIT_CODES = rf"^ *{_EXIT_CODE} *(, *{_EXIT_CODE} *)*$"
NAME_RULE = "must be a lower-case DNS label (letters, digits, -) that starts with a letter"
ROLE_RULE = "must be of letters, digits and -, and start with a letter; pods have it in lower case"
ROLES_ALIKE = "two roles differ in case alone: their pods would have the same names; rename one of them"
CODES_RULE = 'must be a list of exit codes from 0 to 255, separated by commas, such as "137,128"'
LENGTH_RULE = (
    f"(`<job>-<role>-<index>`) may have at most {naming.MAX_NAME_LENGTH} characters; "
    "shorten the name of the job or of its longest role"
)
NO_REPLICAS = "at least one role must have replicas; set spec.suspend to true to let the job wait without pods"
SCALE_ROLE = "trainer"
"""The role that spec.replicas scales if it can be scaled, even without bounds; else the only role with bounds."""
NOT_SCALED = (
    "no role of the job can be scaled by it: give one role minReplicas < maxReplicas and an edlPolicy other than "
    "Never, or scale a role by its own replicas"
)


def _least(role: str) -> str:
    return f"(has({role}.minReplicas) ? {role}.minReplicas : {role}.replicas)"


def _most(role: str) -> str:
    return f"(has({role}.maxReplicas) ? {role}.maxReplicas : {role}.replicas)"


def _moves(role: str) -> str:
    return f"(!has({role}.edlPolicy) || {role}.edlPolicy != 'Never')"


_ROLE = "self.replicaSpecs[r]"
_TRAINER_MOVES = f"('{SCALE_ROLE}' in self.replicaSpecs && {_moves(f'self.replicaSpecs.{SCALE_ROLE}')})"
_IS_ELASTIC = f"{_moves(_ROLE)} && {_least(_ROLE)} < {_most(_ROLE)}"
_BOUNDED = f"(has({_ROLE}.minReplicas) || has({_ROLE}.maxReplicas))"
_IS_SCALED = f"({_TRAINER_MOVES} ? r == '{SCALE_ROLE}' && {_BOUNDED} : {_IS_ELASTIC})"
_IN_BOUNDS = (
    f"(!has({_ROLE}.minReplicas) || {_ROLE}.minReplicas <= self.replicas)"
    f" && (!has({_ROLE}.maxReplicas) || self.replicas <= {_ROLE}.maxReplicas)"
)
_IS_MOVED = f"(has(self.replicas) && ({_TRAINER_MOVES} ? r == '{SCALE_ROLE}' : {_IS_ELASTIC}))"
_ALL_REPLICAS = f"self.replicaSpecs.map(r, {_IS_MOVED} ? self.replicas : {_ROLE}.replicas).sum()"
# The API server asks every rule at every write of a status, too. So each looks first at what nearly every job has and
# what is cheap to see, and at the rest only where that does not settle it.
_ANY_REPLICA = f"!has(self.replicas) && self.replicaSpecs.exists(r, {_ROLE}.replicas > 0)"
_FEW_ROLES = f"size(self.replicaSpecs) <= {MAX_PODS // MAX_REPLICAS}"
is_job_name = re.compile(JOB_NAME).fullmatch
is_role_name = re.compile(ROLE_NAME).fullmatch
are_exit_codes = re.compile(EXIT_CODES).fullmatch


def extension(*rules: Rule) -> dict[str, Any]:
    return {"x-kubernetes-validations": list(rules)}


REPLICAS: tuple[Rule, ...] = (
    {
        "rule": "!has(self.minReplicas) || self.minReplicas <= self.replicas",
        "fieldPath": ".replicas",
        "message": "replicas must be at least minReplicas",
        # Kubernetes shows the value of an object rule as the word "object", and from 1.36 on not at all. So the
        # messages of all rules name the values themselves (ADR 6).
        "messageExpression": (
            "'replicas is %d, it must be at least minReplicas (%d)'.format([self.replicas, self.minReplicas])"
        ),
    },
    {
        "rule": "!has(self.maxReplicas) || self.replicas <= self.maxReplicas",
        "fieldPath": ".replicas",
        "message": "replicas must be at most maxReplicas",
        "messageExpression": (
            "'replicas is %d, it must be at most maxReplicas (%d)'.format([self.replicas, self.maxReplicas])"
        ),
    },
    {
        "rule": (
            # Both values of edlPolicy count: the edit that sets it from Never to Manual may change the number in the
            # same request.
            "!has(self.edlPolicy) || self.edlPolicy != 'Never' || !has(oldSelf.edlPolicy)"
            " || oldSelf.edlPolicy != 'Never' || self.replicas == oldSelf.replicas"
        ),
        "fieldPath": ".replicas",
        "message": (
            "replicas cannot change while edlPolicy is Never; set edlPolicy to Manual to scale by hand, "
            "to Auto to leave it to the autoscaler"
        ),
    },
)
SPEC: tuple[Rule, ...] = (
    {
        "rule": (
            "!has(self.cleanPodPolicy) || !has(self.runPolicy) || !has(self.runPolicy.cleanPodPolicy)"
            " || self.cleanPodPolicy == self.runPolicy.cleanPodPolicy"
            # Go's clients write an empty text for a policy that is not set.
            " || self.cleanPodPolicy == '' || self.runPolicy.cleanPodPolicy == ''"
        ),
        "fieldPath": ".cleanPodPolicy",
        "message": "cleanPodPolicy and runPolicy.cleanPodPolicy must agree; set one of them",
        "messageExpression": (
            "'cleanPodPolicy is %s and runPolicy.cleanPodPolicy is %s: they must agree; "
            "set one of them'.format([self.cleanPodPolicy, self.runPolicy.cleanPodPolicy])"
        ),
    },
    min_available_rule(_ALL_REPLICAS),
    {
        "rule": (f"!has(self.replicas) || {_TRAINER_MOVES} || self.replicaSpecs.filter(r, {_IS_ELASTIC}).size() == 1"),
        "fieldPath": ".replicas",
        "message": NOT_SCALED,
    },
    {
        "rule": f"!has(self.replicas) || self.replicaSpecs.all(r, !{_IS_SCALED} || {_IN_BOUNDS})",
        "fieldPath": ".replicas",
        "message": "replicas must lie between minReplicas and maxReplicas of the role that it scales",
        "messageExpression": (
            "'replicas is %d, it must lie between minReplicas and maxReplicas of the role that it scales'"
            ".format([self.replicas])"
        ),
    },
    {"rule": f"{_ANY_REPLICA} || {_ALL_REPLICAS} > 0", "fieldPath": ".replicaSpecs", "message": NO_REPLICAS},
    {
        "rule": f"{_FEW_ROLES} || {_ALL_REPLICAS} <= {MAX_PODS}",
        "fieldPath": ".replicaSpecs",
        "message": f"all roles together must have at most {MAX_PODS} replicas; split the job",
        "messageExpression": (
            f"'all roles together have %d replicas, they must have at most {MAX_PODS}; split the job'"
            f".format([{_ALL_REPLICAS}])"
        ),
    },
    {
        "rule": (
            # A rule `self == oldSelf` on the field would miss an edit that adds or removes it: the API server skips a
            # transition rule without an old value.
            "!has(self.frameworkType) && !has(oldSelf.frameworkType) || has(self.frameworkType) &&"
            " has(oldSelf.frameworkType) && self.frameworkType == oldSelf.frameworkType"
        ),
        "fieldPath": ".frameworkType",
        "message": (
            "frameworkType cannot change: pods of two frameworks would not find each other; "
            "delete the job and create it again"
        ),
    },
)
CODES: tuple[Rule, ...] = ({"rule": f"self.matches('{EXIT_CODES}')", "message": f"restartingExitCode {CODES_RULE}"},)
ROLES: tuple[Rule, ...] = (
    {
        "rule": f"self.all(r, r.matches('{ROLE_NAME}'))",
        "message": f"the name of a role {ROLE_RULE}, such as trainer or data-loader",
        "messageExpression": (
            f"'%s: the name of a role {ROLE_RULE}, such as trainer or data-loader'"
            # Only the first wrong name: the API server refuses a CRD that joins a filtered list (ADR 6).
            f".format([self.filter(r, !r.matches('{ROLE_NAME}'))[0]])"
        ),
    },
    {
        "rule": f"self.all(r, size(r) != {len(RESERVED_ROLES[0])} || !r.matches('(?i)^{RESERVED_ROLES[0]}$'))",
        "message": (f"the role name {RESERVED_ROLES[0]} is reserved: its environment variables would be the job's"),
    },
    {
        "rule": "self.all(r, r in oldSelf) && oldSelf.all(r, r in self)",
        "message": (
            "roles cannot be added to a job or removed from it; delete the job and create it again, "
            "or set replicas of a role to 0"
        ),
    },
)
_LONGEST_INDEX = (
    "size(string([self.spec.replicaSpecs[r].replicas, has(self.spec.replicaSpecs[r].maxReplicas)"
    " ? self.spec.replicaSpecs[r].maxReplicas : 1, has(self.spec.replicas) ? self.spec.replicas : 1, 1].max() - 1))"
)
# The lengths are added. For the concatenated name itself the API server finds no bound of the cost, and refuses the CRD
# (ADR 6).
_NAMES = "size(self.metadata.name) + size(r) + 2"
# CEL sees metadata.name in rules of the root alone.
ROOT: tuple[Rule, ...] = (
    {
        "rule": f"self.metadata.name.matches('{JOB_NAME}')",
        "fieldPath": ".metadata.name",
        "message": f"the name of a job {NAME_RULE}: its services are named after it",
        "messageExpression": (
            f"'%s: the name of a job {NAME_RULE}: its services are named after it'.format([self.metadata.name])"
        ),
    },
    {
        "rule": (
            # The longest possible index first: it settles nearly every job without a look at its numbers.
            f"self.spec.replicaSpecs.all(r, {_NAMES} + {len(str(MAX_REPLICAS - 1))} <= {naming.MAX_NAME_LENGTH}"
            f" || {_NAMES} + {_LONGEST_INDEX} <= {naming.MAX_NAME_LENGTH})"
        ),
        "fieldPath": ".metadata.name",
        "message": f"the longest pod name {LENGTH_RULE}",
        "messageExpression": f"'%s: the longest pod name {LENGTH_RULE}'.format([self.metadata.name])",
    },
)
