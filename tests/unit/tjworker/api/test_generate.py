"""Models -> structural schema -> the files in the repository."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from tests.support import fast_yaml as yaml
from tests.support.kinds import AITRAININGJOBS
from tjworker.api import crd, generate, reference
from tjworker.api.kinds import GUEST_KINDS, JOB_KINDS, KINDS
from tjworker.api.kinds.base import JobKind
from tjworker.api.schema import Schema, structural

outputs = cache(generate.outputs)
pytestmark = pytest.mark.xdist_group("generated")  # they share what its fixture starts or renders


class Inner(BaseModel):
    """What an Inner is."""

    n: int = Field(ge=1, le=5)


class Outer(BaseModel):
    """Two
    lines."""

    text: str = Field("x", max_length=3)
    perhaps: str | None = None
    inner: Inner = Field(description="said here")
    plain: Inner
    by_name: dict[str, Inner] = Field(min_length=1)
    many: list[Literal["a", "b"]] = []
    free: dict[str, Any] = {}
    flag: bool = False
    big: int = 0


INNER = {
    "type": "object",
    "required": ["n"],
    "properties": {"n": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 5}},
}


def test_a_model_becomes_a_structural_schema() -> None:
    assert structural(Outer, defaults=True) == {
        "description": "Two lines.",
        "type": "object",
        "required": ["inner", "plain", "by_name"],
        "properties": {
            "text": {"type": "string", "default": "x", "maxLength": 3},
            "perhaps": {"type": "string"},
            "inner": INNER | {"description": "said here"},
            "plain": INNER | {"description": "What an Inner is."},
            "by_name": {
                "type": "object",
                "minProperties": 1,
                "additionalProperties": INNER | {"description": "What an Inner is."},
            },
            "many": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "flag": {"type": "boolean", "default": False},
            "big": {"type": "integer", "format": "int64", "default": 0},
        },
    }


def test_a_status_has_no_defaults() -> None:
    assert "default" not in structural(Outer, defaults=False)["properties"]["text"]


def test_two_types_at_one_place_are_refused() -> None:
    class Either(BaseModel):
        value: int | str

    with pytest.raises(ValueError, match="has one type at every node"):
        structural(Either, defaults=True)


def _nodes(path: str, node: Schema) -> Iterator[tuple[str, Schema]]:
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from _nodes(f"{path}.{name}", child)
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            yield from _nodes(f"{path}.{key}", node[key])


@pytest.mark.parametrize("job_kind", KINDS.values(), ids=KINDS.keys())
def test_every_field_is_described(job_kind: Any) -> None:
    whole = crd.schema(job_kind)["properties"]
    bare = [
        path
        for part in ("spec", "status")
        for path, node in _nodes(part, whole[part])
        if "description" not in node and not path.endswith((".items", ".additionalProperties"))
    ]
    assert bare == []


@pytest.mark.parametrize("job_kind", KINDS.values(), ids=KINDS.keys())
def test_everything_that_grows_has_a_bound(job_kind: Any) -> None:
    spec = crd.schema(job_kind)["properties"]["spec"]
    unbounded = [
        path
        for path, node in _nodes("spec", spec)
        if (node.get("type") == "array" and "maxItems" not in node)
        or ("additionalProperties" in node and "maxProperties" not in node)
        # Without a type: a number or a string.
        or (
            node.get("type", "string") == "string"
            and not {"maxLength", "enum"} & node.keys()
            and not node.get("x-kubernetes-preserve-unknown-fields")  # by the size of an object alone
        )
        or (node.get("type") == "integer" and "maximum" not in node)
    ]
    assert unbounded == []


@pytest.mark.parametrize("job_kind", GUEST_KINDS, ids=lambda kind: kind.resource)
def test_the_limits_in_the_columns_of_other_operators_kinds_are_those_that_act(job_kind: Any) -> None:
    """KubeDL's MPIJob has them in the spec, too, where nothing acts on them."""
    policy = ".".join(("", *job_kind.run_policy_path))
    limits = [c["jsonPath"] for c in job_kind.guest.columns if c["name"] in ("Max-Lifetime", "TTL-After-Finished")]
    assert limits in ([], [f"{policy}.activeDeadlineSeconds", f"{policy}.ttlSecondsAfterFinished"])


