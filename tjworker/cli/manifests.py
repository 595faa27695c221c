"""Jobs in files: reading them, and everything that can be found wrong without a cluster. Reads files; changes nothing.

A job is held to its schema, to the rules that the API server would apply, and its pod templates to the fields that a
Pod has: the API server takes a template with a misspelt field, for the CRD leaves templates open, and the job would
fail when its first pod is made.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from tjworker.api.end_policies import race_to_end
from tjworker.api.kinds import COMPANIONS, KNOWN_KINDS, parse, trainingjob, with_companion
from tjworker.api.kinds.base import Companion, JobKind, field_errors
from tjworker.api.kinds.trainingjob.spec import DEFAULT_IMAGE
from tjworker.api.model import FieldError, InvalidJob, TrainingJob
from tjworker.api.naming import env_name
from tjworker.api.podrules import resource_rules, template_rules
from tjworker.api.schema import Schema, structural
from tjworker.api.unknown import unknown_fields
from tjworker.base import JsonDict, mapping
from tjworker.cli import strangers
from tjworker.cli.errors import UserError
from tjworker.cli.podfields import template_errors, unknown_field
from tjworker.cli.strictyaml import NotYaml, read_documents
from tjworker.reconcile.frameworks import framework_errors, role_ports

_KINDS = {(version, kind.kind): kind for kind in KNOWN_KINDS.values() for version in kind.api_versions}
_COMPANIONS = {(f"{of.group}/{of.version}", of.kind): of for of in COMPANIONS.values()}
_DNS_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Manifest:
    source: str
    """The file and, of several documents, which."""
    raw: JsonDict

    @property
    def name(self) -> str:
        return str((self.raw.get("metadata") or {}).get("name") or "")

    @property
    def given(self) -> str:
        """The kind and apiVersion as written: `Service (v1)`."""
        return f"{self.raw.get('kind') or 'no kind'} ({self.raw.get('apiVersion') or 'no apiVersion'})"

    @property
    def is_other(self) -> bool:
        """True for another object of Kubernetes, such as a claim for the job; False for a misspelt job."""
        return self.kind is None and not strangers.foreign(self.raw) and not self.is_misspelt

    @property
    def is_misspelt(self) -> bool:
        return self.kind is None and bool(strangers.misspelt(self.raw))

    @property
    def why_no_job(self) -> str:
        """Why this object of no supported kind is not a job, and what to do instead."""
        why = strangers.foreign(self.raw) or strangers.misspelt(self.raw) or strangers.unsupported()
        return f"{self.given} {why}"

    @property
    def kind(self) -> JobKind | None:
        return _KINDS.get((str(self.raw.get("apiVersion")), str(self.raw.get("kind"))))

    @property
    def companion(self) -> Companion | None:
        """The row of an object that jobs name, such as a runtime; None for any other object."""
        return _COMPANIONS.get((str(self.raw.get("apiVersion")), str(self.raw.get("kind"))))


def read(files: tuple[str, ...]) -> list[Manifest]:
    """Every document of these files; `-` is stdin. Raises UserError for a file that is missing or not YAML."""
    return [manifest for file in files for one in load(file)[1] for _, manifest in items(*one)]


def load(file: str) -> tuple[str, list[tuple[str, JsonDict]]]:
    """(the text, its documents, each after the words that locate it in messages)."""
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        documents = read_documents(text)
    except OSError as error:
        raise UserError(f"cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UserError(f"{file} is not text: a manifest is YAML or JSON in UTF-8") from None
    except NotYaml as error:
        raise UserError(f"{file} is not valid YAML: {error}") from None
    if not documents:
        raise UserError(f"{file} contains no manifest")
    found = [
        (file if len(documents) == 1 else f"{file}, document {n} (line {line})", one)
        for n, (line, one) in enumerate(documents, 1)
    ]
    for source, document in found:
        if not isinstance(document, dict):
            raise UserError(f"{source} is not a manifest: it must have apiVersion, kind, metadata and spec")
    return text, found


def items(source: str, document: JsonDict) -> Iterator[tuple[tuple[str | int, ...], Manifest]]:
    """(path in the document, manifest) of each object. A List gives its items."""
    # kubectl and `tj get -o yaml` print several objects as a List.
    if document.get("kind") == "List" and isinstance(document.get("items"), list):
        for number, item in enumerate(document["items"], 1):
            found = item if isinstance(item, dict) else {}
            yield ("items", number - 1), Manifest(f"{source}, item {number}", found)
    else:
        yield (), Manifest(source, document)


def errors(manifest: Manifest) -> list[FieldError]:
    """The errors of a manifest; [] if the API server and the operator would accept it."""
    kind = manifest.kind
    if manifest.companion is not None:
        return _companion_errors(manifest, manifest.companion)
    if kind is None:
        return [FieldError("kind", manifest.why_no_job)]
    found = list(_name_errors(manifest.raw))
    schema = _spec_schema(kind.spec_model)
    spec = manifest.raw.get("spec")
    found += [unknown_field(one.path, one.name, one.known) for one in unknown_fields(spec, schema, "spec")]
    found += _template_errors(spec, schema, "spec")
    if kind is trainingjob.JOB_KIND:
        found += _edl_errors(spec)
    parsed = parse(kind.resource, manifest.raw)
    if isinstance(parsed, InvalidJob) and parsed.missing is not None:
        return found  # what its runtime makes of it, the cluster says
    if isinstance(parsed, InvalidJob):
        # The schema has said what is wrong there, in the words of the field.
        known_paths = {error.path for error in found}
        found += [error for error in parsed.errors if error.path not in known_paths]
    else:
        found += framework_errors(parsed)
    return found


@cache
def _spec_schema(model: type[BaseModel]) -> Schema:
    # The schema that k8s/crds installs: a field that it refuses here is a field that the API server refuses or drops.
    # Built once per kind: a file may hold hundreds of jobs.
    return structural(model, defaults=True)


def _companion_errors(manifest: Manifest, companion: Companion) -> list[FieldError]:
    """The errors of the object itself, and those of a minimal job that names it: they would be errors of every job."""
    spec = manifest.raw.get("spec")
    found = list(_name_errors(manifest.raw))
    schema = _spec_schema(companion.spec_model)
    found += [unknown_field(one.path, one.name, one.known) for one in unknown_fields(spec, schema, "spec")]
    listed = mapping(mapping(mapping(spec).get("template")).get("spec")).get("replicatedJobs")
    for number, one in enumerate(listed if isinstance(listed, list) else ()):
        template = mapping(mapping(mapping(one).get("template")).get("spec")).get("template")
        path = f"spec.template.spec.replicatedJobs[{number}].template.spec.template"
        found += template_errors(template, path)
    try:
        companion.spec_model.model_validate(spec)
    except ValidationError as error:
        return [*found, *field_errors(error)]
    kind = next(kind for kind in KNOWN_KINDS.values() if companion in kind.companions)
    whose = {"name": "job", "namespace": "default"}
    named = {"runtimeRef": {"name": manifest.name, "kind": companion.kind}}
    job = {"apiVersion": kind.api_versions[0], "kind": kind.kind, "metadata": whose, "spec": named}
    parsed = parse(kind.resource, with_companion(kind.resource, job, manifest.raw))
    if isinstance(parsed, InvalidJob):
        of = f"{companion.kind} {manifest.name}"
        for wrong in parsed.errors:
            path = "spec" if wrong.path.startswith("spec.runtimeRef") else wrong.path.removeprefix(f"{of}: ")
            found.append(FieldError(path, wrong.message.removeprefix(f"{of} ")))
    return found


def _name_errors(raw: JsonDict) -> Iterator[FieldError]:
    metadata = raw.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not name:
        yield FieldError("metadata.name", "is missing")
    elif not (isinstance(name, str) and _DNS_NAME.fullmatch(name)):
        yield FieldError("metadata.name", f"{name!r}: use lower-case letters, digits and '-', such as digits-2")


def _template_errors(value: Any, schema: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    """The errors of every pod template below `value`."""
    if not isinstance(value, dict):
        return
    fields, others = schema.get("properties") or {}, schema.get("additionalProperties")
    for name, part in value.items():
        below = fields.get(name) or (others if isinstance(others, Mapping) else None)
        if below is None:
            continue
        if name == "template":
            yield from template_errors(part, f"{path}.{name}")
            yield from template_rules(part, f"{path}.{name}")
        else:
            yield from _template_errors(part, below, f"{path}.{name}")


def _edl_errors(spec: Any) -> Iterator[FieldError]:
    """The errors of a TrainingJob's pods. It has no template: its roles share one image and one list of volumes."""
    if not isinstance(spec, dict):
        return
    shared = {"image": spec.get("image") or DEFAULT_IMAGE, "volumeMounts": spec.get("volumeMounts")}
    for error in template_rules({"spec": {"volumes": spec.get("volumes"), "containers": [shared]}}, ""):
        yield FieldError(error.path.replace(".containers[0]", "").removeprefix("."), error.message)
    for role in ("master", "pserver", "trainer"):
        if isinstance(spec.get(role), dict):
            yield from resource_rules(spec[role].get("resources"), f"spec.{role}.resources")


