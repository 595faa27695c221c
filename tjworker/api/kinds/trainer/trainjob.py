"""Parses a TrainJob (trainer.kubeflow.org/v1alpha1) into the internal job. Pure; never raises, whatever the JSON.

A TrainJob is parsed together with its runtime. From the first pass on the status has a copy of it
(`JobStatus.snapshot`), as Trainer has in the ConfigMap `<job>-runtime-snapshot`. So an edit or deletion of the runtime
does not change a job that has begun.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import orjson
from pydantic import ValidationError

from tjworker.api import labels, naming
from tjworker.api.ignored import Ignored
from tjworker.api.kinds.aitrainingjob import rules
from tjworker.api.kinds.base import (
    MAX_ERRORS,
    MEMORY,
    RESOLVED,
    Companion,
    Guest,
    Header,
    Named,
    Parsed,
    field_errors,
    header,
    readable,
    strings,
    text,
    too_big_for_etcd,
)
from tjworker.api.kinds.batchsize import annotated_batch_size
from tjworker.api.kinds.guests.status import AGE, MESSAGE, STATE
from tjworker.api.kinds.runpolicy import MAX_PODS
from tjworker.api.kinds.trainer.claims import claim_errors, claims_of, with_claims
from tjworker.api.kinds.trainer.patches import added_metadata, patch_errors
from tjworker.api.kinds.trainer.policies import Setting, find_policy, reserved_errors
from tjworker.api.kinds.trainer.spec import (
    CONTROLLER,
    DATASET,
    GROUP,
    MODEL,
    NAME_LENGTH,
    NODE,
    STEP_LABEL,
    TRAINER,
    VERSION,
    RuntimeRef,
    RuntimeSpec,
    TrainJobSpec,
    VolumeClaimPolicy,
)
from tjworker.api.kinds.trainer.status import TrainJobStatus, write_status
from tjworker.api.kinds.trainer.steps import (
    BACKOFF_LIMIT,
    STEPS,
    Step,
    child_jobs,
    jobset_template,
    patched,
    role_name,
    steps_of,
)
from tjworker.api.model import (
    After,
    FieldError,
    GangPolicy,
    InvalidJob,
    JobSecret,
    LabelsOfGuest,
    Reference,
    Role,
    TrainingJob,
)
from tjworker.api.podgroups import QUEUE_ANNOTATION
from tjworker.api.status import JobStatus
from tjworker.api.timefmt import unix_seconds
from tjworker.base import GroupResource, Json, mapping

KIND, PLURAL = "TrainJob", "trainjobs"
RESOURCE = GroupResource(f"{PLURAL}.{GROUP}")
MIN_NODES = "elasticdeeplearning.ai/min-nodes"
MAX_NODES = "elasticdeeplearning.ai/max-nodes"
AUTOSCALE = "elasticdeeplearning.ai/autoscale"
NUM_NODES = "elasticdeeplearning.ai/num-nodes"
"""Annotation of an elastic TrainJob: its current number of nodes, in place of the immutable spec.trainer.numNodes."""
# The object also holds the job's spec and the rest of the status, and etcd refuses it above 1.5 MiB.
MOST_OF_A_RUNTIME = 256 << 10
"""Most bytes of a runtime that a job keeps in its status."""
RUNTIMES_KEPT = 32
"""Parsed runtimes in memory: at most 8 MiB of JSON."""

_DESCRIPTION = "A runtime of Kubeflow's Trainer, which describes the pods of TrainJobs."
RUNTIMES: Mapping[str, Companion] = {
    kind: Companion(
        plural=f"{kind.lower()}s",
        singular=kind.lower(),
        kind=kind,
        group=GROUP,
        version=VERSION,
        namespaced=namespaced,
        description=f"{_DESCRIPTION} {whose}",
        spec_model=RuntimeSpec,
    )
    for kind, namespaced, whose in (
        ("TrainingRuntime", True, "For the jobs of its namespace."),
        ("ClusterTrainingRuntime", False, "For the jobs of every namespace."),
    )
}


def parse(raw: Json) -> Parsed:
    raw = mapping(raw)
    status = mapping(raw.get("status"))
    seen = "" if MEMORY in status else _of_trainer(status)
    ended = {"Complete": "Succeed", "Failed": "Failed"}
    own: Json = {"phase": ended[seen]} if seen in ended else mapping(status.get(MEMORY))
    head = header({**raw, "status": own}, RESOURCE, KIND, f"{GROUP}/{VERSION}")
    if seen == "begun":
        return InvalidJob(**head, errors=_BEGUN, for_good=True)
    try:
        spec = TrainJobSpec.model_validate(mapping(raw.get("spec")))
    except ValidationError as error:
        return InvalidJob(**head, errors=field_errors(error))
    if unknown := tuple(_reference_errors(spec.runtime_ref)):
        return InvalidJob(**head, errors=unknown)
    # A refused job has no pods, so it reads its runtime again, which a user may have corrected.
    snapshot = mapping(raw.get(RESOLVED)) or ({} if head["status"].refused else head["status"].snapshot)
    if not snapshot:
        return _waiting(head, spec.runtime_ref)
    # With such a snapshot in its status, the watcher could not keep the job.
    if readable(runtime_spec := snapshot.get("spec")) is not runtime_spec:
        of = f"{spec.runtime_ref.kind} {spec.runtime_ref.name}"
        deep = f"{of} is nested too deep to be kept; mend it so that no field has more than 200 levels"
        return InvalidJob(**head, errors=(FieldError("spec.runtimeRef.name", deep),))
    head["status"] = head["status"].model_copy(update={"snapshot": dict(snapshot)})
    return _read(raw, head, spec, snapshot)


def _read(raw: Json, head: Header, spec: TrainJobSpec, snapshot: Json) -> Parsed:
    listed = mapping(raw.get("spec")).get("runtimePatches")
    patches: list[Json] = [mapping(one) for one in listed] if isinstance(listed, list) else []
    runtime_spec = mapping(snapshot.get("spec"))
    of = f"{spec.runtime_ref.kind} {spec.runtime_ref.name}"
    if len(orjson.dumps(runtime_spec)) > MOST_OF_A_RUNTIME:
        long = f"{of} has more than {MOST_OF_A_RUNTIME >> 10} KiB, which the job keeps in its status; shorten it"
        return InvalidJob(**head, errors=(FieldError("spec.runtimeRef.name", long),))
    jobs = mapping(mapping(runtime_spec.get("template")).get("spec")).get("replicatedJobs")
    # Check before the merge: a patch whose name matches no replicated job would silently have no effect.
    wrong = tuple(patch_errors([mapping(one) for one in jobs] if isinstance(jobs, list) else [], patches))
    if wrong:
        return InvalidJob(**head, errors=wrong[:MAX_ERRORS])
    try:
        whole, runtime = _checked(orjson.dumps(patched(runtime_spec, patches)))
    except orjson.JSONEncodeError:  # only in a file: the watcher keeps no such job
        deep = "is nested too deep to be kept; mend it so that no field has more than 200 levels"
        return InvalidJob(**head, errors=(FieldError("spec.runtimePatches", deep),))
    except ValidationError as error:
        return InvalidJob(**head, errors=field_errors(error, f"{of}: spec"))
    read = _ReadTrainJob(raw, head, spec, patches, runtime, steps_of(whole, runtime, spec), of)
    errors = tuple(_errors(read))
    return InvalidJob(**head, errors=errors[:MAX_ERRORS]) if errors else _job(read)


@lru_cache(RUNTIMES_KEPT)
def _checked(text: bytes) -> tuple[Json, RuntimeSpec]:
    """The spec of a patched runtime as JSON and as a model. Raises ValidationError. Cached, because jobs share few
    runtimes, and the validation takes half the time of parsing a job."""
    whole: Json = orjson.loads(text)
    return whole, RuntimeSpec.model_validate(whole)


@dataclass(frozen=True, slots=True)
class _ReadTrainJob:
    """A TrainJob with its runtime."""

    raw: Json
    head: Header
    spec: TrainJobSpec
    patches: Sequence[Json]
    runtime: RuntimeSpec
    steps: tuple[Step, ...]
    of: str
    """The runtime, for messages."""

    @property
    def annotations(self) -> dict[str, str]:
        return strings(mapping(self.raw.get("metadata")).get("annotations"))

    @property
    def bounds(self) -> tuple[int, int] | None:
        """(fewest, most) nodes of an elastic job."""
        annotations = self.annotations
        if MIN_NODES not in annotations and MAX_NODES not in annotations:
            return None
        least, most = _count(annotations.get(MIN_NODES, "1")), _count(annotations.get(MAX_NODES, ""))
        return (least, most) if least is not None and most is not None else None

    @property
    def subdomain(self) -> str:
        network = self.runtime.template.spec.network
        return (network.subdomain if network else None) or self.head["name"].name

    @property
    def setting(self) -> Setting:
        name = self.head["name"].name
        return Setting(name, self.subdomain, self.spec, f"{name}-ssh-{self.head['uid']}", self.bounds is not None)

    @property
    def claim_policies(self) -> Sequence[VolumeClaimPolicy]:
        return self.runtime.template.spec.volume_claim_policies or ()

    @property
    def trainer(self) -> Step | None:
        return next((step for step in self.steps if step.step == TRAINER), None)


_BEGUN = (
    FieldError(
        "status.jobsStatus",
        "another operator has begun this job, and its pods may still run; let it end there, or delete the job and"
        " create it again",
    ),
)


def _of_trainer(status: Json) -> str:
    """The state of a job by the status that Kubeflow's Trainer wrote: `Complete`, `Failed`, `begun`, or '' if it has no
    pods there, as a suspended job."""
    listed = status.get("conditions")
    found = [mapping(c) for c in listed] if isinstance(listed, list) else []
    true = {text(c.get("type")) for c in found if c.get("status") == "True"}
    for end in ("Complete", "Failed"):
        if end in true:
            return end
    jobs = status.get("jobsStatus")
    counted = [mapping(one) for one in jobs] if isinstance(jobs, list) else []
    return "begun" if any(one.get("active") or one.get("ready") for one in counted) else ""


def _reference_errors(ref: RuntimeRef) -> Iterator[FieldError]:
    if ref.api_group != GROUP or ref.kind not in RUNTIMES:
        known = " or ".join(RUNTIMES)
        yield FieldError(
            "spec.runtimeRef", f"{ref.kind} ({ref.api_group}) is no kind of runtime; use {known} ({GROUP})"
        )


def _waiting(head: Header, ref: RuntimeRef) -> InvalidJob:
    """A job that waits for its runtime. A refused job keeps its error, for readers that do not fetch the runtime."""
    runtime, status = RUNTIMES[ref.kind], head["status"]
    missing = Reference(runtime.resource, ref.kind, ref.name, "spec.runtimeRef.name")
    error = FieldError("", status.message) if status.refused and status.message else missing.absent
    return InvalidJob(**head, errors=(error,), missing=missing)


def _errors(read: _ReadTrainJob) -> Iterator[FieldError]:
    name, by_name = read.head["name"].name, {step.name: step for step in read.steps}
    if not rules.is_job_name(name):
        yield FieldError("metadata.name", f"{name[:80]!r}: the name of a job {rules.NAME_RULE}")
    if read.trainer is None:
        yield FieldError(
            "spec.runtimeRef.name", f"{read.of} has no replicated job with the label {STEP_LABEL}: {TRAINER}"
        )
    yield from _step_errors(read)
    yield from _initializer_errors(read)
    yield from reserved_errors(read.setting, read.runtime.ml_policy)
    yield from (
        find_policy(read.runtime.ml_policy).errors(read.setting, read.runtime.ml_policy, read.steps)
        if read.runtime.ml_policy
        else ()
    )
    yield from claim_errors(read.of, read.claim_policies)
    yield from _gang_errors(read)
    yield from _elastic_errors(read)
    total = sum(step.pods * step.job.replicas for step in read.steps)
    if total > MAX_PODS:
        yield FieldError("spec.trainer.numNodes", f"the job has {total} pods: they must be at most {MAX_PODS}")
    # A job without pods would never end: nothing fails, and nothing succeeds.
    elif not total and by_name:
        yield FieldError("spec.trainer.numNodes", "the job has no pods; suspend it, or create it again with at least 1")
    for step, replica, _ in child_jobs(read.steps):
        longest = naming.longest_pod_name(name, role_name(step.name, replica), max(step.pods, *(read.bounds or (0,))))
        if len(longest) > naming.MAX_NAME_LENGTH:
            yield FieldError("metadata.name", f"{longest[:80]}: the longest pod name {rules.LENGTH_RULE}")
            return


def _step_errors(read: _ReadTrainJob) -> Iterator[FieldError]:
    seen: set[str] = set()
    for step in read.steps:
        where = f"{read.of}: spec.template.spec.replicatedJobs[{step.name}]"
        if step.step in STEPS and step.job.replicas != 1:
            yield FieldError(f"{where}.replicas", f"{step.job.replicas}: always must be 1 in a step of a job")
        wanted = NODE if step.step == TRAINER else step.step
        if step.step in STEPS and step.container(wanted) is None:
            yield FieldError(
                f"{where}.template", f"must have a container named {wanted}, as it is the step {step.step}"
            )
        for other in step.job.depends_on or ():
            if other.name not in seen:
                # JobSet's own order: a reference to a later replicated job could close a cycle, in which no Job would
                # start.
                yield FieldError(f"{where}.dependsOn", f"{other.name}: no replicated job before it has that name")
        seen.add(step.name)


def _initializer_errors(read: _ReadTrainJob) -> Iterator[FieldError]:
    """The checks of `validateInitializer` in Trainer's jobset plugin."""
    given = read.spec.initializer
    fetched = {("dataset", DATASET): given.dataset, ("model", MODEL): given.model} if given else {}
    for field, name in (of for of, source in fetched.items() if source is not None):
        step = next((one for one in read.steps if one.name == name), None)
        container = step.container(name) if step is not None else None
        if step is None or container is None:
            yield FieldError(
                f"spec.initializer.{field}", f"{read.of} must have a replicated job {name} with a container {name}"
            )
        elif "initializer" not in [mapping(mount).get("name") for mount in container.get("volumeMounts") or ()]:
            yield FieldError(
                f"spec.initializer.{field}", f"the container {name} of {read.of} must mount a volume named initializer"
            )


