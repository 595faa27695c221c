"""ReplicaSet and batch Job: defaults, selectors, what may change. In-place `default` and `prepare`; safe to run
twice."""

from __future__ import annotations

import re
from typing import Any

from localcluster.apiserver import meta
from localcluster.apiserver.errors import Causes, show
from localcluster.apiserver.strategies.pod_defaults import default_pod_spec
from localcluster.apiserver.strategies.pod_validation import validate_pod_spec
from localcluster.objects import matches
from localcluster.wire import Json

_MISMATCH = "`selector` does not match template `labels`"


def default_replicaset(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    template = spec.setdefault("template", {})
    template.setdefault("metadata", {})
    default_pod_spec(template.setdefault("spec", {}))


def prepare_replicaset(obj: Json) -> None:
    obj["status"] = {"replicas": 0}


def validate_replicaset(obj: Json, causes: Causes) -> None:
    spec = obj["spec"]
    _not_negative(spec, ("replicas", "minReadySeconds"), causes)
    selector = spec.get("selector")
    if selector is None:
        causes.required("spec.selector")
        causes.invalid("spec.template.metadata.labels", spec["template"]["metadata"].get("labels"), _MISMATCH)
    # An empty selector matches every pod of the namespace.
    elif not selector.get("matchLabels") and not selector.get("matchExpressions"):
        causes.invalid("spec.selector", selector, "empty selector is invalid for deployment")
    elif not matches(selector, spec["template"]["metadata"].get("labels", {})):
        causes.invalid("spec.template.metadata.labels", spec["template"]["metadata"].get("labels"), _MISMATCH)
    _validate_template(spec["template"], causes)
    if (policy := spec["template"]["spec"].get("restartPolicy")) != "Always":
        causes.unsupported("spec.template.spec.restartPolicy", policy, ("Always",))


def validate_replicaset_update(new: Json, old: Json, causes: Causes) -> None:
    if new["spec"].get("selector") != old["spec"].get("selector"):
        causes.invalid("spec.selector", new["spec"].get("selector"), meta.IMMUTABLE)


def default_job(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    template = spec.setdefault("template", {})
    template.setdefault("metadata", {})
    # `SetDefaults_Job`: a Job with parallelism alone is a work queue, whose completions stay unset.
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
        spec["parallelism"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 2**31 - 1 if "backoffLimitPerIndex" in spec else 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")
    if template.get("spec") is not None:
        template["spec"].setdefault("restartPolicy", "")
        if not template["spec"]["restartPolicy"]:
            template["spec"]["restartPolicy"] = "Always"
        default_pod_spec(template["spec"])


def prepare_job(obj: Json) -> None:
    """The selector is the server's unless manualSelector: by the Job's own uid, so that no two Jobs share pods."""
    obj["status"] = {}
    spec, uid = obj["spec"], obj["metadata"]["uid"]
    if not spec.get("manualSelector"):
        _own_selector(obj, spec, uid)


def complete_job(obj: Json) -> None:
    """Kubernetes defaults the labels when it reads the stored Job, so that nothing has validated them."""
    labels = obj["spec"]["template"]["metadata"].get("labels")
    if labels and not obj["metadata"].get("labels"):
        obj["metadata"]["labels"] = dict(labels)


def _own_selector(obj: Json, spec: Json, uid: str) -> None:
    labels = spec["template"]["metadata"].setdefault("labels", {})
    name = obj["metadata"].get("name", "")
    # `generateSelector` also sets the legacy labels without a prefix, by which older clients select.
    labels |= {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }
    selector = spec.setdefault("selector", {})
    selector.setdefault("matchLabels", {}).setdefault("batch.kubernetes.io/controller-uid", uid)


def validate_job(obj: Json, causes: Causes) -> None:
    spec = obj["spec"]
    _not_negative(
        spec, ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"), causes
    )
    if spec.get("completionMode") == "Indexed" and "completions" not in spec:
        causes.required("spec.completions", "when completion mode is Indexed")
    if spec.get("completionMode") not in ("Indexed", "NonIndexed"):
        causes.unsupported("spec.completionMode", spec.get("completionMode"), ("Indexed", "NonIndexed"))
    selector = spec.get("selector")
    own = {"matchLabels": {"batch.kubernetes.io/controller-uid": obj["metadata"].get("uid", "")}}
    # `validateGeneratedSelector`: a selector that only looks generated could match the pods of another Job.
    if selector is not None and not spec.get("manualSelector") and selector != own:
        causes.invalid("spec.selector", _sort_keys(selector), "`selector` not auto-generated")
    if selector is None:
        causes.required("spec.selector")
    elif not matches(selector, spec["template"]["metadata"].get("labels", {})):
        causes.invalid("spec.template.metadata.labels", spec["template"]["metadata"].get("labels"), _MISMATCH)
    _validate_template(spec["template"], causes)
    policy = spec["template"].get("spec", {}).get("restartPolicy")
    # The pod's defaulting has turned a missing policy into "Always", so that both get the error of a missing field.
    if policy in (None, "", "Always"):
        causes.required("spec.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        causes.unsupported("spec.template.spec.restartPolicy", policy, ("OnFailure", "Never"))


def validate_job_update(new: Json, old: Json, causes: Causes) -> None:
    spec, before = new["spec"], old["spec"]
    if spec.get("completions") != before.get("completions"):
        # `validateCompletions` lets an Indexed Job grow and shrink when both numbers change together.
        elastic = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")
        if not elastic:
            causes.invalid("spec.completions", spec.get("completions"), meta.IMMUTABLE)
    for name in (
        "selector",
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ):
        if spec.get(name) != before.get(name):
            causes.invalid(f"spec.{name}", _sort_keys(spec.get(name)), meta.IMMUTABLE)
    template, was = spec.get("template"), before.get("template")
    if template == was:
        return
    # `shouldAllowMutablePodTemplate`: a suspended Job that has not started has no pods of the old template.
    if not before.get("suspend") or "startTime" in old.get("status", {}):
        causes.invalid("spec.template", template, meta.IMMUTABLE)
    elif _without_placement(template) != _without_placement(was):
        causes.invalid("spec.template.spec", template["spec"], meta.IMMUTABLE)


def validate_job_status(new: Json, old: Json, causes: Causes) -> None:
    status, before = new.get("status") or {}, old.get("status") or {}
    completed = status.get("completedIndexes") or ""
    if not completed or completed == before.get("completedIndexes"):
        return
    if new["spec"].get("completionMode") != "Indexed":
        why = "cannot set non-empty completedIndexes when non-indexed completion mode"
        causes.invalid("status.completedIndexes", completed, why)
    elif wrong := wrong_indexes(completed, new["spec"].get("completions") or 0):
        causes.invalid("status.completedIndexes", completed, f"error parsing completedIndexes: {wrong}")


def wrong_indexes(text: str, completions: int) -> str:
    """pkg/apis/batch/validation/validation.go, `validateIndexesFormat`: '' when nothing is."""
    last = -1
    for interval in text.split(","):
        parts = interval.split("-")
        if len(parts) > 2:
            rule = "violates the requirement that an index interval can have at most two parts separated by '-'"
            return f"the fragment {show(interval)} {rule}"
        for part in parts:
            if not _INDEX.fullmatch(part) or (index := int(part)) > _INT64:
                return f"cannot convert string to integer for index: {show(part)}"
            if index >= completions:
                return f"too large index: {show(part)}"
            if index <= last:
                return f"non-increasing order, previous: {last}, current: {index}"
            last = index
    return ""


_INDEX = re.compile(r"\+?[0-9]{1,4000}")
_INT64 = 2**63 - 1
_PLACEMENT = ("affinity", "nodeSelector", "schedulingGates", "tolerations")


def _without_placement(template: Json) -> Json:
    """A template without what says where its pods go: that may change while the Job waits (KEP-2926)."""
    return {name: value for name, value in template["spec"].items() if name not in _PLACEMENT}


def _sort_keys(value: Any) -> Any:
    """Sorts the keys, as Go does when it prints a map."""
    return {name: _sort_keys(value[name]) for name in sorted(value)} if isinstance(value, dict) else value


def _validate_template(template: Json, causes: Causes) -> None:
    meta.validate_labels(template.get("metadata", {}).get("labels", {}), "spec.template.labels", causes)
    validate_pod_spec(template.get("spec", {}), "spec.template.spec", causes)


def _not_negative(spec: Json, names: tuple[str, ...], causes: Causes) -> None:
    for name in names:
        value = spec.get(name)
        if value is not None and value < 0:
            causes.invalid(f"spec.{name}", value, "must be greater than or equal to 0")
