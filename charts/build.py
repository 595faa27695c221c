"""Puts the chart together: hand-written files of `charts/operator`, and templates and files made from k8s/."""

from __future__ import annotations

import json
import shutil
import tarfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import yaml

from charts.templating import render_template
from charts.workloads import COMPONENTS, REDIS, WITH_HISTORY, network_policies, with_labels, workload
from tjworker.api.generate import to_yaml
from tjworker.base import JsonDict
from tjworker.kube import rbac
from tjworker.settings import Settings
from tjworker.store import users

ROOT = Path(__file__).resolve().parent.parent
K8S = ROOT / "k8s"
SOURCE = Path(__file__).resolve().parent / "operator"
NAME = "trainingjob-operator"
NAMESPACE = "{{ $.Release.Namespace }}"
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""By libyaml where PyYAML has it: the CRDs are half a megabyte, for which its own parser takes seconds."""
OPTIONAL = frozenset({"flower", "reporter", "redis", "page"})
KEEP = {"helm.sh/resource-policy": "keep"}
"""`helm uninstall` would delete a CRD, and with it every job of its kind."""


def build(output: Path) -> Path:
    """Writes the chart as the folder `output`/trainingjob-operator; one that is there is replaced."""
    chart = output / NAME
    shutil.rmtree(chart, ignore_errors=True)
    for path, text in chart_files().items():
        target = chart / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    return chart


def package(chart: Path, output: Path) -> Path:
    """The archive that `helm install` and registries take; the same bytes for the same chart."""
    archive = output / f"{NAME}-{version()}.tgz"

    def anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = entry.mtime = 0
        entry.uname = entry.gname = ""
        entry.mode = 0o644
        return entry

    with tarfile.open(archive, "w:gz") as tar:
        for path in sorted(chart.rglob("*")):
            if path.is_file():
                tar.add(path, arcname=f"{NAME}/{path.relative_to(chart).as_posix()}", filter=anonymous)
    return archive


def version() -> str:
    project: JsonDict = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["version"])


def chart_files() -> dict[str, str]:
    """Path inside the chart -> content."""
    files = {path.relative_to(SOURCE).as_posix(): path.read_text(encoding="utf-8") for path in _sources()}
    del files["values.schema.yaml"]
    files["Chart.yaml"] = files["Chart.yaml"].replace("0.0.0", version())
    files["values.yaml"] = _values(files["values.yaml"])
    files["values.schema.json"] = json.dumps(schema(), indent=2) + "\n"
    files["templates/_acl.tpl"] = _acl()
    for component, manifest in COMPONENTS.items():
        documents = [workload(component, document) for document in _load(K8S / manifest)]
        files[f"templates/{component}.yaml"] = _enabled(component, render_template(documents))
    files["templates/disruption.yaml"] = render_template(
        [_own(document) for document in _load(K8S / "base" / "disruption.yaml")]
    )
    policies = [_own(document) for document in network_policies(_load(K8S / "base" / "network.yaml"))]
    of_page, of_history = (
        _when(condition, render_template([_own(document) for document in _load(K8S / folder / "network.yaml")]))
        for folder, condition in (("page", ".Values.page.enabled"), ("history", WITH_HISTORY))
    )
    text = render_template(policies) + of_page + of_history
    files["templates/network.yaml"] = _when(".Values.networkPolicies.enabled", text)
    files["templates/priority.yaml"] = _priority_class()
    files |= _roles()
    for path in sorted((K8S / "crds").glob("*.yaml")):
        files[f"files/crds/{path.name}"] = _kept_crd(path)
    for folder in sorted((K8S / "kinds").iterdir()):
        files[f"files/kinds/{folder.name}.yaml"] = _kept_crd(folder / "crd.yaml")
    for name in ("podmonitor", "rules", "network"):
        files[f"files/monitoring/{name}.yaml"] = to_yaml(
            [_in_namespace(document, rbac.NAMESPACE) for document in _load(K8S / "monitoring" / f"{name}.yaml")]
        )
    files["files/monitoring/dashboard.json"] = (K8S / "monitoring" / "dashboard.json").read_text(encoding="utf-8")
    files["files/defaults.yaml"] = files["values.yaml"]
    for name in files:
        if name.startswith("templates/") and not name.endswith(".tpl"):
            # In each: Helm promises no order of templates.
            files[name] = f'{{{{- include "trainingjob-operator.defaults" . }}}}\n{files[name]}'
    return files


def schema() -> JsonDict:
    """The JSON schema of the values: what a user misspells is refused before anything is applied."""
    found: JsonDict = yaml.safe_load((SOURCE / "values.schema.yaml").read_text(encoding="utf-8"))
    properties = found["properties"]
    scalar = {"type": ["string", "number", "boolean"]}
    properties["settings"]["properties"] = {f"TJ_{name.upper()}": scalar for name in sorted(Settings.model_fields)}
    properties["kinds"]["items"] = {"enum": sorted(folder.name for folder in (K8S / "kinds").iterdir())}
    properties["gangScheduler"] = {"enum": ["", *sorted(str(row.gang) for row in rbac.GANGS)]}
    return found


def _sources() -> Iterator[Path]:
    return (path for path in sorted(SOURCE.rglob("*")) if path.is_file())


def _load(path: Path) -> list[JsonDict]:
    return list(yaml.load_all(path.read_text(encoding="utf-8"), Loader=_LOADER))


def _values(text: str) -> str:
    """The defaults of `values.yaml`: resources and Redis' image are those of k8s/base."""
    for component in COMPONENTS:
        block = yaml.safe_dump(_resources(component), sort_keys=False).rstrip().replace("\n", "\n    ")
        head, mark, tail = text.partition(f"\n{component}:\n")
        text = head + mark + tail.replace(' "@@resources"', f"\n    {block}", 1)
    return text.replace('"@@redis-image"', redis_image())