def _count(value: str) -> int | None:
    return int(value) if value.isascii() and value.isdigit() and 0 < int(value[:9]) <= rules.MAX_REPLICAS else None


def _elastic_errors(read: _ReadTrainJob) -> Iterator[FieldError]:
    annotations = read.annotations
    named = [name for name in (MIN_NODES, MAX_NODES, AUTOSCALE, NUM_NODES) if name in annotations]
    if not named:
        return
    if MAX_NODES not in annotations:
        yield FieldError(f"metadata.annotations[{named[0]}]", f"has no effect without {MAX_NODES}; add that")
        return
    for name in (MIN_NODES, MAX_NODES, NUM_NODES):
        value = annotations.get(name)
        if value is not None and _count(value) is None:
            yield FieldError(
                f"metadata.annotations[{name}]", f"{value[:80]!r}: must be a number from 1 to {rules.MAX_REPLICAS}"
            )
            return
    autoscale = annotations.get(AUTOSCALE, "true")
    if autoscale not in ("true", "false"):
        yield FieldError(f"metadata.annotations[{AUTOSCALE}]", f'{autoscale[:80]!r}: must be "true" or "false"')
    policy, bounds = read.runtime.ml_policy, read.bounds
    if policy is None or policy.torch is None:
        yield FieldError(
            f"metadata.annotations[{named[0]}]",
            f"only jobs of a runtime with the policy torch can be elastic, and {read.of} has none; remove it",
        )
    if read.spec.trainer is None or tuple(read.spec.trainer.command or ())[:2] == ("tune", "run"):
        yield FieldError(
            f"metadata.annotations[{named[0]}]",
            "an elastic job starts its program by torchrun: it has spec.trainer, and its command is not `tune run`",
        )
    if bounds is not None and bounds[0] > bounds[1]:
        yield FieldError(f"metadata.annotations[{MIN_NODES}]", f"{bounds[0]}: must be at most max-nodes ({bounds[1]})")


