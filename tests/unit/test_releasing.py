"""What `make release` puts into a release. The whole of it: the long test below, and docs/releasing.md."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pytest

from releasing import build as releasing
from releasing.build import Image, ReleaseError, checksums, manifest, read_image, wheels
from tests.support import fast_yaml as yaml
from tests.support.paths import ROOT

DIGEST = "sha256:" + "0f" * 32
OPERATOR = "trainingjob-operator.invalid/operator"
IMAGES = {
    "registry.example.com/ml/operator:0.1.0": Image("registry.example.com/ml/operator", tag="0.1.0"),
    f"localhost:5000/operator@{DIGEST}": Image("localhost:5000/operator", digest=DIGEST),
}


PROJECT_OF_THE_STACK = (
    *(path.relative_to(ROOT).as_posix() for path in (ROOT / "k8s/crds").iterdir()),
    *(path.relative_to(ROOT).as_posix() for path in (ROOT / "k8s/kinds").rglob("crd.yaml")),
    *("examples/digits/job.yaml", "examples/digits/trainer.py", "examples/__init__.py"),
)
"""What `tj up` applies and `tj demo` trains, where there is no checkout."""


@pytest.mark.parametrize("text", IMAGES)
def test_an_image_is_named_by_its_tag_or_its_digest(text: str) -> None:
    assert read_image(text) == IMAGES[text]


def test_manifests_name_the_images_of_the_release_and_no_other() -> None:
    images = {OPERATOR: Image("registry.example.com/ml/operator", digest=DIGEST), "valkey/valkey": Image("r.io/v", "9")}
    documents = list(yaml.safe_load_all(manifest("install-with-page.yaml", images)))
    found = {
        document["metadata"]["name"]: document["spec"]["template"]["spec"]["containers"][0]["image"]
        for document in documents
        if "template" in document.get("spec", {})
    }
    assert found.pop("tj-redis") == "r.io/v:9"
    assert "tj-page" in found
    assert set(found.values()) == {f"registry.example.com/ml/operator@{DIGEST}"}


def test_the_sums_are_those_that_sha256sum_checks(tmp_path: Path) -> None:
    (tmp_path / "a b.whl").write_bytes(b"1")
    (tmp_path / "SHA256SUMS").write_text(checksums([tmp_path / "a b.whl"]))
    assert subprocess.run(["sha256sum", "-c", "SHA256SUMS"], cwd=tmp_path, check=False).returncode == 0


def test_without_bills_of_materials_there_is_no_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releasing, "SBOM", tmp_path)
    with pytest.raises(ReleaseError, match="build/sbom"):
        releasing.build(tmp_path / "release", {})


@pytest.mark.long
def test_the_wheels_hold_the_committed_packages_with_their_data_and_are_the_same_each_time(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        wheels(tmp_path / name)
    one, two = ({path.name: path.read_bytes() for path in (tmp_path / n).iterdir()} for n in ("one", "two"))
    assert {name.partition("-")[0] for name in one} == {
        *("trainingjob_operator", "trainingjob_localcluster", "trainingjob_stack")
    }
    assert one == two
    (operator,) = (tmp_path / "one").glob("trainingjob_operator-*.whl")
    held = set(zipfile.ZipFile(operator).namelist())
    assert {"tjworker/store/scripts/apply.lua", "tjworker/page/static/page.js", "watcher/__main__.py"} <= held
    assert "tjworker/history/migrations/env.py" in held
    assert {name.partition("/")[0] for name in held if "dist-info" not in name} == {
        *("tjworker", "watcher", "beat_schedule.py")
    }
    (stack,) = (tmp_path / "one").glob("trainingjob_stack-*.whl")
    project = {f"tjstack/project/{path}" for path in PROJECT_OF_THE_STACK}
    assert {"tjstack/up.py", "tjstack/demo.py", *project} <= set(zipfile.ZipFile(stack).namelist())