def _resources(component: str) -> JsonDict:
    (document,) = (d for d in _load(K8S / COMPONENTS[component]) if "template" in d.get("spec", {}))
    found: JsonDict = document["spec"]["template"]["spec"]["containers"][0]["resources"]
    return found


def redis_image() -> str:
    (image,) = (
        f"{row['name']}:{row['newTag']}"
        for row in yaml.safe_load((K8S / "base" / "kustomization.yaml").read_text(encoding="utf-8"))["images"]
        if row["name"] == REDIS
    )
    return image


def _acl() -> str:
    *lines, page = users.acl("{{ .prefix }}", "#{{ .operator }}", "#{{ .tasks }}", "#{{ .page }}")
    return (
        '{{- define "trainingjob-operator.acl" -}}\n' + "\n".join(lines) + "\n{{ end }}\n"
        '{{- define "trainingjob-operator.acl-of-page" -}}\n' + page + "\n{{ end }}\n"
    )


def _when(condition: str, text: str) -> str:
    return f"{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n"


def _enabled(component: str, text: str) -> str:
    return _when(f".Values.{component}.enabled", text) if component in OPTIONAL else text


def _in_namespace(document: JsonDict, namespace: str) -> JsonDict:
    changed = {**document, "metadata": {**document["metadata"], "namespace": namespace}}
    if "subjects" in document:
        changed["subjects"] = [{**subject, "namespace": namespace} for subject in document["subjects"]]
    return changed


def _own(document: JsonDict) -> JsonDict:
    """An object in the operator's namespace, with the labels that k8s/base/kustomization.yaml adds."""
    metadata = document["metadata"]
    labels = with_labels(metadata.get("labels", {}))
    return {**document, "metadata": {"name": metadata["name"], "namespace": f"@@{NAMESPACE}", "labels": labels}}


def _priority_class() -> str:
    (document,) = _load(K8S / "priority" / "class.yaml")
    document["metadata"]["name"] = "@@{{ .Values.priorityClass.name }}"
    return _when("and .Values.priorityClass.create .Values.priorityClass.name", render_template([document]))


def _kept_crd(path: Path) -> str:
    (document,) = _load(path)
    annotations = {**document["metadata"].get("annotations", {}), **KEEP}
    return to_yaml([{**document, "metadata": {**document["metadata"], "annotations": annotations}}])


def _roles() -> dict[str, str]:
    """The operator's rights for all namespaces or for those of the value `namespaces`, and the rights on each kind and
    each gang scheduler's PodGroups."""
    operator, served = f"@@{NAMESPACE}", "@@{{ $namespace }}"

    def choose(everywhere: list[JsonDict], for_each: list[JsonDict], once: str = "") -> str:
        return (
            "{{- if .Values.namespaces }}\n"
            + once
            + f"{{{{- range $namespace := .Values.namespaces }}}}\n{_text(for_each)}{{{{- end }}}}\n"
            + f"{{{{- else }}}}\n{_text(everywhere)}{{{{- end }}}}\n"
        )

    apart = _text([_in_namespace(document, operator) for document in rbac.own_namespace()])
    reads = _when(".Values.clusterReads", _text([*rbac.nodes(operator), *rbac.pods(operator)]))
    files = {
        "templates/rbac.yaml": choose(rbac.cluster_wide(), rbac.served([served], operator), apart + reads),
        "templates/users.yaml": _when(".Values.userRoles", _text(rbac.users())),
    }
    for row in rbac.GUESTS:
        rights = choose(rbac.of_guest(row, operator), rbac.of_guest(row, operator, served))
        people = _when(".Values.userRoles", _text(rbac.users_of_guest(row)))
        files[f"templates/kinds/{row.name}.yaml"] = _when(f'has "{row.name}" .Values.kinds', rights + people)
    for row in rbac.GANGS:
        rights = choose(rbac.of_gang(row, operator), rbac.of_gang(row, operator, served))
        files[f"templates/gangs/{row.gang}.yaml"] = _when(f'eq "{row.gang}" .Values.gangScheduler', rights)
    return files


def _text(documents: list[JsonDict]) -> str:
    return render_template(documents).replace(f"namespace: {rbac.NAMESPACE}\n", f"namespace: {NAMESPACE}\n")