def _job(read: _ReadTrainJob) -> Parsed:
    head, spec, jobset = read.head, read.spec, read.runtime.template.spec
    metadata, annotations = mapping(read.raw.get("metadata")), read.annotations
    batch_size, wrong_size = annotated_batch_size(annotations)
    policy = read.runtime.ml_policy
    made = find_policy(policy).apply(read.setting, policy, read.steps) if policy is not None else read.steps
    made = with_claims(made, head["name"].name, read.claim_policies)
    roles = tuple(sorted(_roles(read, made, batch_size), key=lambda role: role.name))
    if errors := (*wrong_size, *too_big_for_etcd(roles)):
        return InvalidJob(**head, errors=errors)
    elastic = next((role.name for role in roles if role.elastic), None)
    uses_ssh = policy is not None and policy.mpi is not None
    return TrainingJob(
        **head,
        roles=roles,
        labels=strings(metadata.get("labels")),
        annotations=annotations,
        created_at=unix_seconds(text(metadata.get("creationTimestamp"))),
        # In an elastic job torchrun's rendezvous differs by pod. The templates have everything else.
        framework="pytorch" if read.bounds is not None else "any",
        rendezvous=(role_name(NODE, 0),) if read.bounds is not None else (),
        active_deadline_seconds=spec.active_deadline_seconds,
        # Trainer counts the deadline from the last resume.
        deadline_begins_anew=True,
        ttl_seconds_after_finished=jobset.ttl_seconds_after_finished,
        # The TTL is a field of JobSet, which deletes itself and its pods. The TrainJob stays with its conditions.
        ttl_keeps_job=True,
        gang=_gang(read),
        main_container=NODE,
        # An ended JobSet deletes its running child Jobs; after a deadline Trainer deletes all of them.
        clean_pod_policy="Running",
        limit_clean_policy="All",
        complete_policy=jobset.success_policy.operator if jobset.success_policy else "All",
        suspend=spec.suspend,
        # Trainer's client selects pods by these labels. For a node pod without the label of its index, `get_job` raises
        # KeyError.
        guest_labels=LabelsOfGuest("", names=labels.JOBSET_NAMES, index_annotation=labels.COMPLETION_INDEX),
        roles_path="spec.runtimeRef",
        ignored=tuple(_ignored(read)),
        subdomain=read.subdomain,
        secret=JobSecret(read.setting.secret, "ssh-key") if uses_ssh else None,
        claims=claims_of(head["name"].name, read.claim_policies),
        scale_role=elastic,
    )


