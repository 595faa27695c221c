"""Whether a job is as it should be, seen from outside: its spec and status beside the pods there are. Knows nothing of
how reconcile comes to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from tests.simulation.busy import GPUS
from tests.simulation.place import Seen
from tests.support.kinds import resource_of
from tjworker.api import kinds, labels
from tjworker.api.indices import parse_indices
from tjworker.api.model import Role, TrainingJob
from tjworker.api.naming import owner_name
from tjworker.api.status import END_PHASES

Json = dict[str, Any]


def amiss(world: Seen) -> list[str]:
    """What is not as it should be (yet)."""
    raw = world.the_job()
    if raw is None:
        return [f"the job is gone, and {name} is still there" for name in sorted(world.pods())]
    job = kinds.parse(resource_of(raw), raw)
    if not isinstance(job, TrainingJob):
        if job.status.ended:
            return []
        said = [c.reason for c in job.status.conditions if c.observed_generation == raw["metadata"]["generation"]]
        return [] if "InvalidSpec" in said else [f"the job is invalid and does not say so: {job.errors}"]
    replicas = {name: pod for name, pod in world.pods().items() if labels.TENSORBOARD_CONFIG not in _labels(pod)}
    pods = {name: pod for name, pod in replicas.items() if _labels(pod).get(labels.JOB_UID) == job.uid}
    others = sorted(set(replicas) - set(pods))
    found = [f"{name} is of an earlier job" for name in others]
    if job.status.observed_generation != job.generation and not job.status.ended:
        found.append(f"the status is of generation {job.status.observed_generation}, the spec of {job.generation}")
    found += _to_come(job)
    if job.status.phase in END_PHASES:
        return found + list(_after_its_end(job, pods))
    if job.suspend:
        found += [] if job.status.phase == "Suspended" else [f"suspended, and its phase is {job.status.phase}"]
        return found + [f"suspended, and {name} is there" for name in sorted(pods)]
    seen = {
        name: int((batch.get("status") or {}).get("succeeded") or 0)
        for name, batch in world.objects("batch/jobs").items()
    }
    winding = {
        role.name for role in job.roles if role.workload == "Job" and seen.get(owner_name(job.name.name, role.name))
    }
    alive, waiting = [pod for pod in pods.values() if _is_alive(pod)], False
    for role in job.roles:
        of_role = [p for p in pods.values() if _labels(p).get(labels.REPLICA_NAME) == role.name]
        if _waits_for_ever(world, job, role, of_role, alive):
            waiting = True
        else:
            found += _of_a_role(job, role, role.name in winding, of_role)
    if job.status.phase != "Running" and not found and not winding and not waiting:
        found.append(f"every pod is as it should be, and the phase is {job.status.phase}: {job.status.message}")
    return found + list(_services(world, job))


def _to_come(job: TrainingJob) -> Iterator[str]:
    """What time alone will do to it."""
    if job.status.tensorboard_until:
        yield f"its TensorBoard stays until {job.status.tensorboard_until}"
    if job.status.phase in END_PHASES:
        if job.ttl_seconds_after_finished is not None:
            yield f"ended, and its ttlSecondsAfterFinished of {job.ttl_seconds_after_finished} is to come"
    elif not job.suspend:
        if job.time_limit_seconds is not None and job.status.start_running_time:
            yield f"its timeLimit of {job.time_limit_seconds} is to come"
        if job.active_deadline_seconds is not None and job.status.start_time:
            yield f"its activeDeadlineSeconds of {job.active_deadline_seconds} is to come"


def _after_its_end(job: TrainingJob, pods: dict[str, Json]) -> Iterator[str]:
    for name, pod in pods.items():
        policy = _clean_pod_policy(job, _labels(pod).get(labels.REPLICA_NAME, ""))
        if policy == "All" or (policy == "Running" and _is_alive(pod)):
            yield f"ended, and {name} is {_phase(pod)}"


def _waits_for_ever(world: Seen, job: TrainingJob, role: Role, pods: list[Json], alive: list[Json]) -> bool:
    """By what its users are told. `pods`: those of the role; `alive`: those of the job that live."""
    if any(map(_finds_no_gpu, pods)):
        # Each pod of such a job asks for one: no room for more than all nodes have.
        return len(alive) > GPUS
    # The template of a ReplicaSet or a batch Job cannot leave a group (docs/gang.md).
    waits = any(_phase(pod) == "Pending" and not pod["spec"].get("nodeName") for pod in pods)
    return role.workload != "Pod" and waits and _wants_more_than_there_are(world, alive)


def _finds_no_gpu(pod: Json) -> bool:
    told = [c.get("message", "") for c in pod["status"].get("conditions") or () if c["type"] == "PodScheduled"]
    return _phase(pod) == "Pending" and any("Insufficient nvidia.com/gpu" in text for text in told)


def _wants_more_than_there_are(world: Seen, alive: list[Json]) -> bool:
    """Some PodGroup does."""
    members = Counter(pod["spec"].get("schedulingGroup", {}).get("podGroupName") for pod in alive)
    sizes = {
        name: group["spec"]["schedulingPolicy"].get("gang", {}).get("minCount", 0)
        for name, group in world.objects("scheduling.k8s.io/podgroups").items()
    }
    return any(size > members[name] for name, size in sizes.items())


def _clean_pod_policy(job: TrainingJob, role: str) -> str:
    """An end that is to free what the job holds leaves nothing running; nor does a batch Job that has ended."""
    if role in job.batch_roles:
        return "Running"
    reason = job.status.ending.reason if job.status.ending else ""
    if job.limit_clean_policy is not None and reason in ("DeadlineExceeded", "BackoffLimitExceeded"):
        return job.limit_clean_policy
    frees = job.status.phase in ("Preempted", "Timeout", "NodeFail")
    return "Running" if job.clean_pod_policy == "None" and frees else job.clean_pod_policy


def _of_a_role(job: TrainingJob, role: Role, winds_down: bool, pods: list[Json]) -> Iterator[str]:
    """`winds_down`: a batch Job without `completions` makes no pod any more, and takes none away, once one of its pods
    has succeeded (Kubernetes' rule)."""
    attempts = job.status.attempts.roles.get(role.name)
    final: set[int] = set()
    if attempts is not None:
        final = {*parse_indices(attempts.completed, 10_000), *parse_indices(attempts.failed, 10_000)}
    wanted = {index for index in range(role.replicas) if index not in final}
    alive = [pod for pod in pods if _is_alive(pod)]
    running = [pod for pod in alive if _phase(pod) == "Running" and "deletionTimestamp" not in pod["metadata"]]
    seats = Counter(int(_labels(pod).get(labels.REPLICA_INDEX, -1)) for pod in running)
    if winds_down and len(alive) == len(running) == len(set(seats)):
        return
    if len(alive) != len(wanted) or seats != Counter(wanted):
        said = {pod["metadata"]["name"]: (_labels(pod).get(labels.REPLICA_INDEX), _phase(pod)) for pod in pods}
        yield f"{role.name}: running are to be {sorted(wanted)}, there are {said}"
    for pod in running:
        index = int(_labels(pod).get(labels.REPLICA_INDEX, -1))
        attempt = 0 if attempts is None else attempts.all + attempts.pods.get(str(index), 0)
        if _labels(pod).get(labels.RESTART_ATTEMPT) != str(attempt):
            name, got = pod["metadata"]["name"], _labels(pod).get(labels.RESTART_ATTEMPT)
            yield f"{name} is of attempt {got}, wanted is {attempt}"


def _services(world: Seen, job: TrainingJob) -> Iterator[str]:
    """Every pod that runs can be found by its name, where its role has ports; none is left over."""
    services = {name: s for name, s in world.objects("services").items() if _labels(s).get(labels.JOB_UID) == job.uid}
    if job.subdomain:
        if job.subdomain not in services:
            yield f"there is no service {job.subdomain}"
        return
    for role in job.roles:
        if role.workload != "Pod":
            continue
        of_role = [s for s in services.values() if _labels(s).get(labels.REPLICA_NAME) == role.name]
        mine = {int(_labels(s)[labels.REPLICA_INDEX]) for s in of_role}
        beyond = sorted(index for index in mine if index >= role.replicas)
        if beyond:
            yield f"{role.name}: services of {beyond} are left over"
        for pod in world.pods().values():
            marks = _labels(pod)
            here = marks.get(labels.JOB_UID) == job.uid and marks.get(labels.REPLICA_NAME) == role.name
            if here and _phase(pod) == "Running" and int(marks[labels.REPLICA_INDEX]) not in mine:
                yield f"{pod['metadata']['name']} has no service"


def _labels(obj: Json) -> Json:
    found: Json = obj["metadata"].get("labels") or {}
    return found


def _phase(pod: Json) -> str:
    return str(pod["status"].get("phase"))


def _is_alive(pod: Json) -> bool:
    return _phase(pod) in ("Pending", "Running")