def hints(manifest: Manifest) -> Iterator[str]:
    """What is valid and yet not what its author will expect. Nothing of another operator's kind: its manifests are
    written for that operator."""
    if manifest.kind is None or manifest.kind.guest:
        return
    parsed = parse(manifest.kind.resource, manifest.raw)
    if not isinstance(parsed, TrainingJob):
        return
    if race := race_to_end(parsed):
        yield race
    read = _references(manifest.raw.get("spec"))
    pods = [role for role in parsed.roles if role.workload == "Pod"]
    for role in pods:
        name = f"{env_name(role.name)}_HOSTS"
        if name in read and not role_ports(parsed, role):
            yield f"{name} will be empty: {role.name} has no port whose name begins with `aitj-`; add one"
    for role in pods:
        spec = role.template["spec"]
        if spec.get("restartPolicy"):
            yield f"restartPolicy of {role.name}'s template has no effect: the role's counts ({role.restart_policy})"
        for container in (*spec["containers"], *(spec.get("initContainers") or ())):
            names = [variable["name"] for variable in container.get("env") or ()]
            # The API server only warns of it, and only for a Pod: the template in a job's CRD is not checked as a pod.
            for name in sorted({name for name in names if names.count(name) > 1}):
                yield f"container {container['name']} of {role.name} sets {name} twice: the last one counts"


def _references(value: Any) -> frozenset[str]:
    """Words of the spec that are names of such variables."""
    return frozenset(re.findall(r"[A-Z][A-Z0-9_]*_HOSTS\b", str(value)))


def refuse_the_wrong(manifests: list[Manifest]) -> None:
    """Raises UserError with every error of every manifest."""
    wrong = [f"{m.source}: {error}" for m in manifests for error in errors(m)]
    if wrong:
        raise UserError("\n    ".join([f"{len(wrong)} error{'s' if len(wrong) > 1 else ''}", *wrong]))