def _roles(read: _ReadTrainJob, steps: tuple[Step, ...], batch_size: Any) -> Iterator[Role]:
    head, jobset = read.head, read.runtime.template.spec
    counted = (jobset.success_policy.target_replicated_jobs if jobset.success_policy else None) or [
        step.name for step in steps
    ]
    restarts = jobset.failure_policy.max_restarts if jobset.failure_policy else 0
    before: str | None = None
    in_order = mapping(jobset.startup_policy.model_extra if jobset.startup_policy else {})
    for step, replica, number in child_jobs(steps):
        limit = step.job.template.spec.backoff_limit
        after = [
            After(role_name(other.name, i), other.status)
            for other in step.job.depends_on or ()
            for i in range(next(one.job.replicas for one in steps if one.name == other.name))
        ]
        # JobSet then creates a child Job when the pods of the Job before it are ready.
        if in_order.get("startupPolicyOrder") == "InOrder" and before is not None:
            after.append(After(before, "Ready"))
        before = role_name(step.name, replica)
        role = Role(
            name=before,
            workload="Pod",
            replicas=step.pods,
            template=jobset_template(head["name"], head["uid"], read.subdomain, steps, step, replica, number),
            edl_policy="Never",
            restart_policy="Always",
            # JobSet's webhook sets OnFailure on pods whose runtime has no restartPolicy, so messages use that name.
            restart_words="OnFailure",
            fails_in_part=True,
            # JobSet restarts all Jobs; a batch Job alone replaces single pods. `_failures` counts both.
            restart_scope="All" if restarts else "Pod",
            restart_limit=_failures(limit, restarts),
            complete_policy="All" if step.name in counted else "None",
            spec_path="spec.trainer.numNodes",
            # A gang with the initializers could never start: the training nodes wait for them to end.
            helper=step.step in (DATASET, MODEL),
            after=tuple(after),
        )
        yield _elastic(read, role, batch_size) if step.step == TRAINER else role


