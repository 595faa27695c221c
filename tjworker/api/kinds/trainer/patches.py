"""`runtimePatches`, by which a TrainJob changes its runtime: Kubernetes' strategic merge of a JobTemplateSpec
(`mergeRuntimePatches` of Trainer's pkg/runtime/core/trainingruntime.go), and checks of the patches. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tjworker.api.kinds.trainer.spec import DATASET, MODEL, NODE
from tjworker.api.model import FieldError
from tjworker.base import Json, mapping

_MERGE_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "volumeMounts": "mountPath",
    "imagePullSecrets": "name",
    "schedulingGates": "name",
}
"""The lists that a patch merges (`patchspec.PodSpecPatch`), and the field that identifies their items (`patchMergeKey`
in core/v1). A patch replaces other lists."""
OWN_VARIABLES = frozenset({NODE, DATASET, MODEL})
"""Containers whose variables are fields of the TrainJob itself."""


def merged(into: Json, patch: Json) -> dict[str, Any]:
    """A strategic merge; neither argument is changed. No patch can remove a field of the runtime: Trainer reads patches
    into Go's types, which drop a null."""
    made = dict(into)
    for name, value in patch.items():
        old = made.get(name)
        if value is None:
            continue
        if isinstance(value, Mapping):
            made[name] = merged(mapping(old), value)
        # The name of a list determines its key: no two lists that a patch can change have one name and different keys.
        elif isinstance(value, list) and name in _MERGE_KEYS:
            made[name] = _merged_list(old if isinstance(old, list) else [], value, _MERGE_KEYS[name])
        else:
            made[name] = value
    return made


def _merged_list(into: Sequence[Any], patch: Sequence[Any], key: str) -> list[Any]:
    """The merged items in the order of `mergeSortedSlice` of apimachinery. New items come before items that the patch
    does not name, so that a variable of the runtime may refer to a variable of a patch."""
    old, changed = [mapping(one) for one in into], [mapping(one) for one in patch]
    old_keys, changed_keys = [one.get(key) for one in old], [one.get(key) for one in changed]
    kept = [place for place, name in enumerate(old_keys) if name not in changed_keys]
    made: list[Any] = []
    for item, name in zip(changed, changed_keys, strict=True):
        if name not in old_keys:
            made.append(merged({}, item))
            continue
        place = old_keys.index(name)
        while kept and kept[0] < place:
            made.append(old[kept.pop(0)])
        made.append(merged(old[place], item))
    return [*made, *(old[place] for place in kept)]


def with_patches(jobs: Sequence[Json], patches: Sequence[Json]) -> list[dict[str, Any]]:
    """The replicated jobs of a runtime with a job's patches, applied in their order."""
    made = [dict(mapping(job)) for job in jobs]
    for _, one in changes(patches):
        # Replicated jobs of another name stay as they are; `patch_errors` has refused a patch that matches none.
        for job in made:
            if job.get("name") == one.get("name"):
                job["template"] = merged(mapping(job.get("template")), mapping(one.get("template")))
    return made


def changes(patches: Sequence[Json]) -> Iterator[tuple[str, Json]]:
    """(path, change) for each replicated job in the patches."""
    for i, patch in enumerate(patches):
        template = mapping(mapping(patch.get("trainingRuntimeSpec")).get("template"))
        listed = mapping(template.get("spec")).get("replicatedJobs")
        for j, one in enumerate(listed if isinstance(listed, list) else ()):
            path = f"spec.runtimePatches[{i}].trainingRuntimeSpec.template.spec.replicatedJobs[{j}]"
            yield path, mapping(one)


def added_metadata(template: Json, patches: Sequence[Json], field: str) -> dict[str, Any]:
    """Labels or annotations of the JobSet: those of the runtime's template, and those that patches add."""
    found = dict(mapping(mapping(template.get("metadata")).get(field)))
    for patch in patches:
        changed = mapping(mapping(patch.get("trainingRuntimeSpec")).get("template"))
        # Under Trainer, too, the last of two patches with the same key wins.
        found |= mapping(mapping(changed.get("metadata")).get(field))
    return found


def patch_errors(jobs: Sequence[Json], patches: Sequence[Json]) -> Iterator[FieldError]:
    """The checks of `validateRuntimePatches` in Trainer's jobset plugin."""
    known = {str(job.get("name")): _pod_spec(job) for job in jobs}
    for path, one in changes(patches):
        name = str(one.get("name"))
        if name not in known:
            yield FieldError(f"{path}.name", f"{name!r}: the runtime has no such replicated job: {_or(known)}")
            continue
        for field in ("initContainers", "containers"):
            there = _names(known[name].get(field))
            listed = _pod_spec(one).get(field)
            for k, container in enumerate(listed if isinstance(listed, list) else ()):
                where = f"{path}.template.spec.template.spec.{field}[{k}]"
                called = str(mapping(container).get("name"))
                if called not in there:
                    yield FieldError(f"{where}.name", f"{called!r}: the replicated job has no such one: {_or(there)}")
                # The TrainJob's own variables are set after the patches and would silently replace those of a patch.
                elif called in OWN_VARIABLES and mapping(container).get("env"):
                    yield FieldError(
                        f"{where}.env", f"must not have envs for {called}: set them in spec.trainer or spec.initializer"
                    )


def _pod_spec(job: Json) -> Json:
    found: object = job
    for step in ("template", "spec", "template", "spec"):
        found = mapping(found).get(step)
    return mapping(found)


def _names(listed: object) -> list[str]:
    return [str(mapping(one).get("name")) for one in listed] if isinstance(listed, list) else []


def _or(names: Any) -> str:
    return f"it has {', '.join(sorted(names))}" if names else "it has none"
