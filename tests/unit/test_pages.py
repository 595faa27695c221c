"""The documents say what is so: links lead somewhere, commands and variables are those that there are, a manifest on a
page is one that the API server takes.
"""

from __future__ import annotations

import random
import re
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, get_args

import orjson
import pytest

from localcluster.apiserver import ApiServer
from localcluster.wire import Request, Response
from tests.support import fast_yaml as yaml
from tests.support.builders import make_job, make_training_job
from tests.support.crds import crd_of
from tests.support.kinds import AITRAININGJOBS, TRAININGJOBS
from tests.support.paths import ROOT
from tjworker.api.kinds import parse
from tjworker.api.model import FrameworkType, RestartPolicy, TrainingJob
from tjworker.cli.main import COMMANDS
from tjworker.reconcile.frameworks import FRAMEWORKS
from tjworker.reconcile.workloads.environment import role_environment
from tjworker.reconcile.workloads.podbody import pod_body

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
README, JOBS, TUTORIAL = (
    (ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/jobs.md", "docs/tutorial.md")
)


@cache
def headings(page: Path) -> frozenset[str]:
    """The anchors that a forge makes of a page's headings."""
    lines = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return frozenset(re.sub(r"[^\w\- ]", "", line.strip().lower()).replace(" ", "-") for line in lines)


def links(page: Path) -> list[str]:
    """Those to files of ours, without what stands in code."""
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if not link.startswith(("https:", "http:"))]


def test_links_lead_somewhere() -> None:
    lost = []
    for page in PAGES:
        for link in links(page):
            name, _, anchor = link.partition("#")
            target = page.parent / name if name else page
            if not target.exists() or (anchor and anchor not in headings(target)):
                lost.append(f"{page.relative_to(ROOT)}: {link}")
    assert not lost, "there is no such file or heading"


def test_pages_are_reached_from_the_readme() -> None:
    seen, todo = set[Path](), [ROOT / "README.md"]
    while todo:
        page = todo.pop()
        seen.add(page)
        ahead = {(page.parent / link.partition("#")[0]).resolve() for link in links(page) if not link.startswith("#")}
        ahead |= {found for folder in ahead if folder.is_dir() for found in folder.glob("*.md")}
        todo += [found for found in ahead if found.suffix == ".md" and found not in seen]
    assert {str(page.relative_to(ROOT)) for page in PAGES if page not in seen} == set()


def test_the_readme_has_every_command() -> None:
    table = "\n".join(line for line in README.splitlines() if line.startswith("| `tj "))
    assert re.findall(r"`tj (\w+)", table) == list(COMMANDS)


def test_commands_and_targets_that_are_named_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    pages = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    examples = "\n".join(path.read_text(encoding="utf-8") for path in ROOT.glob("examples/*.yaml"))
    assert set(re.findall(r"`make ([a-z-]+)", pages)) <= targets
    assert set(re.findall(r"`tj ([a-z]+)", pages)) <= set(COMMANDS)
    assert set(re.findall(r"(?:^#  |: |or: ) ?tj ([a-z]+)", examples, re.MULTILINE)) <= set(COMMANDS)


def blocks(page: str = JOBS) -> list[Any]:
    return [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)]


def hello() -> TrainingJob:
    job = parse(AITRAININGJOBS, {**blocks()[0], "metadata": {"name": "hello", "namespace": "default", "uid": "u"}})
    assert isinstance(job, TrainingJob)
    return job


@pytest.mark.parametrize("manifest", [blocks(JOBS)[0], blocks(TUTORIAL)[0]], ids=["docs/jobs.md", "docs/tutorial.md"])
def test_the_manifest_is_one_that_the_api_server_takes(manifest: Any) -> None:
    server = ApiServer(clock=lambda: 1e9, rng=random.Random(1))
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    jobs = "/apis/elasticdeeplearning.ai/v1/namespaces/default/aitrainingjobs"
    for path, body in ((crds, crd_of(AITRAININGJOBS)), (jobs, manifest)):
        made = server.handle(
            Request(
                "POST", path, {"fieldValidation": "Strict"}, orjson.dumps(body), {"content-type": "application/json"}
            )
        )
        assert isinstance(made, Response)
        assert made.status == 201, made.body


def test_the_variables_of_a_training_job_are_those_of_its_containers() -> None:
    job = parse(TRAININGJOBS, make_training_job("edl").object())
    assert isinstance(job, TrainingJob)
    assert [role.name for role in job.roles if role.name == "pserver"], "it always has parameter servers"
    section = JOBS[JOBS.index("PaddlePaddle EDL's, unless") : JOBS.index("**Names.**")]
    named = re.findall(
        r"`([A-Z_]+)`", "\n".join(row.split("|")[1] for row in section.splitlines() if row.startswith("| `"))
    )
    made = {entry["name"] for role in job.roles for entry in role.template["spec"]["containers"][0]["env"]}
    assert sorted(named) == sorted(made)


def told(index: int) -> dict[str, str]:
    """What the operator writes into the environment of that trainer."""
    job = hello()
    body = pod_body(job, job.role("trainer"), index, 0, role_environment(job))
    return {e["name"]: e["value"] for e in body["spec"]["containers"][0]["env"]}


def test_the_variables_are_those_of_a_pod() -> None:
    rows = re.findall(r"^\| (`[A-Z_`, ]+`) \| (`.*) \|$", JOBS, re.MULTILINE)
    named = {
        name: value
        for names, values in rows
        for name, value in zip(re.findall(r"`(\w+)`", names), re.findall(r"`([^`]+)`", values), strict=True)
    }
    assert named == told(1)


FRAMEWORK_ROWS = dict(re.findall(r"^\| `(\w+)`(?:, or none)? \| (.*?) \| .*? \|$", JOBS, re.MULTILINE))
HEADS = {"mpi": "launcher", "paddle": "ps"}
"""A role beside the workers that is told what they are not."""


@pytest.mark.parametrize("framework", [name for name in get_args(FrameworkType) if name])
def test_the_table_names_the_variables_that_a_framework_sets_and_no_others(framework: str) -> None:
    told: set[str] = set()
    for roles in ({"worker": {"replicas": 2}}, {"worker": {"replicas": 2, "minReplicas": 1, "maxReplicas": 4}}):
        specs = {**({HEADS[framework]: {}} if framework in HEADS else {}), **roles}
        for spec in specs.values():
            spec["template"] = blocks()[0]["spec"]["replicaSpecs"]["trainer"]["template"]
        job = make_job().spec(frameworkType=framework, replicaSpecs=specs).build()
        for role in job.roles:
            told |= set(FRAMEWORKS[framework].environment(job, role, 0)) - {"PYTHONUNBUFFERED", "POD_IP_DUMMY"}
    named = set(re.findall(r"`([A-Z_]{4,}\*?)(?:=[^`]*)?`", FRAMEWORK_ROWS[framework]))
    if framework == "mpi":
        assert (named, len(told)) == (set(), 4), "the table says where, not by which variables"
    else:
        assert {one for one in told if not any(fnmatchcase(one, name) for name in named)} == set(), "not in the table"
        assert {name for name in named if not any(fnmatchcase(one, name) for one in told)} == set(), "set nowhere"


def test_policies_that_are_named_exist() -> None:
    assert set(re.findall(r"`restartPolicy: (\w+)`", JOBS)) <= set(get_args(RestartPolicy))
