"""Every manifest in examples/ is applied and does what its comment says."""

from __future__ import annotations

import pytest

from tests.scenarios.example_scenarios import EXAMPLES, FOLDER
from tests.scenarios.world import World
from tests.support import fast_yaml as yaml
from tests.support.kinds import resource_of
from tjworker.api.kinds import parse
from tjworker.api.model import TrainingJob

MANIFESTS = sorted(path.name for path in FOLDER.glob("*.yaml"))


@pytest.mark.parametrize("sentence", EXAMPLES)
def test_example(sentence: str) -> None:
    EXAMPLES[sentence](World(nodes=3))


def test_every_example_is_played() -> None:
    played = {sentence.partition(":")[0] for sentence in EXAMPLES}
    assert played == set(MANIFESTS)


@pytest.mark.parametrize("name", MANIFESTS)
def test_an_example_can_be_run_and_says_what_to_watch(name: str) -> None:
    """By processes on the local cluster and by images elsewhere; the comment names the file and the job that it
    makes."""
    text = (FOLDER / name).read_text()
    manifest = yaml.safe_load(text)
    job = manifest["metadata"]["name"]
    assert job == name.removesuffix(".yaml").removeprefix("training-job-")
    assert f"kubectl apply -f examples/{name}" in text
    assert text.count(f" {job}") >= 1
    parsed = parse(resource_of(manifest), manifest)
    assert isinstance(parsed, TrainingJob)
    for role in parsed.roles:
        for container in role.template["spec"]["containers"]:
            assert container["command"][0] == "sh"
            assert container["name"].startswith("aitj-" if role.workload == "Pod" else role.name)
