"""Models -> structural schema -> the files in the repository."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from tests.support import fast_yaml as yaml
from tjworker.api import crd, generate
from tjworker.api.kinds import KINDS
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