def _failures(limit: int | None, restarts: int) -> int:
    """The number of failed pods to replace: the limit of one batch Job, for each run of the JobSet."""
    of_a_job = BACKOFF_LIMIT if limit is None else limit
    return min((restarts + 1) * (of_a_job + 1) - 1, 2**31 - 1)


def _elastic(read: _ReadTrainJob, role: Role, batch_size: Any) -> Role:
    if read.bounds is None:
        return role
    (least, most), annotations = read.bounds, read.annotations
    asked = _count(annotations[NUM_NODES]) if NUM_NODES in annotations else None
    limit = read.trainer.job.template.spec.backoff_limit if read.trainer else None
    return replace(
        role,
        replicas=min(max(asked or role.replicas, least), most),
        min_replicas=least,
        max_replicas=most,
        # Trainer has no autoscaler, so a job has to request it.
        edl_policy="Auto" if annotations.get(AUTOSCALE) == "true" else "Manual",
        # If node 0 is lost, the programs of all nodes end. These failures are not the program's fault.
        restart_limit=role.restart_limit if limit is not None else None,
        spec_path=f"metadata.annotations[{NUM_NODES}]",
        batch_size=batch_size,
    )


def _gang(read: _ReadTrainJob) -> GangPolicy:
    """The gang policy of the runtime and the patches (plugins coscheduling and volcano of Trainer)."""
    policy = read.runtime.pod_group_policy
    coscheduling = policy.coscheduling if policy else None
    return GangPolicy(
        queue=str(_jobset_annotations(read).get(QUEUE_ANNOTATION, "")),
        schedule_timeout_seconds=coscheduling.schedule_timeout_seconds if coscheduling else None,
        path=f"{read.of}: spec.podGroupPolicy",
    )