@pytest.mark.parametrize("job_kind", KINDS.values(), ids=KINDS.keys())
def test_the_crd_names_what_users_type(job_kind: Any) -> None:
    built = crd.build(job_kind)
    spec = built["spec"]
    assert built["metadata"]["name"] == f"{spec['names']['plural']}.{spec['group']}"
    assert spec["names"]["categories"] == ["training"]
    assert sum(version["storage"] for version in spec["versions"]) == 1
    for version in spec["versions"]:
        assert version["subresources"]["status"] == {}
        scale = version["subresources"].get("scale", {"specReplicasPath": ""})
        assert scale["specReplicasPath"] == job_kind.scale_spec_path
        assert [c["name"] for c in version["additionalPrinterColumns"]] == [
            "Phase",
            "Active",
            "Restarts",
            "Age",
            "Message",
        ]


@pytest.mark.parametrize("job_kind", KINDS.values(), ids=KINDS.keys())
def test_the_columns_show_fields_that_the_status_has(job_kind: Any) -> None:
    status = crd.schema(job_kind)["properties"]["status"]["properties"]
    paths = [c["jsonPath"] for c in crd.COLUMNS]
    assert {p.removeprefix(".status.") for p in paths if p.startswith(".status.")} | {
        "replicas",
        "selector",
    } <= status.keys()


def test_the_files_in_the_repository_are_those_of_the_models() -> None:
    assert generate.difference(generate.ROOT, outputs()) == "", "run `make generate` and commit the result"


def test_a_difference_is_shown_and_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "k8s").mkdir()
    (tmp_path / generate.INSTALLATION).write_text("resources:\n  - crds/of-old.yaml\n  - base\n", encoding="utf-8")
    monkeypatch.setattr(generate, "ROOT", tmp_path)

    def files() -> dict[str, str]:
        """The list of CRDs is made from the file that is there; the rest takes seconds, once."""
        return outputs() | {generate.INSTALLATION: generate._installation()}

    assert generate.main(["--check"], files) == 1
    assert "run `make generate`" in capsys.readouterr().err
    assert generate.main([], files) == 0
    assert generate.main(["--check"], files) == 0
    (tmp_path / "k8s/crds/aitrainingjobs.elasticdeeplearning.ai.yaml").write_text("kind: Nothing\n", encoding="utf-8")
    capsys.readouterr()
    assert generate.main(["--check"], files) == 1
    assert "-kind: Nothing" in capsys.readouterr().out
    listed = yaml.safe_load((tmp_path / generate.INSTALLATION).read_text())["resources"]
    assert listed == [f"crds/{resource}.yaml" for resource in KINDS] + ["base"]


@pytest.mark.parametrize("job_kind", KINDS.values(), ids=KINDS.keys())
def test_the_yaml_is_the_crd(job_kind: Any) -> None:
    text = outputs()[f"k8s/crds/{job_kind.resource}.yaml"]
    assert yaml.safe_load(text) == crd.build(job_kind)
    assert "&id" not in text


OWN_STATUS = crd.schema(KINDS[AITRAININGJOBS])["properties"]["status"]
OWN_ROLES = crd.schema(KINDS[AITRAININGJOBS])["properties"]["spec"]["properties"]["replicaSpecs"]
OWN_TEMPLATE = OWN_ROLES["additionalProperties"]["properties"]["template"]
PAGES = {"docs/api.md": JOB_KINDS, "docs/api-kinds.md": GUEST_KINDS}


