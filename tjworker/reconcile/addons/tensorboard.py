"""kubedl.io/tensorboard-config: a TensorBoard for the job, with its own pod and service. Pure.

As in KubeDL (pkg/tensorboard) are the names, the command and the path `/<namespace>/<job>`. The pod has the settings
and volumes of the master's pod, because the events are on a volume of the template. Unlike in KubeDL, the pod has no
other container of the template, and no shell reads `logDir`. The pod is no replica (`api.ownership`): it has no part in
a phase, a gang, a restart or an end.

It lives as long as the job and `ttlSecondsAfterJobFinished` longer. `status.tensorboardUntil` is written with the end,
and removed when the pod and its service are gone. The view of an ended job has no children, so the passes ask the API
server for these two.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace

from pydantic import Field

from tjworker.api import labels
from tjworker.api.ignored import Ignored
from tjworker.api.labels import ANNOTATION_TENSORBOARD as ANNOTATION
from tjworker.api.labels import TENSORBOARD_CONFIG
from tjworker.api.model import FieldError, InvalidJob, Role, TrainingJob
from tjworker.api.naming import MAX_NAME_LENGTH, containers, tensorboard_name
from tjworker.api.needs import ChildNow
from tjworker.api.observed import ENDED_PHASES, Observed, PodRecord
from tjworker.api.ownership import own_tensorboard
from tjworker.api.resources import PODS, SERVICES
from tjworker.api.status import FAILED_CREATE, JobStatus
from tjworker.api.timefmt import from_rfc3339, to_rfc3339
from tjworker.base import Json
from tjworker.reconcile.addons.addon import Addon, Config, path_of, read_config
from tjworker.reconcile.conditions import clear_condition, set_condition
from tjworker.reconcile.failures import ended_at
from tjworker.reconcile.frameworks import find_framework
from tjworker.reconcile.one_pass import Pass
from tjworker.reconcile.plan import Create, Event, Plan, Write
from tjworker.reconcile.rules import Rules
from tjworker.reconcile.volumes import path_inside
from tjworker.reconcile.workloads.pod import delete_pod, delete_service
from tjworker.reconcile.workloads.podbody import owner_reference

PATH = path_of(ANNOTATION)
TYPE = "tensorboard"
PORT = 6006
REST_SECONDS = 30.0
"""An ended pod, such as an evicted or rejected one, stays for this time before it is created again."""
MAX_MESSAGE = 1024
"""Characters: the limit of an event's note."""
RESOURCES: Json = {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"cpu": "1", "memory": "2Gi"}}
_OF_THE_POD = (
    "automountServiceAccountToken",
    "dnsConfig",
    "hostAliases",
    "imagePullSecrets",
    "nodeSelector",
    "runtimeClassName",
    "securityContext",
    "serviceAccountName",
    "tolerations",
)
_OF_THE_CONTAINER = ("image", "imagePullPolicy", "workingDir", "envFrom")
_TROUBLE = frozenset({"CrashLoopBackOff", "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "RunContainerError"})


class Ingress(Config):
    host: str | None = None
    path_prefix: str | None = None
    annotations: dict[str, str] | None = None


class TensorBoard(Config):
    log_dir: str = Field(min_length=1, max_length=4096)
    ttl_seconds_after_job_finished: int = Field(0, ge=0, le=2**31 - 1)
    update_timestamp: str | None = None
    image: str | None = None
    ingress_spec: Ingress | None = None

    @property
    def digest(self) -> str:
        """The digest of the configuration of the pod. A pod with another digest is replaced."""
        made_of = [self.log_dir, self.image, self.ingress_spec.path_prefix if self.ingress_spec else None]
        return hashlib.sha256(json.dumps(made_of).encode()).hexdigest()[:10]

    def path(self, job: TrainingJob) -> str:
        prefix = (self.ingress_spec.path_prefix if self.ingress_spec else None) or ""
        parts = [part for part in prefix.split("/") if part]
        return "/".join(["", *parts, job.name.namespace, job.name.name])


def wanted(job: TrainingJob) -> TensorBoard | None:
    """The configuration in the annotation; None if it is missing or has errors."""
    if ANNOTATION not in job.annotations:
        return None
    return read_config(job, ANNOTATION, TensorBoard)[0]


def _errors(job: TrainingJob, rules: Rules) -> Iterator[FieldError]:
    config, errors = read_config(job, ANNOTATION, TensorBoard)
    yield from errors
    name = tensorboard_name(job.name.name)
    if any(role.name.lower() == TYPE for role in job.roles):
        yield FieldError(PATH, f"makes the pod {name}, as the role {TYPE} does; rename the role")
    if len(name) > MAX_NAME_LENGTH:
        yield FieldError(
            "metadata.name",
            f"{name} has {len(name)} characters, at most {MAX_NAME_LENGTH} are allowed; shorten the name",
        )
    if config is not None and config.log_dir.startswith("-"):
        yield FieldError(f"{PATH}.logDir", f"{config.log_dir[:80]!r}: must be a path or a URL, and not begin with -")
    if config is not None and config.image and any(c.isspace() for c in config.image):
        yield FieldError(f"{PATH}.image", f"{config.image[:80]!r}: the name of an image has no blanks")


# -- while the job lives ---------------------------------------------------------------------------


def _shape(p: Pass) -> Iterator[Write]:
    """The writes for the TensorBoard. They come after all writes of the job itself."""
    # An annotation that cannot be read says nothing: what was made for the last good one stays.
    if ANNOTATION in p.job.unread_annotations:
        return
    config = wanted(p.job)
    if config is None:
        yield from _remove(p.job, p.observed, f"the annotation {ANNOTATION} is gone")
        return
    name = tensorboard_name(p.job.name.name)
    pod, service = own_tensorboard(p.job, p.observed)
    old = p.status.condition("TensorBoard")
    # The condition keeps this reason until a pass has seen both objects.
    refused = old is not None and old.reason == FAILED_CREATE
    if service is None and all(s.name != name for s in p.observed.services):
        yield Create(SERVICES, name, _service(p.job), awaited=refused, optional=True)
    if pod is None:
        if all(other.name != name for other in p.observed.pods):
            yield Create(PODS, name, _pod(p.job, config), awaited=refused, optional=True)
    elif pod.deleted_at is None and pod.labels.get(TENSORBOARD_CONFIG) != config.digest:
        yield delete_pod(pod, f"the annotation {ANNOTATION} has changed")
    elif pod.deleted_at is None and pod.phase in ENDED_PHASES and _rest_left(pod, p.now) <= 0:
        yield delete_pod(pod, "it has ended, and its job has not")


def _rest_left(pod: PodRecord, now: float) -> float:
    """Seconds until the rest of an ended pod is over; negative after that."""
    since = ended_at(pod) or pod.created_at or 0
    return since + REST_SECONDS - now


def _next_seconds(p: Pass) -> float | None:
    """Seconds until an ended pod is replaced; None if there is none."""
    pod, _ = own_tensorboard(p.job, p.observed)
    if pod is None or pod.deleted_at is not None or pod.phase not in ENDED_PHASES:
        return None
    return max(0.0, _rest_left(pod, p.now))


def _remove(job: TrainingJob | InvalidJob, observed: Observed, why: str) -> Iterator[Write]:
    """Deletes of the pod and the service, unless they are being deleted."""
    pod, service = own_tensorboard(job, observed)
    if pod is not None and pod.deleted_at is None:
        yield delete_pod(pod, why)
    if service is not None and service.deleted_at is None:
        yield delete_service(service, why)


def _report(p: Pass, status: JobStatus) -> tuple[JobStatus, tuple[Event, ...]]:
    """The status with the condition TensorBoard, and an event if the condition reports a new problem."""
    config, generation = wanted(p.job), p.job.generation
    if ANNOTATION in p.job.unread_annotations:
        return status, ()
    if config is None:
        gone = f"the annotation {ANNOTATION} is gone"
        return clear_condition(status, "TensorBoard", "Removed", gone, now=p.at, generation=generation), ()
    pod, service = own_tensorboard(p.job, p.observed)
    serves, reason, message = _state(p.job, config, pod)
    old = status.condition("TensorBoard")
    if old is not None and old.reason == FAILED_CREATE and (pod is None or service is None):
        # The API server's message stays until both objects exist.
        serves, reason, message = False, old.reason, old.message
    status = set_condition(status, "TensorBoard", serves, reason, message, now=p.at, generation=generation)
    begins = reason in _TROUBLE and (old is None or old.reason != reason)
    return status, (Event("Warning", reason, message[:MAX_MESSAGE]),) if begins else ()


def _report_refusal(job: TrainingJob, now: float, message: str) -> Plan:
    """The plan after the API server refused the pod or the service. The condition TensorBoard gets its message, with an
    event if the reason is new. Empty if the condition has the message already."""
    at, more = to_rfc3339(now), "; the job goes on without it"
    message = f"{message[: MAX_MESSAGE - len(more)]}{more}"
    old = job.status.condition("TensorBoard")
    status = set_condition(job.status, "TensorBoard", False, FAILED_CREATE, message, now=at, generation=job.generation)
    if status == job.status:
        return Plan()
    begins = old is None or old.reason != FAILED_CREATE
    status = status.model_copy(update={"last_reconcile_time": at})
    return Plan(status, events=(Event("Warning", FAILED_CREATE, message),) if begins else ())


def _state(job: TrainingJob, config: TensorBoard, pod: PodRecord | None) -> tuple[bool, str, str]:
    name = tensorboard_name(job.name.name)
    where = f"http://{name}.{job.name.namespace}:{PORT}{config.path(job)}/"
    if pod is None:
        return False, "Pending", f"pod {name} is not there yet"
    if pod.ready:
        return True, "Serving", f"{where} shows {config.log_dir}; from outside: kubectl port-forward pod/{name} {PORT}"
    if pod.unschedulable:
        return False, "Unschedulable", f"pod {name} has no node: {pod.unschedulable}"
    container = pod.containers[0] if pod.containers else None
    if container is not None and container.reason in _TROUBLE:
        detail = f" ({container.message})" if container.message else ""
        more = f"; the job goes on without it, and kubectl logs {name} says why"
        return False, container.reason, f"pod {name} does not run: {container.reason}{detail}{more}"
    return False, "Pending", f"pod {name} starts"


# -- after its end ---------------------------------------------------------------------------------


def _at_the_end(p: Pass, status: JobStatus) -> tuple[JobStatus, float | None]:
    """(status with the time until which the TensorBoard stays, seconds until then; None if there is none)."""
    config = wanted(p.job)
    if config is None and own_tensorboard(p.job, p.observed) == (None, None):
        return status.model_copy(update={"tensorboard_until": None}), None
    seconds = config.ttl_seconds_after_job_finished if config else 0
    until = to_rfc3339(p.now + seconds)
    return status.model_copy(update={"tensorboard_until": until}), max(0.0, (from_rfc3339(until) or p.now) - p.now)


def _after_the_end(job: TrainingJob | InvalidJob, observed: Observed, now: float) -> Plan | None:
    """The plan that removes the TensorBoard of an ended job in time; None if nothing is left to do."""
    # Works without a usable spec: an edit of an ended job must not keep the TensorBoard.
    until = from_rfc3339(job.status.tensorboard_until)
    if until is None:
        return None
    if now < until:
        return Plan(requeue_after_seconds=until - now)
    name = tensorboard_name(job.name.name)
    needs = {ChildNow(PODS, name), ChildNow(SERVICES, name)} - observed.confirmed
    if needs:
        return Plan(needs=tuple(sorted(needs)))
    why = f"the job has ended, and {ANNOTATION} keeps it until {job.status.tensorboard_until}"
    writes = tuple(_remove(job, observed, why))
    if writes:
        return Plan(writes=writes, requeue_after_seconds=0, decisions=(f"remove {name}: {why}",))
    at = to_rfc3339(now)
    status = job.status.model_copy(update={"tensorboard_until": None})
    status = clear_condition(status, "TensorBoard", "Removed", why, now=at, generation=job.generation)
    return Plan(status=status)


# -- objects ---------------------------------------------------------------------------------------


def _marks(job: TrainingJob) -> dict[str, str]:
    return {
        labels.GROUP_NAME: job.api_version.partition("/")[0],
        labels.JOB_NAME: job.name.name,
        labels.REPLICA_TYPE: TYPE,
        labels.REPLICA_NAME: tensorboard_name(job.name.name),
        labels.REPLICA_INDEX: "0",
        labels.JOB_UID: job.uid,
    }


def _metadata(job: TrainingJob, config: TensorBoard | None) -> Json:
    return {
        "name": tensorboard_name(job.name.name),
        "namespace": job.name.namespace,
        "labels": {**_marks(job), TENSORBOARD_CONFIG: config.digest if config else "service"},
        "ownerReferences": [owner_reference(job)],
    }


def _service(job: TrainingJob) -> Json:
    port = {"name": TYPE, "port": PORT, "targetPort": PORT}
    spec = {"clusterIP": "None", "selector": _marks(job), "ports": [port]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": _metadata(job, None), "spec": spec}


def _pod(job: TrainingJob, config: TensorBoard) -> Json:
    role, container = _source(job, config)
    template_spec = role.template.get("spec") or {}
    # Not the other volumes of the template: one that nothing mounts could still keep the pod from starting.
    mounted = {m["name"] for m in _mounts(job, role, container)}
    volumes = [v for v in template_spec.get("volumes") or () if v.get("name") in mounted]
    spec = {name: template_spec[name] for name in _OF_THE_POD if name in template_spec}
    spec |= {"containers": [_container(job, config, role, container)], "restartPolicy": "Always"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(job, config),
        "spec": spec | ({"volumes": volumes} if volumes else {}),
    }


def _source(job: TrainingJob, config: TensorBoard) -> tuple[Role, Json]:
    """The container that writes the events: the first with a mount that holds logDir, beginning with the master's. Else
    the first container of the master."""
    framework = find_framework(job)
    roles = sorted(framework.ordered(job), key=lambda role: not framework.is_master(job, role, 0))
    every = [(role, container) for role in roles for container in containers(role.template)]
    for role, container in every:
        paths = [str(m.get("mountPath", "")) for m in container.get("volumeMounts") or ()]
        if any(path_inside(config.log_dir, path) for path in paths):
            return role, container
    return every[0]


def _mounts(job: TrainingJob, role: Role, source: Json) -> list[Json]:
    """The mounts of the source that a reader needs: without the job's own key, and without `mountPropagation`, which
    may require a privileged container."""
    volumes = (role.template.get("spec") or {}).get("volumes") or ()
    keys = {v.get("name") for v in volumes if job.secret is not None and job.secret.name in _secrets(v)}
    mounts = (m for m in source.get("volumeMounts") or () if m.get("name") not in keys)
    return [{name: value for name, value in m.items() if name != "mountPropagation"} for m in mounts]


def _secrets(volume: Json) -> set[str]:
    projected = (volume.get("projected") or {}).get("sources") or ()
    return {
        (volume.get("secret") or {}).get("secretName") or "",
        *((source.get("secret") or {}).get("name") or "" for source in projected),
    }


def _container(job: TrainingJob, config: TensorBoard, role: Role, source: Json) -> Json:
    path = config.path(job)
    own = source.get("securityContext") or {}
    # A namespace may enforce the Pod Security profile `restricted`.
    restricted = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    users = {name: own[name] for name in ("runAsUser", "runAsGroup", "runAsNonRoot") if name in own}
    # CUDA images set NVIDIA_VISIBLE_DEVICES to `all`: without a request for GPUs the container would see those of
    # other pods.
    env = [e for e in source.get("env") or () if e.get("name") != "NVIDIA_VISIBLE_DEVICES"]
    made = {
        **{name: source[name] for name in _OF_THE_CONTAINER if name in source},
        "name": TYPE,
        "command": ["python", "-m", "tensorboard.main", "--logdir", config.log_dir],
        "args": ["--path_prefix", path, "--bind_all", "--port", str(PORT)],
        "env": [*env, {"name": "NVIDIA_VISIBLE_DEVICES", "value": ""}],
        "ports": [{"name": TYPE, "containerPort": PORT}],
        "readinessProbe": {"httpGet": {"path": f"{path}/", "port": PORT}, "periodSeconds": 5, "timeoutSeconds": 5},
        "resources": RESOURCES,
        "securityContext": {**restricted, **users},
        "volumeMounts": _mounts(job, role, source),
    }
    return made | ({"image": config.image} if config.image else {})


def _ignored(job: TrainingJob, rules: Rules) -> TrainingJob:
    config = wanted(job)
    if config is None or config.ingress_spec is None or not config.ingress_spec.host:
        return job
    name = tensorboard_name(job.name.name)
    instead = f"make an Ingress to the service {name}, port {PORT}"
    host = Ignored(f"host of the ingressSpec in {ANNOTATION}", instead)
    return replace(job, ignored=(*job.ignored, host))


ADDON = Addon(
    ANNOTATION,
    _errors,
    _ignored,
    shape=_shape,
    report=_report,
    report_refusal=_report_refusal,
    next_seconds=_next_seconds,
    conditions=("TensorBoard",),
    remove=_remove,
    at_the_end=_at_the_end,
    after_the_end=_after_the_end,
)
