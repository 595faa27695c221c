"""kubedl.io/git-sync-config: what it adds to the pods of every kind, what is refused, and that its script clones."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.builders import make_job
from tests.unit.tjworker.reconcile.addons.guests import guest
from tests.unit.tjworker.reconcile.passes import condition, decide, status_of
from tjworker.api.kinds import KNOWN_KINDS
from tjworker.api.model import TrainingJob
from tjworker.api.resources import BATCH_JOBS, PODS, REPLICASETS
from tjworker.base import GroupResource
from tjworker.reconcile.addons.gitsync import CONTAINER, SCRIPT, VOLUME
from tjworker.reconcile.plan import Create

NAME = "kubedl.io/git-sync-config"
SOURCE = "https://example.com/team/digits.git"
Json = dict[str, Any]


def config(**fields: Any) -> dict[str, str]:
    return {NAME: json.dumps({"source": SOURCE} | fields)}


def pod_of(job: TrainingJob) -> Json:
    """Of the first object that is made for the job with a pod or a template in it: its spec."""
    bodies = [
        w.body for w in decide(job).writes if isinstance(w, Create) and w.resource in (PODS, REPLICASETS, BATCH_JOBS)
    ]
    spec: Json = bodies[0]["spec"]
    return dict(spec.get("template", {}).get("spec", spec))


def cloner(job: TrainingJob) -> Json:
    first: Json = pod_of(job)["initContainers"][0]
    assert first["name"] == CONTAINER
    return first


def env(container: Mapping[str, Any]) -> dict[str, object]:
    found = {e["name"]: e.get("value", e.get("valueFrom")) for e in container["env"]}
    return {name: value for name, value in found.items() if name.startswith("GIT_")}


def test_what_kubedl_writes_is_acted_on() -> None:
    options = {
        "image": "kubedl/git-sync:v1",
        "rootPath": "/root-of-code",
        "destPath": "project",
        "envs": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}, {"name": "GIT_SYNC_REV", "value": "other"}],
        "branch": "main",
        "revision": "4ac1",
        "depth": "1",
        "maxFailures": 5,
        "user": "robot",
    }
    made = cloner(make_job().role("trainer").annotate(config(**options)).build())
    assert (made["image"], "command" in made) == ("kubedl/git-sync:v1", False), "an image of its own has its entrypoint"
    assert env(made) == {
        "GIT_SYNC_REPO": SOURCE,
        "GIT_SYNC_ONE_TIME": "true",
        "GIT_SYNC_MAX_SYNC_FAILURES": "5",
        "GIT_SYNC_BRANCH": "main",
        "GIT_SYNC_REV": "4ac1",
        "GIT_SYNC_DEPTH": "1",
        "GIT_SYNC_ROOT": "/root-of-code",
        "GIT_SYNC_DEST": "project",
        "GIT_SYNC_USERNAME": "robot",
    }
    assert {"name": "HTTPS_PROXY", "value": "http://proxy:3128"} in made["env"]


def test_the_code_lies_below_the_working_directory_of_each_container() -> None:
    spec = {
        "initContainers": [{"name": "install", "image": "i"}],
        "containers": [
            {"name": "aitj-main", "image": "i", "workingDir": "/workspace"},
            {"name": "other", "image": "i", "volumeMounts": [{"name": "own", "mountPath": "/digits"}]},
        ],
        "volumes": [{"name": "own", "emptyDir": {}}],
    }
    pod = pod_of(make_job().role("trainer", template={"spec": spec}).annotate(config()).build())
    clones, install = pod["initContainers"]
    mounts = {c["name"]: {m["mountPath"]: m.get("subPath") for m in c["volumeMounts"]} for c in pod["containers"]}
    assert {m["mountPath"] for m in clones["volumeMounts"]} == {"/code"}
    assert install["volumeMounts"] == [{"name": VOLUME, "mountPath": "/digits", "subPath": "digits"}]
    assert mounts == {"aitj-main": {"/workspace/digits": "digits"}, "other": {"/digits": None}}, "its own mount stays"
    assert [v["name"] for v in pod["volumes"]] == ["own", VOLUME]


def test_it_fits_the_restricted_profile_and_has_bounds() -> None:
    made = cloner(make_job().role("trainer").annotate(config()).build())
    assert made["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
        "runAsUser": 65532,
    }
    assert made["resources"]["limits"].keys() == made["resources"]["requests"].keys() == {"cpu", "memory"}
    template = {"spec": {"securityContext": {"runAsUser": 1000}, "containers": [{"name": "m", "image": "i"}]}}
    own = cloner(make_job().role("trainer", template=template).annotate(config()).build())
    assert "runAsUser" not in own["securityContext"], "the files belong to whom the pod runs as"


def test_a_password_comes_out_of_a_secret() -> None:
    secret = {"secretKeyRef": {"name": "git", "key": "token"}}
    made = cloner(
        make_job().role("trainer").annotate(config(envs=[{"name": "GIT_SYNC_PASSWORD", "valueFrom": secret}])).build()
    )
    assert env(made)["GIT_SYNC_PASSWORD"] == secret


def test_a_key_for_ssh_is_what_a_container_mounts() -> None:
    mount = {"name": "key", "mountPath": "/etc/git-key"}
    spec = {
        "containers": [{"name": "aitj-main", "image": "i", "volumeMounts": [mount]}],
        "volumes": [{"name": "key", "secret": {"secretName": "git"}}],
    }
    options = config(source="git@example.com:team/digits.git", ssh=True, sshFile="/etc/git-key/id")
    made = cloner(make_job().role("trainer", template={"spec": spec}).annotate(options).build())
    assert {**mount, "readOnly": True} in made["volumeMounts"]
    assert env(made)["GIT_SSH_KEY_FILE"] == "/etc/git-key/id"
    refused = decide(make_job().role("trainer").annotate(options).build())
    assert "no container of trainer mounts it" in condition(status_of(refused), "Failed")[2]


@pytest.mark.parametrize("resource", sorted(r for r, kind in KNOWN_KINDS.items() if kind.guest and not kind.companions))
def test_the_pods_of_guests_have_it_too(resource: GroupResource) -> None:
    """Some have more, as every container of an MPIJob has its hostfile."""
    assert {"name": VOLUME, "mountPath": "/code"} in cloner(guest(resource, config()))["volumeMounts"]


REFUSED: dict[str, tuple[str, str]] = {
    "no JSON": ("{source: x}", "is not JSON: Expecting property name enclosed in double quotes at line 1, column 2"),
    "a list": ("[]", "must be a JSON object"),
    "no source": ("{}", "].source: required value"),
    "an unknown key": ('{"source": "https://a/b", "sorce": 1}', "has the unknown key 'sorce'; take it out. Known are"),
    "a password": ('{"source": "https://a/b", "password": "hunter2"}', "].password: must not be in an annotation"),
    "a password in the URL": ('{"source": "https://me:hunter2@a/b"}', "must not have a user or a password in the URL"),
    "a token in the URL": ('{"source": "https://hunter2@a/b"}', "must not have a user or a password in the URL"),
    "a password in a variable": (
        '{"source": "https://a/b", "envs": [{"name": "GIT_SYNC_PASSWORD", "value": "hunter2"}]}',
        "].envs[0].value: of GIT_SYNC_PASSWORD must not be in an annotation",
    ),
    "a variable without a name": ('{"source": "https://a/b", "envs": [{"value": "a"}]}', "must be a variable as in a"),
    "an option in place of a source": ('{"source": "--upload-pack=hunter2"}', "is not the URL of a repository"),
    "a source that runs a program": ('{"source": "ext::sh -c hunter2"}', "is not the URL of a repository"),
    "an option in place of a branch": ('{"source": "https://a/b", "branch": "-x"}', "must not start with -"),
    "a depth of none": ('{"source": "https://a/b", "depth": "0"}', "must be a number from 1 on"),
    "a destination outside": ('{"source": "https://a/b", "destPath": "../etc"}', "must be a relative path"),
    "half a character": (
        '{"source": "https://a/\\ud800b.git"}',
        "has what a pod's JSON cannot carry: str is not valid",
    ),
    "a root that is all": ('{"source": "https://a/b", "rootPath": "/"}', "must be an absolute path below /"),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_what_is_refused_makes_nothing_and_its_message_has_no_password(sentence: str) -> None:
    annotation, want = REFUSED[sentence]
    plan = decide(make_job().role("trainer").annotate({NAME: annotation}).build())
    status, reason, message = condition(status_of(plan), "Failed")
    assert (status, reason, plan.writes) == ("True", "InvalidSpec", ())
    assert message.startswith(f"metadata.annotations[{NAME}]"), message
    assert want in message, message
    assert "hunter2" not in str(plan)


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({"containers": [{"name": CONTAINER, "image": "i"}]}, "have a container named git-sync-code"),
        (
            {"containers": [{"name": "a", "image": "i"}], "volumes": [{"name": VOLUME, "emptyDir": {}}]},
            "have a volume named git-sync",
        ),
    ],
)
def test_names_that_are_taken_are_refused(spec: Json, want: str) -> None:
    plan = decide(make_job().role("trainer", template={"spec": spec}).annotate(config()).build())
    assert want in condition(status_of(plan), "Failed")[2]


# -- the script ------------------------------------------------------------------------------------


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=test", "-c", "user.email=test@example.com")
    done = subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """Two commits on main, one on a branch; and their hashes."""
    folder = tmp_path_factory.mktemp("git") / "digits.git"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    hashes = []
    for says in ("one", "two", "three"):
        if says == "three":
            git(folder, "checkout", "--quiet", "-b", "side")
        (folder / "train.py").write_text(says)
        git(folder, "add", "train.py")
        git(folder, "commit", "--quiet", "-m", says)
        hashes.append(git(folder, "rev-parse", "HEAD"))
    git(folder, "checkout", "--quiet", "main")
    return folder, hashes


def run(source: Path, root: Path, **options: str) -> subprocess.CompletedProcess[str]:
    given = {"REPO": f"file://{source}", "ROOT": str(root), "DEST": "digits", "MAX_SYNC_FAILURES": "1"} | options
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin"} | {f"GIT_SYNC_{name}": value for name, value in given.items()}
    return subprocess.run(["/bin/sh", "-c", SCRIPT], env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("options", "want"),
    [
        ({}, "two"),
        ({"BRANCH": "side"}, "three"),
        ({"REV": "first"}, "one"),
        ({"REV": "side", "BRANCH": "main"}, "two"),
        ({"REV": "first", "DEPTH": "1"}, "one"),
        ({"DEPTH": "1", "BRANCH": "side"}, "three"),
    ],
    ids=str,
)
def test_the_script_clones(
    repository: tuple[Path, list[str]], tmp_path: Path, options: dict[str, str], want: str
) -> None:
    source, hashes = repository
    if options.get("REV") == "side":
        options = {**options, "REV": "main"}
    if options.get("REV") == "first":
        options = {**options, "REV": hashes[0]}
    for _ in range(2):  # a kubelet may start it again in the same pod
        done = run(source, tmp_path, **options)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "digits/train.py").read_text() == want
    assert hashes[["one", "two", "three"].index(want)] in done.stdout


@pytest.mark.parametrize(
    "options", [{"REPO": "file:///nowhere/at-all.git"}, {"BRANCH": "none"}, {"REV": "0" * 40}], ids=str
)
def test_the_script_says_what_cannot_be_cloned_and_fails_for_good(
    repository: tuple[Path, list[str]], tmp_path: Path, options: dict[str, str]
) -> None:
    done = run(repository[0], tmp_path, **options)
    assert done.returncode == 1, "no retryable exit code"
    assert "git-sync: given up" in done.stderr