@pytest.mark.parametrize(
    ("page", "job_kind"),
    [(page, kind) for page, kinds in PAGES.items() for kind in kinds],
    ids=lambda value: getattr(value, "resource", None),
)
def test_the_reference_says_all_of_a_kind(page: str, job_kind: JobKind) -> None:
    """As its reader puts it together: the shared table, that of the API group over it, the kind's own over both."""
    sections = re.split(r"^## ", outputs()[page], flags=re.M)
    own = next(section for section in sections if section.startswith(f"{job_kind.kind} ({job_kind.group})"))
    of_group = [s for s in sections if s.startswith(f"What the kinds of {job_kind.group} share")]
    read: dict[str, str] = {}
    for section in (next(s for s in sections if s.startswith("What the kinds share")), *of_group, own):
        lacks = re.findall("`(.*?)`", next(iter(re.findall(r"^Lacks [^|]*?\.$", section, re.M | re.S)), ""))
        kept = {
            path: read[path]
            for path in read
            if not any(re.match(rf"{re.escape(gone)}(?=[.[]|$)", path) for gone in lacks)
        }
        read = kept | _by_path(section)
    names = dict(re.findall(r"`(<\w+>)`\s+is\s+`(.*?)`", own))
    roles = names.setdefault("<roles>", "<roles>")
    said = {re.sub("<roles>|<patched>", lambda m: names[m[0]], path): meaning for path, meaning in read.items()}
    spec, status = itemgetter("spec", "status")(crd.schema(job_kind)["properties"])
    fields = dict([*_fields("spec", spec), *_fields("status", status)])
    template = f"spec.{roles}.<name>.template"
    elsewhere = ("status.operator.", f"{template}.") if "operator" in status["properties"] else ()
    memory = re.compile(rf"status\.({'|'.join(reference.MEMORY_FIELDS)})\b")
    told = {path: meaning for path, meaning in fields.items() if not path.startswith(elsewhere)}
    assert {path: meaning for path, meaning in told.items() if not memory.match(path)} == said
    if elsewhere:  # the page sends its reader to this kind
        assert status["properties"]["operator"]["properties"] == OWN_STATUS["properties"]
    if template in fields and elsewhere:
        role = spec["properties"][roles]["additionalProperties"]
        assert role["properties"]["template"]["properties"] == OWN_TEMPLATE["properties"]


AS_IN_A_POD = ("env", "volumes", "volumeMounts", "VolumeMounts", "tolerations", "imagePullSecrets")
"""Lists whose entries the page leaves to the reference of Pods."""


def _by_path(section: str) -> dict[str, str]:
    """The path of each field -> the beginning of its meaning, out of the tables of three columns."""
    rows = re.findall(r"^\| ([^|]*) \| [^|]* \| (.*) \|$", section, re.M)
    above, found = "", {}
    for paths, meaning in rows:
        above = next(iter(re.findall(r"\*\*`(.*)`\*\*", paths)), above)
        for braced in re.findall("`(.*?)`", paths):
            for path in _spread(above + braced if braced.startswith(".") else braced):
                found[path] = _first_sentence(meaning.replace("\\|", "|"))
    return {path: meaning for path, meaning in found.items() if path.startswith(("spec", "status"))}


def _spread(braced: str) -> list[str]:
    before, brace, rest = braced.partition("{")
    names, _, after = rest.partition("}")
    return [path for name in names.split(",") for path in _spread(before + name + after)] if brace else [braced]


def _fields(path: str, node: Schema) -> Iterator[tuple[str, str]]:
    """As the page has them: a list of objects, and a map of them, is one row with what it holds."""
    each = [
        (name, node[key])
        for key, name in (("additionalProperties", ".<name>"), ("items", "[]"))
        if isinstance(node.get(key), dict) and node[key].get("type") == "object"
    ]
    apart = path.endswith("ReplicaSpecs")  # what the kinds share of a role is printed once
    yield path + ("" if apart else "".join(name for name, _ in each)), _first_sentence(node.get("description", ""))
    if path.rpartition(".")[2] in AS_IN_A_POD:
        return
    for name, child in node.get("properties", {}).items():
        yield from _fields(f"{path}.{name}", child)
    for name, child in each:
        yield from list(_fields(path + name, child))[0 if apart else 1 :]


def _first_sentence(text: str) -> str:
    return text.partition(". ")[0].rstrip(".")
