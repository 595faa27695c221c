"""`tj` as a whole: help, exit codes, messages without tracebacks for what a user did."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import click
import pytest

from tests.support.forked import forked
from tests.support.waiting import PATIENCE_SECONDS
from tjworker.cli import main
from tjworker.cli.main import COMMANDS

ROOT = Path(__file__).resolve().parents[4]
KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {}}]
"""


def tj(*args: str, cwd: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tjworker.cli", *args],
        cwd=cwd,
        text=True,
        capture_output=True,
        check=False,
        timeout=PATIENCE_SECONDS,
        env=environment(cwd, env or {}),
    )


def environment(home: Path, more: dict[str, str]) -> dict[str, str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("TJ_", "KUBE"))}
    return {**clean, "HOME": str(home), "PYTHONPATH": str(ROOT), **more}


@dataclass(frozen=True)
class Case:
    args: tuple[str, ...]
    want_code: int
    want_stderr: tuple[str, ...] = ()
    want_stdout: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)


CASES: dict[str, Case] = {
    "help is a result and names every command": Case(("--help",), 0, want_stdout=tuple(COMMANDS)),
    "a command that does not exist is wrong usage": Case(
        ("frobnicate",), 2, ("No such command 'frobnicate'; there are: up,",)
    ),
    "without any cluster the message says how to get one": Case(
        ("get",), 1, ("no Kubernetes cluster is configured", "tj up")
    ),
    "a KUBECONFIG that is not there is named": Case(
        ("get",), 1, ("/no/such/file", "tj up"), env={"KUBECONFIG": "/no/such/file"}
    ),
    "a cluster that does not answer is named, with what to do": Case(
        ("get",),
        1,
        ("list API groups", "Is it running? `tj up` starts"),
        env={"KUBECONFIG": "config"},
        files={"config": KUBECONFIG},
    ),
    "the kubeconfig of a local stack in this folder is used, and said so": Case(
        ("get",), 1, ("using .tj/kubeconfig",), files={".tj/kubeconfig": KUBECONFIG}
    ),
    "a name and all namespaces exclude each other": Case(("get", "a", "-A"), 2, ("exclude each other",)),
    "a setting that is wrong is named before anything starts": Case(
        ("up", "--plain"), 1, ("TJ_RESYNC_SECONDS", "soon"), env={"TJ_RESYNC_SECONDS": "soon"}
    ),
    "a kind of two operators is asked for by its group": Case(
        ("up", "--kinds", "TFJob"), 2, ("TFJob, which is a kind of 2 operators; use tfjobs.kubeflow.org or",)
    ),
    "a Redis that does not answer is named without its password": Case(
        ("up", "--plain"),
        1,
        ("Redis of TJ_REDIS_URL (redis://127.0.0.1:1/0) cannot be used", "unset it"),
        env={"TJ_REDIS_URL": "redis://:geheim@127.0.0.1:1/0"},
    ),
    "a wrong setting is what doctor finds first": Case(
        ("doctor",),
        1,
        want_stdout=("FAIL", "TJ_RESYNC_SECONDS='soon'", "docs/settings.md"),
        env={"TJ_RESYNC_SECONDS": "soon"},
    ),
    "doctor names what is missing, what to do, and every setting without its password": Case(
        ("doctor",),
        1,
        env={"TJ_REDIS_URL": "redis://:geheim@127.0.0.1:1/0", "TJ_RESYNC_SECONDS": "7"},
        want_stdout=(
            "Redis at redis://127.0.0.1:1/0 cannot be reached",
            "no Kubernetes cluster is configured",
            "tj up",
            "2 checks failed",
            "TJ_RESYNC_SECONDS                 environment   7.0",
            "TJ_LOG_LEVEL                      default       INFO",
        ),
    ),
    "beside a local stack doctor reads the stack's settings": Case(
        ("doctor",),
        1,
        ("using .tj/kubeconfig",),
        ("local stack   mine", "local stack   redis://127.0.0.1:1/0"),
        files={
            ".tj/kubeconfig": KUBECONFIG,
            ".tj/env": "TJ_KEY_PREFIX='mine'\nTJ_REDIS_URL='redis://:geheim@127.0.0.1:1/0'\n",
        },
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_what_a_user_does(case: Case, tmp_path: Path) -> None:
    for name, text in case.files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    done = forked(lambda: main.run(list(case.args)), tmp_path, environment(tmp_path, case.env))
    assert done.returncode == case.want_code, done.stderr
    assert "Traceback" not in done.stderr
    for part in case.want_stderr:
        assert part in done.stderr
    assert "geheim" not in done.stderr + done.stdout
    for part in case.want_stdout:
        assert part in done.stdout
    if case.want_code and case.args[0] != "doctor":  # what is wrong is doctor's result
        assert done.stdout == "", "stdout is for results"


NEEDS = "needs the local stack, which is not installed: pip install 'trainingjob-operator[local]'"
WITHOUT_LOCAL_STACK: dict[str, Case] = {
    "a command of the local stack says what to install": Case(("up",), 1, (f"tj: up {NEEDS}\n",)),
    "the list of commands has it, and says that it is not installed": Case(
        ("--help",), 0, want_stdout=("  demo        Not installed: it needs the local stack.\n", "  get ")
    ),
    "every other command is there": Case(("get",), 1, ("no Kubernetes cluster is configured",)),
}


@pytest.mark.parametrize("missing", ["the distribution", "all but the folder of a checkout"])
@pytest.mark.parametrize("case", WITHOUT_LOCAL_STACK.values(), ids=list(WITHOUT_LOCAL_STACK))
def test_without_the_local_stack(case: Case, missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("tjstack",) if missing == "the distribution" else ()
    for name in (*names, "tjstack.up", "tjstack.demo"):
        monkeypatch.setitem(sys.modules, name, None)
    done = forked(lambda: main.run(list(case.args)), tmp_path, environment(tmp_path, {}))
    assert done.returncode == case.want_code, done.stderr
    for part in case.want_stderr:
        assert part in done.stderr
    for part in case.want_stdout:
        assert part in done.stdout


def test_a_broken_local_stack_is_not_taken_for_a_missing_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "tjstack.up", raising=False)
    monkeypatch.setitem(sys.modules, "tjstack.options", None)
    with pytest.raises(ModuleNotFoundError, match=r"tjstack\.options"):
        main.run(["up"])


def test_a_stop_while_python_still_reads_our_packages_is_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("raise KeyboardInterrupt\n")  # Ctrl-C in the middle of the first import
    done = tj("up", cwd=tmp_path, env={"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"})
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="has no /dev/full")
def test_a_full_disk_is_named(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "tjworker.cli", "--help"],
            cwd=ROOT,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=PATIENCE_SECONDS,
        )
    assert (done.returncode, done.stderr) == (1, "tj: the output cannot be written: No space left on device\n")


@pytest.mark.parametrize("options", ["tjworker/cli/options.py", "tjstack/src/tjstack/options.py"])
def test_a_click_whose_types_take_no_parameter_is_new_enough(options: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_type: type, _item: object) -> None:
        raise TypeError("type 'ParamType' is not subscriptable")

    # click 8.1 to 8.3; pyproject.toml takes 8.1 and later.
    monkeypatch.setattr(click.ParamType, "__class_getitem__", classmethod(refuse), raising=False)
    runpy.run_path(str(ROOT / options))


def test_help_imports_no_client_so_that_it_is_fast() -> None:
    """How fast depends on the machine; the list of modules does not."""
    code = (
        "import sys; from tjworker.cli.main import run; run(['--help']); "
        "print([m for m in ('kubernetes', 'celery', 'redis', 'rich', 'pydantic', 'yaml') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], cwd=ROOT, text=True, capture_output=True, check=True)
    assert shown.stdout.splitlines()[-1] == "[]"
