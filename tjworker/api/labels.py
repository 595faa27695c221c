"""Label, annotation and environment names: the fixed vocabulary between the operator, its pods and its users.

Source: seed 004 (KubeDL job API v1 constants), seed 002 (annotations that act), spec 1.
"""

from __future__ import annotations

GROUP_NAME = "group-name"
JOB_NAME = "job-name"
REPLICA_TYPE = "replica-type"
REPLICA_NAME = "replica-name"
REPLICA_INDEX = "replica-index"
JOB_ROLE = "job-role"
RESTART_ATTEMPT = "restart-attempt"
JOB_UID = "elasticdeeplearning.ai/job-uid"
"""UID of the job: children are told from those of an earlier job of the same name by it."""

OURS = (GROUP_NAME, JOB_NAME, REPLICA_TYPE, REPLICA_NAME, REPLICA_INDEX, JOB_ROLE, RESTART_ATTEMPT, JOB_UID)
"""Every label key that the operator sets on pods and services, and that the projection keeps."""

ANNOTATION_PREEMPTED = "Preempted"
ANNOTATION_FAILED = "Failed"
ANNOTATION_NODE_FAIL = "NodeFail"
ANNOTATION_GIT_SYNC = "kubedl.io/git-sync-config"
ANNOTATION_TENSORBOARD = "kubedl.io/tensorboard-config"
ANNOTATION_NETWORK_MODE = "kubedl.io/network-mode"
ANNOTATION_TENANCY = "kubedl.io/tenancy"

COUNTED_PREFIX = "aitj-"
"""Containers and ports whose name starts so count for exit codes, services and hosts (seed 002)."""
