"""Which kinds of job the commands see and make: those that the cluster has installed and the operator serves, whatever
the user's shell says."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest

from localcluster.apiserver import ApiServer
from localcluster.wire import Request, Response
from tests.support import fast_yaml as yaml
from tests.support.builders import make_job
from tests.support.crds import crd_of
from tests.support.guests import guest_job
from tests.support.local_api import local_api
from tests.unit.tjworker.cli.conftest import CRDS, TypedAt
from tests.unit.tjworker.cli.test_every_command import MORE, OF_A_JOB
from tjworker.api.kinds import GUEST_KINDS, KINDS, KNOWN_KINDS
from tjworker.base import GroupResource
from tjworker.cli.checks import kinds as kind_checks
from tjworker.cli.checks.check import State
from tjworker.cli.cluster import open_cluster, operator_settings
from tjworker.cli.kinds import installed_kinds

PYTORCH, TF, OF_KUBEDL = "pytorchjobs.kubeflow.org", "tfjobs.kubeflow.org", "tfjobs.training.kubedl.io"
ServerAt = Callable[..., TypedAt]


def add_guest(at: TypedAt, resource: str, name: str = "digits", status: Mapping[str, object] | None = None) -> None:
    kind = GroupResource(resource)
    job = guest_job(kind)
    made = at.make(kind, {**job, "metadata": {"name": name}})
    if status is not None:
        at.api.update_status(kind, "default", name, made | {"status": status})


# -- what the cluster has ----------------------------------------------------------------------------
@pytest.mark.parametrize("aggregated", [True, False], ids=["in one answer", "as a cluster before 1.30 says it"])
@pytest.mark.parametrize("installed", [(), (PYTORCH,), (TF, OF_KUBEDL), tuple(str(k.resource) for k in GUEST_KINDS)])
def test_discovery_says_which_kinds_a_cluster_has(installed: tuple[str, ...], aggregated: bool, tmp_path: Path) -> None:
    """Over HTTP, as commands ask for it. Other groups with a resource of that name are others."""
    server = ApiServer(time.time, random.Random(7), track_fields=False)
    asked: list[str] = []
    handle = server.handle

    def seen(request: Request) -> object:
        asked.append(request.path)
        return handle(request if aggregated else Request(request.method, request.path))

    other = crd_of(GroupResource(PYTORCH))
    other["spec"]["group"], other["metadata"]["name"] = "example.com", "pytorchjobs.example.com"
    for definition in (other, *(crd_of(GroupResource(name)) for name in installed)):
        made = handle(Request("POST", CRDS, {}, orjson.dumps(definition), {"content-type": "application/json"}))
        assert isinstance(made, Response)
        assert made.status == 201
    server.handle = seen  # type: ignore[assignment,method-assign]
    with local_api(tmp_path, server) as kubeconfig, open_cluster(kubeconfig) as cluster:
        assert installed_kinds(cluster.api).keys() - KINDS.keys() == set(installed)
        first = list(asked)
        assert installed_kinds(cluster.api).keys() - KINDS.keys() == set(installed)
    assert asked == first, "once for each command"
    assert first == ["/apis"] if aggregated else first[0] == "/apis"


@pytest.mark.parametrize("resource", [PYTORCH, OF_KUBEDL])
@pytest.mark.parametrize("name", OF_A_JOB)
def test_every_command_finds_a_job_of_an_installed_kind(
    name: str, resource: str, a_cluster: ServerAt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TJ_KINDS", raising=False)
    at = a_cluster(resource)
    add_guest(at, resource, status={"conditions": [], "operator": {"phase": "Running", "active": "1/1"}})
    args = (name, "digits", *MORE.get(name, ()), *(("--role", "Worker") if name == "scale" else ()))
    said = at.tj(*args, *(("--timeout", "1") if name == "delete" else ()))
    assert "no job" not in said.output
    assert "digits" in said.output


@dataclass(frozen=True)
class Refused:
    """At a cluster with PyTorchJobs that this user may not read."""

    args: tuple[str, ...]
    code: int
    says: str


REFUSED: dict[str, Refused] = {
    "the others are listed, and the gap is named": Refused(
        ("get",), 0, f"left out, as you may not list them: {PYTORCH}"
    ),
    "one that is not there may be among them": Refused(
        ("describe", "other"), 1, f"no job other in namespace default that you may read ({PYTORCH} you may not)"
    ),
    "whoever names the kind reads the refusal": Refused(("get", f"{PYTORCH}/digits"), 1, "not for you"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED.keys())
def test_a_right_that_lacks_for_anothers_kind_keeps_nobody_from_the_own_jobs(
    case: Refused, a_cluster: ServerAt, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = a_cluster(PYTORCH)
    at.add(make_job("digits").workers(1))
    request = at.transport.request

    def refusing(method: str, path: str, **more: object) -> object:
        if "/pytorchjobs" in path:
            return Response(403, b'{"kind": "Status", "code": 403, "reason": "Forbidden", "message": "not for you"}')
        return request(method, path, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(at.transport, "request", refusing)
    done = at.tj(*case.args)
    assert done.exit_code == case.code, done.output
    assert case.says in done.output


# -- kinds that are off ------------------------------------------------------------------------------
LOCAL = {"TJ_REDIS_URL": "redis://127.0.0.1:1/0"}
"""Settings of a local stack without TJ_KINDS."""
HOW = f"start the local stack with `tj up --kinds {PYTORCH}`; in a cluster add it to TJ_KINDS of the operator and"
OFF = f"PyTorchJob (kubeflow.org) is switched off here: {HOW} `kubectl apply -k k8s/kinds/{PYTORCH}` (docs/kinds.md)"


@dataclass(frozen=True)
class Off:
    installed: tuple[str, ...]
    operator: dict[str, str] | None
    says: str
    """'' where the job is made."""


SUBMITTED: dict[str, Off] = {
    "its CRD is not there": Off((), None, OFF),
    "nor does a local stack serve it": Off((), LOCAL, OFF),
    "its CRD is there, and the operator does not serve it": Off((PYTORCH,), LOCAL, OFF),
    "what is on already stays on": Off(
        (TF,), {**LOCAL, "TJ_KINDS": "TFJob.kubeflow.org"}, f"`tj up --kinds {TF},{PYTORCH}`"
    ),
}


@pytest.mark.parametrize("case", SUBMITTED.values(), ids=SUBMITTED.keys())
def test_a_job_that_would_wait_for_ever_is_not_made(case: Off, a_cluster: ServerAt, tmp_path: Path) -> None:
    at = a_cluster(*case.installed, operator=case.operator)
    file = tmp_path / "job.yaml"
    claim = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "beside"}}
    file.write_text(yaml.safe_dump_all([claim, guest_job(GroupResource(PYTORCH))]))
    done = at.tj("submit", str(file))
    assert done.exit_code == (1 if case.says else 0), done.output
    assert case.says in done.stderr
    there = at.transport.request("GET", "/api/v1/namespaces/default/configmaps/beside").status
    assert there == (404 if case.says else 200), "nothing is made before everything is checked"


UNTAKEN = "The operator has not taken it up yet. `tj doctor` says whether it runs."


@pytest.mark.parametrize("operator", [None, {**LOCAL, "TJ_KINDS": "all"}])
def test_a_job_without_a_phase_is_explained(operator: dict[str, str] | None, a_cluster: ServerAt) -> None:
    at = a_cluster(PYTORCH, operator=operator)
    add_guest(at, PYTORCH, "guest")
    at.add(make_job("digits").workers(1), make_job("runs").workers(1).status(phase="Running"))
    assert UNTAKEN in at.tj("get", "digits").stdout
    assert UNTAKEN in at.tj("get", "guest").stdout
    assert "taken it up" not in at.tj("get", "runs").stdout


# -- tj doctor ---------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Examined:
    installed: tuple[str, ...] = ()
    served: tuple[str, ...] = ()
    statuses: tuple[dict[str, object] | None, ...] = ()
    """Of PyTorchJobs that are there."""
    want: tuple[tuple[str, State, str], ...] = ()
    """(check, state, a part of what it says)."""


OF_KUBEFLOW = [kind.kind for kind in GUEST_KINDS if kind.resource.endswith(".kubeflow.org") and not kind.companions]
ALL_OFF = f"{', '.join(OF_KUBEFLOW)} (kubeflow.org); TFJob, PyTorchJob, "
TAKEN: dict[str, object] = {"conditions": [{"type": "Running", "status": "True"}]}
EXAMINED: dict[str, Examined] = {
    "every kind that is off is named": Examined(want=(("job kinds", "ok", f"switched off: {ALL_OFF}"),)),
    "one that is half on is no kind that is off": Examined(
        (PYTORCH,),
        want=(
            ("job kinds", "ok", "switched off: TFJob, XGBoostJob"),
            ("half on", "warning", "does not name: PyTorchJob (kubeflow.org); a job of such a kind waits for ever"),
        ),
    ),
    "a job that nobody takes up is a fault": Examined(
        (PYTORCH,),
        statuses=(None, TAKEN),
        want=(("job kinds", "ok", ""), ("jobs not served", "failed", f"1 of {PYTORCH}, such as default/job-0")),
    ),
    "nor is another operator's": Examined(
        (PYTORCH,), statuses=(TAKEN,), want=(("job kinds", "ok", ""), ("of others", "ok", "PyTorchJob (kubeflow.org)"))
    ),
}


@pytest.mark.parametrize("case", EXAMINED.values(), ids=EXAMINED.keys())
def test_doctor_names_what_is_off_and_what_is_on_by_half(case: Examined, a_cluster: ServerAt) -> None:
    at = a_cluster(*case.installed)
    for number, status in enumerate(case.statuses):
        add_guest(at, PYTORCH, f"job-{number}", status)
    of_operator = {**KINDS, **{GroupResource(name): KNOWN_KINDS[GroupResource(name)] for name in case.served}}
    found = list(kind_checks.check(at.api, of_operator))
    assert [(one.name, one.state) for one in found] == [(name, state) for name, state, _ in case.want]
    for one, (_, _, part) in zip(found, case.want, strict=True):
        assert part in one.detail
        assert one.state == "ok" or "tj up --kinds" in one.advice


# -- whose settings ----------------------------------------------------------------------------------
SETTINGS: dict[str, tuple[str | None, dict[str, str], Mapping[str, str] | None]] = {
    "a local stack's lie beside its kubeconfig": ("TJ_KINDS=all\nPATH=/bin\n", {}, {"TJ_KINDS": "all"}),
    "and go before the shell's, which it does not read": (
        "TJ_LOG_LEVEL=1\n",
        {"TJ_KINDS": "all"},
        {"TJ_LOG_LEVEL": "1"},
    ),
    "in the operator's own pod they are the environment's": (
        None,
        {"TJ_LOG_LEVEL": "1", "KUBERNETES_SERVICE_HOST": "10.0.0.1"},
        {"TJ_LOG_LEVEL": "1"},
    ),
    "a shell that names the kinds speaks of the operator": (None, {"TJ_KINDS": ""}, {"TJ_KINDS": ""}),
    "any other shell says nothing of it": (None, {"TJ_REDIS_URL": "redis://h"}, None),
}


@pytest.mark.parametrize(("beside", "shell", "want"), SETTINGS.values(), ids=SETTINGS.keys())
def test_what_is_known_of_the_operators_settings(
    beside: str | None,
    shell: dict[str, str],
    want: Mapping[str, str] | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if beside is not None:
        (tmp_path / "env").write_text(beside)
    for name in ("TJ_KINDS", "TJ_LOG_LEVEL", "TJ_REDIS_URL", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    for name, value in shell.items():
        monkeypatch.setenv(name, value)
    found = operator_settings(tmp_path / "kubeconfig")
    assert found is None if want is None else found is not None and want.items() <= found.items()
    assert found is None or all(name.startswith("TJ_") for name in found)