def _jobset_annotations(read: _ReadTrainJob) -> dict[str, Any]:
    given = read.runtime.template.metadata
    metadata = {"annotations": dict(given.annotations or {})} if given else {}
    return added_metadata({"metadata": metadata}, read.patches, "annotations")


def _gang_errors(read: _ReadTrainJob) -> Iterator[FieldError]:
    """The checks of `Validate` in Trainer's volcano plugin. The API server checks that a PriorityClass exists."""
    policy = read.runtime.pod_group_policy
    if policy is not None and policy.volcano is not None and _jobset_annotations(read).get(QUEUE_ANNOTATION) == "":
        yield FieldError(
            f"{read.of}: spec.template.metadata.annotations[{QUEUE_ANNOTATION}]",
            "'': must not be empty; name a queue of Volcano, or remove it",
        )


def _ignored(read: _ReadTrainJob) -> Iterator[Ignored]:
    jobset, policy = read.runtime.template.spec, read.runtime.pod_group_policy
    if jobset.failure_policy and jobset.failure_policy.rules:
        yield Ignored("failurePolicy.rules of the runtime", "every failure counts alike")
    if policy is not None and policy.volcano is not None and policy.volcano.network_topology is not None:
        yield Ignored("podGroupPolicy.volcano.networkTopology of the runtime")


