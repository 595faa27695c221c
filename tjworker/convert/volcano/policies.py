"""Converts Volcano's lifecycle policies to restart and end policies of roles. Pure.

Without a policy, Volcano does this: the kubelet restarts a failed container as the template's restartPolicy says. A pod
that is deleted or lost is created again. A failed pod stays and the others go on; the job has failed when all pods have
ended and one of them has failed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tjworker.api.model import EndPolicy, JobEndPolicy, RestartPolicy, RestartScope
from tjworker.convert.report import Left
from tjworker.convert.volcano.spec import DEFAULT_RETRIES, JobSpec, LifecyclePolicy, Task

SCOPES: dict[str, RestartScope] = {"RestartJob": "All", "RestartTask": "Replica", "RestartPod": "Pod"}
ENDS = ("AbortJob", "TerminateJob")
NONE = ("", "SyncJob")
_FAILED, _EVICTED, _COMPLETED, _TASK_FAILED = "PodFailed", "PodEvicted", "TaskCompleted", "TaskFailed"


@dataclass(slots=True)
class Lives:
    """The result for a job: policies by the name of the role."""

    restart: dict[str, RestartPolicy] = field(default_factory=dict)
    scope: dict[str, RestartScope] = field(default_factory=dict)
    limit: dict[str, int] = field(default_factory=dict)
    by_policy: dict[str, bool] = field(default_factory=dict)
    """True if a policy restarts failed pods; else the kubelet may restart their containers."""
    fail: dict[str, EndPolicy] = field(default_factory=dict)
    complete: dict[str, EndPolicy] = field(default_factory=dict)
    job_completes: JobEndPolicy = "All"
    exit_codes: set[int] = field(default_factory=set)
    left: list[Left] = field(default_factory=list)


def read(spec: JobSpec, kubelet: list[str]) -> Lives:
    """`kubelet`: restartPolicy of each task's template."""
    lives = Lives()
    for i, restart_policy in enumerate(kubelet):
        _task(lives, spec, i, restart_policy)
    _completion(lives, spec)
    for path, policy in _all(spec):
        lives.left += _left(path, policy)
    lives.left += _retries(spec, lives)
    return lives


def _retries(spec: JobSpec, lives: Lives) -> Iterator[Left]:
    by_policy = {name for name, so in lives.by_policy.items() if so}
    if spec.max_retry and not by_policy:
        why, instead = "no policy restarts a pod", "set backoffLimit, or restartLimit of a role that restarts pods"
        yield Left("spec.maxRetry", spec.max_retry, why, instead)
    for i, task in enumerate(spec.tasks):
        name = spec.task_name(i)
        counts = name not in by_policy and name in lives.limit
        if task.max_retry and not counts:
            why = "it counts only with a policy that ends the job at TaskFailed"
            yield Left(f"spec.tasks[{i}].maxRetry", task.max_retry, why, "set restartLimit of the role")


def _all(spec: JobSpec) -> Iterator[tuple[str, LifecyclePolicy]]:
    for i, policy in enumerate(spec.policies):
        yield f"spec.policies[{i}]", policy
    for n, task in enumerate(spec.tasks):
        for i, policy in enumerate(task.policies):
            yield f"spec.tasks[{n}].policies[{i}]", policy


def action(spec: JobSpec, task: Task, event: str) -> str:
    """The action at an event: the task's policies go before the job's, and the first that matches wins."""
    return next((p.action for p in (*task.policies, *spec.policies) if p.is_at(event)), "")


