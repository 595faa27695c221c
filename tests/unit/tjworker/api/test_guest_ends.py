"""Which failures of a job of another operator's are followed by a restart, by kind, role, restart policy and exit code;
and which roles decide that it is done, by the roles that it has.

Defaults and meanings are those of docs/kinds.md, docs/kubedl.md and the descriptions of `restartPolicy`. The rules of
ends were read in the operators' sources: `UpdateJobStatus` of each controller of training-operator 1.9
(pkg/controller.v1), `updateMPIJobStatus` of mpi-operator 0.6 (pkg/controller), `UpdateJobStatus` and
`updateGeneralJobStatus` of KubeDL 0.5 (controllers).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.support.builders import make_pod
from tests.support.guests import GUESTS, KIND_OF, parsed
from tests.unit.tjworker.api.guest_cases import Json, manifest, refusal_of, role
from tests.unit.tjworker.reconcile.passes import NOW_TEXT
from tjworker.api.model import Role, TrainingJob
from tjworker.api.status import RoleAttempts
from tjworker.base import GroupResource
from tjworker.reconcile.failures import Kind, diagnose
from tjworker.reconcile.policies.restart import RESTART_POLICIES
from tjworker.reconcile.policies.restart.rule import FailedReplica
from tjworker.reconcile.replicas import Replica

MPI = GroupResource("mpijobs.kubeflow.org")
ROLES: Mapping[str, tuple[str, ...]] = {
    "jaxjobs.kubeflow.org": ("Worker",),
    "mpijobs.kubeflow.org": ("Launcher", "Worker"),
    "paddlejobs.kubeflow.org": ("Master", "Worker"),
    "pytorchjobs.kubeflow.org": ("Master", "Worker"),
    "tfjobs.kubeflow.org": ("PS", "Worker", "Chief", "Evaluator"),
    "xgboostjobs.kubeflow.org": ("Master", "Worker"),
    "elasticdljobs.training.kubedl.io": ("Master",),
    "marsjobs.training.kubedl.io": ("Scheduler", "WebService", "Worker"),
    "mpijobs.training.kubedl.io": ("Launcher", "Worker"),
    "pytorchjobs.training.kubedl.io": ("Master", "Worker"),
    "tfjobs.training.kubedl.io": ("PS", "Worker", "Chief", "Evaluator"),
    "xdljobs.training.kubedl.io": ("PS", "Scheduler", "Worker", "ExtendRole"),
    "xgboostjobs.training.kubedl.io": ("Master", "Worker"),
}
DEFAULTS: Mapping[str, str | Mapping[str, str]] = {
    "paddlejobs.kubeflow.org": "OnFailure",
    "pytorchjobs.kubeflow.org": "OnFailure",
    "mpijobs.kubeflow.org": {"Launcher": "OnFailure", "Worker": "Never"},
    "marsjobs.training.kubedl.io": {"Scheduler": "Never", "WebService": "Always", "Worker": "ExitCode"},
    "pytorchjobs.training.kubedl.io": {"Master": "ExitCode", "Worker": "OnFailure"},
    "tfjobs.training.kubedl.io": "ExitCode",
}
"""Of the role that sets no policy; of all other kinds Never."""
CODES: tuple[int, ...] = (1, 2, 126, 127, 128, 130, 137, 143, 255)
POLICIES = (None, "", "Always", "OnFailure", "Never", "ExitCode")


def kinds() -> Iterator[tuple[str, GroupResource, Json]]:
    yield from ((name, GroupResource(name), {}) for name in ROLES)
    yield "mpijobs.kubeflow.org, v1", MPI, {"manifestVersion": "v1"}


KINDS = {name: (resource, spec) for name, resource, spec in kinds()}


def default(kind: str, role_name: str) -> str:
    told = DEFAULTS.get(kind, "Never")
    return told if isinstance(told, str) else told[role_name]


ACTS_AS: Mapping[tuple[str, str, str], str] = {
    # A batch Job makes its pod again whatever the restart policy of that (`newLauncherJob`).
    ("mpijobs.kubeflow.org", "Launcher", "Never"): "OnFailure",
    # `launcherStatus.Failed > 0` fails the job before the launcher could fail over (controllers/mpi/job.go).
    ("mpijobs.training.kubedl.io", "Launcher", "ExitCode"): "Never",
    # Likewise a scheduler, in so many words (controllers/mars/status.go).
    ("marsjobs.training.kubedl.io", "Scheduler", "ExitCode"): "Never",
}
"""Kind, role, restart policy -> the policy whose meaning it has there."""


def restarts(policy: str, code: int) -> bool:
    """As the description of `restartPolicy` has it."""
    return policy in ("Always", "OnFailure") or (policy == "ExitCode" and 128 <= code <= 255)


def test_each_kind_has_its_roles_here() -> None:
    assert ROLES.keys() == GUESTS.keys()


LOST: tuple[Kind, ...] = ("disrupted", "node_lost", "gpu_fault")
"""Failures that are none of the program."""


def is_restarted(job: TrainingJob, one: Role, code: int, kind: Kind = "exit") -> bool:
    record = make_pod(job, one.name, 0).failed(code).build()
    diagnosis = replace(diagnose(record, NOW_TEXT), kind=kind)
    failed = FailedReplica(job, one, Replica(one.name, 0, record.name, 0, "failed", record), diagnosis, RoleAttempts())
    return RESTART_POLICIES[one.restart_policy](failed) is None


def job_with(kind: str, role_name: str, policy: str | None) -> Json:
    resource, spec = KINDS[kind]
    said: Json = {} if policy is None else {"restartPolicy": policy}
    roles = {name: role(1, **(said if name == role_name else {})) for name in ROLES[resource]}
    return manifest(resource, roles, **spec)


@pytest.mark.parametrize("kind", KINDS)
def test_which_failures_are_followed_by_a_restart(kind: str) -> None:
    resource = KINDS[kind][0]
    for name in ROLES[resource]:
        for policy in POLICIES:
            raw = job_with(kind, name, policy)
            if kind == MPI and policy in ("Always", "ExitCode"):
                assert f"{name}.restartPolicy: {policy}: must be Never or OnFailure" in refusal_of(resource, raw)
                continue
            job = parsed(resource, raw)
            written = policy or default(kind, name)
            acting = ACTS_AS.get((kind, name, written), written)
            found = {code: is_restarted(job, job.role(name), code) for code in CODES}
            assert found == {code: restarts(acting, code) for code in CODES}, (name, policy)
            for why in LOST:
                assert is_restarted(job, job.role(name), 1, why) is (acting != "Never"), (name, policy, why)
            assert job.role(name).restart_scope == "Pod", "the others go on"
            assert job.role(name).restart_limit is None, "backoffLimit alone limits them"


@dataclass(frozen=True)
class Ends:
    kind: str
    roles: str
    decide: Mapping[str, str]
    """Role -> with how many of its pods the job is done; a role that is not named has no say."""
    spec: Json = field(default_factory=dict)


PT, TF, XGB, PADDLE = (f"{name}.kubeflow.org" for name in ("pytorchjobs", "tfjobs", "xgboostjobs", "paddlejobs"))
PT2, TF2, XGB2, XDL, MARS, MPI2, EDL = (
    f"{name}.training.kubedl.io"
    for name in ("pytorchjobs", "tfjobs", "xgboostjobs", "xdljobs", "marsjobs", "mpijobs", "elasticdljobs")
)
ELASTIC: Json = {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 2}}
LAST: Json = {"successPolicy": "AllWorkers"}
LAST_OF_KUBEDL: tuple[tuple[str, Json, Mapping[str, str]], ...] = (
    ("Chief Worker", LAST, {"Chief": "All", "Worker": "All"}),
    ("Master Worker", LAST, {"Master": "All", "Worker": "All"}),
)
"""controllers/tensorflow/status.go: `succeed = succeed && allWorkersSucceed`."""
OF_TF: tuple[tuple[str, Json, Mapping[str, str]], ...] = (
    ("Worker", {}, {"Worker": "Rank0"}),
    ("Worker", LAST, {"Worker": "All"}),
    ("Worker", {"successPolicy": ""}, {"Worker": "Rank0"}),
    ("PS Worker", {}, {"Worker": "Rank0"}),
    ("PS Worker", LAST, {"Worker": "All"}),
    ("Evaluator PS Worker", {}, {"Worker": "Rank0"}),
    ("Chief Worker", {}, {"Chief": "All"}),
    ("Master Worker", {}, {"Master": "All"}),
    ("Chief Evaluator PS Worker", {}, {"Chief": "All"}),
    ("Chief", {}, {"Chief": "All"}),
)
ENDS: tuple[Ends, ...] = (
    Ends(PT, "Master", {"Master": "All"}),
    Ends(PT, "Master Worker", {"Master": "All"}),
    Ends(PT, "Master Worker", {"Master": "All"}, ELASTIC),
    Ends(PT, "Worker", {"Worker": "All"}),
    Ends(PT, "Worker", {"Worker": "Any"}, ELASTIC),
    Ends(PADDLE, "Worker", {"Worker": "All"}),
    Ends(PADDLE, "Worker", {"Worker": "All"}, ELASTIC),
    Ends(PADDLE, "Master Worker", {"Master": "All"}),
    Ends(PADDLE, "Master", {"Master": "All"}),
    Ends("jaxjobs.kubeflow.org", "Worker", {"Worker": "All"}),
    Ends(MPI, "Launcher Worker", {"Launcher": "All"}),
    Ends(MPI, "Launcher Worker", {"Launcher": "All"}, {"manifestVersion": "v1"}),
    Ends(MPI, "Launcher", {"Launcher": "All"}, {"runLauncherAsWorker": True}),
    Ends(MPI2, "Launcher Worker", {"Launcher": "All"}),
    Ends(EDL, "Master", {"Master": "All"}),
    Ends(PT2, "Master", {"Master": "All"}),
    # controllers/pytorch/status.go: `succeed = succeed && allWorkersSucceed`.
    Ends(PT2, "Master Worker", {"Master": "All", "Worker": "All"}),
    Ends(PT2, "Master Worker", {"Master": "All", "Worker": "All"}, {"enableElastic": True, **ELASTIC}),
    Ends(MARS, "Scheduler", {"Scheduler": "All"}),
    Ends(MARS, "Scheduler WebService Worker", {"Scheduler": "All"}),
    Ends(XDL, "PS Scheduler Worker", {"Worker": "All"}),
    Ends(XDL, "ExtendRole PS", {"ExtendRole": "All"}),
    Ends(XDL, "ExtendRole Worker", {"ExtendRole": "All", "Worker": "All"}),
    *(Ends(kind, roles, {"Master": "All"}) for kind in (XGB, XGB2) for roles in ("Master", "Master Worker")),
    *(Ends(kind, roles, decide, spec) for kind in (TF, TF2) for roles, spec, decide in OF_TF),
    *(Ends(TF2, roles, decide, spec) for roles, spec, decide in LAST_OF_KUBEDL),
    # training-operator reads successPolicy in the branch without a chief alone.
    *(Ends(TF, roles, {roles.split()[0]: "All"}, spec) for roles, spec, _ in LAST_OF_KUBEDL),
)
NEVER_FAIL: Mapping[str, tuple[str, ...]] = {MARS: ("WebService", "Worker"), MPI2: ("Worker",)}
"""Roles whose failed pods do not end the job; of all other kinds none, but for a TFJob's dynamic workers."""


def spelled(made: Ends, letters: Any) -> TrainingJob:
    kind = GroupResource(made.kind)
    return parsed(kind, manifest(kind, {letters(name): role(1) for name in made.roles.split()}, **made.spec))


@pytest.mark.parametrize("made", ENDS, ids=lambda made: f"{made.kind} {made.roles} {[*made.spec.values()] or ''}")
def test_which_roles_decide_that_the_job_is_done(made: Ends) -> None:
    """In whatever case their names are written."""
    for letters in (str, str.lower, str.upper):
        job = spelled(made, letters)
        found = {one.name: one.complete_policy for one in job.roles}
        assert found == {name: made.decide.get(name, "None") for name in made.roles.split()}
        lenient = NEVER_FAIL.get(made.kind, ())
        assert {one.name for one in job.roles if one.fail_policy != "Any"} == {*made.roles.split()} & {*lenient}
        field_name = KIND_OF[GroupResource(made.kind)].roles_field
        paths = {f"spec.{field_name}.{letters(name)}.replicas" for name in made.roles.split()}
        assert {one.spec_path for one in job.roles} == paths, "as the user wrote it"