class TrainJob(Guest):
    plural = PLURAL
    kind = KIND
    description = "A job of Kubeflow's Trainer: a runtime with a program, a number of nodes, and data."
    group = GROUP
    versions = (VERSION,)
    # It has no `scale_role`: `numNodes` cannot change, and the path of a scale subresource must lie in the spec.
    spec_model = TrainJobSpec
    root_rules = (rules.ROOT[0], NAME_LENGTH)
    run_policy_path = ("spec",)
    roles_field = ""
    # A TrainJob has no TTL of its own. The runtime has, and the status keeps the runtime as it was when the job began.
    ttl_path = ("status", MEMORY, "snapshot", "spec", "template", "spec", "ttlSecondsAfterFinished")
    status_model = TrainJobStatus
    columns = (STATE, AGE, MESSAGE)
    scale_paths = ("", "")
    mirrored = ("trainerStatus",)
    companions = tuple(RUNTIMES.values())
    is_salvaged = False

    def parse(self, raw: Json) -> Parsed:
        return parse(raw)

    def role_patch(self, role: str, replicas: int) -> dict[str, Any]:
        return {"metadata": {"annotations": {NUM_NODES: str(replicas)}}}

    def status_of(self, job: Parsed, status: JobStatus) -> dict[str, Any]:
        return write_status(job, status)

    def is_for_another(self, raw: Json) -> bool:
        return mapping(raw.get("spec")).get("managedBy") not in (None, "", CONTROLLER)

    def named(self, raw: Json) -> Named | None:
        """The runtime that the job waits for, or for which it was refused."""
        own = mapping(mapping(raw.get("status")).get(MEMORY))
        ref = mapping(mapping(raw.get("spec")).get("runtimeRef"))
        runtime = RUNTIMES.get(text(ref.get("kind", "ClusterTrainingRuntime")))
        if runtime is None or (own.get("snapshot") and not own.get("refused")):
            return None
        namespace = text(mapping(raw.get("metadata")).get("namespace")) if runtime.namespaced else ""
        return runtime.resource, f"{namespace}/{text(ref.get('name'))}"

    def snapshot(self, found: Json) -> dict[str, Any]:
        metadata = mapping(found.get("metadata"))
        # The resourceVersion identifies the edit of the runtime. The rest of its metadata would only fill each status.
        named = {name: metadata[name] for name in ("name", "uid", "resourceVersion") if name in metadata}
        return {**named, "spec": mapping(found.get("spec"))}

    def rest(self, raw: Json) -> TrainingJob | None:
        """The job with its runtime, but without patches. No pods are created from it."""
        spec = mapping(raw.get("spec"))
        kept = {name: spec[name] for name in ("runtimeRef", "trainer", "suspend") if name in spec}
        for trial in (kept, {name: value for name, value in kept.items() if name != "trainer"}):
            job = parse({**raw, "spec": trial})
            if isinstance(job, TrainingJob):
                return job.with_last_numbers().without_new_pods()
        return None


JOB_KIND = TrainJob()