def _task(lives: Lives, spec: JobSpec, index: int, kubelet: str) -> None:
    name, task = spec.task_name(index), spec.tasks[index]
    failed, evicted = action(spec, task, _FAILED), action(spec, task, _EVICTED)
    # Of equal codes the last one counts: as in `action`, a task overrides the job.
    codes = {p.exit_code: p.action for p in (*spec.policies, *task.policies) if p.exit_code is not None}
    retryable = {code for code, what in codes.items() if what in SCOPES}
    ends = _FAILED if failed in ENDS else ""
    # A role has one scope here: of several codes the smallest decides.
    by_code = next((SCOPES[codes[code]] for code in sorted(retryable)), None)
    lives.scope[name] = SCOPES.get(failed) or by_code or SCOPES.get(evicted, "Pod")
    if failed in SCOPES:
        lives.restart[name] = "Always"
    elif retryable:
        lives.restart[name], lives.exit_codes = "OnNodeFailWithExitCode", lives.exit_codes | retryable
    # The kubelet restarts the container in its pod. The nearest thing here is a new pod.
    elif kubelet in ("Always", "OnFailure") and not ends:
        lives.restart[name], lives.scope[name] = "Always", "Pod"
    else:
        # Volcano replaces a lost pod without any policy, unless a policy ends the job at an eviction.
        lives.restart[name] = "Never" if evicted in ENDS else "OnNodeFail"
    lives.by_policy[name] = failed in SCOPES or bool(retryable)
    if lives.by_policy[name]:
        # Volcano fails the job at restart n, this operator at restart n + 1.
        lives.limit[name] = max(0, (spec.max_retry or DEFAULT_RETRIES) - 1)
    elif action(spec, task, _TASK_FAILED) in ENDS:
        # TaskFailed comes when the task's retries are used up.
        lives.limit[name] = task.max_retry or DEFAULT_RETRIES
    # A used-up maxRetry fails a Volcano job, although other pods run.
    restarts = lives.restart[name] in ("Always", "OnNodeFailWithExitCode")
    lives.fail[name] = "Any" if restarts or ends else "All"


def _completion(lives: Lives, spec: JobSpec) -> None:
    names = [spec.task_name(i) for i in range(len(spec.tasks))]
    deciding = [
        spec.task_name(i)
        for i, task in enumerate(spec.tasks)
        if any(p.action == "CompleteJob" and p.is_at(_COMPLETED) for p in task.policies)
    ]
    lives.complete = {name: "All" if name in deciding or not deciding else "None" for name in names}
    # Each of these tasks completes the job by itself.
    if len(deciding) > 1 or any(p.action == "CompleteJob" and p.is_at(_COMPLETED) for p in spec.policies):
        lives.job_completes = "Any"


def _left(path: str, policy: LifecyclePolicy) -> Iterator[Left]:
    if policy.timeout is not None:
        yield Left(f"{path}.timeout", policy.timeout, "the operator acts on an event at once", "leave it out")
    events = [*([policy.event] if policy.event else []), *policy.events]
    for event in events:
        if not _carries(event, policy.action):
            where = f"{path}.event" if policy.event == event else f"{path}.events"
            yield Left(where, f"{event}: {policy.action}", "this operator has no such policy", _instead(event))
    # Volcano's webhook refuses both together.
    if policy.exit_code is not None and events:
        yield Left(
            f"{path}.exitCode", policy.exit_code, "a policy has an event or an exit code", "split it into two policies"
        )
    elif policy.exit_code is not None and policy.action not in (*SCOPES, *ENDS, *NONE):
        why = f"this operator has no {policy.action} at an exit code"
        yield Left(f"{path}.exitCode", policy.exit_code, why, "set failPolicy of the role")


def _carries(event: str, what: str) -> bool:
    if event in (_FAILED, _EVICTED, "*"):
        return what in (*SCOPES, *ENDS, *NONE)
    if event == _COMPLETED:
        return what in ("CompleteJob", *NONE)
    return what in NONE or (event == _TASK_FAILED and what in ENDS)


def _instead(event: str) -> str:
    if event == "PodPending":
        return "set runPolicy.activeDeadlineSeconds, or the operator's TJ_CREATING_RESTART_SECONDS"
    if event == _COMPLETED:
        return "set completePolicy of the role and of the job"
    return "choose restartPolicy, restartScope and failPolicy of the role"
