"""The kind TrainingJob (paddlepaddle.org) of PaddlePaddle EDL's operator: master, parameter servers and trainers.

`spec` has the models with the bounds of single fields, `rules` the CEL rules on several fields, `pods` the templates.
Pure; `parse` never raises, whatever the JSON. v1 and v1alpha1 have one schema.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypedDict, get_args

from pydantic import ValidationError

from tjworker.api.kinds.base import MAX_ERRORS, JobKind, Parsed, field_errors, header, strings, text, too_big_for_etcd
from tjworker.api.kinds.batchsize import annotated_batch_size
from tjworker.api.kinds.runpolicy import RunPolicy, gang_policy
from tjworker.api.kinds.trainingjob import rules
from tjworker.api.kinds.trainingjob.checks import rule_errors
from tjworker.api.kinds.trainingjob.pods import ETCD_IMAGE, TemplateContext, template
from tjworker.api.kinds.trainingjob.spec import TrainingJobSpec
from tjworker.api.labels import ignored_queue
from tjworker.api.model import BatchSize, CleanPodPolicy, FieldError, InvalidJob, Role, TrainingJob
from tjworker.api.timefmt import unix_seconds
from tjworker.base import GroupResource, Json, mapping

PLURAL = "trainingjobs"
KIND = "TrainingJob"
GROUP = "paddlepaddle.org"
RESOURCE = GroupResource(f"{PLURAL}.{GROUP}")
SCALE_ROLE = "trainer"

ANNOTATION_RESTART_LIMIT = f"{GROUP}/pserver-restart-limit"
"""Annotation: the restarts of a parameter server after which the job fails. Default: the setting `restart_limit`."""
ANNOTATION_ETCD_IMAGE = f"{GROUP}/etcd-image"
"""Annotation: the image of the etcd in the master's pod, for clusters with their own registry. `none`: no etcd."""
NO_ETCD = "none"
WITHOUT_LIMIT = 2**31 - 1
"""Restart limit of a master: a master ends after its work, and its ReplicaSet starts it again while trainers run."""
ANNOTATION_CLEAN_POD_POLICY = f"{GROUP}/clean-pod-policy"
"""Annotation: the pods to delete at the end, as cleanPodPolicy of an AITrainingJob: All (default), Running (logs of the
others stay), None."""


class _Acting(TypedDict):
    """The settings in the job's annotations."""

    restart_limit: int | None
    etcd_image: str
    clean_pod_policy: CleanPodPolicy


def parse(raw: Json) -> Parsed:
    """Parse the job, or return the errors of its spec. Never raises."""
    raw = mapping(raw)
    head = header(raw, RESOURCE, KIND, f"{GROUP}/v1")
    metadata = mapping(raw.get("metadata"))
    annotations = strings(metadata.get("annotations"))
    spec_json = mapping(raw.get("spec"))
    try:
        spec = TrainingJobSpec.model_validate(spec_json)
    except ValidationError as error:
        return InvalidJob(**head, errors=field_errors(error))
    job = head["name"].name
    acting = _acting(annotations)
    batch_size, wrong_size = annotated_batch_size(annotations)
    run = spec.run_policy or RunPolicy()
    # A missing annotation agrees with any run policy.
    asked = annotations.get(ANNOTATION_CLEAN_POD_POLICY, run.clean_pod_policy)
    of_annotations = (acting, *wrong_size) if isinstance(acting, FieldError) else wrong_size
    wrong = (*rule_errors(job, spec), *of_annotations, *_disagree(run, asked))
    if wrong or isinstance(acting, FieldError):
        return InvalidJob(**head, errors=wrong[:MAX_ERRORS])
    roles = _roles(job, spec, spec_json, acting, batch_size)
    if too_big := too_big_for_etcd(roles):
        return InvalidJob(**head, errors=too_big)
    return TrainingJob(
        **head,
        roles=roles,
        labels=strings(metadata.get("labels")),
        annotations=annotations,
        created_at=unix_seconds(text(metadata.get("creationTimestamp"))),
        fault_tolerant=spec.fault_tolerant,
        priority=spec.annotations.priority or "",
        scheduler_name=spec.annotations.scheduler or spec.scheduler_name or "",
        # Go's clients write the zero value of a field that is not set, so 0 is no limit.
        time_limit_seconds=spec.annotations.walltime or None,
        time_limit_field="spec.annotations.walltime",
        active_deadline_seconds=run.active_deadline_seconds,
        ttl_seconds_after_finished=run.ttl_seconds_after_finished,
        backoff_limit=run.backoff_limit,
        min_available=run.scheduling_policy.min_available if run.scheduling_policy else None,
        gang=gang_policy(run.scheduling_policy),
        clean_pod_policy=run.clean_pod_policy or acting["clean_pod_policy"],
        suspend=spec.suspend,
        scale_role=SCALE_ROLE,
        ignored=ignored_queue(strings(metadata.get("labels"))),
    )


def _disagree(run: RunPolicy, annotated: str | None) -> Iterator[FieldError]:
    if run.clean_pod_policy is not None and annotated != run.clean_pod_policy:
        yield FieldError(
            "spec.runPolicy.cleanPodPolicy",
            f"is {run.clean_pod_policy} and the annotation {ANNOTATION_CLEAN_POD_POLICY} is {str(annotated)[:80]}: they"
            " must agree; set one of them",
        )


def _acting(annotations: dict[str, str]) -> _Acting | FieldError:
    limit = annotations.get(ANNOTATION_RESTART_LIMIT)
    # Annotations have no schema. Nine digits stay below 2^31, the limit of Kubernetes' own counts.
    if limit is not None and not (limit.isascii() and limit.isdigit() and len(limit) <= 9):
        return FieldError(
            f"metadata.annotations.{ANNOTATION_RESTART_LIMIT}", f"{limit[:80]!r}: must be a number from 0 to 999999999"
        )
    image = annotations.get(ANNOTATION_ETCD_IMAGE) or ETCD_IMAGE
    asked = annotations.get(ANNOTATION_CLEAN_POD_POLICY, "All")
    policy = next((p for p in get_args(CleanPodPolicy) if p == asked), None)
    if policy is None:
        known = ", ".join(get_args(CleanPodPolicy))
        return FieldError(
            f"metadata.annotations.{ANNOTATION_CLEAN_POD_POLICY}", f"{asked[:80]!r}: must be one of {known}"
        )
    return {
        "restart_limit": None if limit is None else int(limit),
        "etcd_image": "" if image == NO_ETCD else image,
        "clean_pod_policy": policy,
    }


def _roles(
    job: str, spec: TrainingJobSpec, spec_json: Json, acting: _Acting, batch_size: BatchSize | None
) -> tuple[Role, ...]:
    local = spec.mode == "local"
    least = 1 if local else spec.trainer.min_instance
    most = least if local else spec.trainer.max_instance or least
    pservers = spec.pserver.min_instance if spec.mode == "multi" else 0
    shape = TemplateContext(job, spec, spec_json, trainers=least, pservers=pservers, etcd_image=acting["etcd_image"])
    roles: list[Role] = []
    if spec.fault_tolerant:
        roles.append(_served("master", 1, template(shape, "master", spec.master), WITHOUT_LIMIT))
    if pservers:
        roles.append(_served("pserver", pservers, template(shape, "pserver", spec.pserver), acting["restart_limit"]))
    roles.append(
        Role(
            name="trainer",
            # A batch Job in place of single pods: scripts, quotas and dashboards of EDL clusters select Jobs by
            # `paddle-job` (ADR 12).
            workload="Job",
            replicas=least,
            template=template(shape, "trainer", spec.trainer),
            min_replicas=least,
            max_replicas=most,
            spec_path="spec.trainer.min-instance",
            edl_policy="Auto" if least < most else "Manual" if spec.fault_tolerant and not local else "Never",
            # The Job replaces a failed trainer, unless the failure ends the job first.
            restart_policy="Always" if spec.fault_tolerant else "Never",
            restart_scope="Pod",
            # A fault-tolerant job outlives every lost trainer, and fails only when each trainer has failed by itself
            # (ADR 12).
            fail_policy="All" if spec.fault_tolerant else "Any",
            complete_policy="All",
            batch_size=batch_size,
        )
    )
    return tuple(roles)


def _served(name: str, replicas: int, pods: Json, restart_limit: int | None = None) -> Role:
    """A role that runs as long as the trainers need it, and never ends the job by itself."""
    return Role(
        name=name,
        workload="ReplicaSet",
        replicas=replicas,
        template=pods,
        edl_policy="Never",
        restart_policy="Always",
        restart_scope="Pod",
        restart_limit=restart_limit,
        fail_policy="None",
        complete_policy="None",
        spec_path=f"spec.{name}.min-instance",
    )


class TrainingJobKind(JobKind):
    plural = PLURAL
    kind = KIND
    short_name = "tj"
    description = (
        "An elastic PaddlePaddle job: a master, parameter servers, and trainers whose number follows the load of the"
        " cluster while the training continues."
    )
    group = GROUP
    # The same schema for both, so that the CRD needs no conversion webhook.
    versions = ("v1", "v1alpha1")
    scale_role = SCALE_ROLE
    scale_spec_path = f".spec.{SCALE_ROLE}.min-instance"
    spec_model = TrainingJobSpec
    root_rules = rules.ROOT
    optional = True
    roles_field = ""

    def parse(self, raw: Json) -> Parsed:
        return parse(raw)

    def skeleton(self, numbers: Mapping[str, int], templates: Mapping[str, Json]) -> dict[str, Any]:
        # Its templates are made from other fields. The first two fields here determine its roles.
        return {
            "fault_tolerant": "master" in numbers,
            "is_nccl": "pserver" not in numbers,
            **{name: {"min-instance": number} for name, number in numbers.items()},
        }


JOB_KIND = TrainingJobKind()
